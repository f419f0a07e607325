//! Merkle trees on the prover's side: building and batch authentication paths.

use rayon::prelude::*;
use tessera_verifier::opening::merkle::{hash_node, Digest};

/// Layers of the tree over `leaves` (a power of two), leaves first, root last.
pub fn layers(leaves: Vec<Digest>) -> Vec<Vec<Digest>> {
    let mut layers = vec![leaves];
    while let Some(last) = layers.last().filter(|last| last.len() > 1) {
        let next = last
            .par_chunks(2)
            .with_min_len(64)
            .map(|pair| hash_node(&pair[0], &pair[1]))
            .collect();
        layers.push(next);
    }
    layers
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
