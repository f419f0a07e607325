// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Circle} from "./Circle.sol";
import {Field} from "./Field.sol";
import {Merkle} from "./Merkle.sol";
import {Multilinear} from "./Multilinear.sol";

/// @title Queries on their way through folded codewords, the oracles of an opening (docs/protocol.md, section 10).
/// @dev A leaf of eight neighbours is folded by three challenges at once. Its values are first taken apart, f = f0 + t f1, three times:
/// that needs only numbers of F, the inverses of the coordinates t. What is left is a sum of eight products with numbers that depend
/// on the challenges alone.
library Folding {
    uint256 private constant P = 0x7fffffff;
    /// The low 31 bits of every one of 64, and the 33 bits above them, moved down.
    uint256 private constant LOW = 0x000000007fffffff000000007fffffff000000007fffffff000000007fffffff;
    uint256 private constant UP = 0x00000001ffffffff00000001ffffffff00000001ffffffff00000001ffffffff;

    /// One, and the highest bit, of every coordinate of two elements.
    uint256 private constant ONES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    uint256 private constant HIGH = 0x8000000080000000800000008000000080000000800000008000000080000000;
    uint256 private constant LANE = 0xffffffffffffffff;
    /// Words of 64 bits, 128 bits apart, and of 32 bits, 64 bits apart.
    uint256 private constant PAIRS = 0x0000000000000000ffffffffffffffff0000000000000000ffffffffffffffff;
    uint256 private constant COORDINATES = 0x00000000ffffffff00000000ffffffff00000000ffffffff00000000ffffffff;

    /// One in every one of 64 bits.
    uint256 private constant LANES = 0x0000000000000001000000000000000100000000000000010000000000000001;

    /// Positions, which ascend, values that a codeword must have there, and the points of the positions on the line domain of the
    /// codeword.
    struct Front {
        uint256[] positions;
        uint256[] values;
        uint256[] points;
    }

    /// A committed codeword: its root, its 2^log values, what the challenges make of its folds; in calldata, the values that do not
    /// follow from the front, and the path.
    struct Layer {
        uint256 root;
        uint256 log;
        uint256[] factors;
        uint256 values;
        uint256 valuesEnd;
        uint256 path;
        uint256 pathEnd;
    }

    /// Factors of the eight parts of a leaf, by coordinates: of f0 and f1 by each of three folds. Bit i of a part's number is that of fold i.
    function factors(uint256[3] memory ofF0, uint256[3] memory ofF1) internal pure returns (uint256[] memory) {
        uint256[] memory parts = new uint256[](8);
        parts[0] = Field.ONE;
        for (uint256 i = 0; i < 3; i++) {
            for (uint256 k = 0; k < 1 << i; k++) {
                parts[k + (1 << i)] = Field.mul(parts[k], ofF1[i]);
                parts[k] = Field.mul(parts[k], ofF0[i]);
            }
        }
        return byCoordinates(parts);
    }

    /// Elements times 1, i, u and i u, spread: what coordinates are multiplied with.
    function byCoordinates(uint256[] memory parts) internal pure returns (uint256[] memory all) {
        all = new uint256[](4 * parts.length);
        for (uint256 k = 0; k < parts.length; k++) {
            uint256 own = parts[k];
            for (uint256 i = 0; i < 4; i++) all[4 * k + i] = Field.spread(Field.mul(own, 1 << (96 - 32 * i)));
        }
    }

    /// The sum of products of eight spread values, with coordinates of at most 2^31 + 3, with elements as the function above has them.
    function sum(uint256 leaf, uint256 parts) private pure returns (uint256) {
        uint256 all;
        assembly ("memory-safe") {
            for { let end := add(leaf, 256) } lt(leaf, end) { leaf := add(leaf, 32) } {
                let v := mload(leaf)
                // Two products and 2^34 are below 2^64.
                all := add(all, add(mul(mload(parts), shr(192, v)), mul(mload(add(parts, 32)), and(shr(128, v), LANE))))
                all := add(and(all, LOW), and(shr(31, all), UP))
                all := add(all, add(mul(mload(add(parts, 64)), and(shr(64, v), LANE)), mul(mload(add(parts, 96)), and(v, LANE))))
                all := add(and(all, LOW), and(shr(31, all), UP))
                parts := add(parts, 128)
            }
        }
        return Field.gathered(all);
    }

    /// Opens the leaves that hold the front, and moves it to the next codeword.
    function open(Layer memory o, Front memory f) internal pure {
        require(f.positions.length != 0, "folding: positions");
        // All lists made here are left behind.
        uint256 mark;
        assembly ("memory-safe") {
            mark := mload(0x40)
        }
        uint256[] memory leaves = collect(o, f);
        turn(o, f, leaves);
        assembly ("memory-safe") {
            mstore(0x40, mark)
        }
    }

    /// Completes the leaves and checks that they are in the tree. Positions become those of the leaves, points those of the first
    /// positions in them. Returns their values, spread.
    function collect(Layer memory o, Front memory f) private pure returns (uint256[] memory leaves) {
        uint256 known = f.positions.length;
        leaves = new uint256[](8 * known);
        uint256[] memory digests = new uint256[](known);
        uint256[] memory nodes = new uint256[](known);
        uint256 count;
        for (uint256 next = 0; next < known; count++) {
            uint256 position = f.positions[next];
            uint256 point = start(f.points[next], position & 7);
            (next, digests[count]) = complete(o, f, next, Multilinear.pointer(leaves) + (count << 8));
            nodes[count] = position >> 3;
            (f.positions[count], f.points[count]) = (position >> 3, point);
        }
        require(o.values == o.valuesEnd, "folding: values");
        shorten(digests, count);
        shorten(nodes, count);
        shorten(f.positions, count);
        shorten(f.points, count);
        shorten(f.values, count);
        Merkle.check(o.root, o.log - 3, nodes, digests, o.path, o.pathEnd);
    }

    function shorten(uint256[] memory list, uint256 count) private pure {
        assembly ("memory-safe") {
            mstore(list, count)
        }
    }

    /// From the point of a position to that of the first one in its leaf: less what its low bits add. These are G_1 = (-1, 0),
    /// G_2 = (0, -1) and G_3 = (c, -c) with c = 2^15, for bits 0, 1 and 2 of the position.
    function start(uint256 point, uint256 low) private pure returns (uint256 first) {
        assembly ("memory-safe") {
            let x := shr(32, point)
            let y := and(point, 0xffffffff)
            if and(low, 1) {
                x := sub(P, x)
                y := sub(P, y)
            }
            if and(low, 2) {
                let old := x
                x := sub(P, y)
                y := old
            }
            if and(low, 4) {
                let old := x
                x := mulmod(add(x, sub(P, y)), 0x8000, P)
                y := mulmod(add(old, y), 0x8000, P)
            }
            first := or(shl(32, mod(x, P)), mod(y, P))
        }
    }

    /// The eight values of a leaf, those that are known and those that are sent, spread; and its digest. Returns the next position.
    function complete(Layer memory o, Front memory f, uint256 next, uint256 leaf)
        private
        pure
        returns (uint256, uint256 digest)
    {
        (next, o.values) = fill(f.positions, f.values, next, o.values);
        bool bad;
        assembly ("memory-safe") {
            let words := mload(0x40)
            digest := keccak256(words, 128)
            for { let end := add(leaf, 256) } lt(leaf, end) { leaf := add(leaf, 64) } {
                let both := mload(words)
                bad := or(bad, and(or(both, add(both, ONES)), HIGH))
                // Pairs of coordinates 128 bits apart, then coordinates 64 bits apart.
                let x := shr(128, both)
                x := and(or(x, shl(64, x)), PAIRS)
                mstore(leaf, and(or(x, shl(32, x)), COORDINATES))
                x := and(both, 0xffffffffffffffffffffffffffffffff)
                x := and(or(x, shl(64, x)), PAIRS)
                mstore(add(leaf, 32), and(or(x, shl(32, x)), COORDINATES))
                words := add(words, 32)
            }
        }
        require(!bad, "element");
        return (next, digest);
    }

    /// Writes the values of a leaf, as they are hashed, behind the end of the memory in use. Returns the next position, and where the
    /// values that are sent go on.
    function fill(uint256[] memory positions, uint256[] memory values, uint256 next, uint256 sent)
        private
        pure
        returns (uint256, uint256)
    {
        assembly ("memory-safe") {
            let own := add(add(positions, 32), shl(5, next))
            let end := add(add(positions, 32), shl(5, mload(positions)))
            let left := and(mload(own), not(7))
            let words := mload(0x40)
            let halt := add(left, 8)
            for {} and(lt(own, end), lt(sub(mload(own), left), sub(halt, left))) { own := add(own, 32) } {
                // What is sent lies before it.
                let size := shl(4, sub(mload(own), left))
                calldatacopy(words, sent, size)
                sent := add(sent, size)
                words := add(words, size)
                // The low half is written over by what comes next.
                mstore(words, shl(128, mload(add(own, sub(values, positions)))))
                words := add(words, 16)
                left := add(mload(own), 1)
            }
            let size := shl(4, sub(halt, left))
            calldatacopy(words, sent, size)
            sent := add(sent, size)
            next := shr(5, sub(sub(own, positions), 32))
        }
        return (next, sent);
    }

    /// Folds all leaves: values and points of the next codeword.
    function turn(Layer memory o, Front memory f, uint256[] memory leaves) private pure {
        uint256 count = f.positions.length;
        uint256[] memory inverses = new uint256[](count);
        for (uint256 i = 0; i < count; i++) inverses[i] = product(f.points[i]);
        Field.invertAll(inverses);
        uint256[7] memory t;
        uint256 parts = Multilinear.pointer(o.factors);
        uint256 leaf = Multilinear.pointer(leaves);
        for (uint256 i = 0; i < count; i++) {
            f.points[i] = coordinates(f.points[i], inverses[i], t);
            apart(leaf, t);
            f.values[i] = sum(leaf, parts);
            leaf += 256;
        }
    }

    /// What the inverses of the coordinates of a leaf are made of, with the sine s and the cosine c of twice the angle of its first
    /// point and the cosine d of four times it: s c d. None is ever 0.
    function product(uint256 point) private pure returns (uint256 z) {
        assembly ("memory-safe") {
            let x := shr(32, point)
            let s := mulmod(shl(1, x), and(point, 0xffffffff), P)
            let c := mod(add(shl(1, mul(x, x)), sub(P, 1)), P)
            z := mulmod(mulmod(s, c, P), mod(add(shl(1, mul(c, c)), sub(P, 1)), P), P)
        }
    }

    /// The inverses of the coordinates of a leaf by which it is folded, four, two and one of them, given that of the product above.
    /// Returns the point of the leaf on the next domain.
    /// @dev With h = 2^15 and 2 h^2 = 1: x, y, h (x + y), h (y - x); then c, s; then d. And 1 / x = 2 y / s, 1 / y = 2 x / s,
    /// 1 / (x + y) = (x - y) / c.
    function coordinates(uint256 point, uint256 inverse, uint256[7] memory t)
        private
        pure
        returns (uint256 next)
    {
        assembly ("memory-safe") {
            let x := shr(32, point)
            let y := and(point, 0xffffffff)
            let s := mulmod(shl(1, x), y, P)
            let c := mod(add(shl(1, mul(x, x)), sub(P, 1)), P)
            let sine := mulmod(shl(1, s), c, P)
            let cosine := mod(add(shl(1, mul(c, c)), sub(P, 1)), P)
            mstore(add(t, 192), mulmod(inverse, mulmod(s, c, P), P))
            inverse := mulmod(inverse, cosine, P)
            // That of s c is left.
            s := mulmod(inverse, s, P)
            c := mulmod(inverse, c, P)
            mstore(add(t, 128), s)
            mstore(add(t, 160), c)
            mstore(t, mulmod(shl(1, y), c, P))
            mstore(add(t, 32), mulmod(shl(1, x), c, P))
            s := shl(16, s)
            mstore(add(t, 64), mulmod(add(x, sub(P, y)), s, P))
            mstore(add(t, 96), mulmod(sub(shl(1, P), add(x, y)), s, P))
            // Three times doubled.
            next := or(
                shl(32, mod(add(shl(1, mul(cosine, cosine)), sub(P, 1)), P)),
                mulmod(shl(1, sine), cosine, P)
            )
        }
    }

    /// Takes a leaf apart, in place: sums at the even places, differences times inverses at the odd ones, then so with every second
    /// and every fourth. Coordinates are at most 2^31 + 3 at the end.
    function apart(uint256 leaf, uint256[7] memory t) private pure {
        assembly ("memory-safe") {
            // Twice p in every coordinate, so that no difference is below 0. 4 p p is below 2^64.
            let twice := 0x00000000fffffffe00000000fffffffe00000000fffffffe00000000fffffffe
            function step(p, r, inverse, bound) {
                let a := mload(p)
                let b := mload(r)
                mstore(p, add(a, b))
                a := mul(sub(add(a, bound), b), inverse)
                // 2^31 is 1. At most 2^31 + 2 is left.
                a := add(and(a, LOW), and(shr(31, a), UP))
                mstore(r, add(and(a, LOW), and(shr(31, a), UP)))
            }
            step(leaf, add(leaf, 32), mload(t), twice)
            step(add(leaf, 64), add(leaf, 96), mload(add(t, 32)), twice)
            step(add(leaf, 128), add(leaf, 160), mload(add(t, 64)), twice)
            step(add(leaf, 192), add(leaf, 224), mload(add(t, 96)), twice)
            let inverse := mload(add(t, 128))
            step(leaf, add(leaf, 64), inverse, twice)
            step(add(leaf, 32), add(leaf, 96), inverse, twice)
            inverse := mload(add(t, 160))
            step(add(leaf, 128), add(leaf, 192), inverse, twice)
            step(add(leaf, 160), add(leaf, 224), inverse, twice)
            // Sums of four are below 2^33: they are made smaller once.
            for { let k := 0 } lt(k, 256) { k := add(k, 128) } {
                let a := mload(add(leaf, k))
                mstore(add(leaf, k), add(and(a, LOW), and(shr(31, a), UP)))
                a := mload(add(leaf, add(k, 32)))
                mstore(add(leaf, add(k, 32)), add(and(a, LOW), and(shr(31, a), UP)))
            }
            inverse := mload(add(t, 192))
            for { let end := add(leaf, 128) } lt(leaf, end) { leaf := add(leaf, 32) } {
                step(leaf, add(leaf, 128), inverse, twice)
                let a := mload(leaf)
                mstore(leaf, add(and(a, LOW), and(shr(31, a), UP)))
            }
        }
    }

    /// A message of spread coefficients with its variables from `left` on bound to x and its doubles. At most eight coefficients become one.
    function bound(uint256[] memory message, uint256 left, uint256 x) private pure returns (uint256[] memory to) {
        if (message.length <= 1 << left) return message;
        to = new uint256[](1 << left);
        assembly ("memory-safe") {
            // Products of x and its doubles, with zeros behind fewer than four.
            let weights := mload(0x40)
            mstore(weights, 1)
            mstore(add(weights, 64), 0)
            mstore(add(weights, 96), 0)
            let size := shl(5, shr(left, mload(message)))
            for { let half := 32 } lt(half, size) { half := shl(1, half) } {
                let own := add(weights, half)
                for { let i := 0 } lt(i, half) { i := add(i, 32) } {
                    mstore(add(own, i), mulmod(mload(add(weights, i)), x, P))
                }
                x := mod(add(shl(1, mul(x, x)), sub(P, 1)), P)
            }
            let step := shl(left, 32)
            let from := add(message, 32)
            let end := add(weights, size)
            for { let place := add(to, 32) let last_ := add(place, step) } lt(place, last_) { place := add(place, 32) } {
                let own := 0
                let at := from
                for { let w := weights } lt(w, end) { w := add(w, 128) } {
                    // Four products of numbers below p and 2^34 are below 2^64. 2^31 is 1.
                    own := add(own, mul(mload(w), mload(at)))
                    at := add(at, step)
                    own := add(own, mul(mload(add(w, 32)), mload(at)))
                    at := add(at, step)
                    own := add(own, mul(mload(add(w, 64)), mload(at)))
                    at := add(at, step)
                    own := add(own, mul(mload(add(w, 96)), mload(at)))
                    at := add(at, step)
                    own := add(and(own, LOW), and(shr(31, own), UP))
                }
                own := add(and(own, LOW), and(shr(31, own), UP))
                mstore(place, sub(own, mul(and(shr(31, add(own, LANES)), LANES), P)))
                from := add(from, 32)
            }
        }
    }

    /// The values of a message of at most 2^9 spread coefficients at the positions of a front: bit 0 of an index goes with x, bit 1 with
    /// its double. What x is after k doublings depends on the position less its k low bits, so neighbours share what is bound first.
    function line(Front memory f, uint256[] memory message) internal pure returns (uint256[] memory values) {
        values = new uint256[](f.positions.length);
        uint256[] memory high;
        uint256[] memory low;
        for (uint256 i = 0; i < values.length; i++) {
            (uint256 position, uint256 x) = (f.positions[i], f.points[i] >> 32);
            bool first = i == 0 || position >> 6 != f.positions[i - 1] >> 6;
            if (first) high = bound(message, 6, doubled(x, 6));
            if (first || position >> 3 != f.positions[i - 1] >> 3) low = bound(high, 3, doubled(x, 3));
            values[i] = Field.gathered(bound(low, 0, x)[0]);
        }
    }

    function doubled(uint256 x, uint256 times) private pure returns (uint256) {
        for (uint256 i = 0; i < times; i++) x = Circle.doubled(x);
        return x;
    }

    /// A message for the function above: its coefficients spread.
    function spread(uint256[] memory values) internal pure returns (uint256[] memory message) {
        message = new uint256[](values.length);
        for (uint256 i = 0; i < values.length; i++) message[i] = Field.spread(values[i]);
    }

    /// Reverts unless the values of a front are those of a message, whose coefficients are spread.
    function last(Front memory f, uint256[] memory message) internal pure {
        uint256[] memory values = line(f, message);
        for (uint256 i = 0; i < values.length; i++) require(values[i] == f.values[i], "folding: last message");
    }

    /// Points of positions of half_odds(log), in bit-reversed order: `Circle.place` of all of them.
    function places(uint256[] memory positions, uint256 log) internal pure returns (uint256[] memory points) {
        uint256[] memory g = Circle.generators();
        points = new uint256[](positions.length);
        assembly ("memory-safe") {
            let shift := sub(points, positions)
            let first := mload(add(g, shl(5, add(log, 3))))
            let place := add(positions, 32)
            for { let end := add(place, shl(5, mload(positions))) } lt(place, end) { place := add(place, 32) } {
                let x := shr(32, first)
                let y := and(first, 0xffffffff)
                // G_1 is the third word of the list.
                let own := add(g, 64)
                for { let left := mload(place) } left { left := shr(1, left) } {
                    if and(left, 1) {
                        let bx := mload(own)
                        let by := and(bx, 0xffffffff)
                        bx := shr(32, bx)
                        // A multiple of p above the product that is taken off.
                        let z := mod(sub(add(mul(x, bx), shl(33, P)), mul(y, by)), P)
                        y := mod(add(mul(x, by), mul(y, bx)), P)
                        x := z
                    }
                    own := add(own, 32)
                }
                mstore(add(place, shift), or(shl(32, x), y))
            }
        }
    }

    /// Positions in ascending order, without duplicates, in place.
    function ascend(uint256[] memory list) internal pure {
        assembly ("memory-safe") {
            let first := add(list, 32)
            let end := add(first, shl(5, mload(list)))
            // By insertion among those that are 40, 13, 4 and 1 places apart.
            for { let gaps := 0x280d0401 } gaps { gaps := and(shl(8, gaps), 0xffffffff) } {
                let gap := shl(5, shr(24, gaps))
                for { let from := add(first, gap) } lt(from, end) { from := add(from, 32) } {
                    let own := mload(from)
                    let to := from
                    for {} iszero(lt(to, add(first, gap))) {} {
                        let before := mload(sub(to, gap))
                        if iszero(gt(before, own)) { break }
                        mstore(to, before)
                        to := sub(to, gap)
                    }
                    mstore(to, own)
                }
            }
            // All are in order: each once.
            let to := first
            for { let from := first } lt(from, end) { from := add(from, 32) } {
                let own := mload(from)
                if or(eq(from, first), iszero(eq(own, mload(sub(to, 32))))) {
                    mstore(to, own)
                    to := add(to, 32)
                }
            }
            mstore(list, shr(5, sub(to, first)))
        }
    }
}
