// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Numbers of a few bytes each, one after the other: what states of submissions are made of.
/// @dev Nothing may be allocated between `open` and `close`.
library State {
    /// Where the first number goes.
    function open() internal pure returns (uint256 to) {
        assembly ("memory-safe") {
            to := add(mload(0x40), 32)
        }
    }

    /// Writes a number of so many bytes. Returns where the next one goes.
    function put(uint256 to, uint256 value, uint256 size) internal pure returns (uint256) {
        assembly ("memory-safe") {
            mstore(to, shl(sub(256, shl(3, size)), value))
        }
        return to + size;
    }

    /// The same of a list.
    function putAll(uint256 to, uint256[] memory list, uint256 size) internal pure returns (uint256) {
        assembly ("memory-safe") {
            let shift := sub(256, shl(3, size))
            let from := add(list, 32)
            for { let end := add(from, shl(5, mload(list))) } lt(from, end) { from := add(from, 32) } {
                mstore(to, shl(shift, mload(from)))
                to := add(to, size)
            }
        }
        return to;
    }

    /// All that was written.
    function close(uint256 to) internal pure returns (bytes memory all) {
        assembly ("memory-safe") {
            all := mload(0x40)
            mstore(all, sub(sub(to, all), 32))
            // Zeros behind the last one.
            mstore(to, 0)
            mstore(0x40, and(add(to, 63), not(31)))
        }
    }

    /// A number in calldata.
    function take(uint256 place, uint256 size) internal pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := shr(sub(256, shl(3, size)), calldataload(place))
        }
    }

    /// The same of a list.
    function takeAll(uint256 place, uint256 count, uint256 size) internal pure returns (uint256[] memory list) {
        list = new uint256[](count);
        assembly ("memory-safe") {
            let shift := sub(256, shl(3, size))
            let to := add(list, 32)
            for { let end := add(to, shl(5, count)) } lt(to, end) { to := add(to, 32) } {
                mstore(to, shr(shift, calldataload(place)))
                place := add(place, size)
            }
        }
    }
}
