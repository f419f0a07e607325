// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Field} from "../contracts/Field.sol";
import {Multilinear} from "../contracts/Multilinear.sol";
import {Opening} from "../contracts/Opening.sol";
import {Transcript} from "../contracts/Transcript.sol";

/// @title What a part of a proof is about, as the tests give it: in calldata, in the layouts of chain/plan/examples/chain_vectors.
abstract contract Claims {
    /// What an opening is about, and where its conversation begins.
    function claims(bytes calldata data)
        internal
        pure
        returns (
            Transcript.State memory t,
            Opening.Policy memory policy,
            Opening.Code[2] memory codes,
            uint256[][2] memory gammas,
            uint256 place
        )
    {
        t.digest = uint256(bytes32(data[0:32]));
        policy = Opening.Policy(uint8(data[32]), uint16(bytes2(data[33:35])), uint8(data[35]));
        uint256 pos = 76;
        for (uint256 k = 0; k < 2; k++) {
            Opening.Code memory code = codes[k];
            uint256 header = 36 + 20 * k;
            code.tiles = uint32(bytes4(data[header:header + 4]));
            code.log = uint32(bytes4(data[header + 4:header + 8]));
            code.first = uint32(bytes4(data[header + 8:header + 12]));
            code.opened = uint32(bytes4(data[header + 12:header + 16]));
            code.band = uint32(bytes4(data[header + 16:header + 20]));
            code.root = uint256(bytes32(data[pos:pos + 32]));
            uint256 bands = code.opened >> code.band;
            gammas[k] = elements(data, pos + 32, bands);
            code.point = elements(data, pos + 32 + 16 * bands, 12 + code.band);
            pos += 32 + 16 * (bands + 12 + code.band);
            code.value = element(data, pos);
            pos += 16;
        }
        place = endOf(data) - data.length + pos;
    }

    /// What a program of a plan has to find: where the band sumchecks end, with the coefficients of their bands.
    function checked(uint256[][2] memory gammas, Opening.End[2] memory ends) internal pure {
        for (uint256 k = 0; k < 2; k++) {
            uint256 own = Field.mul(Multilinear.extension(gammas[k], ends[k].rho), ends[k].value);
            require(own == ends[k].claim, "opening: end of the band sumcheck");
        }
    }

    function endOf(bytes calldata data) internal pure returns (uint256 place) {
        assembly {
            place := add(data.offset, data.length)
        }
    }

    function element(bytes calldata data, uint256 pos) internal pure returns (uint256 x) {
        x = uint128(bytes16(data[pos:pos + 16]));
        require(Field.canonical(x), "element");
    }

    function elements(bytes calldata data, uint256 pos, uint256 count) internal pure returns (uint256[] memory all) {
        all = new uint256[](count);
        for (uint256 i = 0; i < count; i++) all[i] = element(data, pos + 16 * i);
    }
}
