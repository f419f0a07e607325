//! The committed codeword as the prover opens it: from the codeword file, or from the weights.
//!
//! The codeword file has the columns in batches of 16 (the last batch may be narrower). A batch is its share of every
//! leaf, in leaf order: column by column, the values of the fibre, as 32-bit little-endian words.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use stwo::core::fields::m31::{BaseField, P};
use tessera_verifier::opening::parts::{Layout, LeafOpening, FIBRE};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::{Digest, Suite};

use super::commit::{SIMD_LANES, WORD};
use super::fft::Twiddles;
use super::tree::{Tree, SUBTREE, SUBTREE_LOG};
use super::{length, merkle, rows, OpeningProverError, TileSource};
use tessera_kernels::hashes::{self, Domain};
use tessera_model::passes::Traffic;

/// A codeword: its parameters, its tree, and where the values come from.
pub struct Codeword {
    params: CommitmentParams,
    tree: Tree,
    root: Digest,
    values: Option<CodewordFile>,
}

struct CodewordFile {
    path: PathBuf,
    /// Read, not mapped: of a file that is mapped, much more enters memory than the few leaves that are opened.
    file: Mutex<File>,
}

impl CodewordFile {
    fn read(&self, start: u64, bytes: &mut [u8]) -> Result<(), OpeningProverError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(bytes));
        read.map_err(|source| OpeningProverError::Open {
            path: self.path.clone(),
            source,
        })
    }
}

/// The leaves of a subtree, and the tree over them.
pub(super) struct Subtree {
    pub index: usize,
    /// Leaf by leaf, column by column, the values of the fibre.
    pub values: Vec<u32>,
}

impl Codeword {
    /// A codeword of which the opened values are made again, in a pass over the weights.
    pub fn new(params: CommitmentParams, tree: Tree) -> Self {
        let root = tree.root();
        Self {
            params,
            tree,
            root,
            values: None,
        }
    }

    /// Number of values, which is also how far [`commit`](super::commit) reports that it is.
    pub fn values(params: &CommitmentParams) -> u64 {
        (params.columns() as u64) << params.log_codeword()
    }

    /// Size of the codeword file in bytes.
    pub fn file_len(params: &CommitmentParams) -> u64 {
        Self::values(params) * WORD as u64
    }

    /// As [`Self::new`], but takes the values from a codeword file, which must have the right length. They are checked
    /// when they are opened.
    pub fn with_file(params: CommitmentParams, tree: Tree, path: &Path) -> Result<Self, OpeningProverError> {
        let io = |source| OpeningProverError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let (got, expected) = (file.metadata().map_err(io)?.len(), Self::file_len(&params));
        if got != expected {
            return Err(OpeningProverError::CacheLength {
                path: path.to_owned(),
                got,
                expected,
            });
        }
        let path = path.to_owned();
        Ok(Self {
            values: Some(CodewordFile {
                path,
                file: Mutex::new(file),
            }),
            ..Self::new(params, tree)
        })
    }

    /// Whether the values are taken from a file.
    pub fn has_file(&self) -> bool {
        self.values.is_some()
    }

    /// The suite that the leaves were hashed with.
    pub fn suite(&self) -> Suite {
        self.tree.suite()
    }

    /// The parameters of the commitment.
    pub fn params(&self) -> &CommitmentParams {
        &self.params
    }

    /// Root of the Merkle tree.
    pub fn root(&self) -> &Digest {
        &self.root
    }

    /// Opens `leaves` (increasing); `source` are the weights that were committed to. Nothing is returned that does
    /// not hash to the root.
    pub fn open(&self, source: &dyn TileSource, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        let twiddles = Twiddles::new(self.params.log_message, self.params.log_blowup);
        Ok(self.open_with(source, &twiddles, leaves)?.0)
    }

    /// As [`Self::open`], with the twiddles of the code. Also returns what was read of the weights.
    pub(super) fn open_with(
        &self,
        source: &dyn TileSource,
        twiddles: &Twiddles,
        leaves: &[usize],
    ) -> Result<(LeafOpening, Traffic), OpeningProverError> {
        let mut traffic = Traffic::default();
        let opening = open_leaves(&self.params, &self.tree, leaves, |indices| match &self.values {
            Some(file) => {
                let subtrees = indices.par_iter().map(|&index| self.read_subtree(file, index));
                subtrees.collect::<Result<Vec<_>, _>>()
            }
            None => {
                let (subtrees, read) = self.evaluate_subtrees(source, twiddles, indices)?;
                traffic = read;
                Ok(subtrees)
            }
        })?;
        Ok((opening.map_err(|subtree| self.not_committed(subtree))?, traffic))
    }

    fn not_committed(&self, subtree: usize) -> OpeningProverError {
        match &self.values {
            Some(file) => OpeningProverError::CodewordValues {
                path: file.path.clone(),
                leaf: subtree << SUBTREE_LOG,
            },
            None => OpeningProverError::OtherWeights,
        }
    }

    fn read_subtree(&self, file: &CodewordFile, index: usize) -> Result<Subtree, OpeningProverError> {
        let columns = self.params.columns();
        let mut values = vec![0; SUBTREE * columns * FIBRE];
        let mut bytes = vec![0; SUBTREE * SIMD_LANES * FIBRE * WORD];
        for first in (0..columns).step_by(SIMD_LANES) {
            let share = SIMD_LANES.min(columns - first) * FIBRE;
            let start = (first << self.params.log_codeword()) + (index << SUBTREE_LOG) * share;
            let bytes = &mut bytes[..SUBTREE * share * WORD];
            file.read((start * WORD) as u64, bytes)?;
            let words = bytes.as_chunks().0;
            for (leaf, words) in values.chunks_exact_mut(columns * FIBRE).zip(words.chunks_exact(share)) {
                for (value, word) in leaf[first * FIBRE..].iter_mut().zip(words) {
                    // Not more than P, whatever the file holds: P is no value that hashes to the tree.
                    *value = u32::from_le_bytes(*word) & P;
                }
            }
        }
        Ok(Subtree { index, values })
    }

    fn evaluate_subtrees(
        &self,
        source: &dyn TileSource,
        twiddles: &Twiddles,
        indices: &[usize],
    ) -> Result<(Vec<Subtree>, Traffic), OpeningProverError> {
        length("tiles of the source", source.tiles(), self.params.tiles)?;
        let (row, size) = (self.params.columns() * FIBRE, SUBTREE * FIBRE);
        let (evaluated, traffic) = rows::evaluate(source, &self.params, twiddles, indices);
        let subtree = |(i, &index): (usize, &usize)| {
            let mut values = vec![0; SUBTREE * row];
            for (column, evaluated) in evaluated.chunks_exact(indices.len() * size).enumerate() {
                let fibres = evaluated[i * size..][..size].chunks_exact(FIBRE);
                for (leaf, fibre) in values.chunks_exact_mut(row).zip(fibres) {
                    let leaf = &mut leaf[column * FIBRE..][..FIBRE];
                    leaf.iter_mut().zip(fibre).for_each(|(to, value)| *to = value.0);
                }
            }
            Subtree { index, values }
        };
        Ok((indices.par_iter().enumerate().map(subtree).collect(), traffic))
    }
}

/// Opens `leaves` (increasing) of a tree, given the values of subtrees by their numbers. The number of a subtree whose values
/// are not those of the tree is an error of its own.
pub(super) fn open_leaves<E>(
    params: &CommitmentParams,
    tree: &Tree,
    leaves: &[usize],
    subtrees: impl FnOnce(&[usize]) -> Result<Vec<Subtree>, E>,
) -> Result<Result<LeafOpening, usize>, E> {
    let mut indices: Vec<usize> = leaves.iter().map(|leaf| leaf >> SUBTREE_LOG).collect();
    indices.dedup();
    let row = params.columns() * FIBRE;
    let subtrees = subtrees(&indices)?;
    let trees: Vec<Tree> = subtrees.par_iter().map(|s| s.tree(tree.suite(), row)).collect();
    for (subtree, own) in subtrees.iter().zip(&trees) {
        if own.root() != tree.node(0, subtree.index) {
            return Ok(Err(subtree.index));
        }
    }
    // Every node that is asked for is in the subtree of an opened leaf or above all subtrees.
    let of = |index: usize| indices.binary_search(&index).unwrap_or_default();
    let node = |level: usize, index: usize| match (SUBTREE_LOG as usize).checked_sub(level) {
        Some(height @ 1..) => trees[of(index >> height)].node(level, index % (1 << height)),
        _ => tree.node(level - SUBTREE_LOG as usize, index),
    };
    let values = leaves.iter().flat_map(|leaf| {
        let values = &subtrees[of(leaf >> SUBTREE_LOG)].values;
        values[leaf % SUBTREE * row..][..row].iter()
    });
    Ok(Ok(LeafOpening {
        values: values.map(|v| BaseField::from_u32_unchecked(*v)).collect(),
        path: merkle::path(leaves, params.log_leaves(), node),
    }))
}

impl Subtree {
    fn tree(&self, suite: Suite, row: usize) -> Tree {
        let leaves: Vec<&[u32]> = self.values.chunks_exact(row).collect();
        let groups = leaves.as_chunks::<{ hashes::SIMD_LANES }>().0;
        Tree::new(
            suite,
            groups
                .iter()
                .flat_map(|leaves| hashes::hash(suite, Domain::Leaf, leaves))
                .collect(),
        )
    }
}
