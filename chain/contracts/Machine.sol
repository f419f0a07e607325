// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The machine that follows segments of the program of a plan (docs/chain.md; verifier/src/plan/program.rs is the same in Rust).
/// @notice A segment is in calldata, its registers are in memory, an element each. Nothing jumps. Whatever a segment does, it reads
/// calldata and writes registers: there is nothing else to reach. What it leaves is as good as the plan is.
/// @dev Places in calldata and memory are sums of few numbers of 16 bits: nothing overflows. A register is two words, each with two
/// coordinates 80 bits apart: what products and sums take (`Field.split`). A sum of 2^12 terms stays below 2^80 in every lane; what a
/// longer one is, nothing says. Loops that run thousands of times are written out.
library Machine {
    uint256 private constant P = 0x7fffffff;
    /// One, and p, in both lanes; and what the second one has of an element that was moved by 16 bits.
    uint256 private constant ONES = 0x100000000000000000001;
    uint256 private constant PS = 0x7fffffff0000000000007fffffff;
    uint256 private constant SECOND = 0x7fffffff00000000000000000000;
    uint256 private constant M80 = 0xffffffffffffffffffff;
    /// 2^50 p, above all that is taken off a sum of products.
    uint256 private constant BIG = 0x1fffffffc000000000000;

    /// Follows a segment. Its first registers have what it is given: elements of sixteen bytes, as are those that it leaves. Registers
    /// lie behind everything that is allocated, and are given up at the end. There is a list of words for each kind: tokens of padded
    /// rows, generated tokens, the row of the first one of them, their logits in two's complement, the number of leading rows.
    function run(bytes calldata segment, bytes calldata given, uint256[][] memory words)
        internal
        pure
        returns (bytes memory left)
    {
        uint256 code;
        uint256 end;
        uint256 runs;
        uint256 count;
        assembly ("memory-safe") {
            code := segment.offset
            end := add(code, segment.length)
            runs := shr(240, calldataload(code))
            code := add(code, 2)
            for { let last := add(code, shl(2, runs)) } lt(code, last) { code := add(code, 4) } {
                count := add(count, and(shr(224, calldataload(code)), 0xffff))
            }
        }
        require(segment.length >= 2 && code <= end, "machine: length");
        left = new bytes(16 * count);
        uint256 base;
        uint256 next;
        assembly ("memory-safe") {
            base := mload(0x40)
            next := base
            let from := given.offset
            for { let last := add(from, given.length) } lt(from, last) { from := add(from, 16) } {
                let x := shr(128, calldataload(from))
                mstore(next, or(shr(96, x), and(shl(16, x), SECOND)))
                mstore(add(next, 32), or(and(shr(32, x), P), and(shl(80, x), SECOND)))
                next := add(next, 64)
            }
        }
        code = follow(code, end, base, next, words);
        require(code == end, "machine: length");
        assembly ("memory-safe") {
            let to := add(left, 32)
            code := sub(add(segment.offset, 2), 4)
            for {} runs { runs := sub(runs, 1) } {
                code := add(code, 4)
                let head := calldataload(code)
                let from := add(base, shl(6, shr(240, head)))
                for { let last := add(from, shl(6, and(shr(224, head), 0xffff))) } lt(from, last) { from := add(from, 64) } {
                    let x := mload(from)
                    let y := mload(add(from, 32))
                    x := or(or(shl(96, and(x, P)), shl(64, and(shr(80, x), P))), or(shl(32, and(y, P)), and(shr(80, y), P)))
                    // What is behind the last one is a register, which was read, or nothing.
                    mstore(to, or(shl(128, x), and(mload(to), sub(shl(128, 1), 1))))
                    to := add(to, 16)
                }
            }
        }
    }

    /// All instructions. Returns where the last one ends.
    function follow(uint256 code, uint256 end, uint256 base, uint256 next, uint256[][] memory words)
        private
        pure
        returns (uint256)
    {
        assembly ("memory-safe") {
            // A register of sums of products: of first halves, of second ones, and mixed.
            function close(to, w, q, m) {
                w := add(w, shl(1, q))
                mstore(
                    to,
                    or(
                        mod(sub(add(and(w, M80), BIG), add(shr(160, w), and(shr(80, q), M80))), P),
                        shl(80, mod(sub(add(add(and(shr(80, w), M80), and(q, M80)), BIG), shr(160, q)), P))
                    )
                )
                mstore(
                    add(to, 32),
                    or(mod(sub(add(and(m, M80), BIG), shr(160, m)), P), shl(80, mod(and(shr(80, m), M80), P)))
                )
            }
            // The product of registers.
            function times(to, a, b) {
                let x0 := mload(a)
                let x1 := mload(add(a, 32))
                let y0 := mload(b)
                let y1 := mload(add(b, 32))
                close(to, mul(x0, y0), mul(x1, y1), add(mul(x0, y1), mul(x1, y0)))
            }
            function reduced(s) -> z {
                z := sub(s, mul(and(shr(31, add(s, ONES)), ONES), P))
            }
            function refuse(wrong) {
                if wrong { revert(0, 0) }
            }
            // The register whose number is in calldata.
            function register(zero, place) -> x {
                x := add(zero, shl(6, shr(240, calldataload(place))))
            }
            function wordOf(lists, kind, index) -> value {
                refuse(iszero(lt(kind, mload(lists))))
                let list := mload(add(add(lists, 32), shl(5, kind)))
                refuse(iszero(lt(index, mload(list))))
                value := mload(add(add(list, 32), shl(5, index)))
            }
            function products(to, a, b, step, count) {
                for { let last := add(to, shl(6, count)) } lt(to, last) { to := add(to, 64) } {
                    let w := mload(a)
                    let q := mload(add(a, 32))
                    let y0 := mload(b)
                    let y1 := mload(add(b, 32))
                    let m := add(mul(w, y1), mul(q, y0))
                    w := mul(w, y0)
                    q := mul(q, y1)
                    w := add(w, shl(1, q))
                    mstore(
                        to,
                        or(
                            mod(sub(add(and(w, M80), BIG), add(shr(160, w), and(shr(80, q), M80))), P),
                            shl(80, mod(sub(add(add(and(shr(80, w), M80), and(q, M80)), BIG), shr(160, q)), P))
                        )
                    )
                    mstore(
                        add(to, 32),
                        or(mod(sub(add(and(m, M80), BIG), shr(160, m)), P), shl(80, mod(and(shr(80, m), M80), P)))
                    )
                    a := add(a, 64)
                    b := add(b, step)
                }
            }
            // The next factor of a kind, and where the one after it is.
            function factor(kind, place) -> f, next_ {
                next_ := place
                switch kind
                case 0 { f := 1 }
                case 3 {
                    f := shr(224, calldataload(place))
                    refuse(iszero(lt(f, P)))
                    next_ := add(place, 4)
                }
                default {
                    f := byte(0, calldataload(place))
                    refuse(gt(f, 31))
                    f := mod(shl(f, 1), P)
                    if eq(kind, 2) { f := sub(P, f) }
                    next_ := add(place, 1)
                }
            }
            function multiples(place, to, from, head) -> next_ {
                let kind := shr(6, head)
                for { let last := add(to, shl(6, add(and(head, 63), 1))) } lt(to, last) { to := add(to, 64) } {
                    let f
                    f, place := factor(kind, place)
                    let x := mload(from)
                    mstore(to, or(mulmod(and(x, P), f, P), shl(80, mulmod(shr(80, x), f, P))))
                    x := mload(add(from, 32))
                    mstore(add(to, 32), or(mulmod(and(x, P), f, P), shl(80, mulmod(shr(80, x), f, P))))
                    from := add(from, 64)
                }
                next_ := place
            }
            // Sums of multiples: of the first two coordinates, and of the others.
            function summedMultiples(place, zero, runs) -> w, m, next_ {
                next_ := place
                for {} runs { runs := sub(runs, 1) } {
                    let last := calldataload(next_)
                    let from := add(zero, shl(6, shr(240, last)))
                    let kind := byte(2, last)
                    last := add(from, shl(6, add(and(kind, 63), 1)))
                    next_ := add(next_, 3)
                    switch shr(6, kind)
                    case 1 {
                        // Exponents of powers of two.
                        for {} iszero(gt(add(from, 256), last)) { from := add(from, 256) } {
                            let f := calldataload(next_)
                            if and(f, shl(224, 0xe0e0e0e0)) { revert(0, 0) }
                            w := add(w, shl(byte(0, f), mload(from)))
                            m := add(m, shl(byte(0, f), mload(add(from, 32))))
                            w := add(w, shl(byte(1, f), mload(add(from, 64))))
                            m := add(m, shl(byte(1, f), mload(add(from, 96))))
                            w := add(w, shl(byte(2, f), mload(add(from, 128))))
                            m := add(m, shl(byte(2, f), mload(add(from, 160))))
                            w := add(w, shl(byte(3, f), mload(add(from, 192))))
                            m := add(m, shl(byte(3, f), mload(add(from, 224))))
                            next_ := add(next_, 4)
                        }
                        for {} lt(from, last) { from := add(from, 64) } {
                            let e := byte(0, calldataload(next_))
                            if shr(5, e) { revert(0, 0) }
                            w := add(w, shl(e, mload(from)))
                            m := add(m, shl(e, mload(add(from, 32))))
                            next_ := add(next_, 1)
                        }
                    }
                    case 0 {
                        for {} lt(from, last) { from := add(from, 64) } {
                            w := add(w, mload(from))
                            m := add(m, mload(add(from, 32)))
                        }
                    }
                    case 2 {
                        for {} lt(from, last) { from := add(from, 64) } {
                            let e := byte(0, calldataload(next_))
                            if shr(5, e) { revert(0, 0) }
                            w := add(w, shl(e, sub(PS, mload(from))))
                            m := add(m, shl(e, sub(PS, mload(add(from, 32)))))
                            next_ := add(next_, 1)
                        }
                    }
                    default {
                        for {} lt(from, last) { from := add(from, 64) } {
                            let f := shr(224, calldataload(next_))
                            if iszero(lt(f, P)) { revert(0, 0) }
                            w := add(w, mul(f, mload(from)))
                            m := add(m, mul(f, mload(add(from, 32))))
                            next_ := add(next_, 4)
                        }
                    }
                }
            }
            // Sums of products of registers.
            function summedProducts(place, zero, count) -> w, q, m {
                for { let last := add(place, shl(2, count)) } lt(place, last) { place := add(place, 4) } {
                    let b := calldataload(place)
                    let a := add(zero, shl(6, shr(240, b)))
                    b := add(zero, shl(6, and(shr(224, b), 0xffff)))
                    let x0 := mload(a)
                    let x1 := mload(add(a, 32))
                    let y0 := mload(b)
                    let y1 := mload(add(b, 32))
                    q := add(q, mul(x1, y1))
                    w := add(w, mul(x0, y0))
                    m := add(m, add(mul(x0, y1), mul(x1, y0)))
                }
            }
            // And of lists of them.
            function summedRuns(place, zero, count) -> w, q, m {
                for { let end_ := add(place, mul(5, count)) } lt(place, end_) { place := add(place, 5) } {
                    let b := calldataload(place)
                    let a := add(zero, shl(6, shr(240, b)))
                    let last := add(a, shl(6, byte(4, b)))
                    b := add(zero, shl(6, and(shr(224, b), 0xffff)))
                    for {} lt(a, last) { a := add(a, 64) } {
                        let x0 := mload(a)
                        let x1 := mload(add(a, 32))
                        let y0 := mload(b)
                        let y1 := mload(add(b, 32))
                        q := add(q, mul(x1, y1))
                        w := add(w, mul(x0, y0))
                        m := add(m, add(mul(x0, y1), mul(x1, y0)))
                        b := add(b, 64)
                    }
                }
            }
            function sum(place, zero, to, linear, single, runs) -> next_ {
                let w, m
                w, m, next_ := summedMultiples(place, zero, linear)
                let q
                if single {
                    let v, n
                    v, q, n := summedProducts(next_, zero, single)
                    w := add(w, v)
                    m := add(m, n)
                    next_ := add(next_, shl(2, single))
                }
                if runs {
                    let v, r, n := summedRuns(next_, zero, runs)
                    w := add(w, v)
                    q := add(q, r)
                    m := add(m, n)
                    next_ := add(next_, mul(5, runs))
                }
                close(to, w, q, m)
            }
            function copy(to, from) {
                mstore(to, mload(from))
                mstore(add(to, 32), mload(add(from, 32)))
            }
            // The entry of a table at a place that a word of the statement says.
            function select(head, zero, to, lists) {
                let index := wordOf(lists, byte(5, head), and(shr(192, head), 0xffff))
                index := add(and(shr(byte(8, head), index), and(shr(168, head), 0xffff)), and(shr(152, head), 0xffff))
                refuse(iszero(lt(index, and(shr(216, head), 0xffff))))
                copy(to, add(zero, shl(6, add(and(shr(232, head), 0xffff), index))))
            }
            // Doubles a table with a coordinate: each entry, from the last one on, by what it has of it and what is left.
            function doubled(to, size, r) {
                let y1 := mload(add(r, 32))
                r := mload(r)
                for { let from := add(to, size) } gt(from, to) {} {
                    from := sub(from, 64)
                    let low := sub(shl(1, from), to)
                    let w := mload(from)
                    let q := mload(add(from, 32))
                    let m := add(mul(w, y1), mul(q, r))
                    q := mul(q, y1)
                    w := add(mul(w, r), shl(1, q))
                    w := or(
                        mod(sub(add(and(w, M80), BIG), add(shr(160, w), and(shr(80, q), M80))), P),
                        shl(80, mod(sub(add(add(and(shr(80, w), M80), and(q, M80)), BIG), shr(160, q)), P))
                    )
                    m := or(mod(sub(add(and(m, M80), BIG), shr(160, m)), P), shl(80, mod(and(shr(80, m), M80), P)))
                    q := mload(add(from, 32))
                    let x := add(mload(from), sub(PS, w))
                    mstore(add(low, 64), w)
                    mstore(add(low, 96), m)
                    mstore(low, sub(x, mul(and(shr(31, add(x, ONES)), ONES), P)))
                    x := add(q, sub(PS, m))
                    mstore(add(low, 32), sub(x, mul(and(shr(31, add(x, ONES)), ONES), P)))
                }
            }
            // `eq` of a point: every coordinate doubles it.
            function table(place, zero, to, count) -> next_ {
                refuse(gt(count, 16))
                mstore(to, 1)
                mstore(add(to, 32), 0)
                let size := 64
                for { next_ := place } count { count := sub(count, 1) } {
                    doubled(to, size, register(zero, next_))
                    next_ := add(next_, 2)
                    size := shl(1, size)
                }
            }
            // `eq` of two points. Two registers behind hold products.
            function eqOf(place, zero, to, count) -> next_ {
                mstore(to, 1)
                mstore(add(to, 32), 0)
                let own := add(to, 64)
                for { next_ := place } count { count := sub(count, 1) } {
                    let a := register(zero, next_)
                    let b := register(zero, add(next_, 2))
                    times(own, a, b)
                    // 2 a b + 1 - a - b
                    let x := reduced(shl(1, mload(own)))
                    x := reduced(add(x, 1))
                    x := reduced(add(x, sub(PS, mload(a))))
                    mstore(own, reduced(add(x, sub(PS, mload(b)))))
                    x := reduced(shl(1, mload(add(own, 32))))
                    x := reduced(add(x, sub(PS, mload(add(a, 32)))))
                    mstore(add(own, 32), reduced(add(x, sub(PS, mload(add(b, 32))))))
                    times(to, to, own)
                    next_ := add(next_, 4)
                }
                mstore(own, 0)
                mstore(add(own, 32), 0)
            }
            function prefix(place, zero, to, count) -> next_ {
                let x, y
                next_ := place
                for { let last := add(next_, shl(1, count)) } lt(next_, last) { next_ := add(next_, 2) } {
                    let own := add(zero, shl(6, shr(240, calldataload(next_))))
                    let u := add(x, mload(own))
                    own := add(y, mload(add(own, 32)))
                    mstore(to, x)
                    mstore(add(to, 32), y)
                    to := add(to, 64)
                    x := sub(u, mul(and(shr(31, add(u, ONES)), ONES), P))
                    y := sub(own, mul(and(shr(31, add(own, ONES)), ONES), P))
                }
                mstore(to, x)
                mstore(add(to, 32), y)
            }
            function copied(place, zero, to, count) -> next_ {
                next_ := place
                for { let last := add(next_, shl(1, count)) } lt(next_, last) { next_ := add(next_, 2) } {
                    copy(to, register(zero, next_))
                    to := add(to, 64)
                }
            }
            function constants(place, to, count) -> next_ {
                next_ := place
                for { let last := add(next_, shl(2, count)) } lt(next_, last) { next_ := add(next_, 4) } {
                    let f := shr(224, calldataload(next_))
                    refuse(iszero(lt(f, P)))
                    mstore(to, f)
                    mstore(add(to, 32), 0)
                    to := add(to, 64)
                }
            }
            for {} lt(code, end) {} {
                let head := calldataload(code)
                switch byte(0, head)
                case 8 {
                    code := sum(add(code, 4), base, next, byte(1, head), byte(2, head), byte(3, head))
                    next := add(next, 64)
                }
                case 10 {
                    products(next, add(base, shl(6, and(shr(232, head), 0xffff))), add(base, shl(6, and(shr(216, head), 0xffff))), 64, byte(5, head))
                    next := add(next, shl(6, byte(5, head)))
                    code := add(code, 6)
                }
                case 11 {
                    products(next, add(base, shl(6, and(shr(232, head), 0xffff))), add(base, shl(6, and(shr(216, head), 0xffff))), 0, byte(5, head))
                    next := add(next, shl(6, byte(5, head)))
                    code := add(code, 6)
                }
                case 9 {
                    code := multiples(add(code, 4), next, register(base, add(code, 1)), byte(3, head))
                    next := add(next, shl(6, add(and(byte(3, head), 63), 1)))
                }
                case 5 {
                    select(head, base, next, words)
                    next := add(next, 64)
                    code := add(code, 13)
                }
                case 2 {
                    code := table(add(code, 2), base, next, byte(1, head))
                    next := add(next, shl(add(byte(1, head), 6), 1))
                }
                case 7 {
                    code := eqOf(add(code, 2), base, next, byte(1, head))
                    next := add(next, 64)
                }
                case 6 {
                    let value := signextend(3, wordOf(words, byte(1, head), and(shr(224, head), 0xffff)))
                    mstore(next, mod(add(value, shl(2, P)), P))
                    mstore(add(next, 32), 0)
                    next := add(next, 64)
                    code := add(code, 4)
                }
                case 3 {
                    let count := and(shr(232, head), 0xffff)
                    code := prefix(add(code, 3), base, next, count)
                    next := add(next, shl(6, add(count, 1)))
                }
                case 4 {
                    let count := and(shr(232, head), 0xffff)
                    code := copied(add(code, 3), base, next, count)
                    next := add(next, shl(6, count))
                }
                case 1 {
                    let count := and(shr(232, head), 0xffff)
                    code := constants(add(code, 3), next, count)
                    next := add(next, shl(6, count))
                }
                case 12 {
                    code := sum(add(code, 7), base, next, and(shr(232, head), 0xffff), and(shr(216, head), 0xffff), and(shr(200, head), 0xffff))
                    next := add(next, 64)
                }
                default { revert(0, 0) }
            }
        }
        return code;
    }
}
