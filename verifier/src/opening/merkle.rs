//! Blake2s-256 Merkle trees with batch openings. Leaves and nodes are hashed in different domains.

use blake2::{Blake2s256, Digest as _};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::error::{OpeningError, TreeName};

/// A Blake2s-256 digest.
pub type Digest = [u8; 32];

const LEAF: [u8; 1] = [0];
const NODE: [u8; 1] = [1];

/// Hashes one leaf, in pieces.
#[derive(Clone)]
pub struct LeafHasher(Blake2s256);

impl Default for LeafHasher {
    fn default() -> Self {
        Self(Blake2s256::new_with_prefix(LEAF))
    }
}

impl LeafHasher {
    /// Appends bytes to the leaf: field elements are 32-bit little-endian words.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of the leaf.
    pub fn finalize(self) -> Digest {
        self.0.finalize().into()
    }
}

/// Digest of a leaf of base field elements.
pub fn hash_base_leaf(values: &[BaseField]) -> Digest {
    let mut hasher = LeafHasher::default();
    hasher.update(&values.iter().flat_map(|v| v.0.to_le_bytes()).collect::<Vec<_>>());
    hasher.finalize()
}

/// Digest of a leaf of extension field elements.
pub fn hash_secure_leaf(values: &[SecureField]) -> Digest {
    hash_base_leaf(&values.iter().flat_map(|v| v.to_m31_array()).collect::<Vec<_>>())
}

/// Digest of an inner node.
pub fn hash_node(left: &Digest, right: &Digest) -> Digest {
    Blake2s256::new_with_prefix(NODE)
        .chain_update(left)
        .chain_update(right)
        .finalize()
        .into()
}

/// Checks that `leaves` (index and digest, strictly increasing indices below `2^depth`) are leaves of the
/// tree with root `root`. `path` holds the digests that do not follow from the leaves, level by level
/// from the leaves up, left to right, each once; it must be used up exactly.
pub fn verify_batch(
    tree: TreeName,
    root: &Digest,
    depth: u32,
    leaves: Vec<(usize, Digest)>,
    path: &[Digest],
) -> Result<(), OpeningError> {
    let mut path = path.iter();
    let mut nodes = leaves;
    for _ in 0..depth {
        let mut parents = Vec::with_capacity(nodes.len());
        let mut level = nodes.into_iter().peekable();
        while let Some((index, digest)) = level.next() {
            let sibling = match level.next_if(|(next, _)| *next == index ^ 1) {
                Some((_, sibling)) => sibling,
                None => *path.next().ok_or(OpeningError::PathTooShort { tree })?,
            };
            let parent = match index % 2 {
                0 => hash_node(&digest, &sibling),
                _ => hash_node(&sibling, &digest),
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
        [(0, digest)] if digest == root => Ok(()),
        _ => Err(OpeningError::Root { tree }),
    }
}
