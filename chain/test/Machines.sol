// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "../contracts/Field.sol";
import {Machine} from "../contracts/Machine.sol";

/// @title Programs of plans, as verifier/examples/chain_vectors prints them.
contract Machines {
    /// Numbers of elements that are given and of the words of each kind, two bytes each; these elements, these words, the segment.
    /// Returns what it leaves.
    function machine(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 count = uint16(bytes2(data[0:2]));
        uint256 place = 12 + 16 * count;
        bytes calldata given = data[12:place];
        for (uint256 i = 0; i < count; i++) {
            require(Field.canonical(uint128(bytes16(given[16 * i:16 * i + 16]))), "element");
        }
        uint256[][] memory words = new uint256[][](5);
        for (uint256 kind = 0; kind < 5; kind++) {
            words[kind] = new uint256[](uint16(bytes2(data[2 + 2 * kind:4 + 2 * kind])));
            for (uint256 i = 0; i < words[kind].length; i++) {
                words[kind][i] = uint32(bytes4(data[place:place + 4]));
                place += 4;
            }
        }
        used = gasleft();
        out = Machine.run(data[place:], given, words);
        used -= gasleft();
    }
}
