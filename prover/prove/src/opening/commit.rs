//! From weights to the codeword and its Merkle tree, a batch of columns at a time.

use std::io::Write;
use std::simd::{i16x16, u32x16};

use rayon::prelude::*;
use tessera_verifier::opening::parts::{Layout, FIBRE, TILE_AREA_LOG};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::{Digest, Suite};

use super::behind::Behind;
use super::fft::{Coefficients, Twiddles, Wanted};
use super::packed::Packed;
use super::tree::{Tree, SUBTREE, SUBTREE_LOG};
use super::{length, OpeningProverError, TileSource, TILE_AREA};
use crate::trees;
use tessera_kernels::hashes::{self, blake2s, keccak, Domain, LaneHash};
use tessera_support::progress::Progress;

/// Columns that are encoded together, one per SIMD lane.
pub(super) const SIMD_LANES: usize = hashes::SIMD_LANES;
/// Bytes of a value in the codeword file.
pub(super) const WORD: usize = 4;
/// Values of the codeword that 16 leaves have in a column.
const GROUP: usize = hashes::SIMD_LANES * FIBRE;
/// Words that a full batch adds to a leaf.
const BATCH_WORDS: u64 = (SIMD_LANES * FIBRE) as u64;
/// Leaves whose share of a batch is written at once.
const WRITE_LEAVES: usize = 1 << 14;

/// Tiles of a column that are unpacked before their pages are let go of.
const LOAD_TILES: usize = 64;

/// Into how many blocks a codeword is cut while it is made: `2^log_split` times as many as the code has cosets. Fewer
/// are faster, more need less memory: a block has 64 bytes per value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    log: u32,
}

impl Split {
    /// The most that is worth its work.
    pub const MAX: u32 = 3;

    /// Blocks that are shorter than the message by `2^log`, as far as messages of `params` are long enough.
    pub fn new(log: u32, params: &CommitmentParams) -> Self {
        let least = TILE_AREA_LOG;
        let log = log.min(Self::MAX).min(params.log_message.saturating_sub(least));
        Self { log }
    }

    /// log2 of the blocks per coset.
    pub const fn log(self) -> u32 {
        self.log
    }
}

/// Commits to the weights of `source`; writes the codeword to `data` if it is wanted. Holds one batch of columns (32
/// bytes per weight of a column, 64 per value of its block of the codeword) and 40 bytes per leaf, 204 of Keccak.
pub fn commit(
    suite: Suite,
    source: &dyn TileSource,
    params: &CommitmentParams,
    split: Split,
    data: Option<&mut (dyn Write + Send)>,
    progress: &dyn Progress,
) -> Result<Tree, OpeningProverError> {
    params.check()?;
    length("tiles of the source", source.tiles(), params.tiles)?;
    let mut leaves = Leaves::new(suite, params);
    let twiddles = Twiddles::new(params.log_message, params.log_blowup);
    std::thread::scope(|scope| {
        let behind = data.map(|data| Behind::new(scope, data));
        let mut message = vec![i16x16::splat(0); 1 << params.log_message];
        let load = |first: usize, message: &mut [i16x16]| load(source, params, first, message);
        let encoded = encode(
            params,
            &twiddles,
            split,
            Wanted::All,
            &mut message,
            load,
            |batch, width, block, values| {
                if let Some(behind) = &behind {
                    for leaves in values.chunks(WRITE_LEAVES * FIBRE) {
                        let bytes = file_bytes(leaves, width, behind.buffer());
                        behind.write(bytes).map_err(OpeningProverError::Write)?;
                    }
                }
                leaves.add(batch, width, block, values);
                progress.advance((width * values.len()) as u64);
                Ok(())
            },
        );
        behind
            .map_or(Ok(()), Behind::finish)
            .map_err(OpeningProverError::Write)?;
        encoded
    })?;
    Ok(leaves.tree())
}

/// The leaves of a commitment while its columns are encoded.
pub(super) struct Leaves {
    hashes: LeafHashes,
    roots: Vec<Digest>,
    last_batch: usize,
}

/// The hashes of groups of leaves, as long as the last batch is not absorbed.
enum LeafHashes {
    Blake2s(Vec<blake2s::Hashes>),
    Keccak(Vec<keccak::Hashes>),
}

impl Leaves {
    pub fn new(suite: Suite, params: &CommitmentParams) -> Self {
        let groups = (1 << params.log_leaves()) / hashes::SIMD_LANES;
        Self {
            hashes: match suite {
                Suite::Blake2s => LeafHashes::Blake2s(vec![blake2s::Hashes::new(Domain::Leaf); groups]),
                Suite::Keccak => LeafHashes::Keccak(vec![keccak::Hashes::new(Domain::Leaf); groups]),
            },
            roots: Vec::new(),
            last_batch: (params.columns() - 1) / SIMD_LANES,
        }
    }

    /// Adds block `block` of the codewords of the columns of a batch, of which there are `width`.
    pub fn add(&mut self, batch: usize, width: usize, block: usize, values: &[Packed]) {
        let groups = values.len() / GROUP;
        let own = block * groups..(block + 1) * groups;
        let (at, last) = (batch as u64 * BATCH_WORDS, batch == self.last_batch);
        let roots = last.then_some((&mut self.roots, width));
        match &mut self.hashes {
            LeafHashes::Blake2s(hashes) => add(Suite::Blake2s, &mut hashes[own], at, values, roots),
            LeafHashes::Keccak(hashes) => add(Suite::Keccak, &mut hashes[own], at, values, roots),
        }
    }

    /// The tree over all leaves, of which every block was added.
    pub fn tree(self) -> Tree {
        let suite = match self.hashes {
            LeafHashes::Blake2s(_) => Suite::Blake2s,
            LeafHashes::Keccak(_) => Suite::Keccak,
        };
        Tree::new(suite, self.roots)
    }
}

/// Adds a batch to leaves that have absorbed `at` words: to their hashes, or if it is the last one, with its width, to the roots
/// of their subtrees.
fn add<H: LaneHash>(
    suite: Suite,
    hashes: &mut [H],
    at: u64,
    values: &[Packed],
    roots: Option<(&mut Vec<Digest>, usize)>,
) {
    let Some((roots, width)) = roots else {
        let groups = hashes.par_iter_mut().zip(values.par_chunks_exact(GROUP));
        groups.for_each(|(hashes, values)| hashes.absorb(at, &leaf_words(values)));
        return;
    };
    let groups = hashes.par_chunks(SUBTREE).zip(values.par_chunks_exact(GROUP * SUBTREE));
    roots.par_extend(groups.flat_map_iter(|(hashes, values)| finish(suite, hashes, at, values, width)));
}

/// Encodes all columns, batch by batch and block by block of the codeword: `load` writes the messages of the columns from one
/// on, and `each` gets the number of the batch, its columns, the number of the block and its values, as far as they are wanted.
pub(super) fn encode<M: Coefficients>(
    params: &CommitmentParams,
    twiddles: &Twiddles,
    split: Split,
    wanted: Wanted<'_>,
    message: &mut [M],
    load: impl Fn(usize, &mut [M]),
    mut each: impl FnMut(usize, usize, usize, &[Packed]) -> Result<(), OpeningProverError>,
) -> Result<(), OpeningProverError> {
    let mut values = Packed::zeros(message.len() >> split.log);
    for (batch, first) in (0..params.columns()).step_by(SIMD_LANES).enumerate() {
        let width = SIMD_LANES.min(params.columns() - first);
        load(first, message);
        for block in 0..1 << (params.log_blowup + split.log) {
            twiddles.encode_block(message, &mut values, block, wanted);
            each(batch, width, block, &values)?;
        }
    }
    Ok(())
}

/// The messages of up to [`SIMD_LANES`] columns from column `first` on, one per lane.
fn load(source: &dyn TileSource, params: &CommitmentParams, first: usize, messages: &mut [i16x16]) {
    let column = |lane: usize| (first + lane) << params.log_column_tiles();
    for (run, messages) in messages.chunks_mut(LOAD_TILES * TILE_AREA).enumerate() {
        let start = run * LOAD_TILES;
        let tiles = messages.par_chunks_mut(TILE_AREA).enumerate();
        tiles.for_each_init(
            || vec![[0; TILE_AREA]; SIMD_LANES],
            |tiles, (k, chunk)| {
                for (lane, tile) in tiles.iter_mut().enumerate() {
                    match column(lane) + start + k {
                        t if t < params.tiles => source.tile(t, tile),
                        _ => tile.fill(0),
                    }
                }
                for (i, chunk) in chunk.as_chunks_mut::<SIMD_LANES>().0.iter_mut().enumerate() {
                    let row = |lane: usize| i16x16::from_slice(&tiles[lane][i * SIMD_LANES..]);
                    *chunk = transpose(std::array::from_fn(row));
                }
            },
        );
        let end = start + messages.len() / TILE_AREA;
        for lane in 0..SIMD_LANES {
            let at = |k: usize| (column(lane) + k).min(params.tiles);
            source.release(at(start)..at(end));
        }
    }
}

/// Sixteen vectors as the rows of a matrix, transposed.
fn transpose(mut rows: [i16x16; SIMD_LANES]) -> [i16x16; SIMD_LANES] {
    for _ in 0..SIMD_LANES.ilog2() {
        let pairs: [(i16x16, i16x16); SIMD_LANES / 2] =
            std::array::from_fn(|i| rows[i].interleave(rows[i + SIMD_LANES / 2]));
        rows = std::array::from_fn(|i| if i % 2 == 0 { pairs[i / 2].0 } else { pairs[i / 2].1 });
    }
    rows
}

/// The share of a batch in the words of sixteen leaves: one leaf per lane, column by column.
fn leaf_words(values: &[Packed]) -> [u32x16; SIMD_LANES * FIBRE] {
    let fibre = |r: usize| hashes::transpose(std::array::from_fn(|leaf| values[leaf * FIBRE + r].words()));
    let fibres: [_; FIBRE] = std::array::from_fn(fibre);
    std::array::from_fn(|word| fibres[word % FIBRE][word / FIBRE])
}

/// Roots of the subtrees over leaves whose hashes lack only the last batch of columns.
fn finish<H: LaneHash>(suite: Suite, hashes: &[H], at: u64, values: &[Packed], width: usize) -> Vec<Digest> {
    let groups = hashes.iter().zip(values.chunks_exact(GROUP));
    let leaves = groups.flat_map(|(hashes, values)| {
        let words = leaf_words(values);
        hashes.clone().finish(at, &words[..width * FIBRE])
    });
    (0..SUBTREE_LOG).fold(leaves.collect(), |nodes: Vec<_>, _| trees::parents(suite, &nodes))
}

/// The share of a batch in leaves, as the codeword file has it, in a buffer that may have been used before.
fn file_bytes(values: &[Packed], width: usize, mut bytes: Vec<u8>) -> Vec<u8> {
    let share = width * FIBRE * WORD;
    bytes.resize(values.len() / FIBRE * share, 0);
    let leaves = bytes.par_chunks_exact_mut(share).zip(values.par_chunks_exact(FIBRE));
    leaves.with_min_len(1 << 10).for_each(|(bytes, fibre)| {
        let (low, high) = fibre[0].words().interleave(fibre[1].words());
        let words = [low.to_array(), high.to_array()];
        for (bytes, word) in bytes.as_chunks_mut::<WORD>().0.iter_mut().zip(words.as_flattened()) {
            *bytes = word.to_le_bytes();
        }
    });
    bytes
}
