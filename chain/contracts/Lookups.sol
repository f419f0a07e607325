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

    /// The most trees of a group, and the most leaves of a group of several.
    uint256 private constant GROUP_TREES = 12;
    uint256 private constant GROUP_LEAVES = 1 << 28;

    /// Trees of 2^logs leaves, and the claims on their leaves, which are still to be proved: points, numerators and denominators. What all
    /// of them add up to.
    struct Trees {
        uint256[] logs;
        uint256[][] points;
        uint256[2][] values;
        uint256 sum;
    }

    /// Trees of so many leaves in calldata, group by group: sums and denominators of the roots, then of every layer the rounds, 32 bytes
    /// each, and the four values of both children of every tree that goes on. Also returns where they end.
    function verify(Transcript.State memory t, uint256[] memory logs, uint256 offset)
        internal
        pure
        returns (Trees memory own, uint256)
    {
        own.logs = logs;
        own.points = new uint256[][](logs.length);
        own.values = new uint256[2][](logs.length);
        for (uint256 from = 0; from < logs.length;) {
            uint256 to = groupEnd(logs, from);
            offset = roots(t, own, from, to, offset);
            offset = layers(t, own, from, to, offset);
            from = to;
        }
        return (own, offset);
    }

    /// Behind the last tree of the group that begins with one: as many as a group may have.
    function groupEnd(uint256[] memory logs, uint256 from) private pure returns (uint256 to) {
        uint256 leaves = 1 << logs[from];
        for (to = from + 1; to < logs.length && to - from < GROUP_TREES; to++) {
            leaves += 1 << logs[to];
            if (leaves > GROUP_LEAVES) break;
        }
    }

    /// The roots of a group: what their trees add up to, and their denominators.
    function roots(Transcript.State memory t, Trees memory own, uint256 from, uint256 to, uint256 offset)
        private
        pure
        returns (uint256)
    {
        t.message(SUM, 10, offset, 2 * (to - from));
        for (uint256 i = from; i < to; i++) {
            (uint256 sum, uint256 denominator) = pair(offset);
            require(denominator != 0, "lookups: denominator 0");
            own.sum = Field.add(own.sum, sum);
            own.values[i] = [Field.mul(sum, denominator), denominator];
            offset += 32;
        }
        return offset;
    }

    /// From the roots of a group to its leaves. A tree leaves at its own depth.
    function layers(Transcript.State memory t, Trees memory own, uint256 from, uint256 to, uint256 offset)
        private
        pure
        returns (uint256)
    {
        uint256 depth;
        for (uint256 i = from; i < to; i++) {
            if (own.logs[i] > depth) depth = own.logs[i];
        }
        uint256[] memory point = new uint256[](0);
        Layer memory layer = Layer(from, to, 0, 0, 0);
        for (; layer.k < depth; layer.k++) {
            layer.eta = t.challenge(LAYER, 12);
            begin(own, layer);
            // Inverses of the point, in whose places the next point comes.
            point = invert(point);
            for (uint256 i = 1; i < point.length; i++) {
                (layer.claim, point[i]) = round(t, layer.claim, point[i], offset);
                offset += 32;
            }
            offset = children(t, own, layer, point, offset);
        }
        return offset;
    }

    /// A layer of a group: its first tree and the one behind its last, its number, eta, and what is claimed of it.
    struct Layer {
        uint256 from;
        uint256 to;
        uint256 k;
        uint256 eta;
        uint256 claim;
    }

    /// The claim on a layer of all trees of a group that have it.
    function begin(Trees memory own, Layer memory layer) private pure {
        (uint256 weight, uint256 square) = (Field.ONE, Field.mul(layer.eta, layer.eta));
        layer.claim = 0;
        for (uint256 i = layer.from; i < layer.to; i++) {
            if (own.logs[i] <= layer.k) continue;
            uint256[2] memory value = own.values[i];
            layer.claim = Field.add(layer.claim, Field.mul(weight, Field.add(value[0], Field.mul(layer.eta, value[1]))));
            weight = Field.mul(weight, square);
        }
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

    /// The end of a layer: the values of both children of every tree that has it. The coordinate between them becomes the first of the
    /// point.
    function children(
        Transcript.State memory t,
        Trees memory own,
        Layer memory layer,
        uint256[] memory point,
        uint256 offset
    ) private pure returns (uint256) {
        (uint256 weight, uint256 square, uint256 sum) = (Field.ONE, Field.mul(layer.eta, layer.eta), 0);
        uint256 end = offset;
        for (uint256 i = layer.from; i < layer.to; i++) {
            if (own.logs[i] <= layer.k) continue;
            sum = Field.add(sum, Field.mul(weight, combined(layer.eta, end)));
            weight = Field.mul(weight, square);
            end += 64;
        }
        require(layer.claim == sum, "lookups: not the sum of the next layer");
        t.message(CHILDREN, 15, offset, (end - offset) >> 4);
        point[0] = t.challenge(CHILDREN, 15);
        for (uint256 i = layer.from; i < layer.to; i++) {
            if (own.logs[i] <= layer.k) continue;
            own.points[i] = point;
            own.values[i] = next(offset, point[0]);
            offset += 64;
        }
        return offset;
    }

    /// Numerator and denominator at the coordinate between both children.
    function next(uint256 offset, uint256 zeta) private pure returns (uint256[2] memory) {
        (uint256 n0, uint256 d0) = pair(offset);
        (uint256 n1, uint256 d1) = pair(offset + 32);
        return [between(n0, n1, zeta), between(d0, d1, zeta)];
    }

    /// n0 d1 + n1 d0 + eta d0 d1, of both children in calldata.
    function combined(uint256 eta, uint256 offset) private pure returns (uint256) {
        (uint256 n0, uint256 d0) = pair(offset);
        (uint256 n1, uint256 d1) = pair(offset + 32);
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
