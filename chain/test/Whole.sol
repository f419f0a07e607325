// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Conversation} from "../contracts/Conversation.sol";
import {Opening} from "../contracts/Opening.sol";
import {Plan} from "../contracts/Plan.sol";
import {Claims} from "./Claims.sol";
import {Transcript} from "../contracts/Transcript.sol";

/// @title What the tests call of the parts of a proof that are verified as a whole: bytes of calldata, bytes and gas.
/// @dev Layouts are those of chain/plan/examples/chain_vectors. Numbers are big-endian.
contract Whole is Claims {
    /// An opening: digest, policy, parameters of both codes, both claims, then the conversation and the queries. Returns the digest.
    function opening(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 digest;
        (digest, used) = opened(data, true);
        out = abi.encodePacked(digest);
    }

    function opened(bytes calldata data, bool queries) private view returns (uint256, uint256 used) {
        (
            Transcript.State memory t,
            Opening.Policy memory policy,
            Opening.Code[2] memory codes,
            uint256[][2] memory gammas,
            uint256 place
        ) = claims(data);
        used = gasleft();
        Opening.Queries memory q;
        Opening.End[2] memory ends;
        (q, ends, place) = Opening.begin(t, policy, codes, place);
        if (queries) {
            checked(gammas, ends);
            place = follow(q, place);
            require(place == endOf(data), "length");
        }
        used -= gasleft();
        return (t.digest, used);
    }

    function follow(Opening.Queries memory q, uint256 place) private pure returns (uint256) {
        Opening.Progress memory p = Opening.start(q);
        while (p.stage < Opening.stages(p)) place = Opening.advance(p, place);
        return place;
    }

    /// The same without the queries.
    function conversation(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 digest;
        (digest, used) = opened(data, false);
        out = abi.encodePacked(digest);
    }

    /// All that is said before the opening: what follows from key and statement, then the messages. Returns what it ends in.
    function beforeOpening(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        (Conversation.Shape memory shape, uint256 place) = shapeOf(data);
        Transcript.State memory t;
        Conversation.End memory end;
        used = gasleft();
        (end, place) = Conversation.run(t, shape, place);
        used -= gasleft();
        require(place == endOf(data), "length");
        out = abi.encodePacked(t.digest);
        for (uint256 i = 0; i < 10; i++) out = abi.encodePacked(out, uint128(end.relations[i]));
        for (uint256 i = 0; i < end.leafPoints.length; i++) {
            out = abi.encodePacked(out, packed(end.leafPoints[i]));
            out = abi.encodePacked(out, uint128(end.leafValues[i][0]), uint128(end.leafValues[i][1]));
        }
        out = abi.encodePacked(out, uint128(end.lookups), packed(end.points), packed(end.products));
        out = abi.encodePacked(out, uint128(end.family), uint128(end.weights), uint128(end.chi), uint128(end.claimed));
        out = abi.encodePacked(out, packed(end.linear), uint128(end.value));
    }

    function packed(uint256[] memory values) private pure returns (bytes memory out) {
        for (uint256 i = 0; i < values.length; i++) out = abi.encodePacked(out, uint128(values[i]));
    }

    function shapeOf(bytes calldata data) private pure returns (Conversation.Shape memory shape, uint256) {
        shape.model = uint256(bytes32(data[0:32]));
        shape.layers = uint8(data[32]);
        shape.blowup = uint8(data[33]);
        shape.queries = uint16(bytes2(data[34:36]));
        shape.log = uint8(data[36]);
        shape.units = uint32(bytes4(data[37:41]));
        shape.trees = new uint256[](uint8(data[41]));
        uint256 pos = 42;
        for (uint256 i = 0; i < shape.trees.length; i++) shape.trees[i] = uint8(data[pos++]);
        shape.coordinates = uint16(bytes2(data[pos:pos + 2]));
        for (uint256 f = 0; f < 16; f++) shape.variables[f] = uint8(data[pos + 2 + f]);
        shape.linear = uint8(data[pos + 18]);
        shape.leading = leadingOf(data, pos + 19);
        return (shape, endOf(data) - data.length + pos + 21);
    }

    /// The number of leading rows: here is their rule, then what `Conversation.run` takes.
    function leadingOf(bytes calldata data, uint256 pos) private pure returns (uint256) {
        Plan.Header memory header;
        (header.first, header.run) = (uint8(data[pos]), uint8(data[pos + 1]));
        uint256 rows = uint32(bytes4(data[pos + 2:pos + 6])) + uint32(bytes4(data[pos + 6:pos + 10])) - 1;
        uint256[] memory ids = new uint256[](rows);
        pos += 46;
        for (uint256 i = 0; i < rows; i++) ids[i] = uint32(bytes4(data[pos + 4 * i:pos + 4 * i + 4]));
        return Plan.leading(header, ids, rows);
    }
}
