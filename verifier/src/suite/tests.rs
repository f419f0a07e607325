//! The suites against published digests and against stwo's channel.

use stwo::core::channel::MerkleChannel;
use stwo::core::channel::{Blake2sChannel, Channel};
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;

use super::*;

/// Keccak-256 is what Ethereum calls so, not SHA3-256, whose padding is another.
#[test]
fn keccak_is_that_of_ethereum() {
    let digest = |bytes: &[u8]| {
        let mut hasher = Suite::Keccak.hasher();
        hasher.update(bytes);
        hex::encode(hasher.finalize())
    };
    assert_eq!(
        digest(b""),
        "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    );
    assert_eq!(
        digest(b"abc"),
        "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"
    );
}

/// Byte by byte what stwo makes of the same conversation.
#[test]
fn the_channel_of_blake2s_is_stwos() {
    let (mut own, mut theirs) = (SuiteChannel::new(Suite::Blake2s), Blake2sChannel::default());
    for step in 0..20 {
        let felts = [own.draw_secure_felt(), own.draw_secure_felt()];
        assert_eq!(felts, [theirs.draw_secure_felt(), theirs.draw_secure_felt()]);
        assert_eq!(own.draw_secure_felts(step), theirs.draw_secure_felts(step));
        assert_eq!(own.draw_u32s(), theirs.draw_u32s());
        own.mix_felts(&felts);
        theirs.mix_felts(&felts);
        own.mix_u32s(&[1; 9][..step % 9]);
        theirs.mix_u32s(&[1; 9][..step % 9]);
        own.mix_u64(u64::MAX - step as u64);
        theirs.mix_u64(u64::MAX - step as u64);
        own.mix_root(&[step as u8; 32]);
        Blake2sMerkleChannel::mix_root(&mut theirs, Blake2sHash([step as u8; 32]));
        assert_eq!(*own.digest(), theirs.digest().0);
        let worked = |nonce: &u64| own.verify_pow_nonce(3, *nonce);
        let expected = |nonce: &u64| theirs.verify_pow_nonce(3, *nonce);
        assert_eq!(
            (0..100).filter(worked).collect::<Vec<_>>(),
            (0..100).filter(expected).collect::<Vec<_>>()
        );
    }
}

/// In a channel of Keccak, numbers are big-endian, and what is drawn is a digest of its own.
#[test]
fn the_channel_of_keccak_hashes_big_endian_numbers() {
    let keccak = |parts: &[&[u8]]| -> Digest { Keccak256::digest(parts.concat()).into() };
    let mut channel = SuiteChannel::new(Suite::Keccak);
    channel.mix_u32s(&[1, 0x0203_0405]);
    let digest = keccak(&[&[0; 32], &[0, 0, 0, 1, 2, 3, 4, 5]]);
    assert_eq!(*channel.digest(), digest);
    for draw in 0..3 {
        let words: Vec<u8> = channel.draw_u32s().iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(words, keccak(&[&digest, &[0, 0, 0, draw, 0]]));
    }
    let work = keccak(&[&[0x12, 0x34, 0x56, 0x78], &[0; 12], &digest, &[0, 0, 0, 7]]);
    assert_eq!(channel.work_digest(7), work);
    for nonce in 0..500u64 {
        let hashed = keccak(&[&work, &nonce.to_be_bytes()]);
        assert_eq!(channel.verify_pow_nonce(7, nonce), hashed[15] & 127 == 0, "{nonce}");
    }
}

/// A key's number of a suite is one of those known.
#[test]
fn other_numbers_are_no_suite() {
    for (number, suite) in Suite::ALL.into_iter().enumerate() {
        assert_eq!(Suite::try_from(number as u32), Ok(suite));
        assert_eq!(u32::from(suite), number as u32);
    }
    for number in [2, 3, u32::MAX] {
        assert_eq!(Suite::try_from(number), Err(UnknownSuite(number)));
    }
}
