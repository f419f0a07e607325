// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The machine that follows segments of the program of a plan (docs/chain.md; chain/plan/src/program.rs is the same in Rust).
/// @notice A segment is made of pages. A page is in memory while it is followed, as are the registers, an element each. Nothing jumps.
/// Whatever a segment does, it reads pages and writes registers: there is nothing else to reach. What it leaves is as good as the plan is.
/// @dev Places in memory are sums of few numbers of 16 bits: nothing overflows. A register is a spread element (`Field.spread`): four
/// coordinates 64 bits apart, below p. The product of two halves has its three coefficients in lanes of 64 bits, none of which runs
/// over. Sums are made of what folding leaves of that, 2^34 at most in a lane; of 2^12 terms they stay below 2^46. Loops that run
/// thousands of times are written out.
library Machine {
    uint256 private constant P = 0x7fffffff;
    /// One, and p, in all lanes.
    uint256 private constant ONES = 0x0000000000000001000000000000000100000000000000010000000000000001;
    uint256 private constant PS = 0x000000007fffffff000000007fffffff000000007fffffff000000007fffffff;
    uint256 private constant M64 = 0xffffffffffffffff;
    uint256 private constant M128 = 0xffffffffffffffffffffffffffffffff;
    /// The 33 bits above the low 31 ones of every lane, moved down.
    uint256 private constant UP = 0x00000001ffffffff00000001ffffffff00000001ffffffff00000001ffffffff;
    /// 2^90 p, above all that is taken off a sum of products.
    uint256 private constant BIG = 0x1fffffffc0000000000000000000000;
    /// The most bytes of a page, and room for them with what instructions read behind their end.
    uint256 private constant PAGE = 24575;
    uint256 private constant ROOM = 24704;

    /// What is followed: where pages are loaded, where the registers are, where the next one is written, and the words of the statement.
    struct Run {
        uint256 buffer;
        uint256 base;
        uint256 next;
        uint256[][] words;
    }

    /// Follows a segment, of which the addresses of the pages are in calldata, twenty bytes each. Its first registers have what it is
    /// given: elements of sixteen bytes, as are those that it leaves. There is a list of words for each kind: tokens of rows, 0 behind
    /// the text, generated tokens, the row of the first one of them, the number of leading rows, the last row of the text. Returns the
    /// digest of the pages, too: that of the digests of their contracts.
    function run(bytes calldata pages, bytes memory given, uint256[][] memory words)
        internal
        view
        returns (bytes memory left, bytes32 digest)
    {
        uint256 count = pages.length / 20;
        require(count != 0 && pages.length == 20 * count, "machine: pages");
        bytes32[] memory digests = new bytes32[](count);
        Run memory own = begin(given, words);
        for (uint256 i = 0; i < count; i++) {
            address page = address(bytes20(pages[20 * i:20 * i + 20]));
            digests[i] = page.codehash;
            uint256 size = page.code.length;
            require(size > 1 && size <= PAGE + 1, "machine: page");
            uint256 buffer = own.buffer;
            assembly ("memory-safe") {
                size := sub(size, 1)
                extcodecopy(page, buffer, 1, size)
            }
            if (i + 1 < count) require(follow(own, size) == buffer + size, "machine: length");
            else left = end(own, size);
        }
        digest = keccak256(abi.encodePacked(digests));
    }

    /// The same of a segment that is one page, in calldata.
    function single(bytes calldata page, bytes memory given, uint256[][] memory words) internal pure returns (bytes memory left) {
        require(page.length <= PAGE, "machine: page");
        Run memory own = begin(given, words);
        uint256 buffer = own.buffer;
        assembly ("memory-safe") {
            calldatacopy(buffer, page.offset, page.length)
        }
        return end(own, page.length);
    }

    /// Registers lie behind everything that is allocated: nobody has written there. They are allocated at the end.
    function begin(bytes memory given, uint256[][] memory words) private pure returns (Run memory own) {
        own.words = words;
        uint256 buffer;
        uint256 base;
        uint256 next;
        assembly ("memory-safe") {
            buffer := mload(0x40)
            base := add(buffer, ROOM)
            next := base
            mstore(0x40, base)
            let from := add(given, 32)
            for { let last := add(from, mload(given)) } lt(from, last) { from := add(from, 16) } {
                let x := shr(128, mload(from))
                x := or(or(shl(192, shr(96, x)), shl(128, and(shr(64, x), P))), or(shl(64, and(shr(32, x), P)), and(x, P)))
                mstore(next, x)
                next := add(next, 32)
            }
        }
        (own.buffer, own.base, own.next) = (buffer, base, next);
    }

    /// The last page: behind its instructions are runs of registers, which the segment leaves.
    function end(Run memory own, uint256 size) private pure returns (bytes memory left) {
        uint256 code = follow(own, size);
        uint256 last = own.buffer + size;
        require(code + 3 <= last, "machine: length");
        uint256 runs;
        uint256 count;
        assembly ("memory-safe") {
            runs := and(shr(232, mload(code)), 0xffff)
            code := add(code, 3)
        }
        require(code + 4 * runs == last, "machine: length");
        uint256 base = own.base;
        uint256 next = own.next;
        assembly ("memory-safe") {
            // Behind all registers, written and read.
            left := next
            for { let place := code } lt(place, last) { place := add(place, 4) } {
                let head := mload(place)
                let behind := add(base, shl(5, add(shr(240, head), and(shr(224, head), 0xffff))))
                if lt(left, behind) { left := behind }
                count := add(count, and(shr(224, head), 0xffff))
            }
            let to := add(left, 32)
            for {} lt(code, last) { code := add(code, 4) } {
                let head := mload(code)
                let from := add(base, shl(5, shr(240, head)))
                for { let halt := add(from, shl(5, and(shr(224, head), 0xffff))) } lt(from, halt) { from := add(from, 32) } {
                    let x := mload(from)
                    x := or(or(shl(96, shr(192, x)), shl(64, and(shr(128, x), P))), or(shl(32, and(shr(64, x), P)), and(x, P)))
                    mstore(to, shl(128, x))
                    to := add(to, 16)
                }
            }
            mstore(left, shl(4, count))
            mstore(0x40, and(add(to, 63), not(31)))
        }
    }

    /// All instructions of a page, up to its end or the one that ends the segment. Returns where that is.
    function follow(Run memory own, uint256 size) private pure returns (uint256 code) {
        assembly ("memory-safe") {
            // What is left of products of halves, in every lane: 2^31 is 1.
            function folded(v) -> z {
                z := add(and(v, PS), and(shr(31, v), UP))
            }
            // Lanes below 2 p.
            function reduced(s) -> z {
                z := sub(s, mul(and(shr(31, add(s, ONES)), ONES), P))
            }
            // An element of a sum of elements and sums of products: of first halves, of second ones, and mixed.
            function closed(s, w, q, m) -> z {
                // What is left of (2 + i) times the second ones.
                let r := sub(shr(128, q), and(q, M64))
                let i := and(shr(64, q), M64)
                z := shl(192, mod(add(add(shr(192, s), BIG), sub(add(sub(shr(128, w), and(w, M64)), shl(1, r)), i)), P))
                z := or(z, shl(128, mod(add(add(and(shr(128, s), M64), BIG), add(and(shr(64, w), M64), add(shl(1, i), r))), P)))
                z := or(z, shl(64, mod(add(add(and(shr(64, s), M64), BIG), sub(shr(128, m), and(m, M64))), P)))
                z := or(z, mod(add(and(s, M64), and(shr(64, m), M64)), P))
            }
            function product(x, y) -> z {
                let x1 := and(x, M128)
                x := shr(128, x)
                let y1 := and(y, M128)
                y := shr(128, y)
                let m := add(mul(x, y1), mul(x1, y))
                let q := mul(x1, y1)
                let w := mul(x, y)
                let r := sub(shr(128, q), and(q, M64))
                q := and(shr(64, q), M64)
                z := shl(192, mod(add(BIG, sub(add(sub(shr(128, w), and(w, M64)), shl(1, r)), q)), P))
                z := or(z, shl(128, mod(add(BIG, add(and(shr(64, w), M64), add(shl(1, q), r))), P)))
                z := or(z, shl(64, mod(add(BIG, sub(shr(128, m), and(m, M64))), P)))
                z := or(z, mod(and(shr(64, m), M64), P))
            }
            function refuse(wrong) {
                if wrong { revert(0, 0) }
            }
            // The register whose number is at a place of the page.
            function register(zero, place) -> x {
                x := add(zero, shl(5, shr(240, mload(place))))
            }
            function wordOf(lists, kind, index) -> value {
                refuse(iszero(lt(kind, mload(lists))))
                let list := mload(add(add(lists, 32), shl(5, kind)))
                refuse(iszero(lt(index, mload(list))))
                value := mload(add(add(list, 32), shl(5, index)))
            }
            function products(to, a, b, step, count) {
                for { let last := add(to, shl(5, count)) } lt(to, last) { to := add(to, 32) } {
                    let x := mload(a)
                    let y := mload(b)
                    let x1 := and(x, M128)
                    x := shr(128, x)
                    let y1 := and(y, M128)
                    y := shr(128, y)
                    let m := add(mul(x, y1), mul(x1, y))
                    y1 := mul(x1, y1)
                    y := mul(x, y)
                    x := sub(shr(128, y1), and(y1, M64))
                    y1 := and(shr(64, y1), M64)
                    x1 := shl(192, mod(add(BIG, sub(add(sub(shr(128, y), and(y, M64)), shl(1, x)), y1)), P))
                    x1 := or(x1, shl(128, mod(add(BIG, add(and(shr(64, y), M64), add(shl(1, y1), x))), P)))
                    x1 := or(x1, shl(64, mod(add(BIG, sub(shr(128, m), and(m, M64))), P)))
                    mstore(to, or(x1, mod(and(shr(64, m), M64), P)))
                    a := add(a, 32)
                    b := add(b, step)
                }
            }
            // The next factor of a kind, and where the one after it is.
            function factor(kind, place) -> f, next_ {
                next_ := place
                switch kind
                case 0 { f := 1 }
                case 3 {
                    f := shr(224, mload(place))
                    refuse(iszero(lt(f, P)))
                    next_ := add(place, 4)
                }
                default {
                    f := byte(0, mload(place))
                    refuse(gt(f, 31))
                    f := mod(shl(f, 1), P)
                    if eq(kind, 2) { f := sub(P, f) }
                    next_ := add(place, 1)
                }
            }
            function multiples(place, to, from, head) -> next_ {
                let kind := shr(6, head)
                for { let last := add(to, shl(5, add(and(head, 63), 1))) } lt(to, last) { to := add(to, 32) } {
                    let f
                    f, place := factor(kind, place)
                    // A lane is at most p + 1 after two folds.
                    mstore(to, reduced(folded(folded(mul(f, mload(from))))))
                    from := add(from, 32)
                }
                next_ := place
            }
            // The sum of multiples of registers, in lanes.
            function summedMultiples(place, zero, runs) -> s, next_ {
                next_ := place
                for {} runs { runs := sub(runs, 1) } {
                    let last := mload(next_)
                    let from := add(zero, shl(5, shr(240, last)))
                    let kind := byte(2, last)
                    last := add(from, shl(5, add(and(kind, 63), 1)))
                    next_ := add(next_, 3)
                    switch shr(6, kind)
                    case 0 {
                        for {} lt(from, last) { from := add(from, 32) } { s := add(s, mload(from)) }
                    }
                    case 1 {
                        for {} lt(from, last) { from := add(from, 32) } {
                            let e := byte(0, mload(next_))
                            if shr(5, e) { revert(0, 0) }
                            e := shl(e, mload(from))
                            s := add(s, add(and(e, PS), and(shr(31, e), UP)))
                            next_ := add(next_, 1)
                        }
                    }
                    case 2 {
                        for {} lt(from, last) { from := add(from, 32) } {
                            let e := byte(0, mload(next_))
                            if shr(5, e) { revert(0, 0) }
                            e := shl(e, sub(PS, mload(from)))
                            s := add(s, add(and(e, PS), and(shr(31, e), UP)))
                            next_ := add(next_, 1)
                        }
                    }
                    default {
                        for {} lt(from, last) { from := add(from, 32) } {
                            let f := shr(224, mload(next_))
                            if iszero(lt(f, P)) { revert(0, 0) }
                            f := mul(f, mload(from))
                            s := add(s, add(and(f, PS), and(shr(31, f), UP)))
                            next_ := add(next_, 4)
                        }
                    }
                }
            }
            // Sums of products of registers, whose numbers are in the page.
            function summedProducts(place, zero, count) -> w, q, m {
                for { let last := add(place, shl(2, count)) } lt(place, last) { place := add(place, 4) } {
                    let y := mload(place)
                    let x := mload(add(zero, shl(5, shr(240, y))))
                    y := mload(add(zero, shl(5, and(shr(224, y), 0xffff))))
                    let x1 := and(x, M128)
                    let y1 := and(y, M128)
                    let v := mul(x1, y1)
                    q := add(q, add(and(v, PS), and(shr(31, v), UP)))
                    x := shr(128, x)
                    y := shr(128, y)
                    v := mul(x, y)
                    w := add(w, add(and(v, PS), and(shr(31, v), UP)))
                    v := add(mul(x, y1), mul(x1, y))
                    m := add(m, add(and(v, PS), and(shr(31, v), UP)))
                }
            }
            // The same of two lists of registers.
            function summedList(a, b, count) -> w, q, m {
                for { let last := add(a, shl(5, count)) } lt(a, last) { a := add(a, 32) } {
                    let x := mload(a)
                    let y := mload(b)
                    let x1 := and(x, M128)
                    let y1 := and(y, M128)
                    let v := mul(x1, y1)
                    q := add(q, add(and(v, PS), and(shr(31, v), UP)))
                    x := shr(128, x)
                    y := shr(128, y)
                    v := mul(x, y)
                    w := add(w, add(and(v, PS), and(shr(31, v), UP)))
                    v := add(mul(x, y1), mul(x1, y))
                    m := add(m, add(and(v, PS), and(shr(31, v), UP)))
                    b := add(b, 32)
                }
            }
            function summedRuns(place, zero, count) -> w, q, m {
                for { let last := add(place, mul(5, count)) } lt(place, last) { place := add(place, 5) } {
                    let b := mload(place)
                    let v, r, n := summedList(add(zero, shl(5, shr(240, b))), add(zero, shl(5, and(shr(224, b), 0xffff))), byte(4, b))
                    w := add(w, v)
                    q := add(q, r)
                    m := add(m, n)
                }
            }
            // The sums of all subsets of eight registers, for each eight of 256: that of no register first, the first register counts most.
            function subsets(to, from) {
                for { let last := add(from, 8192) } lt(from, last) { from := add(from, 256) } {
                    mstore(to, 0)
                    let half := 32
                    for { let place := add(from, 224) } iszero(lt(place, from)) { place := sub(place, 32) } {
                        let x := mload(place)
                        let at := to
                        for { let end_ := add(to, half) } lt(at, end_) {} {
                            mstore(add(at, half), add(mload(at), x))
                            at := add(at, 32)
                            if gt(half, 128) {
                                mstore(add(at, half), add(mload(at), x))
                                mstore(add(at, add(half, 32)), add(mload(add(at, 32)), x))
                                mstore(add(at, add(half, 64)), add(mload(add(at, 64)), x))
                                mstore(add(at, add(half, 96)), add(mload(add(at, 96)), x))
                                mstore(add(at, add(half, 128)), add(mload(add(at, 128)), x))
                                mstore(add(at, add(half, 160)), add(mload(add(at, 160)), x))
                                mstore(add(at, add(half, 192)), add(mload(add(at, 192)), x))
                                at := add(at, 224)
                            }
                        }
                        half := shl(1, half)
                    }
                    to := add(to, 8192)
                }
            }
            // Of a plane of bits the sum of the registers whose bits are set: a subset for each byte. Lanes are below 2^39.
            function plane(bits, from) -> s {
                for { let i := 0 } lt(i, 32) { i := add(i, 8) } {
                    s := add(s, mload(add(from, shl(5, byte(i, bits)))))
                    s := add(s, mload(add(add(from, 8192), shl(5, byte(add(i, 1), bits)))))
                    s := add(s, mload(add(add(from, 16384), shl(5, byte(add(i, 2), bits)))))
                    s := add(s, mload(add(add(from, 24576), shl(5, byte(add(i, 3), bits)))))
                    s := add(s, mload(add(add(from, 32768), shl(5, byte(add(i, 4), bits)))))
                    s := add(s, mload(add(add(from, 40960), shl(5, byte(add(i, 5), bits)))))
                    s := add(s, mload(add(add(from, 49152), shl(5, byte(add(i, 6), bits)))))
                    s := add(s, mload(add(add(from, 57344), shl(5, byte(add(i, 7), bits)))))
                    from := add(from, 65536)
                }
            }
            // A constant of a page times a register, folded once.
            function multiple(f, x) -> z {
                refuse(iszero(lt(f, P)))
                z := folded(mul(f, x))
            }
            // An element of lanes below 2^62.
            function element(s) -> z {
                z := reduced(folded(folded(s)))
            }
            // The planes of a row, each twice the one behind it: with 20 planes lanes are below 2^59.
            function planes(place, tables, count) -> z {
                refuse(gt(count, 20))
                for { let last := add(place, shl(5, count)) } lt(place, last) { place := add(place, 32) } {
                    z := add(shl(1, z), plane(mload(place), tables))
                }
                z := element(z)
            }
            // The values of a function by their steps, each row times its register. Behind the register that is written are the sums of
            // subsets, and zeros when it is done.
            function curve(code_, zero, to) -> next_ {
                let high := add(zero, shl(5, and(shr(232, mload(code_)), 0xffff)))
                let rows := and(shr(200, mload(code_)), 0xffff)
                let tables := add(zero, shl(5, and(shr(216, mload(code_)), 0xffff)))
                // What is read is written, and so no part of the sums of subsets.
                refuse(or(gt(add(high, shl(5, rows)), to), gt(add(tables, 8192), to)))
                subsets(add(to, 32), tables)
                tables := add(to, 32)
                next_ := add(code_, 7)
                let s
                let slopes
                for { let last := add(high, shl(5, rows)) } lt(high, last) { high := add(high, 32) } {
                    let head := mload(next_)
                    s := add(s, multiple(shr(224, head), mload(high)))
                    slopes := add(slopes, multiple(and(shr(192, head), 0xffffffff), mload(high)))
                    let count := byte(8, head)
                    next_ := add(next_, 9)
                    if count {
                        s := add(s, product(planes(next_, tables, count), mload(high)))
                        next_ := add(next_, shl(5, count))
                    }
                }
                s := add(s, product(element(slopes), element(plane(not(0), tables))))
                mstore(to, element(s))
                calldatacopy(tables, calldatasize(), 262144)
            }
            function sum(place, zero, to, linear, single_, runs) -> next_ {
                let s
                s, next_ := summedMultiples(place, zero, linear)
                let w, q, m := summedProducts(next_, zero, single_)
                next_ := add(next_, shl(2, single_))
                if runs {
                    let v, r, n := summedRuns(next_, zero, runs)
                    w := add(w, v)
                    q := add(q, r)
                    m := add(m, n)
                    next_ := add(next_, mul(5, runs))
                }
                mstore(to, closed(s, w, q, m))
            }
            // The sum of registers times powers of two, whose exponents have four bits.
            function row(place, from, length) -> s {
                let last := add(from, shl(5, length))
                for {} iszero(gt(add(from, 512), last)) { from := add(from, 512) } {
                    let f := mload(place)
                    s := add(s, shl(shr(252, f), mload(from)))
                    s := add(s, shl(and(shr(248, f), 15), mload(add(from, 32))))
                    s := add(s, shl(and(shr(244, f), 15), mload(add(from, 64))))
                    s := add(s, shl(and(shr(240, f), 15), mload(add(from, 96))))
                    s := add(s, shl(and(shr(236, f), 15), mload(add(from, 128))))
                    s := add(s, shl(and(shr(232, f), 15), mload(add(from, 160))))
                    s := add(s, shl(and(shr(228, f), 15), mload(add(from, 192))))
                    s := add(s, shl(and(shr(224, f), 15), mload(add(from, 224))))
                    s := add(s, shl(and(shr(220, f), 15), mload(add(from, 256))))
                    s := add(s, shl(and(shr(216, f), 15), mload(add(from, 288))))
                    s := add(s, shl(and(shr(212, f), 15), mload(add(from, 320))))
                    s := add(s, shl(and(shr(208, f), 15), mload(add(from, 352))))
                    s := add(s, shl(and(shr(204, f), 15), mload(add(from, 384))))
                    s := add(s, shl(and(shr(200, f), 15), mload(add(from, 416))))
                    s := add(s, shl(and(shr(196, f), 15), mload(add(from, 448))))
                    s := add(s, shl(and(shr(192, f), 15), mload(add(from, 480))))
                    place := add(place, 8)
                }
                for { let f := mload(place) } lt(from, last) { from := add(from, 32) } {
                    s := add(s, shl(shr(252, f), mload(from)))
                    f := shl(4, f)
                }
            }
            // A lane below 2^58 and an exponent below 32 at a time.
            function shifted(s, e) -> z {
                refuse(shr(5, e))
                z := shl(192, mod(shl(e, shr(192, s)), P))
                z := or(z, shl(128, mod(shl(e, and(shr(128, s), M64)), P)))
                z := or(z, shl(64, mod(shl(e, and(shr(64, s), M64)), P)))
                z := or(z, mod(shl(e, and(s, M64)), P))
            }
            // Of the words in the page, the sums of the first registers of their rows.
            function below(code_, zero, to, lists) -> next_, end_ {
                let head := mload(code_)
                let log := byte(3, head)
                refuse(or(iszero(log), gt(log, 11)))
                let count := byte(8, head)
                let size_ := add(1, shl(sub(log, 1), 1))
                next_ := add(code_, 9)
                // Rows are behind the words.
                code_ := add(next_, mul(3, count))
                end_ := to
                for {} count { count := sub(count, 1) } {
                    let word := mload(next_)
                    word := wordOf(lists, byte(0, word), and(shr(232, word), 0xffff))
                    next_ := add(next_, 3)
                    let which := sub(shr(log, word), and(shr(208, head), 0xffff))
                    mstore(end_, 0)
                    // A row before the first one is a number that is none.
                    if lt(which, and(shr(192, head), 0xffff)) {
                        which := add(code_, mul(which, size_))
                        let s := row(add(which, 1), add(zero, shl(5, and(shr(232, head), 0xffff))), and(word, sub(shl(log, 1), 1)))
                        mstore(end_, shifted(s, byte(0, mload(which))))
                    }
                    end_ := add(end_, 32)
                }
                next_ := add(code_, mul(and(shr(192, head), 0xffff), size_))
            }
            // Groups of registers of a row, times their constants.
            function groups(place, from, count) -> s, next_ {
                next_ := place
                for {} count { count := sub(count, 1) } {
                    let f := mload(next_)
                    let left := byte(4, f)
                    f := shr(224, f)
                    refuse(iszero(lt(f, P)))
                    next_ := add(next_, 5)
                    let v := 0
                    let a := from
                    for {} gt(left, 7) { left := sub(left, 8) } {
                        let gaps := mload(next_)
                        a := add(a, shl(5, byte(0, gaps)))
                        v := add(v, mload(a))
                        a := add(a, shl(5, byte(1, gaps)))
                        v := add(v, mload(a))
                        a := add(a, shl(5, byte(2, gaps)))
                        v := add(v, mload(a))
                        a := add(a, shl(5, byte(3, gaps)))
                        v := add(v, mload(a))
                        a := add(a, shl(5, byte(4, gaps)))
                        v := add(v, mload(a))
                        a := add(a, shl(5, byte(5, gaps)))
                        v := add(v, mload(a))
                        a := add(a, shl(5, byte(6, gaps)))
                        v := add(v, mload(a))
                        a := add(a, shl(5, byte(7, gaps)))
                        v := add(v, mload(a))
                        next_ := add(next_, 8)
                    }
                    for {} left { left := sub(left, 1) } {
                        a := add(a, shl(5, byte(0, mload(next_))))
                        v := add(v, mload(a))
                        next_ := add(next_, 1)
                    }
                    // Of 2^8 elements.
                    s := add(s, folded(mul(f, folded(v))))
                }
            }
            function rowOf(code_, zero) -> z, next_ {
                let head := mload(code_)
                let f := and(shr(184, head), 0xffffffff)
                refuse(iszero(lt(f, P)))
                z, next_ := groups(add(code_, 10), add(zero, shl(5, and(shr(232, head), 0xffff))), byte(9, head))
                z := add(z, folded(mul(f, mload(add(zero, shl(5, and(shr(216, head), 0xffff)))))))
                // A lane is below 2^43: three folds leave p + 1 at most.
                z := reduced(folded(folded(folded(z))))
            }
            // The entry of a table at a place that a word of the statement says.
            function select(head, zero, to, lists) {
                let index := wordOf(lists, byte(5, head), and(shr(192, head), 0xffff))
                index := add(and(shr(byte(8, head), index), and(shr(168, head), 0xffff)), and(shr(152, head), 0xffff))
                refuse(iszero(lt(index, and(shr(216, head), 0xffff))))
                mstore(to, mload(add(zero, shl(5, add(and(shr(232, head), 0xffff), index)))))
            }
            // Doubles a table with a coordinate: each entry, from the last one on, by what it has of it and what is left.
            function doubled(to, size_, r) {
                let r1 := and(r, M128)
                r := shr(128, r)
                for { let from := add(to, size_) } gt(from, to) {} {
                    from := sub(from, 32)
                    let x := mload(from)
                    let x1 := and(x, M128)
                    x := shr(128, x)
                    let m := add(mul(x, r1), mul(x1, r))
                    x1 := mul(x1, r1)
                    x := mul(x, r)
                    let y := sub(shr(128, x1), and(x1, M64))
                    x1 := and(shr(64, x1), M64)
                    let z := shl(192, mod(add(BIG, sub(add(sub(shr(128, x), and(x, M64)), shl(1, y)), x1)), P))
                    z := or(z, shl(128, mod(add(BIG, add(and(shr(64, x), M64), add(shl(1, x1), y))), P)))
                    z := or(z, shl(64, mod(add(BIG, sub(shr(128, m), and(m, M64))), P)))
                    z := or(z, mod(and(shr(64, m), M64), P))
                    x := add(mload(from), sub(PS, z))
                    y := sub(shl(1, from), to)
                    mstore(add(y, 32), z)
                    mstore(y, sub(x, mul(and(shr(31, add(x, ONES)), ONES), P)))
                }
            }
            // `eq` of a point: every coordinate doubles it.
            function table(place, zero, to, count) -> next_ {
                refuse(gt(count, 16))
                mstore(to, shl(192, 1))
                let size_ := 32
                for { next_ := place } count { count := sub(count, 1) } {
                    doubled(to, size_, mload(register(zero, next_)))
                    next_ := add(next_, 2)
                    size_ := shl(1, size_)
                }
            }
            // `eq` of two points: the product of 2 a b + 1 - a - b.
            function eqOf(place, zero, count) -> z, next_ {
                z := shl(192, 1)
                for { next_ := place } count { count := sub(count, 1) } {
                    let a := mload(register(zero, next_))
                    let b := mload(register(zero, add(next_, 2)))
                    let x := reduced(shl(1, product(a, b)))
                    x := reduced(add(x, shl(192, 1)))
                    x := reduced(add(x, sub(PS, a)))
                    z := product(z, reduced(add(x, sub(PS, b))))
                    next_ := add(next_, 4)
                }
            }
            function prefix(place, zero, to, count) -> next_ {
                let x
                next_ := place
                for { let last := add(next_, shl(1, count)) } lt(next_, last) { next_ := add(next_, 2) } {
                    mstore(to, x)
                    to := add(to, 32)
                    x := reduced(add(x, mload(register(zero, next_))))
                }
                mstore(to, x)
            }
            function copied(place, zero, to, count) -> next_ {
                next_ := place
                for { let last := add(next_, shl(1, count)) } lt(next_, last) { next_ := add(next_, 2) } {
                    mstore(to, mload(add(zero, shl(5, shr(240, mload(next_))))))
                    to := add(to, 32)
                }
            }
            function constants(place, to, count) -> next_ {
                next_ := place
                for { let last := add(next_, shl(2, count)) } lt(next_, last) { next_ := add(next_, 4) } {
                    let f := shr(224, mload(next_))
                    refuse(iszero(lt(f, P)))
                    mstore(to, shl(192, f))
                    to := add(to, 32)
                }
            }
            code := mload(own)
            let last := add(code, size)
            let base := mload(add(own, 32))
            let next := mload(add(own, 64))
            let words := mload(add(own, 96))
            for {} lt(code, last) {} {
                let head := mload(code)
                switch byte(0, head)
                case 8 {
                    code := sum(add(code, 4), base, next, byte(1, head), byte(2, head), byte(3, head))
                    next := add(next, 32)
                }
                case 10 {
                    products(next, add(base, shl(5, and(shr(232, head), 0xffff))), add(base, shl(5, and(shr(216, head), 0xffff))), 32, byte(5, head))
                    next := add(next, shl(5, byte(5, head)))
                    code := add(code, 6)
                }
                case 11 {
                    products(next, add(base, shl(5, and(shr(232, head), 0xffff))), add(base, shl(5, and(shr(216, head), 0xffff))), 0, byte(5, head))
                    next := add(next, shl(5, byte(5, head)))
                    code := add(code, 6)
                }
                case 13 {
                    let z
                    z, code := rowOf(code, base)
                    mstore(next, z)
                    next := add(next, 32)
                }
                case 15 { code, next := below(code, base, next, words) }
                case 9 {
                    code := multiples(add(code, 4), next, register(base, add(code, 1)), byte(3, head))
                    next := add(next, shl(5, add(and(byte(3, head), 63), 1)))
                }
                case 5 {
                    select(head, base, next, words)
                    next := add(next, 32)
                    code := add(code, 13)
                }
                case 2 {
                    code := table(add(code, 2), base, next, byte(1, head))
                    next := add(next, shl(add(byte(1, head), 5), 1))
                }
                case 7 {
                    let z
                    z, code := eqOf(add(code, 2), base, byte(1, head))
                    mstore(next, z)
                    next := add(next, 32)
                }
                case 3 {
                    let count := and(shr(232, head), 0xffff)
                    code := prefix(add(code, 3), base, next, count)
                    next := add(next, shl(5, add(count, 1)))
                }
                case 4 {
                    let count := and(shr(232, head), 0xffff)
                    code := copied(add(code, 3), base, next, count)
                    next := add(next, shl(5, count))
                }
                case 1 {
                    let count := and(shr(232, head), 0xffff)
                    code := constants(add(code, 3), next, count)
                    next := add(next, shl(5, count))
                }
                case 12 {
                    code := sum(add(code, 7), base, next, and(shr(232, head), 0xffff), and(shr(216, head), 0xffff), and(shr(200, head), 0xffff))
                    next := add(next, 32)
                }
                case 6 {
                    code := curve(code, base, next)
                    next := add(next, 32)
                }
                case 14 { break }
                default { revert(0, 0) }
            }
            mstore(add(own, 64), next)
        }
    }
}
