// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Opening} from "./Opening.sol";

/// @title A part of a proof that is verified in stages.
/// @notice Contracts of this kind have no state: they take one in calldata, which who calls them has to know, and return the next.
interface Stages {
    /// The next stages, as many as `count` says, which are all of `data`. Returns the state after them, and whether they were the last.
    function advance(bytes calldata state, uint256 count, bytes calldata data)
        external
        view
        returns (bool last, bytes memory next);
}

/// @title Stages of an opening.
contract OpeningStages is Stages {
    function advance(bytes calldata state, uint256 count, bytes calldata data)
        external
        pure
        returns (bool last, bytes memory next)
    {
        Opening.Progress memory p = Opening.unpack(state);
        uint256 start;
        assembly ("memory-safe") {
            start := data.offset
        }
        uint256 place = start;
        for (uint256 i = 0; i < count; i++) place = Opening.advance(p, place);
        require(place == start + data.length, "stages: length");
        return (p.stage == Opening.stages(p), Opening.pack(p));
    }
}
