// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Stages} from "./Stages.sol";

/// @title Opening and STARK of a proof in several transactions.
/// @notice Whoever begins a submission says what its queries are checked against. From then on anybody may send its next stages, which
/// are in the proof, with the state before them; the chain holds a digest of it. The order is that of the proof; both parts are
/// independent of one another. `proved` is called when all stages of both are done, once. There is no owner, nothing to set, and no way
/// to change the contracts that verify.
/// @dev What is claimed comes from the steps before: `Verifier.sol`.
abstract contract Submission {
    /// The digests of the states before what comes next, or DONE, which is the digest of none.
    struct Run {
        bytes32 opening;
        bytes32 stark;
    }

    bytes32 internal constant DONE = bytes32(uint256(1));

    Stages public immutable OPENING;
    Stages public immutable STARK;

    mapping(bytes32 => Run) internal runs;

    constructor(Stages opening, Stages stark) {
        OPENING = opening;
        STARK = stark;
    }

    /// Everything of this submission was verified.
    function proved(bytes32 id) internal virtual;

    /// The conversations of a submission are over, and left these states.
    function began(bytes32 id, bytes memory opening, bytes memory stark) internal {
        require(runs[id].opening == 0, "submission: begun already");
        runs[id] = Run(keccak256(opening), keccak256(stark));
    }

    /// The next stages of an opening. Returns the state after them.
    function open(bytes32 id, bytes calldata state, uint256 count, bytes calldata data) external returns (bytes memory next) {
        require(runs[id].opening == keccak256(state), "submission: another state");
        bool last;
        (last, next) = OPENING.advance(state, count, data);
        runs[id].opening = last ? DONE : keccak256(next);
        if (last) finish(id);
    }

    /// The next stages of a STARK. Returns the state after them.
    function aggregate(bytes32 id, bytes calldata state, uint256 count, bytes calldata data)
        external
        returns (bytes memory next)
    {
        require(runs[id].stark == keccak256(state), "submission: another state");
        bool last;
        (last, next) = STARK.advance(state, count, data);
        runs[id].stark = last ? DONE : keccak256(next);
        if (last) finish(id);
    }

    /// A part that is done takes no stages: so both are found done once.
    function finish(bytes32 id) private {
        Run storage run = runs[id];
        if (run.opening == DONE && run.stark == DONE) proved(id);
    }
}
