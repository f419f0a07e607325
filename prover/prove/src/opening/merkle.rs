//! Merkle trees on the prover's side: building and batch authentication paths.

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::merkle::{hash_secure_leaf, Digest};
use tessera_verifier::suite::Suite;

use tessera_kernels::hashes::{self, Domain, SIMD_LANES};

/// Groups of [`SIMD_LANES`] hashes that a thread does at least.
const MIN_GROUPS: usize = 16;

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

/// Digests of leaves of `width` elements of the extension field each.
pub fn secure_leaves(suite: Suite, values: &[SecureField], width: usize) -> Vec<Digest> {
    let mut digests = vec![[0; 32]; values.len() / width];
    let groups = digests
        .par_chunks_mut(SIMD_LANES)
        .zip(values.par_chunks(SIMD_LANES * width));
    groups.with_min_len(MIN_GROUPS).for_each(|(digests, values)| {
        if digests.len() < SIMD_LANES {
            for (digest, leaf) in digests.iter_mut().zip(values.chunks_exact(width)) {
                *digest = hash_secure_leaf(suite, leaf);
            }
            return;
        }
        let words: Vec<u32> = values.iter().flat_map(|v| v.to_m31_array().map(|c| c.0)).collect();
        let leaf = words.len() / SIMD_LANES;
        let messages = std::array::from_fn(|i| &words[i * leaf..][..leaf]);
        digests.copy_from_slice(&hashes::hash(suite, Domain::Leaf, &messages));
    });
    digests
}

/// The authentication path of `leaves` (increasing) in a tree of depth `depth`, as
/// `tessera_verifier::opening::merkle::verify_batch` reads it. `node(level, index)` counts levels from the leaves.
pub fn path(leaves: &[usize], depth: u32, node: impl Fn(usize, usize) -> Digest) -> Vec<Digest> {
    let mut path = Vec::new();
    let mut nodes = leaves.to_vec();
    for level in 0..depth as usize {
        let mut parents = Vec::with_capacity(nodes.len());
        let mut pending = nodes.into_iter().peekable();
        while let Some(index) = pending.next() {
            if pending.next_if_eq(&(index ^ 1)).is_none() {
                path.push(node(level, index ^ 1));
            }
            parents.push(index / 2);
        }
        nodes = parents;
    }
    path
}
