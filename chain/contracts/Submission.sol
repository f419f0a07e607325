// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Stages} from "./Stages.sol";

/// @title The parts of a proof in several transactions: the program of its plan, the opening and the STARK.
/// @notice Whoever begins a submission says what its parts are checked against. From then on anybody may send the next stages of any part
/// with the state before them; the chain holds a digest of it. The parts are independent of one another. `proved` is called when all
/// stages of all are done, once. There is no owner, nothing to set, and no way to change the contracts that verify.
/// @dev What is claimed comes from the conversation: `Verifier.sol`.
abstract contract Submission {
    uint256 internal constant PARTS = 3;
    bytes32 internal constant DONE = bytes32(uint256(1));

    Stages public immutable PROGRAM;
    Stages public immutable OPENING;
    Stages public immutable STARK;

    /// The digests of the states before what comes next, or DONE, which is the digest of none.
    mapping(bytes32 => bytes32[3]) internal runs;

    constructor(Stages program, Stages opening, Stages stark) {
        (PROGRAM, OPENING, STARK) = (program, opening, stark);
    }

    /// Everything of this submission was verified.
    function proved(bytes32 id) internal virtual;

    /// The conversation of a submission is over, and left these states. Goes on with what `more` has of their stages.
    function began(bytes32 id, bytes[3] memory states, bytes calldata more) internal {
        require(runs[id][0] == 0, "submission: begun already");
        bytes32[3] memory digests;
        for (uint256 i = 0; i < PARTS; i++) digests[i] = keccak256(states[i]);
        go(id, digests, states, more);
    }

    /// The next stages of a submission. In `more`, one after the other: a part, 0 for the program, 1 for the opening or 2 for the STARK,
    /// and how many stages, a byte each; the length of the state in three bytes and the state, or 0 where it is that of stages before
    /// in the same transaction; the length of the stages in three bytes, and what they take.
    function advance(bytes32 id, bytes calldata more) external {
        bytes[3] memory states;
        bytes32[3] memory digests = runs[id];
        require(digests[0] != 0, "submission: not begun");
        go(id, digests, states, more);
    }

    function go(bytes32 id, bytes32[3] memory digests, bytes[3] memory states, bytes calldata more) private {
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
        bool all = true;
        bool changed = false;
        for (uint256 i = 0; i < PARTS; i++) {
            all = all && digests[i] == DONE;
            if (runs[id][i] == digests[i]) continue;
            (runs[id][i], changed) = (digests[i], true);
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
        return part == 0 ? PROGRAM : part == 1 ? OPENING : STARK;
    }
}
