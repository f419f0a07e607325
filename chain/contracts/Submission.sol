// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Stages} from "./Stages.sol";

/// @title The parts of a proof in several transactions: the program of its plan and the opening.
/// @notice Whoever begins a submission says what its parts are checked against, and the run belongs to him: only he sends the next stages
/// of its parts, each with the state before it; the chain holds a digest of that state. Others who send the same have runs of their own, so
/// nobody can spoil, delay or finish the run of another sender. The parts are independent of one another. `proved` is called when all stages
/// of all are done, once a run. The contracts that verify have no owner, nothing to set, and no way to be changed.
/// @dev What is claimed comes from the conversation: `Verifier.sol`.
abstract contract Submission {
    uint256 internal constant PARTS = 2;
    bytes32 internal constant DONE = bytes32(uint256(1));

    Stages public immutable PROGRAM;
    Stages public immutable OPENING;

    /// By sender and submission: the digests of the states before what comes next, or DONE, which is the digest of none.
    mapping(address => mapping(bytes32 => bytes32[2])) internal runs;

    constructor(Stages program, Stages opening) {
        (PROGRAM, OPENING) = (program, opening);
    }

    /// Everything of this submission was verified, in a run of the sender.
    function proved(bytes32 id) internal virtual;

    /// The conversation of a submission is over, and left these states. Goes on with what `more` has of their stages.
    function began(bytes32 id, bytes[2] memory states, bytes calldata more) internal {
        require(runs[msg.sender][id][0] == 0, "submission: begun already");
        bytes32[2] memory digests;
        for (uint256 i = 0; i < PARTS; i++) digests[i] = keccak256(states[i]);
        go(id, digests, states, more);
    }

    /// Forgets the sender's own run, which can then be begun again. Rows are taken in before the path that proves them: who sent wrong ones
    /// has no other way on.
    function abandon(bytes32 id) external {
        require(runs[msg.sender][id][0] != 0, "submission: not begun");
        delete runs[msg.sender][id];
    }

    /// The next stages of a submission that the sender began. In `more`, one after the other: a part, 0 for the program or 1 for the opening,
    /// and how many stages, a byte each; the length of the state in three bytes and the state, or 0 where it is that of stages before
    /// in the same transaction; the length of the stages in three bytes, and what they take.
    function advance(bytes32 id, bytes calldata more) external {
        bytes[2] memory states;
        bytes32[2] memory digests = runs[msg.sender][id];
        require(digests[0] != 0, "submission: not begun");
        go(id, digests, states, more);
    }

    function go(bytes32 id, bytes32[2] memory digests, bytes[2] memory states, bytes calldata more) private {
        uint256 place = 0;
        while (place < more.length) {
            uint256 part = uint8(more[place]);
            uint256 count = uint8(more[place + 1]);
            require(part < PARTS && count != 0, "submission: part");
            bytes calldata own;
            (own, place) = sized(more, place + 2);
            if (own.length != 0) {
                // Of a part that is done no state has the digest.
                require(digests[part] == keccak256(own), "submission: another state");
                states[part] = own;
            }
            require(states[part].length != 0, "submission: no state");
            (own, place) = sized(more, place);
            bool last;
            (last, states[part]) = stages(part).advance(states[part], count, own);
            digests[part] = last ? DONE : keccak256(states[part]);
            if (last) states[part] = "";
        }
        bytes32[2] storage kept = runs[msg.sender][id];
        bool all = true;
        bool changed = false;
        for (uint256 i = 0; i < PARTS; i++) {
            all = all && digests[i] == DONE;
            if (kept[i] == digests[i]) continue;
            (kept[i], changed) = (digests[i], true);
        }
        // A part that is done takes no stages: so all are found done once.
        if (all && changed) proved(id);
    }

    /// Bytes behind their length, which has three bytes, and where they end.
    function sized(bytes calldata more, uint256 place) private pure returns (bytes calldata own, uint256 end) {
        end = place + 3 + uint24(bytes3(more[place:place + 3]));
        own = more[place + 3:end];
    }

    function stages(uint256 part) private view returns (Stages) {
        return part == 0 ? PROGRAM : OPENING;
    }
}
