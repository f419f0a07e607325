// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Circle} from "./Circle.sol";
import {Field} from "./Field.sol";
import {Folding} from "./Folding.sol";
import {Merkle} from "./Merkle.sol";
import {Multilinear} from "./Multilinear.sol";
import {Opening} from "./Opening.sol";
import {State} from "./State.sol";
import {Transcript} from "./Transcript.sol";

/// @title The STARK of the tables (docs/protocol.md, sections 8.5 and 9).
/// @notice `begin` is the conversation: it leaves what the queries are checked against. `advance` is a stage of all queries. Nothing is
/// proved before the last one.
library Stark {
    using Transcript for Transcript.State;

    uint256 private constant P = 0x7fffffff;
    /// One and the highest bit of every word of 32 bits.
    uint256 private constant ONES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    uint256 private constant HIGH = 0x8000000080000000800000008000000080000000800000008000000080000000;
    /// The low 31 bits of every one of 64, and the 33 bits above them, moved down.
    uint256 private constant LOW = 0x000000007fffffff000000007fffffff000000007fffffff000000007fffffff;
    uint256 private constant UP = 0x00000001ffffffff00000001ffffffff00000001ffffffff00000001ffffffff;

    /// log2 of the rows, and of the domain that columns are committed on; trees, columns of all of them, the four of the running sum, which
    /// are the last ones of tree 2 and sampled twice, and samples; queries and bits of work; log2 of the last layer, and folded layers
    /// before it.
    uint256 private constant ROWS = 16;
    uint256 private constant DOMAIN = 19;
    uint256 private constant TREES = 4;
    uint256 private constant COLUMNS = 32;
    uint256 private constant RUNNING = 20;
    uint256 private constant RUNNING_END = 24;
    uint256 private constant SAMPLES = 36;
    uint256 private constant QUERIES = 97;
    uint256 private constant WORK = 20;
    uint256 private constant LAST = 7;
    uint256 private constant LAYERS = 3;

    /// What the proof must show, all from before: the roots of tables and multiplicities, `z` and `alpha` of the five relations, the
    /// sum of the fractions of all lookups.
    struct Claim {
        uint256 tables;
        uint256 counts;
        uint256[10] relations;
        uint256 lookups;
    }

    /// One of the two points at which columns are sampled: real and imaginary parts, what the weighted samples add up to, and the
    /// weights of all columns, tree by tree.
    struct Sampled {
        uint256 realX;
        uint256 imagX;
        uint256 realY;
        uint256 imagY;
        uint256 slope;
        uint256 shift;
        uint256[] weights;
    }

    /// What the queries are checked against. Of the last layer this is the digest.
    struct Queries {
        uint256[4] roots;
        Sampled[2] sampled;
        uint256[] positions;
        uint256[3] layers;
        uint256[3] challenges;
        uint256 message;
    }

    /// The conversation, with the messages in calldata: the claimed sum, the roots of trees 2 and 3, all samples, the roots of the
    /// layers, the last layer, the nonce. Returns where it ends.
    function begin(Transcript.State memory t, Claim memory claim, uint256 place)
        internal
        pure
        returns (Queries memory q, uint256)
    {
        uint256 claimed = word(place) >> 128;
        require(Field.canonical(claimed), "element");
        require(Field.add(claimed, claim.lookups) == 0, "STARK: the tables do not balance the lookups");
        t.message(uint256(bytes32("claimed sum")), 11, place, 1);
        q.roots = [claim.tables, claim.counts, word(place + 16), word(place + 48)];
        t.mixWord(q.roots[2], 32);
        (uint256 nu, ) = t.drawPair();
        t.mixWord(q.roots[3], 32);
        place += 80;
        (uint256 x, uint256 y) = outside(t);
        uint256[] memory samples = Multilinear.read(place, SAMPLES);
        constraints(claim, claimed, nu, samples, x);
        t.mix(place, 16 * SAMPLES);
        (uint256 xi, ) = t.drawPair();
        quotients(q, samples, x, y, xi);
        return (q, layers(t, q, place + 16 * SAMPLES));
    }

    function word(uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := calldataload(place)
        }
    }

    /// The point at which columns are sampled: ((1 - a^2) / (1 + a^2), 2 a / (1 + a^2)).
    function outside(Transcript.State memory t) private pure returns (uint256 x, uint256 y) {
        (uint256 a, ) = t.drawPair();
        uint256 square = Field.mul(a, a);
        uint256 scale = Field.inverse(Field.add(square, Field.ONE));
        return (Field.mul(Field.sub(Field.ONE, square), scale), Field.mul(Field.add(a, a), scale));
    }

    /// The three constraints of the tables, against the composition polynomial.
    function constraints(Claim memory claim, uint256 claimed, uint256 nu, uint256[] memory samples, uint256 x) private pure {
        uint256 vanishing = x;
        for (uint256 i = 1; i < ROWS; i++) {
            uint256 square = Field.mul(vanishing, vanishing);
            vanishing = Field.sub(Field.add(square, square), Field.ONE);
        }
        uint256 right = Field.mul(coordinates(samples, 32, 1), vanishing);
        uint256 composition = Field.mul(Field.add(coordinates(samples, 28, 1), right), vanishing);
        require(combined(claim, claimed, nu, samples) == composition, "STARK: constraints");
    }

    /// The constraints, combined with powers of nu. The first two sums end at the second and at the fourth fraction of a row; the last one
    /// is the running sum, here and in the row above.
    function combined(Claim memory claim, uint256 claimed, uint256 nu, uint256[] memory samples)
        private
        pure
        returns (uint256 all)
    {
        uint256[5] memory d = denominators(claim.relations, samples);
        uint256 first = coordinates(samples, 12, 1);
        uint256 second = coordinates(samples, 16, 1);
        uint256 last = Field.sub(coordinates(samples, 21, 2), Field.add(coordinates(samples, 20, 2), second));
        // 2^15 is the inverse of 2^16.
        last = Field.add(last, Field.scale(claimed, 1 << 15));
        // Samples of tree 1 are numerators, with the other sign.
        all = Field.mul(nu, constraint(first, samples[7], d[0], samples[8], d[1]));
        all = Field.add(all, constraint(Field.sub(second, first), samples[9], d[2], samples[10], d[3]));
        all = Field.add(Field.mul(nu, all), Field.add(Field.mul(last, d[4]), samples[11]));
    }

    /// What an entry of every table stands for: z and alpha of the relations, and the samples of tree 0: index, bound and value of
    /// Bits, high, exp, zero, silu.
    function denominators(uint256[10] memory r, uint256[] memory s) private pure returns (uint256[5] memory d) {
        d[0] = Field.sub(s[0], r[0]);
        d[1] = Field.add(Field.sub(s[1], r[2]), Field.mul(r[3], s[2]));
        d[2] = Field.add(Field.sub(s[0], r[4]), Field.mul(r[5], s[3]));
        d[3] = Field.add(Field.sub(s[0], r[6]), Field.mul(r[7], Field.add(s[4], Field.mul(r[7], s[5]))));
        d[4] = Field.add(Field.sub(s[0], r[8]), Field.mul(r[9], s[6]));
    }

    /// f d d' - (n d' + n' d) of two fractions and their sum f, where n and n' are minus what is given.
    function constraint(uint256 f, uint256 n, uint256 d, uint256 other, uint256 e) private pure returns (uint256) {
        return Field.add(Field.mul(Field.add(Field.mul(f, d), n), e), Field.mul(other, d));
    }

    /// v_0 + i v_1 + u v_2 + i u v_3 of every `step`-th sample.
    function coordinates(uint256[] memory s, uint256 first, uint256 step) private pure returns (uint256) {
        uint256 low = Field.add(s[first], Field.mul(s[first + step], 1 << 64));
        uint256 high = Field.add(s[first + 2 * step], Field.mul(s[first + 3 * step], 1 << 64));
        return Field.add(low, Field.mul(high, 1 << 32));
    }

    /// What the quotients of the queries are made of. Samples have powers of `xi`, in order; a column that is sampled twice has its
    /// second sample once more before both.
    function quotients(Queries memory q, uint256[] memory samples, uint256 x, uint256 y, uint256 xi) private pure {
        uint256[] memory here = new uint256[](COLUMNS);
        uint256[] memory above = new uint256[](COLUMNS);
        uint256 power = Field.ONE;
        for (uint256 k = 0; k < COLUMNS; k++) {
            here[k] = power;
            power = Field.mul(power, xi);
            if (!twice(k)) continue;
            above[k] = power;
            power = Field.mul(power, xi);
            here[k] = Field.add(here[k], power);
            power = Field.mul(power, xi);
        }
        sample(q.sampled[0], samples, here, 1, x, y);
        (x, y) = rowAbove(x, y);
        sample(q.sampled[1], samples, above, 0, x, y);
    }

    /// One row before: the point less G_16.
    function rowAbove(uint256 x, uint256 y) private pure returns (uint256, uint256) {
        uint256 step = Circle.generators()[ROWS];
        (uint256 gx, uint256 gy) = (step >> 32, step & 0xffffffff);
        return (
            Field.add(Field.scale(x, gx), Field.scale(y, gy)), Field.sub(Field.scale(y, gx), Field.scale(x, gy))
        );
    }

    /// A point with the powers of its columns; `which` says which of two samples is the one there.
    /// @dev A column with the answer f and the sample v adds its power times (c f - a m_y - d) / q, with a = v* - v, c = y* - y and
    /// d = v c - a y. The powers times c are weights; a and d are summed with the powers.
    function sample(
        Sampled memory own,
        uint256[] memory samples,
        uint256[] memory powers,
        uint256 which,
        uint256 x,
        uint256 y
    ) private pure {
        (own.realX, own.imagX) = (x >> 64, x & 0xffffffffffffffff);
        (own.realY, own.imagY) = (y >> 64, y & 0xffffffffffffffff);
        (uint256 value, uint256 slope) = weighed(samples, powers, which);
        uint256 c = Field.sub(0, Field.add(own.imagY, own.imagY));
        // With the other sign: numerators are sums.
        own.shift = Field.sub(Field.mul(slope, y), Field.mul(value, c));
        own.slope = Field.sub(0, slope);
        own.weights = new uint256[](COLUMNS);
        for (uint256 k = 0; k < COLUMNS; k++) {
            if (powers[k] != 0) own.weights[k] = Field.mul(powers[k], c);
        }
    }

    /// The sums of powers times v, and times v* - v.
    function weighed(uint256[] memory samples, uint256[] memory powers, uint256 which)
        private
        pure
        returns (uint256 value, uint256 slope)
    {
        uint256 next;
        for (uint256 k = 0; k < COLUMNS; k++) {
            uint256 v = samples[twice(k) ? next + which : next];
            next += twice(k) ? 2 : 1;
            if (powers[k] == 0) continue;
            uint256 imaginary = v & 0xffffffffffffffff;
            value = Field.add(value, Field.mul(powers[k], v));
            slope = Field.sub(slope, Field.mul(powers[k], Field.add(imaginary, imaginary)));
        }
    }

    /// Whether a column is sampled at both points.
    function twice(uint256 column) private pure returns (bool) {
        return column >= RUNNING && column < RUNNING_END;
    }

    /// Layers of FRI, work and positions.
    function layers(Transcript.State memory t, Queries memory q, uint256 place) private pure returns (uint256) {
        for (uint256 i = 0; i < LAYERS; i++) {
            q.layers[i] = word(place);
            t.mixWord(q.layers[i], 32);
            (q.challenges[i], ) = t.drawPair();
            place += 32;
        }
        Multilinear.read(place, 1 << LAST);
        t.mix(place, 16 << LAST);
        q.message = Opening.digest(place, 16 << LAST);
        place += 16 << LAST;
        uint256 nonce = word(place) >> 192;
        require(t.worked(WORK, nonce), "STARK: work");
        t.mixNonce(nonce);
        q.positions = t.drawn(QUERIES, DOMAIN);
        Folding.ascend(q.positions);
        return place + 8;
    }

    /// The queries on their way: how many stages are behind them, and where they are.
    /// Before the last tree, values are sums of weighted answers at the first of both points, and `above` those at the second, spread.
    struct Progress {
        uint256 stage;
        Folding.Front front;
        uint256[] above;
        Queries q;
    }

    /// Stages are the trees, then the layers; the last one ends at the last layer.
    uint256 internal constant STAGES = TREES + LAYERS;

    /// The queries before their first stage.
    function start(Queries memory q) internal pure returns (Progress memory p) {
        p.q = q;
        p.front.positions = new uint256[](q.positions.length);
        uint256[] memory halves = new uint256[](q.positions.length);
        for (uint256 i = 0; i < halves.length; i++) {
            p.front.positions[i] = q.positions[i];
            halves[i] = q.positions[i] >> 1;
        }
        p.front.points = Folding.places(halves, DOMAIN - 1);
        p.front.values = new uint256[](halves.length);
        p.above = new uint256[](halves.length);
    }

    /// The last layer, whose coefficients come in bit-reversed order.
    function message(Queries memory q, uint256 place) private pure returns (uint256[] memory all) {
        require(Opening.digest(place, 16 << LAST) == q.message, "STARK: last message");
        uint256[] memory own = Multilinear.read(place, 1 << LAST);
        all = new uint256[](1 << LAST);
        for (uint256 i = 0; i < 1 << LAST; i++) {
            uint256 reversed;
            for (uint256 bit = 0; bit < LAST; bit++) reversed = (reversed << 1) | ((i >> bit) & 1);
            all[reversed] = Field.spread(own[i]);
        }
    }

    /// A state in bytes: what the stages that are left need of it. Digests have 32, elements 16, points and parts of coordinates 8,
    /// positions 4.
    function pack(Progress memory p) internal pure returns (bytes memory) {
        Queries memory q = p.q;
        bool trees = p.stage < TREES;
        if (trees) {
            gather(p.front.values);
            gather(p.above);
        }
        uint256 to = State.put(State.open(), p.stage, 1);
        to = State.put(to, p.front.positions.length, 2);
        to = State.put(to, q.message, 32);
        for (uint256 k = 0; k < 2 && trees; k++) {
            Sampled memory own = q.sampled[k];
            to = State.put(to, (own.realX << 192) | (own.imagX << 128) | (own.realY << 64) | own.imagY, 32);
            to = State.put(to, (own.slope << 128) | own.shift, 32);
        }
        for (uint256 i = p.stage; i < TREES; i++) to = State.put(to, q.roots[i], 32);
        for (uint256 k = trees ? before(p.stage) : COLUMNS; k < COLUMNS; k++) {
            to = State.put(to, q.sampled[0].weights[k], 16);
            if (twice(k)) to = State.put(to, q.sampled[1].weights[k], 16);
        }
        for (uint256 i = trees ? 0 : p.stage - TREES; i < LAYERS; i++) {
            to = State.put(State.put(to, q.layers[i], 32), q.challenges[i], 16);
        }
        to = State.putAll(to, p.front.positions, 4);
        to = State.putAll(to, p.front.points, 8);
        to = State.putAll(to, p.front.values, 16);
        if (p.stage == 3) to = State.putAll(to, p.above, 16);
        return State.close(to);
    }

    /// The state that has such bytes.
    function unpack(bytes calldata data) internal pure returns (Progress memory p) {
        Queries memory q = p.q;
        uint256 place;
        assembly ("memory-safe") {
            place := data.offset
        }
        p.stage = State.take(place, 1);
        uint256 count = State.take(place + 1, 2);
        q.message = State.take(place + 3, 32);
        place += 35;
        bool trees = p.stage < TREES;
        if (trees) place = unpackSampled(p, place);
        for (uint256 i = trees ? 0 : p.stage - TREES; i < LAYERS; i++) {
            (q.layers[i], q.challenges[i]) = (State.take(place, 32), State.take(place + 32, 16));
            place += 48;
        }
        p.front.positions = State.takeAll(place, count, 4);
        p.front.points = State.takeAll(place + 4 * count, count, 8);
        p.front.values = State.takeAll(place + 12 * count, count, 16);
        p.above = p.stage == 3 ? State.takeAll(place + 28 * count, count, 16) : new uint256[](count);
        if (trees) {
            scatter(p.front.values);
            scatter(p.above);
        }
    }

    function unpackSampled(Progress memory p, uint256 place) private pure returns (uint256) {
        Queries memory q = p.q;
        for (uint256 k = 0; k < 2; k++) {
            Sampled memory own = q.sampled[k];
            (own.realX, own.imagX) = (State.take(place, 8), State.take(place + 8, 8));
            (own.realY, own.imagY) = (State.take(place + 16, 8), State.take(place + 24, 8));
            (own.slope, own.shift) = (State.take(place + 32, 16), State.take(place + 48, 16));
            own.weights = new uint256[](COLUMNS);
            place += 64;
        }
        for (uint256 i = p.stage; i < TREES; i++) {
            q.roots[i] = State.take(place, 32);
            place += 32;
        }
        for (uint256 k = before(p.stage); k < COLUMNS; k++) {
            q.sampled[0].weights[k] = State.take(place, 16);
            place += 16;
            if (!twice(k)) continue;
            q.sampled[1].weights[k] = State.take(place, 16);
            place += 16;
        }
        return place;
    }

    function gather(uint256[] memory list) private pure {
        for (uint256 i = 0; i < list.length; i++) list[i] = Field.gathered(list[i]);
    }

    function scatter(uint256[] memory list) private pure {
        for (uint256 i = 0; i < list.length; i++) list[i] = Field.spread(list[i]);
    }

    /// The next stage. In calldata, of a tree the number of its words and of the nodes of its path, four bytes each, the rows and the
    /// path; of a layer the number of values that are sent and of nodes, the values and the path; behind the last one the last layer's
    /// coefficients once more. Returns where it ends.
    function advance(Progress memory p, uint256 place) internal pure returns (uint256) {
        uint256 stage = p.stage++;
        if (stage < TREES) {
            place = tree(p, stage, place);
            if (stage + 1 == TREES) answers(p.q, p.front, p.above);
            return place;
        }
        uint256 i = stage - TREES;
        require(i < LAYERS, "STARK: no stage is left");
        Folding.Layer memory o;
        o.kind = i == 0 ? Folding.CIRCLE_OF_FOURS : Folding.LINE_OF_FOURS;
        o.log = DOMAIN - 3 * i;
        o.root = p.q.layers[i];
        o.factors = factors(p.q.challenges[i]);
        place = Opening.section(o, place);
        Folding.open(o, p.front);
        if (i + 1 < LAYERS) return place;
        Folding.last(p.front, message(p.q, place));
        return place + (16 << LAST);
    }

    /// f0 + upsilon f1, without halves, and so on with upsilon^2 and upsilon^4.
    function factors(uint256 upsilon) private pure returns (uint256[] memory) {
        uint256[3] memory ofF0 = [Field.ONE, Field.ONE, Field.ONE];
        uint256[3] memory ofF1;
        for (uint256 i = 0; i < 3; i++) {
            ofF1[i] = upsilon;
            upsilon = Field.mul(upsilon, upsilon);
        }
        return Folding.factors(ofF0, ofF1);
    }

    /// The columns of all trees before one. They have seven, five, twelve and eight.
    function before(uint256 index) private pure returns (uint256) {
        return (0x20180c0700 >> (8 * index)) & 0xff;
    }

    /// Checks that the rows of a tree are in it, and adds what they have of the sums. Returns where it ends.
    function tree(Progress memory p, uint256 index, uint256 place) private pure returns (uint256 end) {
        uint256 mark;
        assembly ("memory-safe") {
            mark := mload(0x40)
        }
        (uint256 words, uint256 nodes) = Opening.counts(place);
        uint256 count = p.front.positions.length;
        uint256 from = before(index);
        uint256 size = 4 * (before(index + 1) - from);
        require(4 * words == size * count, "STARK: number of queried values");
        place += 8;
        end = place + 4 * words + 32 * nodes;
        uint256[] memory indices = new uint256[](count);
        for (uint256 i = 0; i < count; i++) indices[i] = p.front.positions[i];
        Merkle.check(p.q.roots[index], DOMAIN, indices, Merkle.leaves(place, size, count), place + 4 * words, end);
        for (uint256 k = 0; 4 * k < size; k += 8) {
            add(p.front.values, p.q.sampled[0].weights, from + k, place + 4 * k, size - 4 * k, size);
        }
        // Elsewhere nothing is sampled at the second point.
        if (index == 2) add(p.above, p.q.sampled[1].weights, RUNNING, place + 4 * (RUNNING - from), 16, size);
        assembly ("memory-safe") {
            mstore(0x40, mark)
        }
    }

    /// Adds to sums what weighted rows have in at most eight columns, from one on. In the first row they have `size` bytes from `place` on; if
    /// those are more than 32, the others are left out. Rows are `step` bytes apart. Reverts unless all numbers are below p.
    function add(
        uint256[] memory sums,
        uint256[] memory weights,
        uint256 from,
        uint256 place,
        uint256 size,
        uint256 step
    ) private pure {
        uint256 bad;
        uint256[] memory own = new uint256[](8);
        for (uint256 k = 0; k < 8 && 4 * k < size; k++) own[k] = Field.spread(weights[from + k]);
        // Bits of a word that belong to none of them.
        uint256 behind = size < 32 ? 256 - 8 * size : 0;
        assembly ("memory-safe") {
            let w := add(own, 32)
            let to := add(sums, 32)
            for { let end := add(to, shl(5, mload(sums))) } lt(to, end) { to := add(to, 32) } {
                let values := shl(behind, shr(behind, calldataload(place)))
                bad := or(bad, and(or(values, add(values, ONES)), HIGH))
                // Four products are below 2^64 - 2^33, and 2^31 is 1: coordinates are below 2^34 at the end.
                let sum := mul(mload(w), shr(224, values))
                sum := add(sum, mul(mload(add(w, 32)), and(shr(192, values), P)))
                sum := add(sum, mul(mload(add(w, 64)), and(shr(160, values), P)))
                sum := add(sum, mul(mload(add(w, 96)), and(shr(128, values), P)))
                sum := add(and(sum, LOW), and(shr(31, sum), UP))
                sum := add(sum, mul(mload(add(w, 128)), and(shr(96, values), P)))
                sum := add(sum, mul(mload(add(w, 160)), and(shr(64, values), P)))
                sum := add(sum, mul(mload(add(w, 192)), and(shr(32, values), P)))
                sum := add(sum, mul(mload(add(w, 224)), and(values, P)))
                sum := add(and(sum, LOW), and(shr(31, sum), UP))
                mstore(to, add(mload(to), sum))
                place := add(place, step)
            }
        }
        require(bad == 0, "STARK: a number of p or more");
    }

    /// From the sums of weighted answers to those of the quotients at all positions.
    function answers(Queries memory q, Folding.Front memory front, uint256[] memory above) private pure {
        uint256 mark;
        assembly ("memory-safe") {
            mark := mload(0x40)
        }
        uint256 count = front.positions.length;
        uint256[] memory norms = new uint256[](2 * count);
        uint256[] memory parts = new uint256[](2 * count);
        for (uint256 i = 0; i < count; i++) {
            uint256 point = front.points[i];
            // The second of two neighbours is the conjugate.
            if (front.positions[i] & 1 == 1) point = (point & ~uint256(0xffffffff)) | (P - (point & 0xffffffff));
            for (uint256 k = 0; k < 2; k++) {
                (parts[2 * i + k], norms[2 * i + k]) = denominator(q.sampled[k], point);
            }
        }
        Field.invertAll(norms);
        for (uint256 k = 0; k < 2; k++) {
            (q.sampled[k].slope, q.sampled[k].shift) = (Field.spread(q.sampled[k].slope), Field.spread(q.sampled[k].shift));
        }
        uint256[2] memory sums;
        uint256[4] memory inverses;
        for (uint256 i = 0; i < count; i++) {
            uint256 y = front.points[i] & 0xffffffff;
            if (front.positions[i] & 1 == 1) y = P - y;
            sums[0] = line(q.sampled[0], front.values[i], y);
            sums[1] = line(q.sampled[1], above[i], y);
            inverses[0] = inverse(parts[2 * i], norms[2 * i]);
            inverses[2] = inverse(parts[2 * i + 1], norms[2 * i + 1]);
            uint256 from;
            uint256 by;
            assembly ("memory-safe") {
                from := sums
                by := inverses
            }
            front.values[i] = Field.dotSpread(from, by, 2);
        }
        assembly ("memory-safe") {
            mstore(0x40, mark)
        }
    }

    /// The inverse of r + s i, (r - s i) / (r^2 + s^2), split.
    function inverse(uint256 part, uint256 norm) private pure returns (uint256) {
        return mulmod(part >> 32, norm, P) | (mulmod(P - (part & 0xffffffff), norm, P) << 80);
    }

    /// q = (Re x - m_x) Im y - (Re y - m_y) Im x as r 2^32 + s, and r^2 + s^2, which is 0 only if q is.
    function denominator(Sampled memory own, uint256 point) private pure returns (uint256 q, uint256 norm) {
        (uint256 x, uint256 y) = (point >> 32, point & 0xffffffff);
        uint256 a = own.realX >> 32;
        uint256 b = own.realX & 0xffffffff;
        a = a + P - x;
        (uint256 c, uint256 d) = (own.imagY >> 32, own.imagY & 0xffffffff);
        // Products of numbers below 2^32; with 2^34 p there is nothing below 0.
        uint256 r = a * c + (P << 34) - b * d;
        uint256 s = a * d + b * c;
        a = own.realY >> 32;
        b = own.realY & 0xffffffff;
        a = a + P - y;
        (c, d) = (own.imagX >> 32, own.imagX & 0xffffffff);
        r = (r + b * d + (P << 34) - a * c) % P;
        s = (s + (P << 35) - a * d - b * c) % P;
        q = (r << 32) | s;
        norm = (r * r + s * s) % P;
    }

    /// Adds slope and shift to a sum, and makes it smaller once.
    function line(Sampled memory own, uint256 sum, uint256 y) private pure returns (uint256 all) {
        uint256 slope = own.slope;
        uint256 shift = own.shift;
        assembly ("memory-safe") {
            // Five sums of rows are in it: at most 2^62 + 2^37.
            all := add(add(mul(slope, y), shift), sum)
            all := add(and(all, LOW), and(shr(31, all), UP))
        }
    }
}
