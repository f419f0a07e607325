// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Pages of the programs of plans, each stored as the code of a contract, behind a byte 0, so that it is not run (docs/chain.md).
/// @notice Anybody stores any page, once: its address follows from its bytes. Whoever reads a page compares its digest.
contract Pages {
    event Stored(address indexed page, bytes32 digest);

    /// Stores a page, unless it is stored. Returns where.
    function store(bytes calldata page) external returns (address where) {
        // Contracts have 24,576 bytes at most.
        require(page.length != 0 && page.length < 24576, "pages: length");
        // What a page is created by: it returns all that is behind its eleven bytes.
        bytes memory creation = abi.encodePacked(hex"600b5981380380925939f300", page);
        bytes32 salt = 0;
        where = address(uint160(uint256(keccak256(abi.encodePacked(bytes1(0xff), address(this), salt, keccak256(creation))))));
        if (where.code.length != 0) return where;
        address created;
        assembly ("memory-safe") {
            created := create2(0, add(creation, 32), mload(creation), salt)
        }
        require(created == where, "pages: not stored");
        emit Stored(where, where.codehash);
    }
}
