//! The stored part of the Merkle tree of the weights: all levels above its small subtrees. A subtree is made again from
//! its leaves when one of them is opened, which checks them.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use tessera_verifier::opening::parts::Layout;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::{Digest, Suite};

use super::OpeningProverError;
use crate::trees;

/// log2 of the leaves of a subtree that is not stored.
pub const SUBTREE_LOG: u32 = 5;
/// Leaves of a subtree that is not stored.
pub const SUBTREE: usize = 1 << SUBTREE_LOG;
const DIGEST: usize = 32;

/// The levels of a Merkle tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    suite: Suite,
    levels: Vec<Vec<Digest>>,
}

impl Tree {
    /// The tree over nodes whose number is a power of two.
    pub fn new(suite: Suite, nodes: Vec<Digest>) -> Self {
        Self {
            suite,
            levels: trees::levels(suite, nodes),
        }
    }

    /// What it is hashed with.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// The root.
    pub fn root(&self) -> Digest {
        self.levels.last().map_or([0; DIGEST], |top| top[0])
    }

    /// Node `index` of level `level`, counted from the nodes that the tree was made of.
    pub fn node(&self, level: usize, index: usize) -> Digest {
        self.levels[level][index]
    }

    /// Nodes of the lowest level of the tree of a commitment.
    fn nodes(params: &CommitmentParams) -> usize {
        1 << params.log_leaves().saturating_sub(SUBTREE_LOG)
    }

    /// Size of the file in bytes.
    pub fn file_len(params: &CommitmentParams) -> u64 {
        (Self::nodes(params) * DIGEST) as u64
    }

    /// Writes the lowest level, from which all others follow.
    pub fn write(&self, file: &mut dyn Write) -> std::io::Result<()> {
        file.write_all(self.levels[0].as_flattened())
    }

    /// Reads a tree of a suite and checks that it is the one with root `root`.
    pub fn read(
        suite: Suite,
        path: &Path,
        params: &CommitmentParams,
        root: &Digest,
    ) -> Result<Self, OpeningProverError> {
        params.check()?;
        let io = |source| OpeningProverError::Open {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(io)?;
        let (got, expected) = (file.metadata().map_err(io)?.len(), Self::file_len(params));
        if got != expected {
            return Err(OpeningProverError::CacheLength {
                path: path.to_owned(),
                got,
                expected,
            });
        }
        let mut nodes = vec![[0; DIGEST]; Self::nodes(params)];
        file.read_exact(nodes.as_flattened_mut()).map_err(io)?;
        let tree = Self::new(suite, nodes);
        match tree.root() == *root {
            true => Ok(tree),
            false => Err(OpeningProverError::CacheRoot {
                path: path.to_owned(),
                got: hex::encode(tree.root()),
                expected: hex::encode(root),
            }),
        }
    }
}
