// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "./Field.sol";

/// @title Multilinear extensions (docs/protocol.md, notation). The first coordinate of a point belongs to the most significant bit.
library Multilinear {
    /// Elements in calldata. Reverts if one is not reduced.
    function read(uint256 offset, uint256 count) internal pure returns (uint256[] memory table) {
        table = new uint256[](count);
        bool bad;
        assembly ("memory-safe") {
            let ones := 0x00000001000000010000000100000001
            let high := 0x80000000800000008000000080000000
            let to := add(table, 32)
            for { let end := add(to, shl(5, count)) } lt(to, end) { to := add(to, 32) } {
                let value := shr(128, calldataload(offset))
                bad := or(bad, and(or(value, add(value, ones)), high))
                mstore(to, value)
                offset := add(offset, 16)
            }
        }
        require(!bad, "element");
    }

    /// The extension at a point of a table in calldata, of as many elements as the point has corners.
    function evaluate(uint256 offset, uint256[] memory point) internal pure returns (uint256) {
        return extension(read(offset, 1 << point.length), point);
    }

    /// The extension at a point of a table with zeros behind it. Rows are as long as half of the coordinates say: every entry has one
    /// product with an entry of `eq`, and sums are reduced once a row.
    function extension(uint256[] memory table, uint256[] memory point) internal pure returns (uint256) {
        uint256 count = table.length;
        require(count <= 1 << point.length, "table longer than its point");
        uint256 high = point.length >> 1;
        uint256 low = point.length - high;
        uint256[] memory inner = Field.split(eqTable(point, high, low));
        uint256[] memory outer = Field.split(eqTable(point, 0, high));
        uint256 rows = (count + (1 << low) - 1) >> low;
        uint256[] memory sums = new uint256[](rows);
        for (uint256 i = 0; i < rows; i++) {
            uint256 from = i << low;
            uint256 length = count - from < 1 << low ? count - from : 1 << low;
            sums[i] = Field.dot(pointer(table) + (from << 5), pointer(inner), length);
        }
        return Field.dot(pointer(sums), pointer(outer), rows);
    }

    /// `eq` of coordinates of a point, from one on, with all corners.
    function eqTable(uint256[] memory point, uint256 from, uint256 count) internal pure returns (uint256[] memory table) {
        table = new uint256[](1 << count);
        table[0] = Field.ONE;
        for (uint256 k = 0; k < count; k++) {
            uint256 r = point[from + k];
            for (uint256 i = 1 << k; i > 0; i--) {
                uint256 own = table[i - 1];
                uint256 one = Field.mul(own, r);
                table[2 * i - 1] = one;
                table[2 * i - 2] = Field.sub(own, one);
            }
        }
    }

    /// Where the entries of a list begin.
    function pointer(uint256[] memory list) internal pure returns (uint256 p) {
        assembly ("memory-safe") {
            p := add(list, 32)
        }
    }

    /// eq(a, b) of two numbers: a b + (1 - a)(1 - b).
    function eq1(uint256 a, uint256 b) internal pure returns (uint256) {
        uint256 both = Field.mul(a, b);
        return Field.sub(Field.add(Field.add(both, both), Field.ONE), Field.add(a, b));
    }

    /// eq(a, b) of two points of one length.
    function eq(uint256[] memory a, uint256[] memory b) internal pure returns (uint256 product) {
        require(a.length == b.length, "points of other lengths");
        product = Field.ONE;
        for (uint256 i = 0; i < a.length; i++) product = Field.mul(product, eq1(a[i], b[i]));
    }
}
