//! What hashes of sixteen messages at a time have in common.

use std::simd::u32x16;

use tessera_verifier::suite::Digest;

/// Messages that are hashed together.
pub const SIMD_LANES: usize = 16;
/// Words that messages are absorbed by.
pub const BLOCK: usize = 16;

/// The first byte of a message.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Domain {
    Leaf = 0,
    Node = 1,
}

/// Sixteen hashes in progress. How many words they have absorbed is for the caller to know, who has many of them.
pub trait LaneHash: Clone + Send + Sync {
    /// Nothing absorbed yet.
    fn new(domain: Domain) -> Self;

    /// Absorbs words of every message, a multiple of [`BLOCK`], after `at` words, another such multiple.
    fn absorb(&mut self, at: u64, words: &[u32x16]);

    /// The digests, after `at` words, a multiple of [`BLOCK`], and any number of words more.
    fn finish(self, at: u64, words: &[u32x16]) -> [Digest; SIMD_LANES];
}
