//! The codeword of the weights and its Merkle tree.
//!
//! The codeword file has the columns in batches of [`LANES`] (the last batch may be narrower). A batch is
//! its share of every leaf, in leaf order: column by column, the values of the fibre, as 32-bit
//! little-endian words. The layers of the Merkle tree follow, leaves first, root last.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use memmap2::Mmap;
use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::{BaseField, P};
use stwo::prover::backend::simd::m31::{PackedM31, N_LANES};
use tessera_verifier::opening::merkle::{Digest, LeafHasher};
use tessera_verifier::opening::{CommitmentParams, FIBRE};

use super::fft::Twiddles;
use super::{length, merkle, OpeningProverError, TileSource, TILE_AREA};

/// Columns that are encoded together, one per SIMD lane.
const LANES: usize = N_LANES;
const WORD: usize = 4;
const DIGEST: usize = 32;

/// Commits to the weights of `source`: writes the codeword file and returns the root. Holds one batch of
/// columns (`64 * 2^log_codeword` bytes, twice) and one hash state per leaf.
pub fn commit(
    source: &dyn TileSource,
    params: &CommitmentParams,
    codeword: &mut dyn Write,
) -> Result<Digest, OpeningProverError> {
    params.check()?;
    length("tiles of the source", source.tiles(), params.tiles)?;
    let twiddles = Twiddles::new(params.log_message, params.log_blowup);
    let mut hashers = vec![LeafHasher::default(); 1 << params.log_leaves()];
    for first in (0..params.columns()).step_by(LANES) {
        let width = LANES.min(params.columns() - first);
        let encoded = twiddles.encode(&batch(source, params, first), 0);
        let bytes = hash_batch(&encoded, width, &mut hashers);
        codeword.write_all(&bytes).map_err(OpeningProverError::Write)?;
    }
    let leaves = hashers.into_par_iter().map(LeafHasher::finalize).collect();
    let layers = merkle::layers(leaves);
    for layer in &layers {
        codeword
            .write_all(layer.as_flattened())
            .map_err(OpeningProverError::Write)?;
    }
    codeword.flush().map_err(OpeningProverError::Write)?;
    Ok(layers.last().map_or([0; DIGEST], |top| top[0]))
}

/// The messages of up to [`LANES`] columns from column `first` on, one per lane.
fn batch(source: &dyn TileSource, params: &CommitmentParams, first: usize) -> Vec<PackedM31> {
    let mut messages = vec![PackedM31::zero(); 1 << params.log_message];
    messages.par_chunks_mut(TILE_AREA).enumerate().for_each(|(k, chunk)| {
        let mut tiles = vec![[0; TILE_AREA]; LANES];
        for (lane, tile) in tiles.iter_mut().enumerate() {
            let t = ((first + lane) << params.log_column_tiles()) + k;
            if t < params.tiles {
                source.tile(t, tile);
            }
        }
        for (i, value) in chunk.iter_mut().enumerate() {
            *value = PackedM31::from_array(std::array::from_fn(|lane| from_weight(tiles[lane][i])));
        }
    });
    messages
}

fn from_weight(w: i16) -> BaseField {
    BaseField::partial_reduce((i64::from(w) + i64::from(P)) as u32)
}

/// Appends the batch to the leaf hashes and returns its bytes in the file.
fn hash_batch(encoded: &[PackedM31], width: usize, hashers: &mut [LeafHasher]) -> Vec<u8> {
    let share = width * FIBRE * WORD;
    let mut bytes = vec![0; hashers.len() * share];
    bytes
        .par_chunks_mut(share)
        .zip(encoded.par_chunks(FIBRE))
        .zip(hashers)
        .with_min_len(64)
        .for_each(|((bytes, fibre), hasher)| {
            for (r, row) in fibre.iter().enumerate() {
                for (c, value) in row.to_array().into_iter().take(width).enumerate() {
                    bytes[(c * FIBRE + r) * WORD..][..WORD].copy_from_slice(&value.0.to_le_bytes());
                }
            }
            hasher.update(bytes);
        });
    bytes
}

/// A codeword file.
pub struct Codeword {
    params: CommitmentParams,
    root: Digest,
    bytes: Mmap,
}

impl Codeword {
    /// Size of the codeword file in bytes.
    pub fn file_len(params: &CommitmentParams) -> u64 {
        let (words, nodes) = (
            params.columns() << params.log_codeword(),
            (2 << params.log_leaves()) - 1,
        );
        (words * WORD + nodes * DIGEST) as u64
    }

    /// Maps a codeword file and checks that its length is that of `params` and its root is `root`.
    pub fn open(path: &Path, params: &CommitmentParams, root: &Digest) -> Result<Self, OpeningProverError> {
        params.check()?;
        let io = |source| OpeningProverError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let (got, expected) = (file.metadata().map_err(io)?.len(), Self::file_len(params));
        if got != expected {
            return Err(OpeningProverError::CodewordLength {
                path: path.to_owned(),
                got,
                expected,
            });
        }
        // SAFETY: the file is a cache that only `commit` writes, before it is opened; if another process
        // changes it meanwhile, the opened values change and the proof does not verify.
        let bytes = unsafe { Mmap::map(&file) }.map_err(io)?;
        let stored = &bytes[bytes.len() - DIGEST..];
        if stored != root {
            return Err(OpeningProverError::CodewordRoot {
                path: path.to_owned(),
                got: hex::encode(stored),
                expected: hex::encode(root),
            });
        }
        Ok(Self {
            params: *params,
            root: *root,
            bytes,
        })
    }

    /// The parameters that the codeword was opened with.
    pub fn params(&self) -> &CommitmentParams {
        &self.params
    }

    /// Root of the Merkle tree.
    pub fn root(&self) -> &Digest {
        &self.root
    }

    /// Appends the values of leaf `leaf` to `out`, column by column.
    pub fn leaf(&self, leaf: usize, out: &mut Vec<BaseField>) {
        for first in (0..self.params.columns()).step_by(LANES) {
            let width = LANES.min(self.params.columns() - first);
            let start = (first << self.params.log_codeword()) + leaf * width * FIBRE;
            let share = &self.bytes[start * WORD..][..width * FIBRE * WORD];
            let words = share.as_chunks::<WORD>().0.iter();
            out.extend(words.map(|word| BaseField::partial_reduce(u32::from_le_bytes(*word) & P)));
        }
    }

    /// Authentication path of `leaves` (increasing).
    pub fn path(&self, leaves: &[usize]) -> Vec<Digest> {
        let tree = &self.bytes[(self.params.columns() << self.params.log_codeword()) * WORD..];
        let nodes = tree.as_chunks::<DIGEST>().0;
        let depth = self.params.log_leaves();
        merkle::path(leaves, depth, |level, index| {
            // Layers of 2^depth, 2^(depth - 1), ... nodes precede this one.
            let before = (2 << depth) - (2 << (depth as usize - level));
            nodes[before + index]
        })
    }
}
