// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Conversation} from "./Conversation.sol";
import {Field} from "./Field.sol";
import {Machine} from "./Machine.sol";
import {Opening} from "./Opening.sol";
import {Plan} from "./Plan.sol";
import {Stark} from "./Stark.sol";
import {Transcript} from "./Transcript.sol";

/// What is said before the opening, verified, and what it leaves: the digest of the segments of the program that are left; the
/// transcript; what the next segment is given, sixteen bytes each, and the words of the statement; the operand of the embedding and the value of the linear claims, which it has to find; both values that
/// are opened; the roots of activations and multiplicities; `z` and `alpha` of the relations; the sum of all lookups.
struct Said {
    Plan.Header header;
    bytes32 program;
    uint256 digest;
    bytes given;
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
        said.given = given(end);
    }

    function number(bytes calldata data, uint256 place) private pure returns (uint256) {
        return uint32(bytes4(data[place:place + 4]));
    }

    /// What a program is given: relations, points of leaves and denominators there, the random point, the claim on the products with
    /// its end point and operands, the challenges of families and claims, the end point of the linear claims.
    function given(Conversation.End memory end) private pure returns (bytes memory all) {
        uint256 count = 8 + end.points.length + 1 + end.products.length + 32 + 2 + end.linear.length;
        for (uint256 i = 0; i < end.leafPoints.length; i++) count += end.leafPoints[i].length + 1;
        all = new bytes(16 * count);
        uint256 place;
        for (uint256 i = 0; i < 8; i++) place = put(all, place, end.relations[i]);
        for (uint256 i = 0; i < end.leafPoints.length; i++) {
            place = append(all, place, end.leafPoints[i]);
            require(end.leafValues[i][0] == Field.ONE, "lookups: numerators");
            place = put(all, place, end.leafValues[i][1]);
        }
        place = append(all, place, end.points);
        place = put(all, place, end.accumulators);
        place = append(all, place, end.products);
        for (uint256 i = 0; i < 32; i++) place = put(all, place, end.operands[i]);
        place = put(all, place, end.family);
        place = put(all, place, end.chi);
        append(all, place, end.linear);
    }

    function append(bytes memory all, uint256 place, uint256[] memory list) private pure returns (uint256) {
        for (uint256 i = 0; i < list.length; i++) place = put(all, place, list[i]);
        return place;
    }

    /// From the first element on: what is behind an element is written later, or is behind the last one and 0.
    function put(bytes memory all, uint256 place, uint256 value) private pure returns (uint256) {
        assembly ("memory-safe") {
            let to := add(add(all, 32), place)
            mstore(to, or(shl(128, value), and(mload(to), sub(shl(128, 1), 1))))
        }
        return place + 16;
    }
}

/// @title The second step: what follows from it by the program of the plan, segment by segment.
contract Deriving {
    /// A segment that others follow, of which `behind` is the digest. Returns what the next one takes.
    function follow(Said calldata own, bytes calldata segment, bytes32 behind) external pure returns (Said memory said) {
        // Behind the last one there is nothing.
        require(behind != 0, "plan: the last segment");
        said = own;
        said.given = results(own, segment, behind);
        said.program = behind;
    }

    /// The last segment. What it leaves is compared with what was said.
    function derive(Said calldata own, bytes calldata segment) external pure returns (Claimed memory claimed) {
        bytes memory left = results(own, segment, 0);
        Plan.Header memory header = own.header;
        uint256 bands = header.opened >> header.band;
        uint256 units = header.units;
        uint256 local = 12 + header.band;
        require(header.results == 14 + bands + units + local && left.length == 16 * header.results, "plan: results");
        require(part(left, 0, 1)[0] == own.embedding, "conversation: operand of the embedding");
        require(part(left, 1, 1)[0] == own.claimed, "conversation: value of the linear claims");
        claimed.header = header;
        claimed.digest = own.digest;
        claimed.gammaOfWeights = part(left, 2, bands);
        claimed.gammaOfActivations = part(left, 2 + bands, units);
        claimed.pointOfWeights = part(left, 2 + bands + units, local);
        claimed.pointOfActivations = part(left, 2 + bands + units + local, 12);
        claimed.values = own.values;
        (claimed.activations, claimed.counts) = (own.activations, own.counts);
        (claimed.relations, claimed.lookups) = (own.relations, own.lookups);
    }

    /// What a segment leaves. It has to be the next one: the digest of what is left of a program is that of the digests of its first
    /// segment and of all behind it.
    function results(Said calldata own, bytes calldata segment, bytes32 behind) private pure returns (bytes memory) {
        require(keccak256(abi.encode(keccak256(segment), behind)) == own.program, "plan: another segment");
        return Machine.run(segment, own.given, own.words);
    }

    function part(bytes memory all, uint256 from, uint256 count) private pure returns (uint256[] memory own) {
        own = new uint256[](count);
        assembly ("memory-safe") {
            let place := add(add(all, 32), shl(4, from))
            let to := add(own, 32)
            for { let last := add(to, shl(5, count)) } lt(to, last) { to := add(to, 32) } {
                mstore(to, shr(128, mload(place)))
                place := add(place, 16)
            }
        }
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
