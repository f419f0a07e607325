// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Coordinates of positions (docs/protocol.md, notation). A point is x 2^32 + y.
library Circle {
    uint256 private constant P = 0x7fffffff;
    /// The generator of the circle group.
    uint256 private constant GENERATOR = (2 << 32) | 1268011823;

    function add(uint256 a, uint256 b) internal pure returns (uint256 c) {
        assembly ("memory-safe") {
            let ax := shr(32, a)
            let ay := and(a, 0xffffffff)
            let bx := shr(32, b)
            let by := and(b, 0xffffffff)
            // A multiple of p above the product that is taken off.
            let x := mod(sub(add(mul(ax, bx), shl(33, P)), mul(ay, by)), P)
            c := or(shl(32, x), mod(add(mul(ax, by), mul(ay, bx)), P))
        }
    }

    /// G_k, of order 2^k, for k from 0 to 31.
    function generators() internal pure returns (uint256[] memory g) {
        g = new uint256[](32);
        uint256 point = GENERATOR;
        for (uint256 k = 31; k > 0; k--) {
            g[k] = point;
            point = add(point, point);
        }
        g[0] = point;
    }

    /// The point at a position, from bit `low` on, of half_odds(log) in bit-reversed order. Bit m of a position adds G_(m + 1), as the
    /// index has it at bit log - 1 - m.
    function place(uint256[] memory g, uint256 log, uint256 position, uint256 low) internal pure returns (uint256 point) {
        point = g[log + 2];
        for (uint256 m = low; position >> m != 0; m++) {
            if ((position >> m) & 1 == 1) point = add(point, g[m + 1]);
        }
    }

    /// The x coordinate of the double, from x.
    function doubled(uint256 x) internal pure returns (uint256) {
        return (2 * x * x + P - 1) % P;
    }
}
