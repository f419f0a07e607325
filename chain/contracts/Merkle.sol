// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Batch openings of Merkle trees of the suite Keccak (docs/protocol.md, section 10).
library Merkle {
    /// Digests of the leaves, each `size` bytes of calldata, one after the other.
    function leaves(uint256 offset, uint256 size, uint256 count) internal pure returns (uint256[] memory digests) {
        digests = new uint256[](count);
        assembly ("memory-safe") {
            let at := mload(0x40)
            let to := add(digests, 32)
            for { let end := add(to, shl(5, count)) } lt(to, end) { to := add(to, 32) } {
                calldatacopy(at, offset, size)
                mstore(to, keccak256(at, size))
                offset := add(offset, size)
            }
        }
    }

    /// Reverts unless the digests are the leaves at the positions, which ascend strictly, of a tree of `depth` levels with this root.
    /// Missing nodes are in calldata, level by level from the leaves up, left to right, each once, used up exactly. Overwrites both
    /// lists.
    function check(
        uint256 root,
        uint256 depth,
        uint256[] memory positions,
        uint256[] memory digests,
        uint256 path,
        uint256 pathEnd
    ) internal pure {
        require(positions.length == digests.length && positions.length != 0, "merkle: leaves");
        bool ok;
        assembly ("memory-safe") {
            let count := mload(positions)
            // Ascending, and in the tree: a position that is not would be a node of another place.
            ok := iszero(shr(depth, mload(add(positions, shl(5, count)))))
            for { let i := 1 } lt(i, count) { i := add(i, 1) } {
                let at := add(positions, shl(5, i))
                ok := and(ok, lt(mload(at), mload(add(at, 32))))
            }
            let indexes := add(positions, 32)
            let shift := sub(digests, positions)
            for {} depth { depth := sub(depth, 1) } {
                let from := indexes
                let to := indexes
                let end := add(indexes, shl(5, count))
                for {} lt(from, end) {} {
                    let index := mload(from)
                    let own := mload(add(from, shift))
                    from := add(from, 32)
                    // The sibling is the next one, or in the path. Its place is the other half of the two words.
                    let side := shl(5, and(index, 1))
                    switch and(lt(from, end), eq(mload(from), xor(index, 1)))
                    case 1 {
                        mstore(0, own)
                        mstore(32, mload(add(from, shift)))
                        from := add(from, 32)
                    }
                    default {
                        mstore(side, own)
                        mstore(xor(side, 32), calldataload(path))
                        path := add(path, 32)
                    }
                    mstore(to, shr(1, index))
                    mstore(add(to, shift), keccak256(0, 64))
                    to := add(to, 32)
                }
                count := shr(5, sub(to, indexes))
            }
            ok := and(ok, and(eq(count, 1), and(eq(mload(add(indexes, shift)), root), eq(path, pathEnd))))
        }
        require(ok, "merkle: not the tree");
    }
}
