//! Second pass over the weights: the columns combined to one message.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::TILE;
use tessera_verifier::opening::CommitmentParams;

use super::TILE_AREA;
use crate::kernels::{self, coefficients, interleaved_lane, Coefficients, Elements, Isa, Plane, LANES};
use crate::matmul::lane;
use crate::stream::{window_tiles, StreamingWeightPipeline, Traffic, Window};
use crate::tiles::{self, planes, planes_of, TileSource};

/// Columns that are combined at a time: enough to make up for reducing the sums, few enough for the cache.
const GROUP: usize = 64;
/// Tiles of a column that are read together when weights are streamed, if there is room.
const RUN: usize = 64;
/// In place of what columns lack.
const ZEROS: &Plane = &[0; TILE_AREA];

/// The message `u = sum_G weights[G] W_G`.
pub(super) fn combine_columns(
    source: &dyn TileSource,
    params: &CommitmentParams,
    weights: &[SecureField],
) -> (Vec<SecureField>, Traffic) {
    let columns = Columns {
        isa: Isa::best(),
        source,
        length: 1 << params.log_column_tiles(),
        number: params.columns(),
    };
    let groups = columns.groups(&weights[..params.columns()]);
    let parts = columns.parts();
    let windows: Vec<Window> = parts.iter().map(|part| columns.window(part)).collect();
    let mut sums = vec![[[[[0; 16]; 4]; 4]; LANES]; columns.length];
    let ((), traffic) = StreamingWeightPipeline::run(source, &windows, |pass| {
        for part in &parts {
            let sums = &mut sums[part.tiles.clone()];
            pass.next(|| {
                sums.par_iter_mut().zip(part.tiles.clone()).for_each(|(sums, tile)| {
                    let groups = &groups[part.groups.clone()];
                    columns.combine(tile, part.groups.start, groups, sums);
                });
            });
        }
    });
    let mut message = vec![SecureField::zero(); 1 << params.log_message];
    message
        .par_chunks_mut(TILE_AREA)
        .zip(&sums)
        .for_each(|(message, sums)| {
            for (i, value) in message.iter_mut().enumerate() {
                let place = tiles::position(i / TILE, i % TILE);
                *value = lane(&sums[place / LANES], interleaved_lane(place % LANES));
            }
        });
    (message, traffic)
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
}

impl<'a> Columns<'a> {
    /// Coefficients of [`GROUP`] columns each, plane by plane, filled up to whole blocks.
    fn groups(&self, weights: &[SecureField]) -> Vec<Vec<Coefficients>> {
        let strategy = self.source.strategy();
        let group = |weights: &[SecureField]| {
            let mut terms = planes_of(strategy, weights);
            terms.resize(terms.len().next_multiple_of(kernels::TERMS), [0; 4]);
            terms.as_chunks().0.iter().map(coefficients).collect()
        };
        weights.chunks(GROUP).map(group).collect()
    }

    /// Cuts the pass in parts that fit a window. All groups of the same tiles follow each other, so that their
    /// sums stay close.
    fn parts(&self) -> Vec<Part> {
        let all = self.number.div_ceil(GROUP);
        let window = window_tiles(self.source).min(self.length * self.number);
        let tiles = (window / self.number)
            .max(RUN.min(window / GROUP))
            .clamp(1, self.length);
        let groups = (window / (tiles * GROUP)).clamp(1, all);
        let cut = |n: usize, size: usize| (0..n).step_by(size).map(move |first| first..n.min(first + size));
        cut(self.length, tiles)
            .flat_map(|tiles| {
                cut(all, groups).map(move |groups| Part {
                    tiles: tiles.clone(),
                    groups,
                })
            })
            .collect()
    }

    fn window(&self, part: &Part) -> Window {
        let columns = part.groups.start * GROUP..self.number.min(part.groups.end * GROUP);
        let tiles = columns.map(|column| {
            let end = self.source.tiles();
            let first = column * self.length;
            (first + part.tiles.start).min(end)..(first + part.tiles.end).min(end)
        });
        tiles.filter(|tiles| !tiles.is_empty()).collect()
    }

    /// The planes of one tile of the columns of a group, plane by plane.
    fn planes(&self, tile: usize, group: usize) -> Vec<&'a Plane> {
        let columns = group * GROUP..self.number.min((group + 1) * GROUP);
        let plane = |column: usize, plane: usize| {
            let t = column * self.length + tile;
            match t < self.source.tiles() {
                true => &self.source.bytes(t..t + 1).as_chunks().0[plane],
                false => ZEROS,
            }
        };
        let planes = 0..planes(self.source.strategy());
        let mut planes: Vec<_> = planes.flat_map(|p| columns.clone().map(move |c| plane(c, p))).collect();
        planes.resize(planes.len().next_multiple_of(kernels::TERMS), ZEROS);
        planes
    }

    /// Adds to `sums` the weights of one tile of the columns of groups from `first` on.
    fn combine(&self, tile: usize, first: usize, groups: &[Vec<Coefficients>], sums: &mut [Elements; LANES]) {
        let mut planes = self.planes(tile, first);
        for (i, group) in groups.iter().enumerate() {
            let next = match i + 1 < groups.len() {
                true => self.planes(tile, first + i + 1),
                false => Vec::new(),
            };
            kernels::combine_columns(self.isa, &planes, &next, group, sums);
            planes = next;
        }
    }
}
