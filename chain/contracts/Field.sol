// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The field K of docs/protocol.md: F[i]/(i^2 + 1), then [u]/(u^2 - 2 - i), F of p = 2^31 - 1 elements.
/// @notice An element (a, b, c, d) = (a + b i) + (c + d i) u is the word a 2^96 + b 2^64 + c 2^32 + d: its sixteen bytes in calldata,
/// in order, big-endian. All functions take and return reduced coordinates; `canonical` says whether calldata has such.
library Field {
    uint256 internal constant P = 0x7fffffff;
    /// One, in every coordinate; p; and the highest bits.
    uint256 private constant ONES = 0x00000001000000010000000100000001;
    uint256 private constant PS = 0x7fffffff7fffffff7fffffff7fffffff;
    uint256 private constant HIGH = 0x80000000800000008000000080000000;
    /// The element 1.
    uint256 internal constant ONE = 1 << 96;

    /// Whether a word is an element: sixteen bytes, all coordinates below p.
    function canonical(uint256 x) internal pure returns (bool ok) {
        assembly ("memory-safe") {
            // A coordinate of p or more has the highest bit, or gets it from one more.
            ok := iszero(or(and(or(x, add(x, ONES)), HIGH), shr(128, x)))
        }
    }

    /// Takes p off where a coordinate has p or more. Coordinates are at most 2p - 1.
    function reduce(uint256 s) internal pure returns (uint256 z) {
        assembly ("memory-safe") {
            z := sub(s, mul(and(shr(31, add(s, ONES)), ONES), P))
        }
    }

    function add(uint256 x, uint256 y) internal pure returns (uint256 z) {
        assembly ("memory-safe") {
            let s := add(x, y)
            z := sub(s, mul(and(shr(31, add(s, ONES)), ONES), P))
        }
    }

    function sub(uint256 x, uint256 y) internal pure returns (uint256 z) {
        assembly ("memory-safe") {
            let s := add(x, sub(PS, y))
            z := sub(s, mul(and(shr(31, add(s, ONES)), ONES), P))
        }
    }

    /// Half of an element: an odd coordinate is even with p more.
    function half(uint256 x) internal pure returns (uint256 z) {
        assembly ("memory-safe") {
            z := shr(1, add(x, mul(and(x, ONES), P)))
        }
    }

    /// The product. Two coordinates lie 80 bits apart in a word, so that one multiplication gives the four products of two pairs:
    /// the coefficients of 1, i and i^2, none of which reaches 2^66.
    function mul(uint256 x, uint256 y) internal pure returns (uint256 z) {
        assembly ("memory-safe") {
            let m80 := 0xffffffffffffffffffff
            let second := 0x7fffffff00000000000000000000
            let x0 := or(shr(96, x), and(shl(16, x), second))
            let x1 := or(and(shr(32, x), P), and(shl(80, x), second))
            let y0 := or(shr(96, y), and(shl(16, y), second))
            let y1 := or(and(shr(32, y), P), and(shl(80, y), second))
            let q := mul(x1, y1)
            // x0 y0 + 2 x1 y1; what is left of (2 + i) x1 y1 is i times it.
            let w := add(mul(x0, y0), shl(1, q))
            let m := add(mul(x0, y1), mul(x1, y0))
            // A multiple of p above all that is taken off.
            let big := 0x3fffffff800000000
            let a := mod(sub(add(and(w, m80), big), add(shr(160, w), and(shr(80, q), m80))), P)
            let b := mod(sub(add(add(and(shr(80, w), m80), and(q, m80)), big), shr(160, q)), P)
            let c := mod(sub(add(and(m, m80), big), shr(160, m)), P)
            let d := mod(and(shr(80, m), m80), P)
            z := or(or(shl(96, a), shl(64, b)), or(shl(32, c), d))
        }
    }

    /// The product with a number below p.
    function scale(uint256 x, uint256 f) internal pure returns (uint256 z) {
        assembly ("memory-safe") {
            let a := mulmod(shr(96, x), f, P)
            let b := mulmod(and(shr(64, x), 0xffffffff), f, P)
            let c := mulmod(and(shr(32, x), 0xffffffff), f, P)
            let d := mulmod(and(x, 0xffffffff), f, P)
            z := or(or(shl(96, a), shl(64, b)), or(shl(32, c), d))
        }
    }

    /// The coordinates of an element, 64 bits apart: spread.
    function spread(uint256 x) internal pure returns (uint256 s) {
        assembly ("memory-safe") {
            s := or(or(shl(192, shr(96, x)), shl(128, and(shr(64, x), P))), or(shl(64, and(shr(32, x), P)), and(x, P)))
        }
    }

    /// The element that has such coordinates, of any size below 2^64.
    function gathered(uint256 s) internal pure returns (uint256 x) {
        assembly ("memory-safe") {
            let m64 := 0xffffffffffffffff
            x := or(
                or(shl(96, mod(shr(192, s), P)), shl(64, mod(and(shr(128, s), m64), P))),
                or(shl(32, mod(and(shr(64, s), m64), P)), mod(and(s, m64), P))
            )
        }
    }

    /// Elements as two words each: (a, b) and (c, d), 80 bits apart. What products of sums take: split.
    function split(uint256[] memory values) internal pure returns (uint256[] memory halves) {
        halves = new uint256[](2 * values.length);
        assembly ("memory-safe") {
            let second := 0x7fffffff00000000000000000000
            let to := add(halves, 32)
            let from := add(values, 32)
            for { let end := add(from, shl(5, mload(values))) } lt(from, end) { from := add(from, 32) } {
                let x := mload(from)
                mstore(to, or(shr(96, x), and(shl(16, x), second)))
                mstore(add(to, 32), or(and(shr(32, x), P), and(shl(80, x), second)))
                to := add(to, 64)
            }
        }
    }

    /// The sum of products of elements with split ones, from pointers on. At most 2^12 of them.
    function dot(uint256 values, uint256 halves, uint256 count) internal pure returns (uint256) {
        uint256 w;
        uint256 q;
        uint256 m;
        assembly ("memory-safe") {
            let second := 0x7fffffff00000000000000000000
            for { let end := add(values, shl(5, count)) } lt(values, end) { values := add(values, 32) } {
                let x := mload(values)
                let x1 := or(and(shr(32, x), P), and(shl(80, x), second))
                x := or(shr(96, x), and(shl(16, x), second))
                let y0 := mload(halves)
                let y1 := mload(add(halves, 32))
                q := add(q, mul(x1, y1))
                w := add(w, mul(x, y0))
                m := add(m, add(mul(x, y1), mul(x1, y0)))
                halves := add(halves, 64)
            }
        }
        return closed(w, q, m);
    }

    /// The same of spread elements, with coordinates below 2^34.
    function dotSpread(uint256 values, uint256 halves, uint256 count) internal pure returns (uint256) {
        uint256 w;
        uint256 q;
        uint256 m;
        assembly ("memory-safe") {
            let m64 := 0xffffffffffffffff
            for { let end := add(values, shl(5, count)) } lt(values, end) { values := add(values, 32) } {
                let x := mload(values)
                let x1 := or(and(shr(64, x), m64), shl(80, and(x, m64)))
                x := or(shr(192, x), shl(80, and(shr(128, x), m64)))
                let y0 := mload(halves)
                let y1 := mload(add(halves, 32))
                q := add(q, mul(x1, y1))
                w := add(w, mul(x, y0))
                m := add(m, add(mul(x, y1), mul(x1, y0)))
                halves := add(halves, 64)
            }
        }
        return closed(w, q, m);
    }

    /// The element of sums of products, as in `mul`: of first halves, of second ones, and mixed. 2^12 terms below 2^67 are below 2^79.
    function closed(uint256 w, uint256 q, uint256 m) internal pure returns (uint256 z) {
        assembly ("memory-safe") {
            let m80 := 0xffffffffffffffffffff
            w := add(w, shl(1, q))
            // 2^50 p, above all that is taken off.
            let big := shl(50, P)
            let a := mod(sub(add(and(w, m80), big), add(shr(160, w), and(shr(80, q), m80))), P)
            let b := mod(sub(add(add(and(shr(80, w), m80), and(q, m80)), big), shr(160, q)), P)
            let c := mod(sub(add(and(m, m80), big), shr(160, m)), P)
            let d := mod(and(shr(80, m), m80), P)
            z := or(or(shl(96, a), shl(64, b)), or(shl(32, c), d))
        }
    }

    /// Inverses of numbers below p, in place, by that of their product. Reverts if one is 0.
    function invertAll(uint256[] memory values) internal pure {
        uint256 product = 1;
        assembly ("memory-safe") {
            let before := mload(0x40)
            let from := add(values, 32)
            for { let end := add(from, shl(5, mload(values))) } lt(from, end) { from := add(from, 32) } {
                mstore(before, product)
                product := mulmod(product, mload(from), P)
                before := add(before, 32)
            }
        }
        require(product != 0, "inverse of 0");
        product = inverseBase(product);
        assembly ("memory-safe") {
            let before := add(mload(0x40), shl(5, mload(values)))
            let from := add(values, shl(5, mload(values)))
            for {} gt(from, values) { from := sub(from, 32) } {
                before := sub(before, 32)
                let own := mload(from)
                mstore(from, mulmod(product, mload(before), P))
                product := mulmod(product, own, P)
            }
        }
    }

    /// x^(p - 2) of a number below p, which is its inverse, or 0 of 0.
    function inverseBase(uint256 x) internal pure returns (uint256 z) {
        assembly ("memory-safe") {
            function squared(v, n) -> s {
                s := v
                for {} n { n := sub(n, 1) } { s := mulmod(s, s, P) }
            }
            // x^(2^n - 1) for n of 3, 7, 14, 28, 29; p - 2 is 4 (2^29 - 1) + 1.
            let t := mulmod(squared(x, 1), x, P)
            t := mulmod(squared(t, 1), x, P)
            let s := mulmod(squared(t, 3), t, P)
            s := mulmod(squared(s, 1), x, P)
            t := mulmod(squared(s, 7), s, P)
            s := mulmod(squared(t, 14), t, P)
            s := mulmod(squared(s, 1), x, P)
            z := mulmod(squared(s, 2), x, P)
        }
    }

    /// The inverse, by the norms of both steps of the extension. Reverts for 0.
    function inverse(uint256 x) internal pure returns (uint256 z) {
        require(x != 0, "inverse of 0");
        uint256 r;
        uint256 s;
        assembly ("memory-safe") {
            let a := shr(96, x)
            let b := and(shr(64, x), 0xffffffff)
            let c := and(shr(32, x), 0xffffffff)
            let d := and(x, 0xffffffff)
            // (a + b i)^2 - (2 + i)(c + d i)^2
            let re := sub(add(mul(c, c), shl(64, P)), mul(d, d))
            let im := shl(1, mul(c, d))
            r := mod(sub(add(mul(a, a), shl(70, P)), add(mul(b, b), sub(shl(1, re), im))), P)
            s := mod(sub(add(shl(1, mul(a, b)), shl(70, P)), add(re, shl(1, im))), P)
        }
        uint256 n = inverseBase((r * r + s * s) % P);
        // The inverse of r + s i, then times (a + b i) - (c + d i) u.
        uint256 k = (((r * n) % P) << 96) | ((((P - s) * n) % P) << 64);
        uint256 low = x & 0xffffffffffffffff;
        z = mul(sub(x ^ low, low), k);
    }
}
