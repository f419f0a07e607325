//! Leaves of oracles, and batch authentication paths.

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::parts::hash_secure_leaf;
use tessera_verifier::suite::{Digest, Suite};

use crate::trees::MIN_GROUPS;
use tessera_kernels::hashes::{self, Domain, SIMD_LANES};

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
/// the verifier's `verify_batch` reads it. `node(level, index)` counts levels from the leaves.
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
