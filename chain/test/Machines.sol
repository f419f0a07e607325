// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "../contracts/Field.sol";
import {Machine} from "../contracts/Machine.sol";

/// @title Programs of plans, as verifier/examples/chain_vectors prints them.
contract Machines {
    /// Numbers of inputs, of outputs and of the words of each kind, two bytes each; inputs, words, the program. Returns the outputs.
    function machine(bytes calldata data) external view returns (bytes memory out, uint256 used) {
        uint256 outputs = uint16(bytes2(data[2:4]));
        uint256[] memory inputs = new uint256[](uint16(bytes2(data[0:2])));
        uint256 place = 14;
        for (uint256 i = 0; i < inputs.length; i++) {
            inputs[i] = uint128(bytes16(data[place:place + 16]));
            require(Field.canonical(inputs[i]), "element");
            place += 16;
        }
        uint256[][] memory words = new uint256[][](5);
        for (uint256 kind = 0; kind < 5; kind++) {
            words[kind] = new uint256[](uint16(bytes2(data[4 + 2 * kind:6 + 2 * kind])));
            for (uint256 i = 0; i < words[kind].length; i++) {
                words[kind][i] = uint32(bytes4(data[place:place + 4]));
                place += 4;
            }
        }
        uint256 code;
        assembly {
            code := add(data.offset, place)
        }
        used = gasleft();
        uint256[] memory results = Machine.run(code, code + data.length - place, inputs, outputs, words);
        used -= gasleft();
        out = new bytes(16 * outputs);
        for (uint256 i = 0; i < outputs; i++) {
            uint256 value = results[i] << 128;
            assembly {
                mstore(add(add(out, 32), mul(16, i)), value)
            }
        }
    }
}
