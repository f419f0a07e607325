// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Facts} from "./Verifier.sol";

/// @title An example of a consumer: it pays whoever proves that a model generates a text.
/// @notice Whoever opens a bounty says of which plan he knows that it is the one of his model, and the digests of prompt and output: of
/// their ids, four bytes each, big-endian. Whoever proves the text names the address to pay in the context of the proof: twelve bytes 0 and
/// the address. So a proof that is copied from the chain or on its way there pays its prover, whoever submits it and whoever calls `claim`.
/// A bounty can be taken back after its last block.
contract Bounty {
    struct Offer {
        address payable from;
        uint96 bits;
        uint256 amount;
        uint256 last;
        bytes32 plan;
        bytes32 prompt;
        bytes32 output;
    }

    Facts public immutable FACTS;
    Offer[] public offers;

    event Offered(uint256 indexed number, bytes32 indexed plan, bytes32 prompt, bytes32 output, uint256 amount);
    event Paid(uint256 indexed number, address to);

    constructor(Facts facts) {
        FACTS = facts;
    }

    /// Offers what is sent, for a fact of so many bits of security (tenths), up to a block.
    function offer(bytes32 plan, bytes32 prompt, bytes32 output, uint96 bits, uint256 last) external payable returns (uint256 number) {
        number = offers.length;
        offers.push(Offer(payable(msg.sender), bits, msg.value, last, plan, prompt, output));
        emit Offered(number, plan, prompt, output, msg.value);
    }

    /// Pays an offer to an address that is the context of a proof. Anybody may call it.
    function claim(uint256 number, address payable to) external {
        Offer storage own = offers[number];
        (uint256 bits, uint256 written) = FACTS.verified(own.plan, own.prompt, own.output, bytes32(uint256(uint160(address(to)))));
        require(to != address(0) && written != 0 && bits >= own.bits, "bounty: no fact");
        pay(own, number, to);
    }

    /// Takes an offer back whose time is over.
    function withdraw(uint256 number) external {
        Offer storage own = offers[number];
        require(block.number > own.last, "bounty: too early");
        pay(own, number, own.from);
    }

    /// An offer is empty before it is paid.
    function pay(Offer storage own, uint256 number, address payable to) private {
        uint256 amount = own.amount;
        require(amount != 0, "bounty: nothing left");
        own.amount = 0;
        (bool done, ) = to.call{value: amount}("");
        require(done, "bounty: not paid");
        emit Paid(number, to);
    }
}
