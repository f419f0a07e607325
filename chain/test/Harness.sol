// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "../contracts/Field.sol";
import {Transcript} from "../contracts/Transcript.sol";
import {Merkle} from "../contracts/Merkle.sol";
import {Multilinear} from "../contracts/Multilinear.sol";
import {Sumcheck} from "../contracts/Sumcheck.sol";
import {Lookups} from "../contracts/Lookups.sol";
import {Folding} from "../contracts/Folding.sol";
import {Opening} from "../contracts/Opening.sol";

/// @title What the tests call: every function takes bytes of calldata, and returns bytes and the gas between them.
/// @dev Layouts are those of chain/plan/examples/chain_vectors. Numbers are big-endian.
contract Harness {
    using Transcript for Transcript.State;

    /// Pairs of elements: sums, differences, products, halves of the first, and inverses of the first.
    function field(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 count = data.length / 32;
        out = new bytes(80 * count);
        used = gasleft();
        for (uint256 i = 0; i < count; i++) {
            (uint256 x, uint256 y) = (element(data, 32 * i), element(data, 32 * i + 16));
            put(out, 80 * i, Field.add(x, y));
            put(out, 80 * i + 16, Field.sub(x, y));
            put(out, 80 * i + 32, Field.mul(x, y));
            put(out, 80 * i + 48, Field.half(x));
            put(out, 80 * i + 64, Field.inverse(x));
        }
        used -= gasleft();
    }

    /// A pair of elements: gas of one product and one inverse, the loop taken off.
    function product(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        (uint256 x, uint256 y) = (element(data, 0), element(data, 16));
        uint256 nothing;
        uint256 empty = gasleft();
        for (uint256 i = 0; i < 1000; i++) nothing ^= x;
        empty -= gasleft();
        used = gasleft();
        for (uint256 i = 0; i < 1000; i++) y = Field.mul(x, y);
        used -= gasleft();
        used = (used - empty) / 1000;
        out = new bytes(16);
        // An even number of times the same is nothing.
        put(out, 0, y ^ nothing);
    }

    /// A conversation: the digest that it begins with, then steps: a byte, a label, a number, and what is said.
    function transcript(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        Transcript.State memory t = Transcript.State(uint256(bytes32(data[0:32])), 0);
        uint256 pos = 32;
        used = gasleft();
        while (pos < data.length) {
            uint256 step = uint8(data[pos]);
            uint256 length = uint8(data[pos + 1]);
            uint256 name = uint256(bytes32(data[pos + 2:pos + 34]));
            uint256 count = uint16(bytes2(data[pos + 34:pos + 36]));
            uint256 offset;
            pos += 36;
            assembly {
                offset := add(data.offset, pos)
            }
            if (step == 0) {
                t.words(name, length, offset, count);
                pos += 4 * count;
            } else if (step == 1) {
                t.message(name, length, offset, count);
                pos += 16 * count;
            } else if (step == 2) {
                t.root(name, length, uint256(bytes32(data[pos:pos + 32])));
                pos += 32;
            } else if (step == 3) {
                t.mixWord(uint256(bytes32(data[pos:pos + 32])), 32);
                pos += 32;
            } else if (step == 4) {
                uint256[] memory drawn = t.challenges(name, length, count);
                for (uint256 i = 0; i < count; i++) out = abi.encodePacked(out, uint128(drawn[i]));
            } else if (step == 5) {
                uint256 bits = uint8(data[pos++]);
                uint256[] memory drawn = t.positions(name, length, count, bits);
                for (uint256 i = 0; i < count; i++) out = abi.encodePacked(out, uint32(drawn[i]));
            } else if (step == 6) {
                (uint256 first, uint256 second) = t.drawPair();
                out = abi.encodePacked(out, uint128(first), uint128(second));
            } else {
                uint256 nonce = uint64(bytes8(data[pos:pos + 8]));
                pos += 8;
                out = abi.encodePacked(out, t.worked(count, nonce));
            }
            out = abi.encodePacked(out, t.digest);
        }
        used -= gasleft();
    }

    /// Eight words that are drawn: nothing if they have to be drawn again, or two elements.
    function draws(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 words = uint256(bytes32(data[0:32]));
        used = gasleft();
        (bool again, uint256 first, uint256 second) = Transcript.reduced(words);
        used -= gasleft();
        if (!again) out = abi.encodePacked(uint128(first), uint128(second));
    }

    /// A tree: root, depth, words of a leaf, number of leaves; positions, leaves, path.
    function merkle(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 root = uint256(bytes32(data[0:32]));
        uint256 depth = uint8(data[32]);
        uint256 size = 4 * uint256(uint16(bytes2(data[33:35])));
        uint256 count = uint16(bytes2(data[35:37]));
        uint256[] memory positions = new uint256[](count);
        for (uint256 i = 0; i < count; i++) positions[i] = uint32(bytes4(data[37 + 4 * i:41 + 4 * i]));
        uint256 start;
        uint256 end;
        assembly {
            start := add(data.offset, add(37, mul(4, count)))
            end := add(data.offset, data.length)
        }
        used = gasleft();
        uint256[] memory digests = Merkle.leaves(start, size, count);
        Merkle.check(root, depth, positions, digests, start + size * count, end);
        used -= gasleft();
        out = hex"01";
    }

    /// An evaluation: number of variables, table, point.
    function evaluate(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 variables = uint8(data[0]);
        uint256[] memory point = elements(data, 1 + (16 << variables), variables);
        uint256 offset;
        assembly {
            offset := add(data.offset, 1)
        }
        used = gasleft();
        uint256 value = Multilinear.evaluate(offset, point);
        used -= gasleft();
        out = abi.encodePacked(uint128(value));
    }

    /// Two points, their length first.
    function eq(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 variables = uint8(data[0]);
        uint256[] memory a = elements(data, 1, variables);
        uint256[] memory b = elements(data, 1 + 16 * variables, variables);
        used = gasleft();
        uint256 value = Multilinear.eq(a, b);
        used -= gasleft();
        out = abi.encodePacked(uint128(value));
    }

    /// A batch: digest, label, number of variables, claim, rounds. Returns point, last claim and digest.
    function sumcheck(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        Transcript.State memory t = Transcript.State(uint256(bytes32(data[0:32])), 0);
        uint256 name = uint256(bytes32(data[33:65]));
        uint256 length = uint8(data[32]);
        uint256 variables = uint8(data[65]);
        require(data.length == 82 + 32 * variables, "length");
        uint256 offset;
        assembly {
            offset := add(data.offset, 66)
        }
        used = gasleft();
        Sumcheck.Work memory none;
        (uint256[] memory point, uint256 claim) = Sumcheck.batch(t, name, length, offset, variables, none);
        used -= gasleft();
        for (uint256 i = 0; i < variables; i++) out = abi.encodePacked(out, uint128(point[i]));
        out = abi.encodePacked(out, uint128(claim), t.digest);
    }

    /// Trees of lookups: digest, number of trees, layers of each, then groups. Returns points, numerators, denominators, the sum and the digest.
    function lookups(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        Transcript.State memory t = Transcript.State(uint256(bytes32(data[0:32])), 0);
        uint256[] memory logs = new uint256[](uint8(data[32]));
        for (uint256 i = 0; i < logs.length; i++) logs[i] = uint8(data[33 + i]);
        uint256 offset;
        assembly {
            offset := data.offset
        }
        uint256 end = offset + data.length;
        used = gasleft();
        Lookups.Trees memory trees;
        (trees, offset) = Lookups.verify(t, logs, offset + 33 + logs.length);
        used -= gasleft();
        require(offset == end, "length");
        for (uint256 i = 0; i < logs.length; i++) {
            for (uint256 k = 0; k < logs[i]; k++) out = abi.encodePacked(out, uint128(trees.points[i][k]));
            out = abi.encodePacked(out, uint128(trees.values[i][0]), uint128(trees.values[i][1]));
        }
        out = abi.encodePacked(out, uint128(trees.sum), t.digest);
    }

    /// A row: number of columns, their weights, their values. Returns both sums.
    function combine(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 count = uint16(bytes2(data[0:2]));
        uint256[] memory weights = new uint256[]((count + 3) & ~uint256(3));
        require(data.length == 2 + 24 * count, "length");
        for (uint256 i = 0; i < count; i++) weights[i] = Field.spread(element(data, 2 + 16 * i));
        uint256 offset;
        assembly {
            offset := add(data.offset, add(2, mul(16, count)))
        }
        used = gasleft();
        (uint256 first, uint256 second) = Opening.combine(offset, count, weights);
        used -= gasleft();
        out = abi.encodePacked(uint128(Field.gathered(first)), uint128(Field.gathered(second)));
    }

    /// A message at positions of a domain of 2^14: log2 of its length, coefficients, the positions.
    function line(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 log = uint8(data[0]);
        uint256[] memory message = Folding.spread(elements(data, 1, 1 << log));
        uint256 from = 1 + (16 << log);
        Folding.Front memory f;
        f.positions = new uint256[]((data.length - from) / 4);
        for (uint256 i = 0; i < f.positions.length; i++) {
            f.positions[i] = uint32(bytes4(data[from + 4 * i:from + 4 * i + 4]));
            require(f.positions[i] >> 14 == 0 && (i == 0 || f.positions[i - 1] < f.positions[i]), "positions");
        }
        f.points = Folding.places(f.positions, 14);
        used = gasleft();
        uint256[] memory values = Folding.line(f, message);
        used -= gasleft();
        for (uint256 i = 0; i < values.length; i++) out = abi.encodePacked(out, uint128(values[i]));
    }

    /// An oracle: root, log2 of its size, three challenges, numbers of positions, of values sent and of nodes; positions, their values,
    /// the values sent, the path. Returns indices and values of the next one.
    function oracle(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        Folding.Layer memory o;
        o.root = uint256(bytes32(data[0:32]));
        o.log = uint8(data[32]);
        o.factors = Opening.oracleFactors(elements(data, 33, 3), 0);
        uint256 count = uint16(bytes2(data[81:83]));
        uint256 sent = uint16(bytes2(data[83:85]));
        require(data.length == 87 + 20 * count + 16 * sent + 32 * uint256(uint16(bytes2(data[85:87]))), "length");
        Folding.Front memory f;
        f.positions = new uint256[](count);
        for (uint256 i = 0; i < count; i++) f.positions[i] = uint32(bytes4(data[87 + 4 * i:91 + 4 * i]));
        f.values = elements(data, 87 + 4 * count, count);
        f.points = Folding.places(f.positions, o.log);
        uint256 start;
        uint256 end;
        assembly {
            start := add(data.offset, add(87, mul(20, count)))
            end := add(data.offset, data.length)
        }
        (o.values, o.valuesEnd, o.path, o.pathEnd) = (start, start + 16 * sent, start + 16 * sent, end);
        used = gasleft();
        Folding.open(o, f);
        used -= gasleft();
        for (uint256 i = 0; i < f.positions.length; i++) {
            out = abi.encodePacked(out, uint32(f.positions[i]), uint128(f.values[i]));
        }
    }

    function element(bytes calldata data, uint256 pos) private pure returns (uint256 x) {
        x = uint128(bytes16(data[pos:pos + 16]));
        require(Field.canonical(x), "element");
    }

    function elements(bytes calldata data, uint256 pos, uint256 count) private pure returns (uint256[] memory all) {
        all = new uint256[](count);
        for (uint256 i = 0; i < count; i++) all[i] = element(data, pos + 16 * i);
    }

    /// Writes sixteen bytes.
    function put(bytes memory out, uint256 pos, uint256 x) private pure {
        for (uint256 i = 0; i < 16; i++) out[pos + i] = bytes1(uint8(x >> (120 - 8 * i)));
    }
}
