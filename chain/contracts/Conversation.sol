// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "./Field.sol";
import {Lookups} from "./Lookups.sol";
import {Multilinear} from "./Multilinear.sol";
import {Opening} from "./Opening.sol";
import {Sumcheck} from "./Sumcheck.sol";
import {Transcript} from "./Transcript.sol";

/// @title What is said before the opening, of a model in one piece (docs/protocol.md, sections 5 to 8 and 11).
/// @notice It leaves claims, which are still to be proved: those on leaves of lookups, on the embedding's operand, on the value of the
/// linear claims, and the two that the opening is about.
library Conversation {
    using Transcript for Transcript.State;

    uint256 private constant PRODUCTS = 16;
    /// The products that read weights, four bits each, the first one lowest: Norm, Att, Ff, Embed, Head, NormLimbs.
    uint256 private constant WEIGHTED = 0x763210;
    uint256 private constant FAMILIES = 6;
    /// The product of the embedding.
    uint256 private constant EMBED = 3;
    /// Bits of the proof of work before the challenges of the lookups.
    uint256 private constant LOOKUP_WORK = 12;

    /// What follows from key and statement: the model id, the number of layers; rate, queries, length of messages
    /// and number of units of the activations; log2 of the leaves of every tree of lookups, and then of the tree of the tables, the number of coordinates of the random
    /// point, the variables of every product (none, if it does not exist: NONE) and those of the linear claims; the number of leading rows.
    struct Shape {
        uint256 model;
        uint256 layers;
        uint256 blowup;
        uint256 queries;
        uint256 log;
        uint256 units;
        uint256[] trees;
        uint256 coordinates;
        uint256[16] variables;
        uint256 linear;
        uint256 leading;
    }

    uint256 internal constant NONE = 255;

    /// What is left: the root of the activations; relations; points and values of leaves; the sum of all roots; the random
    /// point; the end point of the products with both values of each that exists, and the first of the embedding's; factors of the families and the value of the claim on the
    /// weights; the challenge, the claimed value, the end point and the value there of the linear claims.
    struct End {
        uint256 activations;
        uint256[10] relations;
        uint256[][] leafPoints;
        uint256[2][] leafValues;
        uint256 lookups;
        uint256[] points;
        uint256 accumulators;
        uint256[] products;
        uint256[] operands;
        uint256 embedding;
        uint256 family;
        uint256 weights;
        uint256 chi;
        uint256 claimed;
        uint256[] linear;
        uint256 value;
    }

    /// In calldata: numbers of prompt ids, output ids and clipped values, four bytes each; the context, or 0; and these (five words each clipped value);
    /// the root of the activations; the nonce of the work before the lookups; then trees of lookups, the nonce before the random point, sum and rounds of the products, their
    /// operands, value and rounds of the linear claims, and the nonce before their last challenge. Returns where it ends.
    function run(Transcript.State memory t, Shape memory shape, uint256 place)
        internal
        pure
        returns (End memory end, uint256)
    {
        place = statement(t, shape, end, place);
        place = lookups(t, shape, end, place);
        t.work(uint256(bytes32("points work")), 11, Transcript.CHALLENGE_WORK, place);
        end.points = t.challenges(uint256(bytes32("points")), 6, shape.coordinates);
        place = products(t, shape, end, place + 8);
        end.chi = t.challenge(uint256(bytes32("claims")), 6);
        end.claimed = word(place) >> 128;
        uint256 last = place + 16 + 32 * shape.linear;
        Sumcheck.Work memory work = Sumcheck.Work(uint256(bytes32("claims work")), 11, shape.linear - 1, shape.linear, last);
        (end.linear, end.value) = Sumcheck.batch(t, uint256(bytes32("claims")), 6, place, shape.linear, work);
        return (end, last + 8);
    }

    function word(uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := calldataload(place)
        }
    }

    /// Everything up to the clipped values. Statements that have plans have one balance group.
    function statement(Transcript.State memory t, Shape memory shape, End memory end, uint256 place)
        private
        pure
        returns (uint256)
    {
        uint256 counts = word(place) >> 160;
        (uint256 prompt, uint256 output, uint256 clips) = (counts >> 64, (counts >> 32) & 0xffffffff, counts & 0xffffffff);
        uint256 context = word(place + 12);
        place += 44;
        parameters(t, shape);
        lengths(t, prompt, output, shape.leading);
        t.words(uint256(bytes32("prompt")), 6, place, prompt);
        place += 4 * prompt;
        t.words(uint256(bytes32("output")), 6, place, output);
        place += 4 * output;
        t.label(uint256(bytes32("chunk")), 5, 3);
        t.mixWord((shape.layers << 192) | (shape.layers << 160), 12);
        // One piece: nothing enters it, and nothing leaves it.
        t.words(uint256(bytes32("chunk input")), 11, place, 0);
        t.words(uint256(bytes32("chunk output")), 12, place, 0);
        t.root(uint256(bytes32("context")), 7, context);
        uint256 clipped = place;
        place += 20 * clips;
        end.activations = word(place);
        t.root(uint256(bytes32("activations")), 11, end.activations);
        t.words(uint256(bytes32("clipped values")), 14, clipped, 5 * clips);
        return place + 32;
    }

    /// Protocol, parameters and model.
    function parameters(Transcript.State memory t, Shape memory shape) private pure {
        t.label(uint256(bytes32("tessera/12/keccak")), 17, 0);
        t.label(uint256(bytes32("parameters")), 10, 9);
        // That a tree proves the tables, which is 1; of the opening queries, 20 bits of work and the rate; at the end the work before the
        // lookups and before other challenges, and the number of folds with work.
        uint256 first = (1 << 224) | (shape.queries << 192) | (20 << 160) | (shape.blowup << 128) | (shape.log << 96);
        first |= (shape.units << 64) | (LOOKUP_WORK << 32) | Transcript.CHALLENGE_WORK;
        t.mixWords(first, Opening.WORKED_FOLDS << 224, 36);
        t.root(uint256(bytes32("model")), 5, shape.model);
    }

    /// Lengths of the statement. Nothing of it is hidden.
    function lengths(Transcript.State memory t, uint256 prompt, uint256 output, uint256 leading) private pure {
        t.label(uint256(bytes32("lengths")), 7, 3);
        t.mixWord((prompt << 224) | (output << 192) | (leading << 160), 12);
        t.label(uint256(bytes32("hiding")), 6, 8);
        t.mixWord(0, 32);
    }

    /// All trees, and what they add up to.
    function lookups(Transcript.State memory t, Shape memory shape, End memory end, uint256 place) private pure returns (uint256) {
        t.work(uint256(bytes32("lookup work")), 11, LOOKUP_WORK, place);
        place += 8;
        t.words(uint256(bytes32("lookups")), 7, place, 0);
        for (uint256 i = 0; i < 5; i++) (end.relations[2 * i], end.relations[2 * i + 1]) = t.drawPair();
        Lookups.Trees memory trees;
        (trees, place) = Lookups.verify(t, shape.trees, place);
        (end.leafPoints, end.leafValues, end.lookups) = (trees.points, trees.values, trees.sum);
        return place;
    }

    /// The sumcheck of the products, their ends, and the claim on the weights.
    function products(Transcript.State memory t, Shape memory shape, End memory end, uint256 place) private pure returns (uint256) {
        uint256 rounds;
        for (uint256 f = 0; f < PRODUCTS; f++) {
            if (shape.variables[f] != NONE && shape.variables[f] > rounds) rounds = shape.variables[f];
        }
        end.accumulators = word(place) >> 128;
        uint256 claim;
        Sumcheck.Work memory none;
        (end.products, claim) = Sumcheck.batch(t, uint256(bytes32("matmuls")), 7, place, rounds, none);
        place += 16 + 32 * rounds;
        uint256 count;
        for (uint256 f = 0; f < PRODUCTS; f++) if (shape.variables[f] != NONE) count += 2;
        end.operands = Multilinear.read(place, count);
        uint256[PRODUCTS] memory weighted;
        uint256 next;
        for (uint256 f = 0; f < PRODUCTS; f++) {
            if (shape.variables[f] == NONE) continue;
            (uint256 a, uint256 b) = (end.operands[next], end.operands[next + 1]);
            next += 2;
            if (f == EMBED) end.embedding = a;
            weighted[f] = b;
            // 2^-k is 2^(31 - k).
            uint256 scale = 1 << ((31 - ((rounds - shape.variables[f]) % 31)) % 31);
            claim = Field.sub(claim, Field.scale(Field.mul(a, b), scale));
        }
        require(claim == 0, "conversation: end of the products");
        t.message(uint256(bytes32("operands")), 8, place, count);
        end.family = t.challenge(uint256(bytes32("weight families")), 15);
        uint256 power = end.family;
        for (uint256 i = 0; i < FAMILIES; i++) {
            uint256 f = (WEIGHTED >> (4 * i)) & 15;
            end.weights = Field.add(end.weights, Field.mul(power, weighted[f]));
            power = Field.mul(power, end.family);
        }
        return place + 16 * count;
    }
}
