//! Second pass over the weights: the columns combined to one message.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::TILE;
use tessera_verifier::opening::CommitmentParams;

use super::TILE_AREA;
use crate::kernels::{
    self, coefficients, interleaved_lane, Coefficients, Elements, Isa, Plane, PlaneSums, LANES, MAX_TERMS, TERMS,
};
use crate::matmul::lane;
use crate::stream::{cut, window_tiles, StreamingWeightPipeline, Traffic, Window};
use crate::tiles::{self, planes, planes_of, TileSource};

/// Tiles of a column that are combined together; their sums have 5 MiB.
const RUN: usize = 16;
/// In place of what columns lack.
const ZEROS: &Plane = &[0; TILE_AREA];

/// The message `u = sum_G weights[G] W_G`, and what was read for it.
///
/// # Panics
/// If there are fewer weights than columns.
pub fn combine_columns(
    source: &dyn TileSource,
    params: &CommitmentParams,
    weights: &[SecureField],
) -> (Vec<SecureField>, Traffic) {
    combine_with(source, params, weights, MAX_TERMS)
}

/// As [`combine_columns`]; sums are reduced before they have more than `max_terms` terms.
fn combine_with(
    source: &dyn TileSource,
    params: &CommitmentParams,
    weights: &[SecureField],
    max_terms: usize,
) -> (Vec<SecureField>, Traffic) {
    let size = kernels::COLUMNS / planes(source.strategy());
    let columns = Columns {
        isa: Isa::best(),
        source,
        length: 1 << params.log_column_tiles(),
        number: params.columns(),
        group: size,
        groups: params.columns().div_ceil(size),
        reduce_every: max_terms / kernels::COLUMNS,
    };
    let weights = columns.coefficients(&weights[..params.columns()]);
    let parts = columns.parts();
    let windows: Vec<Window> = parts.iter().map(|part| columns.window(part)).collect();
    let mut message = vec![SecureField::zero(); 1 << params.log_message];
    let mut sums: Vec<TileSums> = (0..columns.length.min(RUN)).map(|_| TileSums::new()).collect();
    let ((), traffic) = StreamingWeightPipeline::run(source, &windows, |pass| {
        for part in &parts {
            pass.next(|| {
                let tiles = sums.par_iter_mut().zip(part.tiles.clone());
                tiles.for_each_init(Buffers::new, |buffers, (sums, tile)| {
                    columns.combine(tile, part.groups.clone(), &weights, sums, buffers);
                });
            });
            if part.groups.end == columns.groups {
                let tiles = message[part.tiles.start * TILE_AREA..].par_chunks_mut(TILE_AREA);
                tiles
                    .zip(&mut sums)
                    .take(part.tiles.len())
                    .for_each(|(message, sums)| sums.take(message));
            }
        }
    });
    (message, traffic)
}

/// Columns that are combined, and those that are read meanwhile.
struct Buffers {
    columns: Box<kernels::Columns>,
    next: Box<kernels::Columns>,
}

impl Buffers {
    fn new() -> Self {
        let empty: Box<kernels::Columns> = Box::new([[[0; kernels::BLOCK]; kernels::COLUMNS / TERMS]; LANES]);
        Self {
            columns: empty.clone(),
            next: empty,
        }
    }
}

/// Sums of a tile of all columns.
struct TileSums {
    planes: Box<[PlaneSums; LANES]>,
    reduced: Box<[Elements; LANES]>,
}

impl TileSums {
    fn new() -> Self {
        Self {
            planes: Box::new([[[0; LANES]; 16]; LANES]),
            reduced: Box::new([[[[0; 16]; 4]; 4]; LANES]),
        }
    }

    fn reduce(&mut self, isa: Isa) {
        for (planes, reduced) in self.planes.iter_mut().zip(self.reduced.iter_mut()) {
            kernels::reduce(isa, planes, reduced);
            *planes = [[0; LANES]; 16];
        }
    }

    /// Moves the reduced sums to their natural places.
    fn take(&mut self, message: &mut [SecureField]) {
        for (i, value) in message.iter_mut().enumerate() {
            let place = tiles::position(i / TILE, i % TILE);
            *value = lane(&self.reduced[place / LANES], interleaved_lane(place % LANES));
        }
        self.reduced.iter_mut().for_each(|sums| *sums = [[[0; 16]; 4]; 4]);
    }
}

/// Some tiles of every column of some groups.
struct Part {
    tiles: std::ops::Range<usize>,
    groups: std::ops::Range<usize>,
}

struct Columns<'a> {
    isa: Isa,
    source: &'a dyn TileSource,
    /// Tiles of a column.
    length: usize,
    number: usize,
    /// Columns of a group.
    group: usize,
    groups: usize,
    /// Groups after which sums are reduced.
    reduce_every: usize,
}

impl<'a> Columns<'a> {
    /// Coefficients of the groups, plane by plane, filled up to whole blocks.
    fn coefficients(&self, weights: &[SecureField]) -> Vec<Vec<Coefficients>> {
        let strategy = self.source.strategy();
        let group = |weights: &[SecureField]| {
            let mut terms = planes_of(strategy, weights);
            terms.resize(terms.len().next_multiple_of(TERMS), [0; 4]);
            terms.as_chunks().0.iter().map(coefficients).collect()
        };
        weights.chunks(self.group).map(group).collect()
    }

    /// Cuts the pass in parts that fit a window. All groups of the same tiles follow each other.
    fn parts(&self) -> Vec<Part> {
        let window = window_tiles(self.source).min(self.length * self.number);
        let tiles = (window / self.number)
            .max(RUN.min(window / self.group))
            .clamp(1, RUN.min(self.length));
        let groups = (window / (tiles * self.group)).clamp(1, self.groups);
        cut(self.length, tiles)
            .flat_map(|tiles| {
                cut(self.groups, groups).map(move |groups| Part {
                    tiles: tiles.clone(),
                    groups,
                })
            })
            .collect()
    }

    fn window(&self, part: &Part) -> Window {
        let columns = part.groups.start * self.group..self.number.min(part.groups.end * self.group);
        let tiles = columns.map(|column| {
            let end = self.source.tiles();
            let first = column * self.length;
            (first + part.tiles.start).min(end)..(first + part.tiles.end).min(end)
        });
        tiles.filter(|tiles| !tiles.is_empty()).collect()
    }

    /// The planes of one tile of the columns of a group, plane by plane.
    fn planes(&self, tile: usize, group: usize) -> Vec<&'a Plane> {
        let columns = group * self.group..self.number.min((group + 1) * self.group);
        let plane = |column: usize, plane: usize| {
            let t = column * self.length + tile;
            match t < self.source.tiles() {
                true => &self.source.bytes(t..t + 1).as_chunks().0[plane],
                false => ZEROS,
            }
        };
        let planes = 0..planes(self.source.strategy());
        let mut planes: Vec<_> = planes.flat_map(|p| columns.clone().map(move |c| plane(c, p))).collect();
        planes.resize(planes.len().next_multiple_of(TERMS), ZEROS);
        planes
    }

    /// Adds to `sums` one tile of the columns of some groups; reduces them after the last group of all.
    fn combine(
        &self,
        tile: usize,
        groups: std::ops::Range<usize>,
        weights: &[Vec<Coefficients>],
        sums: &mut TileSums,
        buffers: &mut Buffers,
    ) {
        let Buffers { columns, next } = buffers;
        let first = self.planes(tile, groups.start);
        kernels::combine_columns(self.isa, columns, &[], &mut sums.planes, (&first, next));
        for group in groups.clone() {
            std::mem::swap(columns, next);
            let planes = match group + 1 < groups.end {
                true => self.planes(tile, group + 1),
                false => Vec::new(),
            };
            kernels::combine_columns(self.isa, columns, &weights[group], &mut sums.planes, (&planes, next));
            if group + 1 == self.groups || (group + 1) % self.reduce_every == 0 {
                sums.reduce(self.isa);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tessera_circuits::model::Strategy;

    use super::*;
    use crate::files;
    use crate::testing::TestRng;
    use crate::tiles::{pack_tile, tile_bytes, TILE_WEIGHTS};
    use crate::weights::{PackedWeights, Residency};

    /// Columns that do not fill the last group or block, and a last column that is not full.
    #[test]
    fn messages_are_those_of_single_weights() {
        let mut rng = TestRng(41);
        let dir = tempfile::tempdir().unwrap();
        for (strategy, tiles, log_message) in [
            (Strategy::W8, 1, 12),
            (Strategy::W8, 150, 12),
            (Strategy::W8, 269, 13),
            (Strategy::W12, 75, 12),
            (Strategy::W12, 331, 14),
            (Strategy::W8, 400, 19),
        ] {
            let max = strategy.max_weight() as i64;
            let mut bytes = vec![0; tiles * tile_bytes(strategy)];
            for tile in bytes.chunks_mut(tile_bytes(strategy)) {
                let weights = std::array::from_fn(|_| (rng.below(2 * max as u64 + 1) as i64 - max) as i16);
                pack_tile(strategy, &weights, tile);
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
            let source = PackedWeights::in_memory(strategy, bytes.clone());
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
            for max_terms in [MAX_TERMS, 64, 32] {
                assert!(combine_with(&source, &params, &weights, max_terms).0 == expected);
            }
            let path = dir.path().join("weights");
            files::write(&path, &bytes).unwrap();
            let residency = Residency::Stream { bytes: 1 << 20 };
            let streamed = PackedWeights::mapped(strategy, files::map(&path).unwrap()).with_residency(residency);
            let (message, traffic) = combine_columns(&streamed, &params, &weights);
            assert!(message == expected);
            assert_eq!(traffic.bytes, bytes.len() as u64);
        }
    }
}
