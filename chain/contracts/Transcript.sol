// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The transcript of docs/protocol.md, section 11, of the suite Keccak.
/// @notice A label is its bytes at the left of a word, with their number: no label of the protocol is longer than 32 bytes. Messages
/// are taken from calldata as they lie there.
library Transcript {
    uint256 private constant ONES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    uint256 private constant HIGH = 0x8000000080000000800000008000000080000000800000008000000080000000;
    uint256 private constant EVEN = 0xfffffffefffffffefffffffefffffffefffffffefffffffefffffffefffffffe;

    /// A digest of what was absorbed, and how often it was drawn from since.
    struct State {
        uint256 digest;
        uint256 draws;
    }

    /// Mixes a label of `length` bytes with the length of what follows.
    function label(State memory t, uint256 name, uint256 length, uint256 count) internal pure {
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            mstore(ptr, mload(t))
            mstore(add(ptr, 32), or(or(shl(224, length), shl(192, count)), shr(64, name)))
            mstore(add(ptr, 64), shl(192, name))
            mstore(t, keccak256(ptr, add(40, and(add(length, 3), not(3)))))
            mstore(add(t, 32), 0)
        }
    }

    /// Mixes bytes of calldata: whole words.
    function mix(State memory t, uint256 offset, uint256 size) internal pure {
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            mstore(ptr, mload(t))
            calldatacopy(add(ptr, 32), offset, size)
            mstore(t, keccak256(ptr, add(32, size)))
            mstore(add(t, 32), 0)
        }
    }

    /// Mixes up to 32 bytes at the left of a word.
    function mixWord(State memory t, uint256 word, uint256 size) internal pure {
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            mstore(ptr, mload(t))
            mstore(add(ptr, 32), word)
            mstore(t, keccak256(ptr, add(32, size)))
            mstore(add(t, 32), 0)
        }
    }

    /// Mixes 33 to 64 bytes at the left of two words.
    function mixWords(State memory t, uint256 first, uint256 second, uint256 size) internal pure {
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            mstore(ptr, mload(t))
            mstore(add(ptr, 32), first)
            mstore(add(ptr, 64), second)
            mstore(t, keccak256(ptr, add(32, size)))
            mstore(add(t, 32), 0)
        }
    }

    /// `message(l, v)`: elements of K in calldata.
    function message(State memory t, uint256 name, uint256 length, uint256 offset, uint256 count) internal pure {
        label(t, name, length, count);
        mix(t, offset, count << 4);
    }

    /// `message(l, v)` of elements in memory.
    function elements(State memory t, uint256 name, uint256 length, uint256[] memory values) internal pure {
        label(t, name, length, values.length);
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            mstore(ptr, mload(t))
            let to := add(ptr, 32)
            let from := add(values, 32)
            let count := mload(values)
            // Two elements a word; the last one may be alone, with what is behind it not hashed.
            for { let end := add(from, shl(5, count)) } lt(from, end) { from := add(from, 64) } {
                mstore(to, or(shl(128, mload(from)), mload(add(from, 32))))
                to := add(to, 32)
            }
            mstore(t, keccak256(ptr, add(32, shl(4, count))))
            mstore(add(t, 32), 0)
        }
    }

    /// `message(l, v)` of one element.
    function element(State memory t, uint256 name, uint256 length, uint256 value) internal pure {
        label(t, name, length, 1);
        mixWord(t, value << 128, 16);
    }

    /// The nonce of a proof of work, low half first, as words.
    function nonce(State memory t, uint256 name, uint256 length, uint256 value) internal pure {
        label(t, name, length, 2);
        mixNonce(t, value);
    }

    /// The words of a nonce, without a label.
    function mixNonce(State memory t, uint256 value) internal pure {
        mixWord(t, (value << 224) | ((value >> 32) << 192), 8);
    }

    /// `words(l, w)`: words in calldata.
    function words(State memory t, uint256 name, uint256 length, uint256 offset, uint256 count) internal pure {
        label(t, name, length, count);
        mix(t, offset, count << 2);
    }

    /// `bytes(l, v)` of a digest.
    function root(State memory t, uint256 name, uint256 length, uint256 value) internal pure {
        label(t, name, length, 32);
        mixWord(t, value, 32);
    }

    /// Eight words.
    function draw(State memory t) internal pure returns (uint256 eight) {
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            let count := mload(add(t, 32))
            mstore(ptr, mload(t))
            // The counter, and a byte 0 behind it.
            mstore(add(ptr, 32), shl(224, count))
            eight := keccak256(ptr, 37)
            mstore(add(t, 32), add(count, 1))
        }
    }

    /// Two elements of K: eight words below 2p, reduced.
    function drawPair(State memory t) internal pure returns (uint256 first, uint256 second) {
        bool again = true;
        while (again) (again, first, second) = reduced(draw(t));
    }

    /// Eight words as two elements of K, or whether one of the words is 2p or more.
    function reduced(uint256 eight) internal pure returns (bool again, uint256 first, uint256 second) {
        assembly ("memory-safe") {
            // A word of 2p or more is all ones but for the last bit: 0, when inverted.
            let inverted := and(not(eight), EVEN)
            again := iszero(iszero(and(and(sub(inverted, ONES), not(inverted)), HIGH)))
            // The low bits and the highest one, as 2^31 is 1; what is p then is 0.
            let v := add(and(eight, not(HIGH)), and(shr(31, eight), ONES))
            v := sub(v, mul(and(shr(31, add(v, ONES)), ONES), 0x7fffffff))
            first := shr(128, v)
            second := and(v, 0xffffffffffffffffffffffffffffffff)
        }
    }

    /// `challenge(l)`.
    function challenge(State memory t, uint256 name, uint256 length) internal pure returns (uint256 own) {
        label(t, name, length, 1);
        (own, ) = drawPair(t);
    }

    /// `challenges(l, n)`.
    function challenges(State memory t, uint256 name, uint256 length, uint256 count)
        internal
        pure
        returns (uint256[] memory all)
    {
        label(t, name, length, count);
        all = new uint256[](count);
        for (uint256 i = 0; i < count; i++) (all[i], ) = drawPair(t);
    }

    /// `positions(l, n, k)`: below 2^k, in the order drawn.
    function positions(State memory t, uint256 name, uint256 length, uint256 count, uint256 bits)
        internal
        pure
        returns (uint256[] memory)
    {
        label(t, name, length, count);
        return drawn(t, count, bits);
    }

    /// The same without a label.
    function drawn(State memory t, uint256 count, uint256 bits) internal pure returns (uint256[] memory all) {
        all = new uint256[](count);
        uint256 block_;
        for (uint256 i = 0; i < count; i++) {
            if (i & 7 == 0) block_ = draw(t);
            all[i] = (block_ >> (224 - 32 * (i & 7))) & ((1 << bits) - 1);
        }
    }

    /// Bits of work before each challenge that has as many bad values as a code has points.
    uint256 internal constant CHALLENGE_WORK = 8;

    /// A proof of work over everything absorbed, with the nonce in calldata, which is absorbed under a label.
    function work(State memory t, uint256 name, uint256 length, uint256 bits, uint256 place) internal pure {
        uint256 found;
        assembly ("memory-safe") {
            found := shr(192, calldataload(place))
        }
        require(worked(t, bits, found), "work");
        nonce(t, name, length, found);
    }

    /// Whether a nonce has so many bits of work over everything absorbed.
    function worked(State memory t, uint256 bits, uint256 found) internal pure returns (bool ok) {
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            mstore(ptr, shl(224, 0x12345678))
            mstore(add(ptr, 16), mload(t))
            mstore(add(ptr, 48), shl(224, bits))
            mstore(ptr, keccak256(ptr, 52))
            mstore(add(ptr, 32), shl(192, found))
            let hash := shr(128, keccak256(ptr, 40))
            ok := iszero(and(hash, sub(shl(bits, 1), 1)))
        }
    }
}
