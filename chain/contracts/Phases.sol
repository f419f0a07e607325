// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Conversation} from "./Conversation.sol";
import {Field} from "./Field.sol";
import {Machine} from "./Machine.sol";
import {Opening} from "./Opening.sol";
import {Plan} from "./Plan.sol";
import {Stages} from "./Stages.sol";
import {State} from "./State.sol";
import {Transcript} from "./Transcript.sol";

/// What is said before the opening, verified, and what it leaves to the opening: the transcript; both values that are opened, and the
/// points of a band and a unit; the root of the activations.
struct Said {
    Plan.Header header;
    uint256 digest;
    uint256[2] values;
    uint256[] pointOfWeights;
    uint256[] pointOfActivations;
    uint256 activations;
}

/// What it leaves to the program: digests of prompt and output, and the context; the denominators of the tables, the operand of the embedding and the
/// value of the linear claims, which the program has to find; the words of the statement; what the program is given, but for the points that the opening leaves. Elements have
/// sixteen bytes.
struct Told {
    bytes32 prompt;
    bytes32 output;
    bytes32 context;
    bytes expected;
    bytes words;
    bytes given;
}

/// @title All that is said before the opening. Without state, as what follows it.
contract Saying {
    /// `data` is what `Conversation.run` takes, and no more.
    function say(bytes calldata header, bytes calldata data) external pure returns (Told memory told, Said memory said) {
        said.header = Plan.read(header);
        Conversation.Shape memory shape = Plan.shape(said.header, header);
        shape.leading = statement(data, said.header, told);
        conclude(converse(shape, data, said), told, said);
    }

    /// The ids, of which there are digests. Returns the number of leading rows.
    function statement(bytes calldata data, Plan.Header memory header, Told memory told) private pure returns (uint256) {
        (uint256 prompt, uint256 output) = (number(data, 0), number(data, 4));
        require(output == header.outputs, "statement: length");
        require(number(data, 8) == 0, "statement: clipped values");
        require(prompt <= header.context && data.length >= 44 + 4 * (prompt + output), "statement: length");
        told.context = bytes32(data[12:44]);
        uint256 ids;
        assembly ("memory-safe") {
            ids := add(data.offset, 44)
        }
        uint256[][] memory words = Plan.words(header, prompt, ids);
        told.words = packed(words);
        bytes calldata all = data[44:];
        (told.prompt, told.output) = (keccak256(all[:4 * prompt]), keccak256(all[4 * prompt:4 * (prompt + output)]));
        return words[3][0];
    }

    /// Numbers of words of every kind, two bytes each, then all words, four bytes each.
    function packed(uint256[][] memory words) private pure returns (bytes memory) {
        uint256 to = State.open();
        for (uint256 kind = 0; kind < words.length; kind++) to = State.put(to, words[kind].length, 2);
        for (uint256 kind = 0; kind < words.length; kind++) to = State.putAll(to, words[kind], 4);
        return State.close(to);
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

    function conclude(Conversation.End memory end, Told memory told, Said memory said) private pure {
        said.activations = end.activations;
        (said.values[0], said.values[1]) = (end.weights, end.value);
        // The entries of the tables balance the lookups. Padding is 1 / 1.
        require(end.lookups == said.header.padding << 96, "lookups: balance");
        uint256 tables = end.leafValues[end.leafValues.length - 1][1];
        told.expected = abi.encodePacked(uint128(tables), uint128(end.embedding), uint128(end.claimed));
        told.given = given(end);
        said.pointOfWeights = band(end, said.header);
        said.pointOfActivations = part(end.linear, end.linear.length, 12);
    }

    /// The point of a band: of its tile, then of inputs and outputs of a tile. The coordinates of outputs are in front of those of output
    /// tokens and three scalars.
    function band(Conversation.End memory end, Plan.Header memory header) private pure returns (uint256[] memory point) {
        uint256 outputs;
        while (1 << outputs < header.outputs) outputs++;
        point = new uint256[](12 + header.band);
        uint256 behind = end.points.length - 3 - outputs;
        uint256[] memory own = part(end.points, behind, 6 + header.band);
        uint256[] memory inputs = part(end.products, end.products.length, 6);
        for (uint256 i = 0; i < header.band; i++) point[i] = own[i];
        for (uint256 i = 0; i < 6; i++) (point[header.band + i], point[header.band + 6 + i]) = (inputs[i], own[header.band + i]);
    }

    /// So many numbers of a list, before a place.
    function part(uint256[] memory list, uint256 behind, uint256 count) private pure returns (uint256[] memory own) {
        own = new uint256[](count);
        for (uint256 i = 0; i < count; i++) own[i] = list[behind - count + i];
    }

    function number(bytes calldata data, uint256 place) private pure returns (uint256) {
        return uint32(bytes4(data[place:place + 4]));
    }

    /// What a program is given: relations, points of leaves, denominators there of trees of lookups and the numerator of the tables, the random point, the claim on the products with
    /// its end point and operands, the challenges of families and claims, the end point of the linear claims.
    function given(Conversation.End memory end) private pure returns (bytes memory) {
        uint256 tables = end.leafPoints.length - 1;
        for (uint256 i = 0; i < tables; i++) require(end.leafValues[i][0] == Field.ONE, "lookups: numerators");
        uint256 to = State.open();
        for (uint256 i = 0; i < 10; i++) to = State.put(to, end.relations[i], 16);
        for (uint256 i = 0; i <= tables; i++) to = State.putAll(to, end.leafPoints[i], 16);
        for (uint256 i = 0; i < tables; i++) to = State.put(to, end.leafValues[i][1], 16);
        to = State.put(to, end.leafValues[tables][0], 16);
        to = State.put(State.putAll(to, end.points, 16), end.accumulators, 16);
        to = State.putAll(to, end.products, 16);
        to = State.putAll(to, end.operands, 16);
        to = State.put(State.put(to, end.family, 16), end.chi, 16);
        return State.close(State.putAll(to, end.linear, 16));
    }
}

/// @title The conversation of the opening.
contract Opens {
    /// Bits of the proof of work before the queries.
    uint256 private constant WORK = 20;

    /// `data` is what `Opening.begin` takes, and no more. Returns the state of its stages, the transcript, the points where both band
    /// sumchecks end, and of each the value there and the last claim: what the program has to find is their quotient.
    function open(Said calldata own, bytes calldata data)
        external
        pure
        returns (bytes memory state, uint256 digest, bytes memory points, bytes memory claims)
    {
        Said memory said = own;
        Plan.Header memory header = said.header;
        Opening.Code[2] memory codes;
        codes[0] = Opening.Code(
            header.weights, header.tiles, header.message, header.column, header.opened, header.band, said.pointOfWeights, said.values[0]
        );
        codes[1] = Opening.Code(
            said.activations, header.units, header.log, 0, header.units, 0, said.pointOfActivations, said.values[1]
        );
        Opening.End[2] memory ends;
        (state, digest, ends) = begin(said, codes, data);
        points = State.close(State.putAll(State.putAll(State.open(), ends[0].rho, 16), ends[1].rho, 16));
        claims = abi.encodePacked(
            uint128(ends[0].value), uint128(ends[0].claim), uint128(ends[1].value), uint128(ends[1].claim)
        );
    }

    function begin(Said memory said, Opening.Code[2] memory codes, bytes calldata data)
        private
        pure
        returns (bytes memory, uint256, Opening.End[2] memory)
    {
        Transcript.State memory t = Transcript.State(said.digest, 0);
        uint256 place;
        assembly ("memory-safe") {
            place := data.offset
        }
        uint256 last = place + data.length;
        Opening.Policy memory policy = Opening.Policy(said.header.blowup, said.header.queries, WORK);
        Opening.Queries memory q;
        Opening.End[2] memory ends;
        (q, ends, place) = Opening.begin(t, policy, codes, place);
        require(place == last, "opening: length");
        return (Opening.pack(Opening.start(q)), t.digest, ends);
    }
}

/// @title Stages of the program of a plan: its segments.
/// @notice A state has the digest of the segments that are left, what the program has to find, the words of the statement, and what the
/// next segment is given.
contract ProgramStages is Stages {
    /// The digest, and the seven elements to find or to compare with.
    uint256 private constant FRONT = 32 + 112;

    /// In `data`, of every segment the digest of those behind it, which is 0 behind the last one, the number of its pages in a byte, and
    /// where they are stored, twenty bytes each.
    function advance(bytes calldata state, uint256 count, bytes calldata data)
        external
        view
        returns (bool last, bytes memory next)
    {
        bytes32 program = bytes32(state[:32]);
        (uint256[][] memory words, uint256 place) = read(state);
        bytes memory given = state[place:];
        uint256 from = 0;
        for (uint256 i = 0; i < count; i++) {
            bytes32 behind = bytes32(data[from:from + 32]);
            uint256 end = from + 33 + 20 * uint256(uint8(data[from + 32]));
            bytes32 digest;
            (given, digest) = Machine.run(data[from + 33:end], given, words);
            // The digest of what is left of a program is that of the digests of its first segment and of all behind it.
            require(keccak256(abi.encode(digest, behind)) == program, "plan: another segment");
            (program, from) = (behind, end);
        }
        require(from == data.length, "stages: length");
        last = program == 0;
        if (last) compare(state, given);
        next = abi.encodePacked(program, state[32:place], given);
    }

    /// The words of a statement, by kind, and where they end.
    function read(bytes calldata state) private pure returns (uint256[][] memory words, uint256 end) {
        uint256 start;
        assembly ("memory-safe") {
            start := state.offset
        }
        words = new uint256[][](5);
        end = FRONT + 2 * words.length;
        for (uint256 kind = 0; kind < words.length; kind++) {
            uint256 count = State.take(start + FRONT + 2 * kind, 2);
            words[kind] = State.takeAll(start + end, count, 4);
            end += 4 * count;
        }
    }

    /// What a program leaves has to be what was said.
    function compare(bytes calldata state, bytes memory left) private pure {
        require(left.length == 80, "plan: results");
        uint256[] memory own = new uint256[](5);
        for (uint256 i = 0; i < 5; i++) {
            assembly ("memory-safe") {
                mstore(add(own, add(32, shl(5, i))), shr(128, mload(add(left, add(32, shl(4, i))))))
            }
        }
        require(own[0] == element(state, 0), "lookups: denominators of the tables");
        require(own[1] == element(state, 1), "conversation: operand of the embedding");
        require(own[2] == element(state, 2), "conversation: value of the linear claims");
        for (uint256 k = 0; k < 2; k++) {
            require(Field.mul(own[3 + k], element(state, 3 + 2 * k)) == element(state, 4 + 2 * k), "opening: end of the band sumcheck");
        }
    }

    function element(bytes calldata state, uint256 index) private pure returns (uint256) {
        return uint128(bytes16(state[32 + 16 * index:48 + 16 * index]));
    }
}
