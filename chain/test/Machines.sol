// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "../contracts/Field.sol";
import {Machine} from "../contracts/Machine.sol";

/// @title Programs of plans, as chain/plan/examples/chain_vectors prints them.
contract Machines {
    /// Numbers of elements that are given and of the words of each kind, two bytes each; these elements, these words, the segment, which
    /// is one page. Returns what it leaves.
    function machine(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        (bytes memory given, uint256[][] memory words, uint256 place) = inputs(data);
        used = gasleft();
        out = Machine.single(data[place:], given, words);
        used -= gasleft();
    }

    /// The same with the addresses of pages in the place of the segment. Returns the digest of the segment, too.
    function segment(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        (bytes memory given, uint256[][] memory words, uint256 place) = inputs(data);
        bytes32 digest;
        used = gasleft();
        (out, digest) = Machine.run(data[place:], given, words);
        used -= gasleft();
        out = abi.encodePacked(out, digest);
    }

    function inputs(bytes calldata data) private pure returns (bytes memory given, uint256[][] memory words, uint256 place) {
        uint256 count = uint16(bytes2(data[0:2]));
        place = 12 + 16 * count;
        given = data[12:place];
        for (uint256 i = 0; i < count; i++) {
            require(Field.canonical(uint128(bytes16(data[12 + 16 * i:28 + 16 * i]))), "element");
        }
        words = new uint256[][](5);
        for (uint256 kind = 0; kind < 5; kind++) {
            words[kind] = new uint256[](uint16(bytes2(data[2 + 2 * kind:4 + 2 * kind])));
            for (uint256 i = 0; i < words[kind].length; i++) {
                words[kind][i] = uint32(bytes4(data[place:place + 4]));
                place += 4;
            }
        }
    }
}
