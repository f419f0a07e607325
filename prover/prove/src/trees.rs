//! Merkle trees of all commitments: the levels above some nodes, of which sixteen are hashed at a time.

use rayon::prelude::*;
use tessera_kernels::hashes::{self, Domain, SIMD_LANES};
use tessera_verifier::suite::{Digest, Suite};

/// Groups of [`SIMD_LANES`] hashes that a thread does at least.
pub const MIN_GROUPS: usize = 16;

/// Levels of the tree over `leaves` (a power of two), leaves first, root last.
pub fn levels(suite: Suite, leaves: Vec<Digest>) -> Vec<Vec<Digest>> {
    let mut levels = vec![leaves];
    while let Some(last) = levels.last().filter(|last| last.len() > 1) {
        let next = parents(suite, last);
        levels.push(next);
    }
    levels
}

/// The level above an even number of nodes.
pub fn parents(suite: Suite, nodes: &[Digest]) -> Vec<Digest> {
    let mut parents = vec![[0; 32]; nodes.len() / 2];
    let groups = parents.par_chunks_mut(SIMD_LANES).zip(nodes.par_chunks(2 * SIMD_LANES));
    groups
        .with_min_len(MIN_GROUPS)
        .for_each(|(parents, nodes)| match <[Digest; 2 * SIMD_LANES]>::try_from(nodes) {
            Ok(nodes) => {
                let pairs: [[u32; 16]; SIMD_LANES] = std::array::from_fn(|i| {
                    let words = |half: &Digest, at: usize| suite.word(half.as_chunks().0[at]);
                    std::array::from_fn(|w| words(&nodes[2 * i + w / 8], w % 8))
                });
                parents.copy_from_slice(&hashes::hash(
                    suite,
                    Domain::Node,
                    &pairs.each_ref().map(|p| p.as_slice()),
                ));
            }
            Err(_) => {
                for (parent, pair) in parents.iter_mut().zip(nodes.chunks_exact(2)) {
                    *parent = suite.node(&pair[0], &pair[1]);
                }
            }
        });
    parents
}
