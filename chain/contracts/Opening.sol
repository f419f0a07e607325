// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Circle} from "./Circle.sol";
import {Field} from "./Field.sol";
import {Folding} from "./Folding.sol";
import {Merkle} from "./Merkle.sol";
import {Multilinear} from "./Multilinear.sol";
import {State} from "./State.sol";
import {Sumcheck} from "./Sumcheck.sol";
import {Transcript} from "./Transcript.sol";

/// @title The opening of weights and activations (docs/protocol.md, section 10).
/// @notice `begin` is the conversation: it leaves what the queries are checked against. `advance` is a stage of all queries. Nothing is
/// proved before the last one.
library Opening {
    using Transcript for Transcript.State;

    uint256 private constant P = 0x7fffffff;
    /// The highest bit of every word of 32 bits.
    uint256 private constant ONES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    uint256 private constant HIGH = 0x8000000080000000800000008000000080000000800000008000000080000000;
    /// The low 31 bits of every one of 64, and the 33 bits above them, moved down.
    uint256 private constant LOW = 0x000000007fffffff000000007fffffff000000007fffffff000000007fffffff;
    uint256 private constant UP = 0x00000001ffffffff00000001ffffffff00000001ffffffff00000001ffffffff;
    /// (p + 1) / 2.
    uint256 private constant HALF = 1 << 30;

    /// log2 of the values of a tile; the most variables of a last message; folds between two oracles.
    uint256 private constant TILE = 12;
    uint256 private constant FINAL = 8;
    uint256 private constant FOLDS = 3;
    /// The first folds of the sum, whose challenges are drawn after a proof of work.
    uint256 internal constant WORKED_FOLDS = 4;

    /// log2 of the inverse rate, number of queries, bits of work.
    struct Policy {
        uint256 blowup;
        uint256 queries;
        uint256 work;
    }

    /// A commitment and the claim on it, all from the verifier's side but the root of the activations: tiles of the commitment, log2 of
    /// a message, first opened column, opened tiles, log2 of the tiles of a band; the local point, the value.
    struct Code {
        uint256 root;
        uint256 tiles;
        uint256 log;
        uint256 first;
        uint256 opened;
        uint256 band;
        uint256[] point;
        uint256 value;
    }

    /// Where the band sumcheck of a commitment ends: the point, the value there and the last claim, which is that value times the
    /// extension of the coefficients of the bands. Who calls has to find that it is. Then the weights of the columns, and where their
    /// sum is claimed to have that value.
    struct End {
        uint256[] rho;
        uint256 value;
        uint256 claim;
        uint256[] columns;
        uint256[] point;
    }

    /// A committed tree as the queries see it: its root, its levels, how often its positions are halved, the weights of its columns,
    /// and the factors of both parts of their sum.
    struct Tree {
        uint256 root;
        uint256 depth;
        uint256 lifted;
        uint256 columns;
        uint256[] weights;
        uint256[] factors;
    }

    /// What the queries are checked against. Of the last message these are log2 of its length and its digest.
    struct Queries {
        Tree[2] trees;
        uint256[] positions;
        uint256 log;
        uint256[] roots;
        uint256[] challenges;
        uint256 left;
        uint256 message;
    }

    /// The conversation, with the messages in calldata: rounds of both band sumchecks with the nonces before the challenges that weigh
    /// columns, and their values; the cross values and a nonce; the folds, with the roots of oracles where they are due before them and the
    /// nonces of the first ones behind them; the last message, the nonce before the queries. Returns where it ends.
    function begin(Transcript.State memory t, Policy memory policy, Code[2] memory codes, uint256 place)
        internal
        pure
        returns (Queries memory q, End[2] memory ends, uint256)
    {
        t.label(uint256(bytes32("opening claims")), 14, 1);
        t.mixWord(2 << 224, 4);
        for (uint256 k = 0; k < 2; k++) statement(t, policy, codes[k]);
        for (uint256 k = 0; k < 2; k++) place = bands(t, codes[k], ends[k], place);
        uint256 long = codes[0].log < codes[1].log ? codes[1].log : codes[0].log;
        Sum memory sum;
        (sum, place) = add(t, ends, long - 1, place);
        place = folds(t, q, sum, place);
        for (uint256 k = 0; k < 2; k++) q.trees[k] = tree(policy, codes[k], ends[k], k == 0 ? Field.ONE : sum.iota, long);
        q.log = long + policy.blowup - 1;
        place = drawPositions(t, policy, q, place);
        return (q, ends, place);
    }

    /// Absorbs what is opened, and under which rules.
    function statement(Transcript.State memory t, Policy memory policy, Code memory code) private pure {
        t.label(uint256(bytes32("opening parameters")), 18, 8);
        uint256 words = (code.tiles << 224) | (code.log << 192) | (policy.blowup << 160) | (policy.queries << 128)
            | (policy.work << 96) | (code.first << 64) | (code.opened << 32) | code.band;
        t.mixWord(words, 32);
        t.root(uint256(bytes32("opening root")), 12, code.root);
        t.elements(uint256(bytes32("opening point")), 13, code.point);
        t.element(uint256(bytes32("opening value")), 13, code.value);
    }

    /// log2 of the next power of two.
    function logUp(uint256 count) private pure returns (uint256 log) {
        while (1 << log < count) log++;
    }

    /// The band sumcheck. Its end gives the weights of the columns and where their sum is claimed, without the last coordinate, which
    /// is the first folding challenge.
    function bands(Transcript.State memory t, Code memory code, End memory end, uint256 place) private pure returns (uint256) {
        uint256 inColumn = code.log - TILE;
        uint256 columns = ((code.opened - 1) >> inColumn) + 1;
        uint256 columnLog = logUp(columns);
        uint256 rounds = columnLog + inColumn - code.band;
        require(code.point.length == TILE + code.band, "opening: claim");
        Sumcheck.Work memory work =
            Sumcheck.Work(uint256(bytes32("opening column work")), 19, 0, columnLog, place + 32 * rounds);
        uint256[4] memory names = labels("opening band round", 18, "opening band challenge", 22);
        (end.rho, end.claim) = Sumcheck.rounds(t, names, code.value, place, rounds, work);
        place = work.place + 8 * columnLog;
        t.message(uint256(bytes32("opening evaluation")), 18, place, 1);
        end.value = element(place);
        uint256[] memory eq = Multilinear.eqTable(end.rho, 0, columnLog);
        end.columns = new uint256[](code.first + columns);
        for (uint256 i = 0; i < columns; i++) end.columns[code.first + i] = eq[i];
        uint256 rest = code.point.length - 1;
        end.point = new uint256[](rounds - columnLog + rest);
        for (uint256 i = columnLog; i < rounds; i++) end.point[i - columnLog] = end.rho[i];
        for (uint256 i = 0; i < rest; i++) end.point[rounds - columnLog + i] = code.point[i];
        return place + 16;
    }

    function labels(bytes32 message, uint256 length, bytes32 challenge, uint256 other) private pure returns (uint256[4] memory) {
        return [uint256(message), length, uint256(challenge), other];
    }

    /// The claim on the sum of both columns, with iota times the second: at the first point, and with theta at the second.
    struct Sum {
        uint256 iota;
        uint256 theta;
        uint256 claim;
        uint256[][2] points;
    }

    /// Both claims become claims on the sum: the values of either column at the point of the other one are sent.
    function add(Transcript.State memory t, End[2] memory ends, uint256 variables, uint256 place)
        private
        pure
        returns (Sum memory sum, uint256)
    {
        t.message(uint256(bytes32("opening cross values")), 20, place, 2);
        t.work(uint256(bytes32("opening sum work")), 16, Transcript.CHALLENGE_WORK, place + 32);
        sum.iota = t.challenge(uint256(bytes32("opening sum")), 11);
        sum.theta = t.challenge(uint256(bytes32("opening points")), 14);
        uint256 first = Field.add(ends[0].value, Field.mul(sum.iota, element(place)));
        uint256 second = Field.add(Field.mul(sum.iota, ends[1].value), element(place + 16));
        sum.claim = Field.add(first, Field.mul(sum.theta, second));
        for (uint256 k = 0; k < 2; k++) {
            // A shorter message does not depend on the variables behind its own: zeros stand for them.
            sum.points[k] = new uint256[](variables);
            for (uint256 i = 0; i < ends[k].point.length; i++) sum.points[k][i] = ends[k].point[i];
        }
        return (sum, place + 40);
    }

    /// The folding sumcheck, the roots of the oracles, and the last message.
    function folds(Transcript.State memory t, Queries memory q, Sum memory sum, uint256 place) private pure returns (uint256) {
        uint256 variables = sum.points[0].length;
        uint256 left = variables;
        while (left > FINAL) left -= FOLDS;
        uint256 count = variables - left;
        q.roots = new uint256[](count / FOLDS);
        q.challenges = new uint256[](count);
        uint256[4] memory names = labels("opening fold round", 18, "opening fold challenge", 22);
        Sumcheck.Work memory work = Sumcheck.Work(uint256(bytes32("opening fold work")), 17, 0, WORKED_FOLDS, 0);
        uint256[2] memory bound = [Field.ONE, sum.theta];
        for (uint256 i = 0; i < count; i++) {
            if (i % FOLDS == 0) {
                q.roots[i / FOLDS] = oracle(t, place);
                place += 32;
            }
            // The nonce of a fold is behind it.
            work.place = place + 32 - 8 * i;
            (sum.claim, q.challenges[i]) = Sumcheck.round(t, names, sum.claim, place, work, i);
            place += i < WORKED_FOLDS ? 40 : 32;
            // The challenges have bound the last coordinates, from the last one on.
            for (uint256 k = 0; k < 2; k++) {
                bound[k] = Field.mul(bound[k], Multilinear.eq1(q.challenges[i], sum.points[k][variables - 1 - i]));
            }
        }
        t.message(uint256(bytes32("opening final message")), 21, place, 1 << left);
        uint256 value;
        for (uint256 k = 0; k < 2; k++) {
            uint256[] memory rest = new uint256[](left);
            for (uint256 i = 0; i < left; i++) rest[i] = sum.points[k][i];
            value = Field.add(value, Field.mul(bound[k], Multilinear.evaluate(place, rest)));
        }
        require(value == sum.claim, "opening: end of the folding sumcheck");
        (q.left, q.message) = (left, digest(place, 16 << left));
        return place + (16 << left);
    }

    /// The digest of bytes of calldata.
    function digest(uint256 place, uint256 size) internal pure returns (uint256 hash) {
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            calldatacopy(ptr, place, size)
            hash := keccak256(ptr, size)
        }
    }

    /// Absorbs the root of an oracle.
    function oracle(Transcript.State memory t, uint256 place) private pure returns (uint256 root) {
        assembly ("memory-safe") {
            root := calldataload(place)
        }
        t.root(uint256(bytes32("opening oracle")), 14, root);
    }

    /// A committed tree for the queries: weights of the columns, and the factors of the fold by y, with the last coordinate of the local
    /// point, and of the scale of its values.
    function tree(Policy memory policy, Code memory code, End memory end, uint256 scale, uint256 long)
        private
        pure
        returns (Tree memory own)
    {
        uint256 inColumn = code.log - TILE;
        own.root = code.root;
        own.depth = code.log + policy.blowup - 1;
        own.lifted = long - code.log;
        own.columns = ((code.tiles - 1) >> inColumn) + 1;
        own.weights = new uint256[](own.columns);
        for (uint256 i = 0; i < end.columns.length; i++) own.weights[i] = end.columns[i];
        own.factors = new uint256[](2);
        uint256 psi = code.point[code.point.length - 1];
        own.factors[0] = Field.half(Field.mul(scale, Field.sub(Field.ONE, psi)));
        own.factors[1] = Field.half(Field.mul(scale, psi));
    }

    /// Proof of work, and the positions.
    function drawPositions(Transcript.State memory t, Policy memory policy, Queries memory q, uint256 place) private pure returns (uint256) {
        t.work(uint256(bytes32("opening work")), 12, policy.work, place);
        q.positions = t.positions(uint256(bytes32("opening queries")), 15, policy.queries, q.log);
        Folding.ascend(q.positions);
        return place + 8;
    }

    /// An element in calldata.
    function element(uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := shr(128, calldataload(place))
        }
        require(Field.canonical(value), "element");
    }

    /// The queries on their way: how many trees and oracles are behind them, and where they are; of a tree that is begun how many rows
    /// there were, and their digests.
    struct Progress {
        uint256 stage;
        uint256 rows;
        uint256[] digests;
        Folding.Front front;
        Queries q;
    }

    /// The queries before their first stage. Stages are the rows of both trees and the oracles; the last one ends at the last message.
    function start(Queries memory q) internal pure returns (Progress memory p) {
        p.q = q;
        p.front.positions = new uint256[](q.positions.length);
        for (uint256 i = 0; i < q.positions.length; i++) p.front.positions[i] = q.positions[i];
        p.front.values = new uint256[](q.positions.length);
        p.front.points = Folding.places(q.positions, q.log);
        p.digests = new uint256[](q.positions.length);
    }

    function stages(Progress memory p) internal pure returns (uint256) {
        return 2 + p.q.roots.length;
    }

    /// A state in bytes: what the stages that are left need of it. Digests have 32, elements 16, points 8, positions 4.
    function pack(Progress memory p) internal pure returns (bytes memory) {
        Queries memory q = p.q;
        uint256 to = State.put(State.open(), p.stage, 1);
        to = State.put(to, q.log, 1);
        to = State.put(to, q.left, 1);
        to = State.put(to, q.roots.length, 1);
        to = State.put(to, p.front.positions.length, 2);
        to = State.put(to, p.rows, 2);
        to = State.put(to, q.message, 32);
        for (uint256 i = 0; i < p.rows; i++) to = State.put(to, p.digests[i], 32);
        for (uint256 k = p.stage; k < 2; k++) {
            Tree memory own = q.trees[k];
            to = State.put(to, own.root, 32);
            to = State.put(to, own.depth, 1);
            to = State.put(to, own.lifted, 1);
            to = State.put(to, own.columns, 2);
            to = State.putAll(to, own.weights, 16);
            to = State.putAll(to, own.factors, 16);
        }
        for (uint256 i = p.stage < 2 ? 0 : p.stage - 2; i < q.roots.length; i++) {
            to = State.put(to, q.roots[i], 32);
            for (uint256 k = 0; k < FOLDS; k++) to = State.put(to, q.challenges[FOLDS * i + k], 16);
        }
        to = State.putAll(to, p.front.positions, 4);
        to = State.putAll(to, p.front.points, 8);
        return State.close(State.putAll(to, p.front.values, 16));
    }

    /// The state that has such bytes.
    function unpack(bytes calldata data) internal pure returns (Progress memory p) {
        Queries memory q = p.q;
        uint256 place;
        assembly ("memory-safe") {
            place := data.offset
        }
        p.stage = State.take(place, 1);
        (q.log, q.left) = (State.take(place + 1, 1), State.take(place + 2, 1));
        uint256 oracles = State.take(place + 3, 1);
        uint256 count = State.take(place + 4, 2);
        p.rows = State.take(place + 6, 2);
        q.message = State.take(place + 8, 32);
        place += 40;
        p.digests = new uint256[](count);
        for (uint256 i = 0; i < p.rows; i++) p.digests[i] = State.take(place + 32 * i, 32);
        place += 32 * p.rows;
        for (uint256 k = p.stage; k < 2; k++) {
            Tree memory own = q.trees[k];
            own.root = State.take(place, 32);
            (own.depth, own.lifted, own.columns) = (State.take(place + 32, 1), State.take(place + 33, 1), State.take(place + 34, 2));
            own.weights = State.takeAll(place + 36, own.columns, 16);
            place += 36 + 16 * own.columns;
            own.factors = State.takeAll(place, 2, 16);
            place += 32;
        }
        q.roots = new uint256[](oracles);
        q.challenges = new uint256[](FOLDS * oracles);
        for (uint256 i = p.stage < 2 ? 0 : p.stage - 2; i < oracles; i++) {
            q.roots[i] = State.take(place, 32);
            for (uint256 k = 0; k < FOLDS; k++) q.challenges[FOLDS * i + k] = State.take(place + 32 + 16 * k, 16);
            place += 32 + 16 * FOLDS;
        }
        p.front.positions = State.takeAll(place, count, 4);
        p.front.points = State.takeAll(place + 4 * count, count, 8);
        p.front.values = State.takeAll(place + 12 * count, count, 16);
    }

    /// The next stage. In calldata, of a committed tree what `rows` takes; of an oracle the number of values that are sent and of nodes, the values and the path; behind the last one the last
    /// message once more. Returns where it ends.
    function advance(Progress memory p, uint256 place) internal pure returns (uint256) {
        if (p.stage < 2) return rows(p, p.q.trees[p.stage], place);
        uint256 i = p.stage++ - 2;
        require(i < p.q.roots.length, "opening: no stage is left");
        Folding.Layer memory o;
        o.log = p.q.log - FOLDS * i;
        o.root = p.q.roots[i];
        o.factors = oracleFactors(p.q.challenges, FOLDS * i);
        place = section(o, place);
        Folding.open(o, p.front);
        if (i + 1 < p.q.roots.length) return place;
        uint256 size = 16 << p.q.left;
        require(digest(place, size) == p.q.message, "opening: last message");
        Folding.last(p.front, Folding.spread(Multilinear.read(place, 1 << p.q.left)));
        return place + size;
    }

    /// (1 - l) f0 + l f1 of f = f0 + t f1, where f0 and f1 are halves of a sum and of a difference.
    function oracleFactors(uint256[] memory challenges, uint256 first) internal pure returns (uint256[] memory) {
        uint256[3] memory ofF0;
        uint256[3] memory ofF1;
        for (uint256 i = 0; i < 3; i++) {
            uint256 l = challenges[first + i];
            (ofF0[i], ofF1[i]) = (Field.half(Field.sub(Field.ONE, l)), Field.half(l));
        }
        return Folding.factors(ofF0, ofF1);
    }

    /// Numbers of values and nodes, four bytes each, then the values and the path.
    function section(Folding.Layer memory o, uint256 place) internal pure returns (uint256) {
        (uint256 values, uint256 nodes) = counts(place);
        o.values = place + 8;
        o.valuesEnd = o.values + 16 * values;
        o.path = o.valuesEnd;
        o.pathEnd = o.path + 32 * nodes;
        return o.pathEnd;
    }

    function counts(uint256 place) internal pure returns (uint256 first, uint256 second) {
        assembly ("memory-safe") {
            second := shr(192, calldataload(place))
            first := shr(32, second)
            second := and(second, 0xffffffff)
        }
    }

    /// The next rows of a committed tree at the positions, whose sums, folded and lifted, are added to the values of the front; or, when
    /// there are all, the path that they are in the tree by. In calldata the number of rows, four bytes, and the rows; or the number of
    /// nodes, and the nodes. Returns where it ends.
    function rows(Progress memory p, Tree memory own, uint256 place) private pure returns (uint256) {
        uint256 mark;
        assembly ("memory-safe") {
            mark := mload(0x40)
        }
        uint256[] memory leaves = leavesOf(p.front.positions, own.lifted);
        uint256 count = State.take(place, 4);
        place += 4;
        if (p.rows == leaves.length) {
            uint256[] memory digests = new uint256[](leaves.length);
            for (uint256 i = 0; i < leaves.length; i++) digests[i] = p.digests[i];
            Merkle.check(own.root, own.depth, leaves, digests, place, place + 32 * count);
            (p.stage, p.rows) = (p.stage + 1, 0);
            place += 32 * count;
        } else {
            require(count != 0 && count <= leaves.length - p.rows, "opening: number of row values");
            sums(p, own, leaves, count, place);
            p.rows += count;
            place += 8 * own.columns * count;
        }
        assembly ("memory-safe") {
            mstore(0x40, mark)
        }
        return place;
    }

    /// The leaves of positions, which are halved so often: each once.
    function leavesOf(uint256[] memory positions, uint256 lifted) private pure returns (uint256[] memory leaves) {
        leaves = new uint256[](positions.length);
        uint256 count;
        for (uint256 i = 0; i < positions.length; i++) {
            uint256 leaf = positions[i] >> lifted;
            if (count == 0 || leaves[count - 1] != leaf) leaves[count++] = leaf;
        }
        assembly ("memory-safe") {
            mstore(leaves, count)
        }
    }

    /// Digests of the next rows, and what they add to the front.
    function sums(Progress memory p, Tree memory own, uint256[] memory leaves, uint256 count, uint256 row) private pure {
        uint256[] memory digests = Merkle.leaves(row, 8 * own.columns, count);
        for (uint256 i = 0; i < count; i++) p.digests[p.rows + i] = digests[i];
        // The first position of the next rows.
        uint256[] memory positions = p.front.positions;
        uint256 first;
        while (positions[first] >> own.lifted != leaves[p.rows]) first++;
        uint256[] memory y = new uint256[](count);
        uint256 found;
        for (uint256 i = first; i < positions.length && found < count; i++) {
            if (positions[i] >> own.lifted != leaves[p.rows + found]) continue;
            uint256 point = p.front.points[i];
            for (uint256 k = 0; k < own.lifted; k++) point = Circle.add(point, point);
            y[found++] = point & 0xffffffff;
        }
        Field.invertAll(y);
        foldAll(own, row, y);
        addAll(p, own.lifted, leaves, first, y);
    }

    /// Adds the folded sums of rows to the values of their positions, of which one is the first.
    function addAll(Progress memory p, uint256 lifted, uint256[] memory leaves, uint256 first, uint256[] memory values) private pure {
        Folding.Front memory front = p.front;
        for (uint256 k = 0; k < values.length; k++) {
            while (first < front.positions.length && front.positions[first] >> lifted == leaves[p.rows + k]) {
                uint256 value = values[k];
                if (lifted != 0) value = Field.scale(value, lift(front.points[first] >> 32, lifted));
                front.values[first] = Field.add(front.values[first], value);
                first++;
            }
        }
    }

    /// Elements spread, with zeros behind them.
    function spread(uint256[] memory list, uint256 length) private pure returns (uint256[] memory all) {
        all = new uint256[](length);
        for (uint256 i = 0; i < list.length; i++) all[i] = Field.spread(list[i]);
    }

    /// What a value is multiplied with where the message is lifted: 1 + x, then of the doubles.
    function lift(uint256 x, uint256 times) private pure returns (uint256 factor) {
        factor = 1;
        for (uint256 k = 0; k < times; k++) {
            factor = (factor * (1 + x)) % P;
            x = Circle.doubled(x);
        }
    }

    /// The folded sums of rows, in the places of the inverses of the coordinates by which they are folded.
    function foldAll(Tree memory own, uint256 row, uint256[] memory inverses) private pure {
        uint256[2] memory parts;
        // Whole words of a row are four columns.
        uint256[] memory weights = spread(own.weights, (own.columns + 3) & ~uint256(3));
        uint256[] memory factors = Field.split(own.factors);
        for (uint256 i = 0; i < inverses.length; i++) {
            inverses[i] = folded(row, own.columns, weights, factors, inverses[i], parts);
            row += 8 * own.columns;
        }
    }

    /// The sum of the columns of a row, folded.
    function folded(
        uint256 row,
        uint256 columns,
        uint256[] memory weights,
        uint256[] memory factors,
        uint256 inverse,
        uint256[2] memory parts
    ) private pure returns (uint256) {
        (uint256 first, uint256 second) = combine(row, columns, weights);
        uint256 pointer;
        assembly ("memory-safe") {
            // Twice p more in every coordinate, so that no difference is below 0.
            let twice := 0x00000000fffffffe00000000fffffffe00000000fffffffe00000000fffffffe
            mstore(parts, add(first, second))
            let d := mul(sub(add(first, twice), second), inverse)
            mstore(add(parts, 32), add(and(d, LOW), and(shr(31, d), UP)))
            pointer := parts
        }
        return Field.dotSpread(pointer, Multilinear.pointer(factors), 2);
    }

    /// The sums of the first and of the second values of a row in calldata, which has two numbers of four bytes in every column,
    /// weighed with spread elements, of which there are four for every word begun. Spread, with coordinates of at most 2^31 + 2^3.
    /// Reverts unless all numbers are below p.
    function combine(uint256 row, uint256 columns, uint256[] memory weights)
        internal
        pure
        returns (uint256 first, uint256 second)
    {
        bool bad;
        assembly ("memory-safe") {
            let weight := add(weights, 32)
            for { let left := columns } left {} {
                let values := calldataload(row)
                // What is behind the last column is none.
                if lt(left, 4) {
                    let behind := shl(6, sub(4, left))
                    values := shl(behind, shr(behind, values))
                    left := 4
                }
                left := sub(left, 4)
                bad := or(bad, and(or(values, add(values, ONES)), HIGH))
                // Four products of numbers below p, and what folding leaves, 2^34 at most, are below 2^64.
                let w := mload(weight)
                first := add(first, mul(w, shr(224, values)))
                second := add(second, mul(w, and(shr(192, values), P)))
                w := mload(add(weight, 32))
                first := add(first, mul(w, and(shr(160, values), P)))
                second := add(second, mul(w, and(shr(128, values), P)))
                w := mload(add(weight, 64))
                first := add(first, mul(w, and(shr(96, values), P)))
                second := add(second, mul(w, and(shr(64, values), P)))
                w := mload(add(weight, 96))
                first := add(first, mul(w, and(shr(32, values), P)))
                second := add(second, mul(w, and(values, P)))
                // 2^31 is 1.
                first := add(and(first, LOW), and(shr(31, first), UP))
                second := add(and(second, LOW), and(shr(31, second), UP))
                weight := add(weight, 128)
                row := add(row, 32)
            }
            first := add(and(first, LOW), and(shr(31, first), UP))
            second := add(and(second, LOW), and(shr(31, second), UP))
        }
        require(!bad, "opening: a number of p or more");
    }
}
