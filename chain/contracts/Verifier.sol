// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Opens, Said, Saying, Told} from "./Phases.sol";
import {Pages} from "./Pages.sol";
import {Plan} from "./Plan.sol";
import {Stages} from "./Stages.sol";
import {Submission} from "./Submission.sol";

/// What a consumer reads.
interface Facts {
    /// The bits of security that the plan says, and the block of the fact; 0 and 0 if there is none. `context` is the context of the proof
    /// (docs/protocol.md, section 11), which is never 0; 0 asks for a proof without one.
    function verified(bytes32 plan, bytes32 prompt, bytes32 output, bytes32 context)
        external
        view
        returns (uint256 bits, uint256 number);
}

/// @title A verifier of proofs, and the registry of what it verified.
/// @notice A submission is begun with all that is said up to the queries. What it leaves are the states of two parts: the program of its
/// plan and the opening. The sender of the beginning sends the stages of each. When all are done, the fact is written: by the
/// model that the plan was made of, the prompt has this output. A fact names the digest of the plan. Whoever reads facts makes that plan
/// again from a key that he trusts, once (docs/chain.md).
contract Verifier is Submission, Facts {
    /// What a submission is about.
    struct Subject {
        bytes32 plan;
        bytes32 prompt;
        bytes32 output;
        bytes32 context;
        uint256 bits;
    }

    struct Fact {
        uint128 bits;
        uint128 number;
    }

    Saying public immutable SAYING;
    Opens public immutable OPENS;
    /// Where senders find pages of programs. What they are is compared when they are followed.
    Pages public immutable PAGES;

    mapping(address => mapping(bytes32 => Subject)) private subjects;
    mapping(bytes32 => Fact) private facts;

    event Begun(address indexed sender, bytes32 indexed id, bytes32 indexed plan, bytes32 prompt, bytes32 output, bytes32 context);
    event Verified(bytes32 indexed plan, bytes32 indexed prompt, bytes32 indexed output, bytes32 context, uint256 bits);

    constructor(
        Saying saying,
        Opens opens,
        Pages pages,
        Stages program,
        Stages opening
    ) Submission(program, opening) {
        (SAYING, OPENS, PAGES) = (saying, opens, pages);
    }

    /// The first step: the header of a plan and the digest of its program; what is said before the opening, and the conversation of
    /// the opening. Goes on with what `more` has of the stages, as `advance` does. Returns the submission's identifier.
    function begin(bytes calldata header, bytes32 program, bytes[2] calldata said, bytes calldata more) external returns (bytes32 id) {
        Subject memory own;
        bytes[2] memory states;
        (id, own, states) = converse(header, program, said);
        subjects[msg.sender][id] = own;
        emit Begun(msg.sender, id, own.plan, own.prompt, own.output, own.context);
        began(id, states, more);
    }

    /// What the first step finds, and nothing else: identifier and subject of the submission, and the states of its two parts.
    function converse(bytes calldata header, bytes32 program, bytes[2] calldata said)
        public
        view
        returns (bytes32 id, Subject memory own, bytes[2] memory states)
    {
        (Told memory told, Said memory heard) = SAYING.say(header, said[0]);
        (own.plan, own.bits) = (Plan.digest(header, program), heard.header.bits);
        (own.prompt, own.output, own.context) = (told.prompt, told.output, told.context);
        uint256 digest;
        bytes memory points;
        bytes memory claims;
        (states[1], digest, points, claims) = OPENS.open(heard, said[1]);
        states[0] = abi.encodePacked(program, told.expected, claims, told.words, told.given, points);
        id = keccak256(abi.encode(own, keccak256(states[0]), keccak256(states[1])));
    }

    /// Where a sender's run of a submission stands: digests of the states that the next stages of program and opening take. Of parts
    /// that are done they are that of no state.
    function standing(address sender, bytes32 id) external view returns (bytes32[2] memory) {
        return runs[sender][id];
    }

    function proved(bytes32 id) internal override {
        Subject memory own = subjects[msg.sender][id];
        Fact storage fact = facts[key(own.plan, own.prompt, own.output, own.context)];
        // What was verified stays as it was written first.
        if (fact.number == 0) (fact.bits, fact.number) = (uint128(own.bits), uint128(block.number));
        emit Verified(own.plan, own.prompt, own.output, own.context, own.bits);
    }

    function verified(bytes32 plan, bytes32 prompt, bytes32 output, bytes32 context)
        external
        view
        returns (uint256 bits, uint256 number)
    {
        Fact memory fact = facts[key(plan, prompt, output, context)];
        return (fact.bits, fact.number);
    }

    function key(bytes32 plan, bytes32 prompt, bytes32 output, bytes32 context) private pure returns (bytes32) {
        return keccak256(abi.encode(plan, prompt, output, context));
    }
}
