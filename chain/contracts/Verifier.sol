// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Aggregates, Claimed, Deriving, Opens, Said, Saying} from "./Phases.sol";
import {Plan} from "./Plan.sol";
import {Stages} from "./Stages.sol";
import {Submission} from "./Submission.sol";

/// What a consumer reads.
interface Facts {
    /// The bits of security that the plan says, and the block of the fact; 0 and 0 if there is none.
    function verified(bytes32 plan, bytes32 prompt, bytes32 output) external view returns (uint256 bits, uint256 number);
}

/// @title A verifier of proofs, and the registry of what it verified.
/// @notice A submission is begun with what is said before the opening, goes on with the program of its plan, segment by segment, and the
/// conversations of opening and STARK, then with stages of both. Anybody may send each step, with the state that the one before it returned. When all are
/// done, the fact is written: by the model that the plan was made of, the prompt has this output. A fact names the digest of the plan.
/// Whoever reads facts makes that plan again from a key that he trusts, once (docs/chain.md).
contract Verifier is Submission, Facts {
    /// What a submission is about, and the digest of its state while it has no stages.
    struct Subject {
        bytes32 plan;
        bytes32 prompt;
        bytes32 output;
        uint256 bits;
        bytes32 state;
    }

    struct Fact {
        uint128 bits;
        uint128 number;
    }

    /// What states are told apart by.
    uint256 private constant SAID = 1;
    uint256 private constant CLAIMED = 2;

    Saying public immutable SAYING;
    Deriving public immutable DERIVING;
    Opens public immutable OPENS;
    Aggregates public immutable AGGREGATES;

    mapping(bytes32 => Subject) private subjects;
    mapping(bytes32 => Fact) private facts;

    event Begun(bytes32 indexed id, bytes32 indexed plan, bytes32 prompt, bytes32 output);
    event Verified(bytes32 indexed plan, bytes32 indexed prompt, bytes32 indexed output, uint256 bits);

    constructor(
        Saying saying,
        Deriving deriving,
        Opens opens,
        Aggregates aggregates,
        Stages opening,
        Stages stark
    ) Submission(opening, stark) {
        (SAYING, DERIVING, OPENS, AGGREGATES) = (saying, deriving, opens, aggregates);
    }

    /// The first step: the header of a plan and the digest of its program, and what is said before the opening. Returns the identifier
    /// of the submission and its state, which the second step takes.
    function begin(bytes calldata header, bytes32 program, bytes calldata data) external returns (bytes32 id, Said memory said) {
        Subject memory own;
        own.plan = Plan.digest(header, program);
        (own.prompt, own.output, said) = SAYING.say(header, program, data);
        own.bits = said.header.bits;
        own.state = keccak256(abi.encode(SAID, said));
        id = keccak256(abi.encode(own.plan, own.state));
        require(subjects[id].plan == 0, "submission: begun already");
        subjects[id] = own;
        emit Begun(id, own.plan, own.prompt, own.output);
    }

    /// The second step: a segment of the program that others follow, whose digest is `behind`. Returns the state that the next one takes.
    function follow(bytes32 id, Said calldata said, bytes calldata segment, bytes32 behind) external returns (Said memory next) {
        require(subjects[id].state == keccak256(abi.encode(SAID, said)), "submission: another state");
        next = DERIVING.follow(said, segment, behind);
        subjects[id].state = keccak256(abi.encode(SAID, next));
    }

    /// The last segment of the program. Returns the state that the third step takes.
    function derive(bytes32 id, Said calldata said, bytes calldata segment) external returns (Claimed memory claimed) {
        require(subjects[id].state == keccak256(abi.encode(SAID, said)), "submission: another state");
        claimed = DERIVING.derive(said, segment);
        subjects[id].state = keccak256(abi.encode(CLAIMED, claimed));
    }

    /// The third step: the conversations. Returns the states that the stages take.
    function commit(bytes32 id, Claimed calldata claimed, bytes calldata ofOpening, bytes calldata ofStark)
        external
        returns (bytes memory opening, bytes memory stark)
    {
        require(subjects[id].state == keccak256(abi.encode(CLAIMED, claimed)), "submission: another state");
        uint256 digest;
        (opening, digest) = OPENS.open(claimed, ofOpening);
        stark = AGGREGATES.aggregate(claimed, digest, ofStark);
        // The digest of no state.
        subjects[id].state = DONE;
        began(id, opening, stark);
    }

    /// Several of these calls in one transaction, in order. All of them succeed, or none.
    function many(bytes[] calldata calls) external returns (bytes[] memory answers) {
        answers = new bytes[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            (bool ok, bytes memory answer) = address(this).delegatecall(calls[i]);
            if (!ok) {
                assembly ("memory-safe") {
                    revert(add(answer, 32), mload(answer))
                }
            }
            answers[i] = answer;
        }
    }

    /// Where a submission stands: digests of the states that its next steps take. Behind the third step the first one is that of no
    /// state, as are those of parts that are done.
    function standing(bytes32 id) external view returns (bytes32 state, bytes32 opening, bytes32 stark) {
        Run memory own = runs[id];
        return (subjects[id].state, own.opening, own.stark);
    }

    function proved(bytes32 id) internal override {
        Subject memory own = subjects[id];
        Fact storage fact = facts[key(own.plan, own.prompt, own.output)];
        // What was verified stays as it was written first.
        if (fact.number == 0) (fact.bits, fact.number) = (uint128(own.bits), uint128(block.number));
        emit Verified(own.plan, own.prompt, own.output, own.bits);
    }

    function verified(bytes32 plan, bytes32 prompt, bytes32 output) external view returns (uint256 bits, uint256 number) {
        Fact memory fact = facts[key(plan, prompt, output)];
        return (fact.bits, fact.number);
    }

    function key(bytes32 plan, bytes32 prompt, bytes32 output) private pure returns (bytes32) {
        return keccak256(abi.encode(plan, prompt, output));
    }
}
