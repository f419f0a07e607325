// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Conversation} from "./Conversation.sol";

/// @title What a plan says of a model beside its program, and the statements that it is for (docs/chain.md).
/// @notice Anybody can make a plan again from a key, by `tessera chain plan`. A fact names the digest of the plan, so that what a plan says
/// is told of nobody else.
library Plan {
    /// The model's id, the root of the weights, and numbers, in calldata as they lie here: digests of 32 bytes and numbers of four.
    /// Behind them are the variables of the sixteen products and log2 of the leaves of the trees, that of the tables last, a byte each.
    struct Header {
        uint256 model;
        uint256 weights;
        uint256 layers;
        uint256 blowup;
        uint256 queries;
        uint256 log;
        uint256 units;
        uint256 coordinates;
        uint256 linear;
        uint256 rows;
        uint256 outputs;
        uint256 vocabulary;
        uint256 context;
        uint256 first;
        uint256 run;
        uint256 tiles;
        uint256 message;
        uint256 column;
        uint256 opened;
        uint256 band;
        uint256 padding;
        uint256 bits;
        uint256 trees;
    }

    uint256 private constant DIGESTS = 2;
    uint256 private constant NUMBERS = 21;
    uint256 private constant PRODUCTS = 16;
    /// Bytes of all but the trees.
    uint256 private constant SIZE = 32 * DIGESTS + 4 * NUMBERS + PRODUCTS;

    /// The digest of a plan: of those of its header and its program.
    function digest(bytes calldata header, bytes32 program) internal pure returns (bytes32) {
        return keccak256(abi.encode(keccak256(header), program));
    }

    /// Reads a header.
    function read(bytes calldata data) internal pure returns (Header memory header) {
        require(data.length >= SIZE, "plan: length");
        assembly ("memory-safe") {
            let from := data.offset
            calldatacopy(header, from, mul(32, DIGESTS))
            from := add(from, mul(32, DIGESTS))
            let to := add(header, mul(32, DIGESTS))
            for { let end := add(to, mul(32, NUMBERS)) } lt(to, end) { to := add(to, 32) } {
                mstore(to, shr(224, calldataload(from)))
                from := add(from, 4)
            }
        }
        require(data.length == SIZE + header.trees, "plan: length");
        // What is shifted by these, or counted by them, stays small.
        require(header.rows <= 1 << 13 && header.padding < 0x7fffffff, "plan: header");
        // Whole blocks: of sixteen rows, or one of as many as a power of two.
        uint256 rest = header.rows & (header.rows > 16 ? 15 : header.rows - 1);
        require(rest == 0, "plan: header");
    }

    /// What a conversation follows from, but for the number of leading rows, which the statement decides.
    function shape(Header memory header, bytes calldata data) internal pure returns (Conversation.Shape memory s) {
        (s.model, s.layers) = (header.model, header.layers);
        (s.blowup, s.queries, s.log, s.units) = (header.blowup, header.queries, header.log, header.units);
        (s.coordinates, s.linear) = (header.coordinates, header.linear);
        for (uint256 i = 0; i < PRODUCTS; i++) s.variables[i] = uint8(data[SIZE - PRODUCTS + i]);
        s.trees = new uint256[](header.trees);
        for (uint256 i = 0; i < header.trees; i++) s.trees[i] = uint8(data[SIZE + i]);
    }

    /// The words of a statement (docs/protocol.md, sections 1 and 2.1), by kind. In calldata are its ids. Reverts if it is malformed, or
    /// of other lengths.
    function words(Header memory header, uint256 prompt, uint256 ids) internal pure returns (uint256[][] memory all) {
        uint256 outputs = header.outputs;
        require(prompt > 0 && outputs > 0, "statement: length");
        uint256 rows = prompt + outputs - 1;
        uint256 most = header.rows;
        // Rows in blocks of sixteen, or one block of fewer that is as long as a power of two.
        require(rows <= most && rows <= header.context && (most > 16 ? rows + 16 > most : 2 * rows > most), "statement: length");
        all = new uint256[][](5);
        all[0] = new uint256[](most);
        all[1] = new uint256[](outputs);
        all[2] = new uint256[](1);
        all[3] = new uint256[](1);
        all[4] = new uint256[](1);
        for (uint256 i = 0; i < prompt + outputs; i++) {
            uint256 id = word(ids + 4 * i);
            require(id < header.vocabulary, "statement: id");
            if (i < rows) all[0][i] = id;
            if (i >= prompt) all[1][i - prompt] = id;
        }
        all[2][0] = prompt - 1;
        all[3][0] = leading(header, all[0], rows);
        all[4][0] = rows - 1;
    }

    /// Section 2.1: how many of the first `rows` ids, which the text has, belong to leading rows.
    function leading(Header memory header, uint256[] memory ids, uint256 rows) internal pure returns (uint256 count) {
        if (header.run != 0) while (count < rows && ids[count] == ids[0]) count++;
        uint256 least = header.first < rows ? header.first : rows;
        if (count < least) count = least;
    }

    function word(uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := shr(224, calldataload(place))
        }
    }
}
