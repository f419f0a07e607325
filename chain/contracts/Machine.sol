// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The machine that follows the program of a plan (docs/chain.md; verifier/src/plan/program.rs is the same in Rust).
/// @notice A program is in calldata, its registers are in memory, an element each. Nothing jumps. Whatever a program does, it reads calldata
/// and writes registers: there is nothing else to reach. What it leaves in registers is as good as the plan is.
/// @dev Places in calldata and memory are sums of few numbers of 16 bits: nothing overflows. Elements and sums of products are those of
/// `Field`: what is called here several thousand times is written here again, in one loop.
library Machine {
    uint256 private constant P = 0x7fffffff;
    /// One, in every coordinate; p; and the second one of two coordinates, 80 bits apart.
    uint256 private constant ONES = 0x00000001000000010000000100000001;
    uint256 private constant PS = 0x7fffffff7fffffff7fffffff7fffffff;
    uint256 private constant SECOND = 0x7fffffff00000000000000000000;
    uint256 private constant M80 = 0xffffffffffffffffffff;
    /// 2^50 p, above all that is taken off a sum of products.
    uint256 private constant BIG = 0x1fffffffc000000000000;

    /// Follows a program. Registers from 0 on have the inputs before it, and the outputs after it. Registers lie behind everything that is
    /// allocated, and are given up at the end. There is a list of words for each kind: tokens of padded rows, generated tokens, the row of
    /// the first one of them, their logits in two's complement, the number of leading rows.
    function run(uint256 code, uint256 end, uint256[] memory inputs, uint256 outputs, uint256[][] memory words)
        internal
        pure
        returns (uint256[] memory results)
    {
        results = new uint256[](outputs);
        uint256 base;
        assembly ("memory-safe") {
            base := mload(0x40)
            mcopy(base, add(inputs, 32), shl(5, mload(inputs)))
        }
        code = follow(code, end, base, words);
        require(code == end, "machine: length");
        assembly ("memory-safe") {
            mcopy(add(results, 32), base, shl(5, outputs))
        }
    }

    /// All instructions. Returns where the last one ends.
    function follow(uint256 code, uint256 end, uint256 base, uint256[][] memory words) private pure returns (uint256) {
        assembly ("memory-safe") {
            function plus(x, y) -> z {
                z := add(x, y)
                z := sub(z, mul(and(shr(31, add(z, ONES)), ONES), P))
            }
            function minus(x, y) -> z {
                z := add(x, sub(PS, y))
                z := sub(z, mul(and(shr(31, add(z, ONES)), ONES), P))
            }
            // The element of sums of products: of first halves, of second ones, and mixed.
            function closed(w, q, m) -> z {
                w := add(w, shl(1, q))
                z := shl(96, mod(sub(add(and(w, M80), BIG), add(shr(160, w), and(shr(80, q), M80))), P))
                z := or(z, shl(64, mod(sub(add(add(and(shr(80, w), M80), and(q, M80)), BIG), shr(160, q)), P)))
                z := or(z, shl(32, mod(sub(add(and(m, M80), BIG), shr(160, m)), P)))
                z := or(z, mod(and(shr(80, m), M80), P))
            }
            function times(x, y) -> z {
                let x1 := or(and(shr(32, x), P), and(shl(80, x), SECOND))
                let y1 := or(and(shr(32, y), P), and(shl(80, y), SECOND))
                x := or(shr(96, x), and(shl(16, x), SECOND))
                y := or(shr(96, y), and(shl(16, y), SECOND))
                z := closed(mul(x, y), mul(x1, y1), add(mul(x, y1), mul(x1, y)))
            }
            function refuse(wrong) {
                if wrong { revert(0, 0) }
            }
            // What a register has, whose number is in calldata.
            function register(zero, place) -> x {
                x := mload(add(zero, shl(5, shr(240, calldataload(place)))))
            }
            function wordOf(lists, kind, index) -> value {
                refuse(iszero(lt(kind, mload(lists))))
                let list := mload(add(add(lists, 32), shl(5, kind)))
                refuse(iszero(lt(index, mload(list))))
                value := mload(add(add(list, 32), shl(5, index)))
            }
            // The bytes of a factor, by what their number says, and a factor.
            function factor(place, shifts) -> f {
                f := calldataload(place)
                switch shifts
                case 0 {
                    f := shr(224, f)
                    refuse(iszero(lt(f, P)))
                }
                default {
                    f := byte(0, f)
                    refuse(gt(f, 30))
                    f := shl(f, 1)
                }
            }
            function products(head, zero, to) {
                let a := add(zero, shl(5, and(shr(216, head), 0xffff)))
                let b := add(zero, shl(5, and(shr(200, head), 0xffff)))
                let next := shl(5, byte(7, head))
                for { let last := add(to, shl(5, and(shr(176, head), 0xffff))) } lt(to, last) { to := add(to, 32) } {
                    mstore(to, times(mload(a), mload(b)))
                    a := add(a, 32)
                    b := add(b, next)
                }
            }
            function multiples(place, head, zero, to) -> next {
                let from := add(zero, shl(5, and(shr(216, head), 0xffff)))
                let count := and(shr(200, head), 0xffff)
                let shifts := shr(15, count)
                next := add(place, 7)
                for { let last := add(to, shl(5, and(count, 0x7fff))) } lt(to, last) { to := add(to, 32) } {
                    let x := mload(from)
                    let f := factor(next, shifts)
                    next := add(next, sub(4, mul(3, shifts)))
                    let z := shl(96, mulmod(shr(96, x), f, P))
                    z := or(z, shl(64, mulmod(and(shr(64, x), P), f, P)))
                    z := or(z, shl(32, mulmod(and(shr(32, x), P), f, P)))
                    mstore(to, or(z, mulmod(and(x, P), f, P)))
                    from := add(from, 32)
                }
            }
            // Sums of multiples: of the first two coordinates, and of the others.
            function summedMultiples(place, zero, runs) -> next, w, m {
                for {} runs { runs := sub(runs, 1) } {
                    let count := calldataload(place)
                    let from := add(zero, shl(5, shr(240, count)))
                    count := and(shr(224, count), 0xffff)
                    place := add(place, 4)
                    let last := add(from, shl(5, and(count, 0x7fff)))
                    switch shr(15, count)
                    case 0 {
                        for {} lt(from, last) { from := add(from, 32) } {
                            let x := mload(from)
                            let f := shr(224, calldataload(place))
                            if iszero(lt(f, P)) { revert(0, 0) }
                            w := add(w, mul(or(shr(96, x), and(shl(16, x), SECOND)), f))
                            m := add(m, mul(or(and(shr(32, x), P), and(shl(80, x), SECOND)), f))
                            place := add(place, 4)
                        }
                    }
                    default {
                        for {} lt(from, last) { from := add(from, 32) } {
                            let x := mload(from)
                            let f := byte(0, calldataload(place))
                            if gt(f, 30) { revert(0, 0) }
                            w := add(w, shl(f, or(shr(96, x), and(shl(16, x), SECOND))))
                            m := add(m, shl(f, or(and(shr(32, x), P), and(shl(80, x), SECOND))))
                            place := add(place, 1)
                        }
                    }
                }
                next := place
            }
            // Sums of products of registers and of lists of them.
            function summedProducts(place, zero, single, runs) -> next, w, q, m {
                for {} or(single, runs) {} {
                    let b := calldataload(place)
                    let a := add(zero, shl(5, shr(240, b)))
                    let last := add(a, shl(5, and(shr(208, b), 0xffff)))
                    b := add(zero, shl(5, and(shr(224, b), 0xffff)))
                    switch single
                    case 0 {
                        runs := sub(runs, 1)
                        place := add(place, 6)
                    }
                    default {
                        last := add(a, 32)
                        single := sub(single, 1)
                        place := add(place, 4)
                    }
                    for {} lt(a, last) { a := add(a, 32) } {
                        let x := mload(a)
                        let y := mload(b)
                        let x1 := or(and(shr(32, x), P), and(shl(80, x), SECOND))
                        let y1 := or(and(shr(32, y), P), and(shl(80, y), SECOND))
                        x := or(shr(96, x), and(shl(16, x), SECOND))
                        y := or(shr(96, y), and(shl(16, y), SECOND))
                        q := add(q, mul(x1, y1))
                        w := add(w, mul(x, y))
                        m := add(m, add(mul(x, y1), mul(x1, y)))
                        b := add(b, 32)
                    }
                }
                next := place
            }
            function sum(place, head, zero, to) -> next {
                let w, m
                next, w, m := summedMultiples(add(place, 9), zero, and(shr(216, head), 0xffff))
                let counts := and(shr(184, head), 0xffffffff)
                let q
                if counts {
                    let v, n
                    next, v, q, n := summedProducts(next, zero, shr(16, counts), and(counts, 0xffff))
                    w := add(w, v)
                    m := add(m, n)
                }
                mstore(to, closed(w, q, m))
            }
            // The entry of a table at a place that a word of the statement says.
            function select(head, zero, to, lists) {
                let index := wordOf(lists, byte(7, head), and(shr(176, head), 0xffff))
                index := add(and(shr(byte(10, head), index), and(shr(152, head), 0xffff)), and(shr(136, head), 0xffff))
                refuse(iszero(lt(index, and(shr(200, head), 0xffff))))
                mstore(to, mload(add(zero, shl(5, add(and(shr(216, head), 0xffff), index)))))
            }
            // `eq` of a point: every coordinate doubles it.
            function table(place, zero, to, count) -> next {
                refuse(gt(count, 16))
                mstore(to, shl(96, 1))
                let size := 32
                for { next := add(place, 4) } count { count := sub(count, 1) } {
                    let r := register(zero, next)
                    next := add(next, 2)
                    for { let from := add(to, size) } gt(from, to) {} {
                        from := sub(from, 32)
                        let own := mload(from)
                        let high := times(own, r)
                        mstore(sub(shl(1, from), to), minus(own, high))
                        mstore(add(sub(shl(1, from), to), 32), high)
                    }
                    size := shl(1, size)
                }
            }
            // `eq` of two points.
            function eqOf(place, zero, to, count) -> next {
                let value := shl(96, 1)
                for { next := add(place, 4) } count { count := sub(count, 1) } {
                    let a := register(zero, next)
                    let b := register(zero, add(next, 2))
                    let both := times(a, b)
                    value := times(value, minus(plus(plus(both, both), shl(96, 1)), plus(a, b)))
                    next := add(next, 4)
                }
                mstore(to, value)
            }
            function prefix(place, zero, to, count) -> next {
                let total := 0
                next := add(place, 5)
                for { let last := add(next, shl(1, count)) } lt(next, last) { next := add(next, 2) } {
                    mstore(to, total)
                    to := add(to, 32)
                    total := plus(total, register(zero, next))
                }
                mstore(to, total)
            }
            function copied(place, zero, to, count) -> next {
                next := add(place, 5)
                for { let last := add(next, shl(1, count)) } lt(next, last) { next := add(next, 2) } {
                    mstore(to, register(zero, next))
                    to := add(to, 32)
                }
            }
            function constants(place, to, count) -> next {
                next := add(place, 5)
                for { let last := add(next, shl(2, count)) } lt(next, last) { next := add(next, 4) } {
                    mstore(to, shl(96, factor(next, 0)))
                    to := add(to, 32)
                }
            }
            for {} lt(code, end) {} {
                let head := calldataload(code)
                let to := add(base, shl(5, and(shr(232, head), 0xffff)))
                switch byte(0, head)
                case 10 {
                    products(head, base, to)
                    code := add(code, 10)
                }
                case 8 { code := sum(code, head, base, to) }
                case 9 { code := multiples(code, head, base, to) }
                case 5 {
                    select(head, base, to, words)
                    code := add(code, 15)
                }
                case 2 { code := table(code, base, to, byte(3, head)) }
                case 7 { code := eqOf(code, base, to, byte(3, head)) }
                case 6 {
                    let value := signextend(3, wordOf(words, byte(3, head), and(shr(208, head), 0xffff)))
                    mstore(to, shl(96, mod(add(value, shl(2, P)), P)))
                    code := add(code, 6)
                }
                case 3 { code := prefix(code, base, to, and(shr(216, head), 0xffff)) }
                case 4 { code := copied(code, base, to, and(shr(216, head), 0xffff)) }
                case 1 { code := constants(code, to, and(shr(216, head), 0xffff)) }
                default { revert(0, 0) }
            }
        }
        return code;
    }
}
