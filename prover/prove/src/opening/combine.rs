//! Second pass over the weights: the columns combined to one message, which is folded once meanwhile.

use std::ops::Range;

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::TILE;
use tessera_verifier::opening::parts::Layout;
use tessera_verifier::opening::CommitmentParams;

use super::TILE_AREA;
use tessera_kernels::table::Table;
use tessera_kernels::weights::{
    self as kernels, coefficients, Coefficients, Elements, Isa, Lines, Run, BLOCK_COLUMNS, LINE, ROWS, SIMD_LANES,
    TERMS,
};
use tessera_model::passes::{cut, window_tiles, Traffic, WeightPass, Window};
use tessera_model::tiles::{planes, planes_of, TileSource, GROUP};

/// Tiles of a column in the smallest piece of a pass, if there is memory for them.
const LEAST_TILES: usize = 16;
/// Most tiles of a column that a thread takes at a time.
const MOST_TILES: usize = 64;
/// Runs of a plane of a tile.
const RUNS: usize = TILE_AREA / size_of::<Run>();
/// Pairs of neighbouring weights of a tile.
const TILE_PAIRS: usize = TILE_AREA / 2;
/// In place of what columns lack.
const ZEROS: &Run = &[0; size_of::<Run>()];

/// The message `u = sum_G weights[G] W_G` with its least significant variable bound to `fold`, and what was read for it. The
/// message takes the place of `memory`, if that is enough.
///
/// # Panics
/// If there are fewer weights than columns.
pub fn combine_columns(
    source: &dyn TileSource,
    params: &CommitmentParams,
    weights: &[SecureField],
    fold: SecureField,
    memory: Table<Elements>,
) -> (Table<SecureField>, Traffic) {
    combine_with(source, params, weights, fold, memory, kernels::COLUMNS)
}

/// The pass over all weights of an opening, with some weights of the columns and no use of what it makes: for measurements. The
/// message takes the place of `memory`, if that is enough.
pub fn weight_pass(source: &dyn TileSource, params: &CommitmentParams, memory: Table<Elements>) -> Traffic {
    let element = |i: u32| SecureField::from_u32_unchecked(1 << 30 | i, (1 << 31) - 2 - i, 77 * i, 1 << 29);
    let weights: Vec<SecureField> = (0..params.columns() as u32).map(element).collect();
    combine_columns(source, params, &weights, element(9), memory).1
}

/// As [`combine_columns`]; at most `most` planes of columns are combined together.
fn combine_with(
    source: &dyn TileSource,
    params: &CommitmentParams,
    weights: &[SecureField],
    fold: SecureField,
    memory: Table<Elements>,
    most: usize,
) -> (Table<SecureField>, Traffic) {
    // Combination of a streamed group fit a window.
    let group = (most / planes(source.format())).min(window_tiles(source));
    let columns = Combination {
        isa: Isa::best(),
        source,
        bytes: source.bytes(0..source.tiles()).as_chunks().0,
        length: 1 << params.log_column_tiles(),
        number: params.columns(),
        group,
        groups: params.columns().div_ceil(group),
    };
    let weights = columns.coefficients(&weights[..params.columns()], fold);
    let pieces = columns.pieces();
    let windows: Vec<Window> = pieces.iter().map(|piece| columns.window(piece)).collect();
    let mut message = Table::reuse(memory, 1 << (params.log_message - 1));
    let ((), traffic) = WeightPass::run(source, &windows, |pass| {
        for piece in &pieces {
            let message = &mut message[piece.tiles.start * TILE_PAIRS..piece.tiles.end * TILE_PAIRS];
            let share = (piece.tiles.len() / (4 * rayon::current_num_threads())).clamp(1, MOST_TILES);
            pass.next(|| {
                let shares = message.par_chunks_mut(share * TILE_PAIRS).enumerate();
                shares.for_each_init(Buffers::new, |buffers, (i, message)| {
                    let first = piece.tiles.start + i * share;
                    columns.combine(first, piece.groups.clone(), &weights, message, buffers);
                });
            });
        }
    });
    (message, traffic)
}

/// What a thread computes with.
struct Buffers {
    columns: Box<kernels::Runs>,
    /// Combination that are read meanwhile.
    next: Box<kernels::Runs>,
    sums: Box<[Elements; ROWS]>,
}

impl Buffers {
    fn new() -> Self {
        let empty: Box<kernels::Runs> = Box::new([[[0; kernels::BLOCK]; kernels::COLUMNS / BLOCK_COLUMNS + 1]; ROWS]);
        Self {
            columns: empty.clone(),
            next: empty,
            sums: Box::new([[[[0; 16]; 4]; 4]; ROWS]),
        }
    }
}

/// Some tiles of every column of some groups.
struct Piece {
    tiles: Range<usize>,
    groups: Range<usize>,
}

struct Combination<'a> {
    isa: Isa,
    source: &'a dyn TileSource,
    /// All runs of the source.
    bytes: &'a [Run],
    /// Tiles of a column.
    length: usize,
    number: usize,
    /// Combination of a group.
    group: usize,
    groups: usize,
}

impl<'a> Combination<'a> {
    /// Coefficients of the groups, plane by plane, of the even and the odd one of every pair, filled up to whole blocks.
    fn coefficients(&self, weights: &[SecureField], fold: SecureField) -> Vec<Vec<Coefficients>> {
        let format = self.source.format();
        let group = |weights: &[SecureField]| {
            let pairs: Vec<SecureField> = weights.iter().flat_map(|w| [*w - *w * fold, *w * fold]).collect();
            let mut terms = planes_of(format, &pairs);
            terms.resize(terms.len().next_multiple_of(TERMS), [0; 4]);
            terms.as_chunks().0.iter().map(coefficients).collect()
        };
        weights.chunks(self.group).map(group).collect()
    }

    /// Cuts the pass in pieces that fit a window. All groups of the same tiles follow each other.
    fn pieces(&self) -> Vec<Piece> {
        let window = window_tiles(self.source).min(self.length * self.number);
        let tiles = (window / self.number)
            .max(LEAST_TILES.min(window / self.group))
            .clamp(1, self.length);
        let groups = (window / (tiles * self.group)).clamp(1, self.groups);
        cut(self.length, tiles)
            .flat_map(|tiles| {
                cut(self.groups, groups).map(move |groups| Piece {
                    tiles: tiles.clone(),
                    groups,
                })
            })
            .collect()
    }

    fn window(&self, piece: &Piece) -> Window {
        let columns = piece.groups.start * self.group..self.number.min(piece.groups.end * self.group);
        let tiles = columns.map(|column| {
            let end = self.source.tiles();
            let first = column * self.length;
            (first + piece.tiles.start).min(end)..(first + piece.tiles.end).min(end)
        });
        tiles.filter(|tiles| !tiles.is_empty()).collect()
    }

    /// A run of the columns of a group in a tile, plane by plane.
    fn runs(&self, tile: usize, run: usize, group: usize, runs: &mut Vec<&'a Run>) {
        let columns = group * self.group..self.number.min((group + 1) * self.group);
        runs.clear();
        let planes = planes(self.source.format());
        for plane in 0..planes {
            runs.extend(columns.clone().map(|column| {
                let t = column * self.length + tile;
                self.bytes.get((t * planes + plane) * RUNS + run).unwrap_or(ZEROS)
            }));
        }
        runs.resize(runs.len().next_multiple_of(BLOCK_COLUMNS), ZEROS);
    }

    /// Adds the columns of some groups to the message from tile `first` on; if the first group is among them, sets
    /// the message.
    fn combine(
        &self,
        first: usize,
        groups: Range<usize>,
        weights: &[Vec<Coefficients>],
        message: &mut [SecureField],
        buffers: &mut Buffers,
    ) {
        let Buffers { columns, next, sums } = buffers;
        let tiles = message.chunks_mut(TILE_PAIRS);
        let steps = (first..first + tiles.len()).flat_map(|tile| (0..RUNS).map(move |run| (tile, run)));
        let mut steps = steps.flat_map(|(tile, run)| groups.clone().map(move |group| (tile, run, group)));
        let mut runs = Vec::new();
        let mut prepare = |runs: &mut Vec<&'a Run>| match steps.next() {
            Some((tile, run, group)) => self.runs(tile, run, group, runs),
            None => runs.clear(),
        };
        prepare(&mut runs);
        kernels::combine_columns(self.isa, columns, &[], sums, true, (&runs, next));
        for message in tiles {
            for run in 0..RUNS {
                for (i, weights) in weights[groups.clone()].iter().enumerate() {
                    std::mem::swap(columns, next);
                    prepare(&mut runs);
                    kernels::combine_columns(self.isa, columns, weights, sums, i > 0, (&runs, next));
                }
                kernels::scatter(self.isa, sums, &lines(run), groups.start > 0, message);
            }
        }
    }
}

/// Lines of the message of a tile that the sums of a run belong to: a place is `[y / 4][x][y % 4]`, and the pair of the weights
/// `(x, y)` and `(x, y + 1)` is number `32 x + y / 2`. Rows are of 16 inputs and 8 outputs.
fn lines(run: usize) -> Lines {
    const INPUTS: usize = SIMD_LANES / LINE;
    const ROWS_OF_OUTPUTS: usize = TILE / INPUTS;
    const STRIDE: usize = TILE / 2 / LINE;
    Lines {
        starts: std::array::from_fn(|row| {
            let row = run * ROWS + row;
            row % ROWS_OF_OUTPUTS * INPUTS * STRIDE + row / ROWS_OF_OUTPUTS
        }),
        stride: STRIDE,
    }
}
const _: () = assert!(GROUP == LINE);

#[cfg(test)]
mod tests {
    use num_traits::{One, Zero};
    use tessera_circuits::model::WeightFormat;

    use super::*;
    use tessera_model::tiles::{pack_tile, tile_bytes, TILE_WEIGHTS};
    use tessera_model::weights::{PackedWeights, Residency};
    use tessera_support::files;
    use tessera_support::random::SplitMix;

    /// Combination that do not fill the last group or block, and a last column that is not full.
    #[test]
    fn messages_are_those_of_single_weights() {
        let mut rng = SplitMix(41);
        let dir = tempfile::tempdir().unwrap();
        for (format, tiles, log_message) in [
            (WeightFormat::Int8, 1, 12),
            (WeightFormat::Int8, 150, 12),
            (WeightFormat::Int8, 269, 13),
            (WeightFormat::Int16, 75, 12),
            (WeightFormat::Int16, 331, 14),
            (WeightFormat::Int8, 400, 19),
        ] {
            let max = format.max_weight() as i64;
            let mut bytes = vec![0; tiles * tile_bytes(format)];
            for tile in bytes.chunks_mut(tile_bytes(format)) {
                let weights = std::array::from_fn(|_| (rng.below(2 * max as u64 + 1) as i64 - max) as i16);
                pack_tile(format, &weights, tile);
            }
            let params = CommitmentParams {
                tiles,
                log_message,
                log_blowup: 2,
            };
            let weights: Vec<SecureField> = (0..params.columns())
                .map(|_| {
                    let mut coordinate = || rng.below(u64::from(kernels::P)) as u32;
                    SecureField::from_u32_unchecked(coordinate(), coordinate(), coordinate(), coordinate())
                })
                .collect();
            let source = PackedWeights::in_memory(format, bytes.clone());
            let mut expected = vec![SecureField::zero(); 1 << log_message];
            let mut tile = [0; TILE_WEIGHTS];
            for t in 0..tiles {
                source.tile(t, &mut tile);
                let column = t >> params.log_column_tiles();
                let start = (t - (column << params.log_column_tiles())) * TILE_AREA;
                for (sum, w) in expected[start..].iter_mut().zip(&tile) {
                    *sum +=
                        weights[column] * SecureField::from(stwo::core::fields::m31::BaseField::from(i32::from(*w)));
                }
            }
            let fold = weights[0] + SecureField::one();
            let expected: Vec<SecureField> = expected
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[even, odd]| *even + fold * (*odd - *even))
                .collect();
            for most in [kernels::COLUMNS, 64, 12] {
                let dirty = Table::from(&vec![[[[7; 16]; 4]; 4]; tiles][..]);
                assert!(combine_with(&source, &params, &weights, fold, dirty, most).0[..] == expected);
            }
            let path = dir.path().join("weights");
            files::write(&path, &bytes).unwrap();
            let residency = Residency::Window { bytes: 1 << 20 };
            let streamed = PackedWeights::mapped(format, files::map(&path).unwrap()).with_residency(residency);
            let (message, traffic) = combine_columns(&streamed, &params, &weights, fold, Table::new(0));
            assert!(message[..] == expected);
            assert_eq!(traffic.bytes, bytes.len() as u64);
        }
    }
}
