// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Conversation} from "./Conversation.sol";
import {Field} from "./Field.sol";
import {Machine} from "./Machine.sol";
import {Opening} from "./Opening.sol";
import {Plan} from "./Plan.sol";
import {Stark} from "./Stark.sol";
import {Transcript} from "./Transcript.sol";

/// What is said before the opening, verified, and what it leaves: the digest of the program; the transcript; what a program is given and
/// the words of the statement; the operand of the embedding and the value of the linear claims, which it has to find; both values that
/// are opened; the roots of activations and multiplicities; `z` and `alpha` of the relations; the sum of all lookups.
struct Said {
    Plan.Header header;
    bytes32 program;
    uint256 digest;
    uint256[] inputs;
    uint256[][] words;
    uint256 embedding;
    uint256 claimed;
    uint256[2] values;
    uint256 activations;
    uint256 counts;
    uint256[8] relations;
    uint256 lookups;
}

/// The same with what was calculated: what an opening is about.
struct Claimed {
    Plan.Header header;
    uint256 digest;
    uint256[] gammaOfWeights;
    uint256[] gammaOfActivations;
    uint256[] pointOfWeights;
    uint256[] pointOfActivations;
    uint256[2] values;
    uint256 activations;
    uint256 counts;
    uint256[8] relations;
    uint256 lookups;
}

/// @title The first step of a proof: all that is said before the opening. Without state, as those after it.
contract Saying {
    /// `data` is what `Conversation.run` takes, and no more. Returns the digests of both lists of ids, and what was said.
    function say(bytes calldata header, bytes32 program, bytes calldata data)
        external
        pure
        returns (bytes32 prompt, bytes32 output, Said memory said)
    {
        said.header = Plan.read(header);
        said.program = program;
        (prompt, output) = statement(data, said);
        conclude(converse(Plan.shape(said.header, header), data, said), said);
    }

    /// The ids, whose digests it returns, and the logits.
    function statement(bytes calldata data, Said memory said) private pure returns (bytes32, bytes32) {
        (uint256 prompt, uint256 output) = (number(data, 0), number(data, 4));
        require(output == said.header.outputs, "statement: length");
        require(number(data, 8) == 0, "statement: clipped values");
        // Behind the ids are two roots, then the logits.
        require(prompt <= said.header.context && data.length >= 76 + 4 * prompt + 8 * output, "statement: length");
        uint256 ids;
        assembly ("memory-safe") {
            ids := add(data.offset, 12)
        }
        said.words = Plan.words(said.header, prompt, ids, ids + 4 * (prompt + output) + 64);
        bytes calldata all = data[12:];
        return (keccak256(all[:4 * prompt]), keccak256(all[4 * prompt:4 * (prompt + output)]));
    }

    function converse(Conversation.Shape memory shape, bytes calldata data, Said memory said)
        private
        pure
        returns (Conversation.End memory end)
    {
        uint256 place;
        assembly ("memory-safe") {
            place := data.offset
        }
        uint256 last = place + data.length;
        Transcript.State memory t;
        (end, place) = Conversation.run(t, shape, place);
        require(place == last, "conversation: length");
        said.digest = t.digest;
    }

    function conclude(Conversation.End memory end, Said memory said) private pure {
        (said.activations, said.counts) = (end.activations, end.counts);
        (said.values[0], said.values[1]) = (end.weights, end.value);
        (said.embedding, said.claimed) = (end.operands[6], end.claimed);
        said.relations = end.relations;
        // Padding is 1 / 1.
        said.lookups = Field.sub(end.lookups, said.header.padding << 96);
        said.inputs = inputs(end);
    }

    function number(bytes calldata data, uint256 place) private pure returns (uint256) {
        return uint32(bytes4(data[place:place + 4]));
    }

    /// What a program is given: relations, points of leaves and denominators there, the random point, the claim on the products with
    /// its end point and operands, the challenges of families and claims, the end point of the linear claims.
    function inputs(Conversation.End memory end) private pure returns (uint256[] memory all) {
        uint256 count = 8 + end.points.length + 1 + end.products.length + 32 + 2 + end.linear.length;
        for (uint256 i = 0; i < end.leafPoints.length; i++) count += end.leafPoints[i].length + 1;
        all = new uint256[](count);
        uint256 place;
        for (uint256 i = 0; i < 8; i++) all[place++] = end.relations[i];
        for (uint256 i = 0; i < end.leafPoints.length; i++) {
            place = append(all, place, end.leafPoints[i]);
            require(end.leafValues[i][0] == Field.ONE, "lookups: numerators");
            all[place++] = end.leafValues[i][1];
        }
        place = append(all, place, end.points);
        all[place++] = end.accumulators;
        place = append(all, place, end.products);
        for (uint256 i = 0; i < 32; i++) all[place++] = end.operands[i];
        all[place++] = end.family;
        all[place++] = end.chi;
        append(all, place, end.linear);
    }

    function append(uint256[] memory all, uint256 place, uint256[] memory list) private pure returns (uint256) {
        for (uint256 i = 0; i < list.length; i++) all[place++] = list[i];
        return place;
    }
}

/// @title The second step: what follows from it by the program of the plan.
contract Deriving {
    function derive(Said calldata own, bytes calldata program) external pure returns (Claimed memory claimed) {
        require(keccak256(program) == own.program, "plan: another program");
        Said memory said = own;
        uint256[] memory results = machine(said, program);
        uint256 bands = said.header.opened >> said.header.band;
        uint256 units = said.header.units;
        uint256 local = 12 + said.header.band;
        require(results.length == 14 + bands + units + local, "plan: results");
        require(results[0] == said.embedding, "conversation: operand of the embedding");
        require(results[1] == said.claimed, "conversation: value of the linear claims");
        claimed.header = said.header;
        claimed.digest = said.digest;
        claimed.gammaOfWeights = part(results, 2, bands);
        claimed.gammaOfActivations = part(results, 2 + bands, units);
        claimed.pointOfWeights = part(results, 2 + bands + units, local);
        claimed.pointOfActivations = part(results, 2 + bands + units + local, 12);
        claimed.values = said.values;
        (claimed.activations, claimed.counts) = (said.activations, said.counts);
        (claimed.relations, claimed.lookups) = (said.relations, said.lookups);
    }

    function machine(Said memory said, bytes calldata program) private pure returns (uint256[] memory) {
        uint256 code;
        assembly ("memory-safe") {
            code := program.offset
        }
        return Machine.run(code, code + program.length, said.inputs, said.header.results, said.words);
    }

    function part(uint256[] memory all, uint256 from, uint256 count) private pure returns (uint256[] memory own) {
        own = new uint256[](count);
        for (uint256 i = 0; i < count; i++) own[i] = all[from + i];
    }
}

/// @title The third step: the conversation of the opening.
contract Opens {
    /// `data` is what `Opening.begin` takes, and no more. Returns the state of its stages, and the transcript.
    function open(Claimed calldata own, bytes calldata data) external pure returns (bytes memory state, uint256 digest) {
        Claimed memory claimed = own;
        Plan.Header memory header = claimed.header;
        Opening.Code[2] memory codes;
        codes[0] = Opening.Code(
            header.weights, header.tiles, header.message, header.column, header.opened, header.band,
            claimed.gammaOfWeights, claimed.pointOfWeights, claimed.values[0]
        );
        codes[1] = Opening.Code(
            claimed.activations, header.units, header.log, 0, header.units, 0,
            claimed.gammaOfActivations, claimed.pointOfActivations, claimed.values[1]
        );
        return begin(claimed, codes, data);
    }

    function begin(Claimed memory claimed, Opening.Code[2] memory codes, bytes calldata data)
        private
        pure
        returns (bytes memory, uint256)
    {
        Transcript.State memory t = Transcript.State(claimed.digest, 0);
        uint256 place;
        assembly ("memory-safe") {
            place := data.offset
        }
        uint256 last = place + data.length;
        Opening.Policy memory policy = Opening.Policy(claimed.header.blowup, claimed.header.queries, WORK);
        Opening.Queries memory q;
        (q, place) = Opening.begin(t, policy, codes, place);
        require(place == last, "opening: length");
        return (abi.encode(Opening.start(q)), t.digest);
    }

    /// Bits of the proof of work before the queries.
    uint256 private constant WORK = 20;
}

/// @title The conversation of the STARK, after that of the opening.
contract Aggregates {
    /// `data` is what `Stark.begin` takes, and no more. Returns the state of its stages.
    function aggregate(Claimed calldata own, uint256 digest, bytes calldata data) external pure returns (bytes memory) {
        Transcript.State memory t = Transcript.State(digest, 0);
        uint256 place;
        assembly ("memory-safe") {
            place := data.offset
        }
        uint256 last = place + data.length;
        Stark.Claim memory claim = Stark.Claim(own.header.tables, own.counts, own.relations, own.lookups);
        Stark.Queries memory q;
        (q, place) = Stark.begin(t, claim, place);
        require(place == last, "STARK: length");
        return abi.encode(Stark.start(q));
    }
}
