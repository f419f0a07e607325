//! Blake2s-256 of sixteen leaves or nodes at a time, one per SIMD lane: the digests of
//! `tessera_verifier::opening::merkle`. A message is one byte that tells leaves from nodes, then 32-bit words,
//! so every word of a block is made of two words of the message.

use std::simd::u32x16;

use stwo::prover::backend::simd::blake2s::{compress_finalize, compress_unfinalized, INITIAL_STATE};
use tessera_verifier::opening::merkle::Digest;

/// Messages that are hashed together.
pub const SIMD_LANES: usize = 16;
/// Words of a block.
pub const BLOCK: usize = 16;
const BLOCK_BYTES: u64 = 64;
const WORD_BYTES: u64 = 4;

/// The first byte of a message.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Domain {
    Leaf = 0,
    Node = 1,
}

/// Sixteen hashes in progress. How many blocks they have absorbed is for the caller to know, who has many of them.
#[derive(Clone)]
pub struct Hashes {
    state: [u32x16; 8],
    /// The word before the next one; its last byte is not yet hashed.
    last: u32x16,
}

impl Hashes {
    pub fn new(domain: Domain) -> Self {
        Self {
            state: INITIAL_STATE,
            last: u32x16::splat((domain as u32) << 24),
        }
    }

    /// Absorbs block number `block` (from 0) of every message.
    #[inline(always)]
    pub fn block(&mut self, block: u64, words: &[u32x16; BLOCK]) {
        let shifted = std::array::from_fn(|i| join(if i == 0 { self.last } else { words[i - 1] }, words[i]));
        self.state = compress_unfinalized(self.state, shifted, (block + 1) * BLOCK_BYTES);
        self.last = words[BLOCK - 1];
    }

    /// The digests, after `blocks` blocks and fewer than [`BLOCK`] more words.
    #[inline(always)]
    pub fn finish(mut self, blocks: u64, words: &[u32x16]) -> [Digest; SIMD_LANES] {
        let mut block = [u32x16::splat(0); BLOCK];
        for (to, &word) in block.iter_mut().zip(words) {
            *to = join(self.last, word);
            self.last = word;
        }
        block[words.len()] = self.last >> 24;
        let bytes = blocks * BLOCK_BYTES + words.len() as u64 * WORD_BYTES + 1;
        digests(&compress_finalize(self.state, block, bytes))
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

/// The digests of sixteen messages of equal length.
pub fn hash(domain: Domain, messages: &[&[u32]; SIMD_LANES]) -> [Digest; SIMD_LANES] {
    let mut hashes = Hashes::new(domain);
    let len = messages[0].len();
    let blocks = len / BLOCK;
    for block in 0..blocks {
        hashes.block(block as u64, &words(messages, block * BLOCK));
    }
    hashes.finish(blocks as u64, &words(messages, blocks * BLOCK)[..len % BLOCK])
}
