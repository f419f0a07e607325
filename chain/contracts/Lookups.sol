// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "./Field.sol";
import {Transcript} from "./Transcript.sol";

/// @title Sums of fractions by GKR (docs/protocol.md, section 8.5).
library Lookups {
    using Transcript for Transcript.State;

    uint256 private constant SUM = uint256(bytes32("lookup sum"));
    uint256 private constant LAYER = uint256(bytes32("lookup layer"));
    uint256 private constant ROUND = uint256(bytes32("lookup round"));
    uint256 private constant CHILDREN = uint256(bytes32("lookup children"));

    /// A tree of 2^layers leaves in calldata: its sum and the denominator of its root, then of every layer the rounds, 32 bytes each, and
    /// the four values of both children. Returns the claim on its leaves, which is still to be proved, and where the tree ends.
    function tree(Transcript.State memory t, uint256 layers, uint256 offset)
        internal
        pure
        returns (uint256[] memory point, uint256 numerator, uint256 denominator, uint256)
    {
        (numerator, denominator) = pair(offset);
        require(denominator != 0, "lookups: denominator 0");
        numerator = Field.mul(numerator, denominator);
        t.message(SUM, 10, offset, 2);
        offset += 32;
        point = new uint256[](0);
        for (uint256 k = 0; k < layers; k++) {
            (point, numerator, denominator) = layer(t, point, numerator, denominator, offset);
            offset += 32 * k + 64;
        }
        return (point, numerator, denominator, offset);
    }

    /// From the claims on a layer at a point to those on the next one.
    function layer(
        Transcript.State memory t,
        uint256[] memory point,
        uint256 numerator,
        uint256 denominator,
        uint256 offset
    ) private pure returns (uint256[] memory next, uint256, uint256) {
        uint256 eta = t.challenge(LAYER, 12);
        uint256 claim = Field.add(numerator, Field.mul(eta, denominator));
        // Inverses of the point, in whose places the next point comes.
        next = invert(point);
        for (uint256 i = 1; i < next.length; i++) {
            (claim, next[i]) = round(t, claim, next[i], offset);
            offset += 32;
        }
        (next[0], numerator, denominator) = children(t, eta, claim, offset);
        return (next, numerator, denominator);
    }

    /// A round, given the inverse of the coordinate of its variable. Returns the next claim and the challenge.
    function round(Transcript.State memory t, uint256 claim, uint256 inverse, uint256 offset)
        private
        pure
        returns (uint256, uint256 c)
    {
        (uint256 h0, uint256 lead) = pair(offset);
        t.message(ROUND, 12, offset, 2);
        c = t.challenge(ROUND, 12);
        // h(1) - h(0), as claim = (1 - r) h(0) + r h(1)
        uint256 slope = Field.mul(Field.sub(claim, h0), inverse);
        claim = Field.add(h0, Field.mul(c, Field.add(Field.sub(slope, lead), Field.mul(c, lead))));
        return (claim, c);
    }

    /// The end of a layer: the values of both children. Returns the coordinate between them, and the values there.
    function children(Transcript.State memory t, uint256 eta, uint256 claim, uint256 offset)
        private
        pure
        returns (uint256 zeta, uint256, uint256)
    {
        (uint256 n0, uint256 d0) = pair(offset);
        (uint256 n1, uint256 d1) = pair(offset + 32);
        require(claim == combined(eta, n0, d0, n1, d1), "lookups: not the sum of the next layer");
        t.message(CHILDREN, 15, offset, 4);
        zeta = t.challenge(CHILDREN, 15);
        return (zeta, between(n0, n1, zeta), between(d0, d1, zeta));
    }

    /// n0 d1 + n1 d0 + eta d0 d1.
    function combined(uint256 eta, uint256 n0, uint256 d0, uint256 n1, uint256 d1) private pure returns (uint256) {
        n1 = Field.add(n1, Field.mul(eta, d1));
        return Field.add(Field.mul(n0, d1), Field.mul(d0, n1));
    }

    /// The value at `place` of what is `low` at 0 and `high` at 1.
    function between(uint256 low, uint256 high, uint256 place) private pure returns (uint256) {
        return Field.add(low, Field.mul(place, Field.sub(high, low)));
    }

    /// Two elements in calldata.
    function pair(uint256 offset) private pure returns (uint256 first, uint256 second) {
        assembly ("memory-safe") {
            second := calldataload(offset)
            first := shr(128, second)
            second := and(second, 0xffffffffffffffffffffffffffffffff)
        }
        require(Field.canonical(first) && Field.canonical(second), "element");
    }

    /// Inverses of all values, of which none may be 0, by the inverse of their product; after a first entry that is 0.
    function invert(uint256[] memory values) private pure returns (uint256[] memory inverses) {
        uint256 count = values.length;
        inverses = new uint256[](count + 1);
        if (count == 0) return inverses;
        uint256 product = values[0];
        for (uint256 i = 1; i < count; i++) {
            inverses[i + 1] = product;
            product = Field.mul(product, values[i]);
        }
        // A product of elements is 0 only if one of them is: that is a coordinate 0.
        require(product != 0, "lookups: coordinate 0");
        uint256 left = Field.inverse(product);
        for (uint256 i = count - 1; i > 0; i--) {
            inverses[i + 1] = Field.mul(left, inverses[i + 1]);
            left = Field.mul(left, values[i]);
        }
        inverses[1] = left;
    }
}
