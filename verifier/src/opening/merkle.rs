//! Merkle trees with batch openings, of the suite of the key. The depth of a tree and the length of its leaves are the
//! verifier's, so no node can stand for a leaf.

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::error::{OpeningError, TreeName};
use crate::suite::{Digest, Suite};

/// Digest of a leaf of base field elements.
pub fn hash_base_leaf(suite: Suite, values: &[BaseField]) -> Digest {
    let mut hasher = suite.leaf_hasher();
    hasher.fields(values);
    hasher.finalize()
}

/// Digest of a leaf of extension field elements.
pub fn hash_secure_leaf(suite: Suite, values: &[SecureField]) -> Digest {
    hash_base_leaf(suite, &values.iter().flat_map(|v| v.to_m31_array()).collect::<Vec<_>>())
}

/// The tree that leaves are checked against.
#[derive(Clone, Copy, Debug)]
pub struct CommittedTree<'a> {
    /// What it is called in errors.
    pub name: TreeName,
    /// Hash of leaves and nodes.
    pub suite: Suite,
    /// Its root.
    pub root: &'a Digest,
    /// Levels between leaves and root.
    pub depth: u32,
}

/// Checks that `leaves` (index and digest, strictly increasing indices below `2^depth`) are leaves of a tree. `path` holds the
/// digests that do not follow from the leaves, level by level from the leaves up, left to right, each once; it must be used up
/// exactly.
pub fn verify_batch(
    committed: &CommittedTree<'_>,
    leaves: Vec<(usize, Digest)>,
    path: &[Digest],
) -> Result<(), OpeningError> {
    let (tree, suite) = (committed.name, committed.suite);
    let mut path = path.iter();
    let mut nodes = leaves;
    for _ in 0..committed.depth {
        let mut parents = Vec::with_capacity(nodes.len());
        let mut level = nodes.into_iter().peekable();
        while let Some((index, digest)) = level.next() {
            let sibling = match level.next_if(|(next, _)| *next == index ^ 1) {
                Some((_, sibling)) => sibling,
                None => *path.next().ok_or(OpeningError::PathTooShort { tree })?,
            };
            let parent = match index % 2 {
                0 => suite.node(&digest, &sibling),
                _ => suite.node(&sibling, &digest),
            };
            parents.push((index / 2, parent));
        }
        nodes = parents;
    }
    match path.len() {
        0 => {}
        unused => return Err(OpeningError::PathTooLong { tree, unused }),
    }
    match nodes.as_slice() {
        [(0, digest)] if digest == committed.root => Ok(()),
        _ => Err(OpeningError::Root { tree }),
    }
}
