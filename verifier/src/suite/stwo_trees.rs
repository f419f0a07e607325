//! The trees of the STARK as stwo takes them. Only keys of Blake2s ask for a STARK.

use stwo::core::channel::MerkleChannel;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleHasher;

use super::SuiteChannel;

/// The trees of the STARK, and the transcript that absorbs their roots.
#[derive(Debug, Default)]
pub struct Trees;

impl MerkleChannel for Trees {
    type C = SuiteChannel;
    type H = Blake2sMerkleHasher;

    fn mix_root(channel: &mut SuiteChannel, root: Blake2sHash) {
        channel.mix_root(&root.0);
    }
}
