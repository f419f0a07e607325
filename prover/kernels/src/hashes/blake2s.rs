//! Blake2s-256 of sixteen leaves or nodes at a time. A message is one byte that tells leaves from nodes, then 32-bit words, so
//! every word of a block is made of two words of the message.

mod compress;

use std::simd::u32x16;

use tessera_verifier::suite::Digest;

use super::lanes::{Domain, LaneHash, BLOCK, SIMD_LANES};

const BLOCK_BYTES: u64 = 64;
const WORD_BYTES: u64 = 4;

/// Sixteen hashes in progress.
#[derive(Clone)]
pub struct Hashes {
    state: [u32x16; 8],
    /// The word before the next one; its last byte is not yet hashed.
    last: u32x16,
}

impl LaneHash for Hashes {
    fn new(domain: Domain) -> Self {
        Self {
            state: compress::INITIAL_STATE,
            last: u32x16::splat((domain as u32) << 24),
        }
    }

    #[inline(always)]
    fn absorb(&mut self, at: u64, words: &[u32x16]) {
        let first = at / BLOCK as u64;
        for (i, block) in words.as_chunks().0.iter().enumerate() {
            self.block(first + i as u64, block);
        }
    }

    #[inline(always)]
    fn finish(mut self, at: u64, words: &[u32x16]) -> [Digest; SIMD_LANES] {
        let (blocks, rest) = words.as_chunks::<BLOCK>();
        self.absorb(at, blocks.as_flattened());
        self.last(at / BLOCK as u64 + blocks.len() as u64, rest)
    }
}

impl Hashes {
    /// Absorbs block number `block` (from 0) of every message.
    #[inline(always)]
    fn block(&mut self, block: u64, words: &[u32x16; BLOCK]) {
        let shifted = std::array::from_fn(|i| join(if i == 0 { self.last } else { words[i - 1] }, words[i]));
        self.state = compress::compress(self.state, &shifted, (block + 1) * BLOCK_BYTES, false);
        self.last = words[BLOCK - 1];
    }

    /// The digests, after `blocks` blocks and fewer than [`BLOCK`] more words.
    #[inline(always)]
    fn last(mut self, blocks: u64, words: &[u32x16]) -> [Digest; SIMD_LANES] {
        let mut block = [u32x16::splat(0); BLOCK];
        for (to, &word) in block.iter_mut().zip(words) {
            *to = join(self.last, word);
            self.last = word;
        }
        block[words.len()] = self.last >> 24;
        let bytes = blocks * BLOCK_BYTES + words.len() as u64 * WORD_BYTES + 1;
        digests(&compress::compress(self.state, &block, bytes, true))
    }
}

/// The four bytes that begin with the last byte of `before`.
#[inline(always)]
fn join(before: u32x16, word: u32x16) -> u32x16 {
    (word << 8) | (before >> 24)
}

fn digests(state: &[u32x16; 8]) -> [Digest; SIMD_LANES] {
    let words = state.map(u32x16::to_array);
    std::array::from_fn(|lane| {
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(&words) {
            *bytes = word[lane].to_le_bytes();
        }
        digest
    })
}
