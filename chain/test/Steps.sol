// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Opening} from "../contracts/Opening.sol";
import {Stages} from "../contracts/Stages.sol";
import {Stark} from "../contracts/Stark.sol";
import {Submission} from "../contracts/Submission.sol";
import {Transcript} from "../contracts/Transcript.sol";
import {Claims} from "./Claims.sol";

/// @title A submission whose claims are taken on trust: what the tests send in transactions.
contract Steps is Submission, Claims {
    /// How often everything of a submission was found proved.
    mapping(bytes32 => uint256) public facts;

    constructor(Stages opening, Stages stark) Submission(opening, stark) {}

    function proved(bytes32 id) internal override {
        facts[id]++;
    }

    /// Both conversations, each with its claim before it. Returns the identifier, where each ends, and both states.
    function begin(bytes calldata opening, bytes calldata stark)
        external
        returns (bytes32 id, uint256, uint256, bytes memory, bytes memory)
    {
        id = keccak256(abi.encode(keccak256(opening), keccak256(stark)));
        (Opening.Progress memory p, uint256 length) = converse(opening);
        (Stark.Progress memory q, uint256 other) = aggregated(stark);
        (bytes memory first, bytes memory second) = (abi.encode(p), abi.encode(q));
        began(id, first, second);
        return (id, length, other, first, second);
    }

    function converse(bytes calldata data) private pure returns (Opening.Progress memory, uint256) {
        (Transcript.State memory t, Opening.Policy memory policy, Opening.Code[2] memory codes, uint256 place) = claims(data);
        Opening.Queries memory q;
        (q, place) = Opening.begin(t, policy, codes, place);
        return (Opening.start(q), place + data.length - endOf(data));
    }

    function aggregated(bytes calldata data) private pure returns (Stark.Progress memory, uint256) {
        (Transcript.State memory t, Stark.Claim memory claim, uint256 place) = starkClaim(data);
        Stark.Queries memory q;
        (q, place) = Stark.begin(t, claim, place);
        return (Stark.start(q), place + data.length - endOf(data));
    }
}
