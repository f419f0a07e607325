//! Sixteen leaves or nodes hashed at a time, one per SIMD lane: the digests of the trees of `tessera_verifier::opening`.

pub mod blake2s;
pub mod keccak;
mod lanes;

use std::simd::u32x16;

use tessera_verifier::suite::{Digest, Suite};

pub use self::lanes::{Domain, LaneHash, BLOCK, SIMD_LANES};

/// Sixteen vectors as the rows of a matrix, transposed.
#[inline(always)]
pub fn transpose(mut rows: [u32x16; SIMD_LANES]) -> [u32x16; SIMD_LANES] {
    for _ in 0..SIMD_LANES.ilog2() {
        let pairs: [(u32x16, u32x16); SIMD_LANES / 2] =
            std::array::from_fn(|i| rows[i].interleave(rows[i + SIMD_LANES / 2]));
        rows = std::array::from_fn(|i| if i % 2 == 0 { pairs[i / 2].0 } else { pairs[i / 2].1 });
    }
    rows
}

/// The words of sixteen messages of equal length, at most [`BLOCK`] words of each from word `first` on.
pub fn words(messages: &[&[u32]; SIMD_LANES], first: usize) -> [u32x16; BLOCK] {
    transpose(messages.map(|message| {
        let mut row = [0; BLOCK];
        row.iter_mut().zip(&message[first..]).for_each(|(to, word)| *to = *word);
        u32x16::from_array(row)
    }))
}

/// Bytes that a leaf's hash takes while it is in progress.
pub const fn leaf_bytes(suite: Suite) -> usize {
    let group = match suite {
        Suite::Blake2s => size_of::<blake2s::Hashes>(),
        Suite::Keccak => size_of::<keccak::Hashes>(),
    };
    group / SIMD_LANES
}

/// The digests of sixteen messages of equal length.
pub fn hash(suite: Suite, domain: Domain, messages: &[&[u32]; SIMD_LANES]) -> [Digest; SIMD_LANES] {
    match suite {
        Suite::Blake2s => hash_with::<blake2s::Hashes>(domain, messages),
        Suite::Keccak => hash_with::<keccak::Hashes>(domain, messages),
    }
}

fn hash_with<H: LaneHash>(domain: Domain, messages: &[&[u32]; SIMD_LANES]) -> [Digest; SIMD_LANES] {
    let mut hashes = H::new(domain);
    let len = messages[0].len();
    let whole = len / BLOCK * BLOCK;
    for at in (0..whole).step_by(BLOCK) {
        hashes.absorb(at as u64, &words(messages, at));
    }
    hashes.finish(whole as u64, &words(messages, whole)[..len % BLOCK])
}
