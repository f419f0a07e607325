// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Digests, for tests.
contract Hash {
    function digest(bytes calldata data) external pure returns (bytes32) {
        return keccak256(data);
    }
}
