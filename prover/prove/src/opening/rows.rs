//! Opened parts of the codeword without a codeword file: one pass over the weights.
//!
//! Position `P` of a column's codeword is the sum over the message of `W[z]` times a factor for every bit `k` of `z` that is
//! set, and the factor depends on `P >> k` alone (`Twiddles::factors`). The values of a subtree differ in the lowest
//! [`OUTPUTS_LOG`] bits of `P` only, as many as there are bits for the outputs of a tile. So the inputs and tiles of a column
//! are summed with the same factors for the whole subtree, which leaves 64 values per column, and the last layers of the
//! transform make the subtree's values of these. Four subtrees take the place of the four coordinates of the first pass.

use std::ops::Range;
use std::simd::{simd_swizzle, u8x64, Simd};
use std::sync::{Mutex, PoisonError};

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::prover::backend::simd::m31::PackedBaseField;
use tessera_circuits::model::{TILE, TILE_LOG};
use tessera_verifier::opening::parts::{Layout, FIBRE};
use tessera_verifier::opening::CommitmentParams;

use super::fft::Twiddles;
use super::tree::SUBTREE;
use tessera_kernels::weights::{
    self as kernels, coefficients, Coefficients, Elements, Isa, Plane, BLOCK, PLANE_BLOCKS, TERMS,
};
use tessera_model::passes::{cut, window_tiles, Traffic, WeightPass, Window};
use tessera_model::tiles::{planes, TileSource, GROUP};

/// log2 of the outputs of a tile, which are the values of a subtree in a column.
const OUTPUTS_LOG: u32 = TILE_LOG;
const _: () = assert!(SUBTREE * FIBRE == TILE && GROUP == TERMS);
/// Subtrees that are evaluated together.
const TOGETHER: usize = 4;
/// Most planes of tiles that are summed before their sums are reduced; together they fit the first-level cache.
const PLANES: usize = 4;
/// Tiles that a thread takes at a time.
const TASK: usize = 256;

/// The 64 sums of each of four subtrees: output `y` of subtree `i` in `[y / 16][i]`.
type Sums = [[PackedBaseField; TOGETHER]; 4];

/// The values of the subtrees `indices` in every column: those of column `c` and subtree `i` begin at
/// `(c * indices.len() + i) * 64`, in the order of the codeword. Also returns what the pass read.
pub(super) fn evaluate(
    source: &dyn TileSource,
    params: &CommitmentParams,
    twiddles: &Twiddles,
    indices: &[usize],
) -> (Vec<BaseField>, Traffic) {
    let rows = Rows::new(source, params, twiddles, indices);
    let columns: Vec<Mutex<Vec<Sums>>> = (0..params.columns())
        .map(|_| {
            Mutex::new(vec![
                [[PackedBaseField::zero(); TOGETHER]; 4];
                indices.len().div_ceil(TOGETHER)
            ])
        })
        .collect();
    let windows = cut(source.tiles(), window_tiles(source)).map(|tiles| vec![tiles]);
    let windows: Vec<Window> = windows.collect();
    let ((), traffic) = WeightPass::run(source, &windows, |pass| {
        for window in windows.iter().flatten() {
            let tasks = rows.tasks(window, params);
            pass.next(|| {
                tasks.into_par_iter().for_each(|(column, tiles)| {
                    let sums = rows.sum(column << params.log_column_tiles(), tiles);
                    let mut column = columns[column].lock().unwrap_or_else(PoisonError::into_inner);
                    for (a, b) in column.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
                        a.iter_mut().zip(b).for_each(|(a, b)| *a += *b);
                    }
                });
            });
        }
    });
    let mut values = vec![BaseField::zero(); params.columns() * indices.len() * TILE];
    let of_columns = values.par_chunks_mut(indices.len() * TILE).zip(columns);
    of_columns.for_each(|(values, sums)| {
        let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (i, (values, &index)) in values.chunks_mut(TILE).zip(indices).enumerate() {
            for (group, values) in sums[i / TOGETHER].iter().zip(values.chunks_mut(16)) {
                values.copy_from_slice(&group[i % TOGETHER].to_array());
            }
            twiddles.last_layers(values, index);
        }
    });
    (values, traffic)
}

/// What the tiles are multiplied with.
struct Rows<'a> {
    isa: Isa,
    source: &'a dyn TileSource,
    /// Tiles whose inputs are summed together.
    together: usize,
    /// For every four subtrees, of the inputs of so many tiles, plane by plane.
    inner: Vec<Vec<Coefficients>>,
    /// For every four subtrees and every so many tiles of a column.
    outer: Vec<Vec<[BaseField; TOGETHER]>>,
}

impl<'a> Rows<'a> {
    fn new(source: &'a dyn TileSource, params: &CommitmentParams, twiddles: &Twiddles, indices: &[usize]) -> Self {
        let planes = planes(source.format());
        let together = (PLANES / planes).min(1 << params.log_column_tiles());
        let inner_bits = (TILE_LOG + together.ilog2()) as usize;
        let tables = |index: &usize| {
            let factors = twiddles.factors(*index, OUTPUTS_LOG);
            let (inner, outer) = factors.split_at(inner_bits);
            [inner, outer].map(products)
        };
        let tables: Vec<[Vec<BaseField>; 2]> = indices.par_iter().map(tables).collect();
        // Missing subtrees of the last four have factors of zero.
        let of = |four: &[[Vec<BaseField>; 2]], table: usize, i: usize| -> [BaseField; TOGETHER] {
            std::array::from_fn(|lane| four.get(lane).map_or(BaseField::zero(), |tables| tables[table][i]))
        };
        let inner = tables.par_chunks(TOGETHER).map(|four| {
            let mut all = Vec::with_capacity(together * planes * PLANE_BLOCKS);
            for (tile, plane) in (0..together).flat_map(|tile| (0..planes).map(move |plane| (tile, plane))) {
                // A unit of the high plane is 256.
                let unit = BaseField::from_u32_unchecked(1 << (8 * plane));
                for first in (0..TILE).step_by(TERMS) {
                    let term = |j: usize| of(four, 0, tile * TILE + first + j).map(|factor| (factor * unit).0);
                    all.push(coefficients(&std::array::from_fn(term)));
                }
            }
            all
        });
        let steps = (1 << params.log_column_tiles()) / together;
        Self {
            isa: Isa::best(),
            source,
            together,
            inner: inner.collect(),
            outer: tables
                .chunks(TOGETHER)
                .map(|four| (0..steps).map(|step| of(four, 1, step)).collect())
                .collect(),
        }
    }

    /// Cuts a window into the tiles of columns, not too many at a time.
    fn tasks(&self, window: &Range<usize>, params: &CommitmentParams) -> Vec<(usize, Range<usize>)> {
        let log = params.log_column_tiles();
        let size = TASK.min(1 << log);
        let first = window.start / size;
        (first..window.end.div_ceil(size))
            .map(|task| {
                let tiles = (task * size).max(window.start)..((task + 1) * size).min(window.end);
                (tiles.start >> log, tiles)
            })
            .collect()
    }

    /// The sums of some tiles of the column whose first tile is `column`.
    fn sum(&self, column: usize, tiles: Range<usize>) -> Vec<Sums> {
        let planes = planes(self.source.format());
        let mut total = vec![[[PackedBaseField::zero(); TOGETHER]; 4]; self.inner.len()];
        let mut blocks = vec![[[0u8; BLOCK]; PLANE_BLOCKS]; self.together * planes];
        let steps = (tiles.start - column) / self.together..(tiles.end - column).div_ceil(self.together);
        for step in steps {
            let first = column + step * self.together;
            for (i, blocks) in blocks.chunks_mut(planes).enumerate() {
                // What is not of these tiles counts nothing: it is another task's, or beyond the last tile.
                if !tiles.contains(&(first + i)) {
                    blocks.fill([[0; BLOCK]; PLANE_BLOCKS]);
                    continue;
                }
                let bytes = self.source.bytes(first + i..first + i + 1);
                for (plane, blocks) in bytes.as_chunks().0.iter().zip(blocks) {
                    by_inputs(plane, blocks);
                }
            }
            let mut sums: Elements = [[[0; 16]; 4]; 4];
            for ((inner, outer), total) in self.inner.iter().zip(&self.outer).zip(&mut total) {
                kernels::combine_cached(self.isa, blocks.as_flattened(), inner, &mut sums);
                let factors = outer[step].map(PackedBaseField::broadcast);
                for (total, sums) in total.iter_mut().zip(&sums) {
                    for ((total, sums), factor) in total.iter_mut().zip(sums).zip(factors) {
                        let sums = PackedBaseField::from_array(sums.map(BaseField::from_u32_unchecked));
                        *total += sums * factor;
                    }
                }
            }
        }
        total
    }
}

/// The products of the factors at the set bits, for every number of as many bits.
fn products(factors: &[BaseField]) -> Vec<BaseField> {
    let mut table = Vec::with_capacity(1 << factors.len());
    table.push(BaseField::one());
    for &factor in factors {
        for i in 0..table.len() {
            table.push(table[i] * factor);
        }
    }
    table
}

/// A plane of a tile in blocks of four inputs of all outputs, instead of four outputs of all inputs.
fn by_inputs(plane: &Plane, blocks: &mut [[u8; BLOCK]; PLANE_BLOCKS]) {
    /// Transposes the 4 x 4 bytes of every sixteen.
    const TRANSPOSE: [usize; 64] = {
        let mut places = [0; 64];
        let mut i = 0;
        while i < 64 {
            places[i] = i / 16 * 16 + i % 4 * 4 + i % 16 / 4;
            i += 1;
        }
        places
    };
    const SIXTEEN: usize = TERMS * TERMS;
    for (outputs, block) in plane.as_chunks::<BLOCK>().0.iter().enumerate() {
        for (i, vector) in block.as_chunks::<64>().0.iter().enumerate() {
            let vector: Simd<u8, 64> = u8x64::from_array(*vector);
            let transposed = simd_swizzle!(vector, TRANSPOSE).to_array();
            for (inputs, bytes) in transposed.as_chunks::<SIXTEEN>().0.iter().enumerate() {
                blocks[4 * i + inputs][SIXTEEN * outputs..][..SIXTEEN].copy_from_slice(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tessera_circuits::model::WeightFormat;

    use super::*;
    use crate::opening::TILE_AREA;
    use tessera_model::tiles::{pack_tile, position, tile_bytes, TILE_WEIGHTS};
    use tessera_model::weights::{PackedWeights, Residency};
    use tessera_support::files;
    use tessera_support::random::SplitMix;

    #[test]
    fn blocks_of_inputs_have_four_inputs_of_every_output() {
        let mut rng = SplitMix(3);
        let plane: Plane = std::array::from_fn(|_| rng.next_u64() as u8);
        let mut blocks = [[0; BLOCK]; PLANE_BLOCKS];
        by_inputs(&plane, &mut blocks);
        for (x, y) in (0..TILE).flat_map(|x| (0..TILE).map(move |y| (x, y))) {
            assert_eq!(blocks[x / TERMS][TERMS * y + x % TERMS], plane[position(x, y)]);
        }
    }

    /// Against the codewords of whole columns, with a last column that is not full, streamed or not.
    #[test]
    fn values_are_those_of_the_codeword() {
        let mut rng = SplitMix(4);
        let dir = tempfile::tempdir().unwrap();
        for (format, tiles, log_message, log_blowup) in [
            (WeightFormat::Int8, 1, 12, 1),
            (WeightFormat::Int16, 3, 12, 2),
            (WeightFormat::Int8, 5, 13, 2),
            (WeightFormat::Int16, 21, 15, 1),
            (WeightFormat::Int8, 45, 16, 1),
            (WeightFormat::Int8, 700, 21, 1),
        ] {
            let params = CommitmentParams {
                tiles,
                log_message,
                log_blowup,
            };
            let max = format.max_weight() as i64;
            let mut bytes = vec![0; tiles * tile_bytes(format)];
            let mut messages = vec![BaseField::zero(); params.columns() << log_message];
            for (tile, message) in bytes.chunks_mut(tile_bytes(format)).zip(messages.chunks_mut(TILE_AREA)) {
                let weights: [i16; TILE_WEIGHTS] = std::array::from_fn(|_| match rng.below(4) {
                    0 => max as i16,
                    1 => -max as i16,
                    _ => (rng.below(2 * max as u64 + 1) as i64 - max) as i16,
                });
                pack_tile(format, &weights, tile);
                for (to, w) in message.iter_mut().zip(weights) {
                    *to = BaseField::from(i32::from(w));
                }
            }
            let twiddles = Twiddles::new(log_message, log_blowup);
            let subtrees = 1usize << (params.log_leaves() - SUBTREE.ilog2());
            let mut indices: Vec<usize> = (0..7).map(|_| rng.below(subtrees as u64) as usize).collect();
            indices.extend([0, subtrees - 1]);
            indices.sort_unstable();
            indices.dedup();
            let path = dir.path().join("weights");
            files::write(&path, &bytes).unwrap();
            let mapped = PackedWeights::mapped(format, files::map(&path).unwrap());
            let codewords = messages.chunks(1 << log_message).map(|m| twiddles.encode(m, 0));
            let codewords: Vec<Vec<BaseField>> = codewords.collect();
            for residency in [Residency::Keep, Residency::Window { bytes: 1 << 20 }] {
                let source = mapped.clone().with_residency(residency);
                let (values, traffic) = evaluate(&source, &params, &twiddles, &indices);
                assert_eq!(traffic.bytes, bytes.len() as u64);
                let mut values = values.chunks(TILE);
                for codeword in &codewords {
                    for index in &indices {
                        assert!(
                            values.next().unwrap() == &codeword[index * TILE..][..TILE],
                            "{params:?}, {index}"
                        );
                    }
                }
            }
        }
    }
}
