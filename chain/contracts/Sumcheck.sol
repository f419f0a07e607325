// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "./Field.sol";
import {Transcript} from "./Transcript.sol";

/// @title Sumchecks of degree 2 (docs/protocol.md, section 6).
library Sumcheck {
    using Transcript for Transcript.State;

    /// The value at r of the polynomial of degree 2 that has s0 at 0, s2 at 2 and claim - s0 at 1.
    function next(uint256 claim, uint256 s0, uint256 s2, uint256 r) internal pure returns (uint256) {
        uint256 s1 = Field.sub(claim, s0);
        uint256 slope = Field.sub(s1, s0);
        uint256 second = Field.half(Field.sub(Field.sub(s2, s1), slope));
        // s0 + r (slope - second + r second)
        uint256 inner = Field.add(Field.sub(slope, second), Field.mul(r, second));
        return Field.add(s0, Field.mul(r, inner));
    }

    /// The rounds, from one to before another, whose challenges are drawn after a proof of work: the label of the nonces, and where they
    /// are, eight bytes each. Of no round if all is zero.
    struct Work {
        uint256 name;
        uint256 length;
        uint256 first;
        uint256 end;
        uint256 place;
    }

    /// Round `i` in calldata: the values at 0 and 2. Returns the next claim and the challenge.
    function round(
        Transcript.State memory t,
        uint256[4] memory labels,
        uint256 claim,
        uint256 offset,
        Work memory work,
        uint256 i
    ) internal pure returns (uint256, uint256 r) {
        uint256 both;
        assembly ("memory-safe") {
            both := calldataload(offset)
        }
        uint256 s0 = both >> 128;
        uint256 s2 = both & 0xffffffffffffffffffffffffffffffff;
        require(Field.canonical(s0) && Field.canonical(s2), "element");
        t.message(labels[0], labels[1], offset, 2);
        if (work.first <= i && i < work.end) {
            t.work(work.name, work.length, Transcript.CHALLENGE_WORK, work.place + 8 * (i - work.first));
        }
        r = t.challenge(labels[2], labels[3]);
        return (next(claim, s0, s2, r), r);
    }

    /// Rounds in calldata, 32 bytes each, under a label of their messages and one of their challenges. Returns the point and the last
    /// claim, which is still to be proved.
    function rounds(
        Transcript.State memory t,
        uint256[4] memory labels,
        uint256 claim,
        uint256 offset,
        uint256 count,
        Work memory work
    ) internal pure returns (uint256[] memory point, uint256) {
        point = new uint256[](count);
        for (uint256 i = 0; i < count; i++) {
            (claim, point[i]) = round(t, labels, claim, offset, work, i);
            offset += 32;
        }
        return (point, claim);
    }

    /// A batch with its claim in calldata, the rounds behind it: the sumchecks of products and of linear claims.
    function batch(
        Transcript.State memory t,
        uint256 name,
        uint256 length,
        uint256 offset,
        uint256 variables,
        Work memory work
    ) internal pure returns (uint256[] memory point, uint256 claim) {
        assembly ("memory-safe") {
            claim := shr(128, calldataload(offset))
        }
        require(Field.canonical(claim), "element");
        t.label(name, length, 2);
        t.mixWord(variables << 224, 8);
        t.message(name, length, offset, 1);
        uint256[4] memory labels = [name, length, name, length];
        return rounds(t, labels, claim, offset + 16, variables, work);
    }
}
