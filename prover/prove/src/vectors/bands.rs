//! Sums of bands of weights: the first pass of a proof over them.

use std::ops::Range;

use crate::bind::eq_table;
use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::TILE;

use crate::device::{Bands, DeviceError};
use crate::field::{Factor, Packed, Words, SIMD_LANES};
use crate::opening::{Codeword, Committed, CommittedWeights, OpeningProverError};
use tessera_kernels::table::Table;
use tessera_kernels::weights::{coefficients, combine, Coefficients, Elements, Isa};
use tessera_model::passes::{cut, window_tiles, Traffic, WeightPass, Window};
use tessera_model::tiles::{planes_of, tile_bytes, TileSource};

type K = SecureField;

/// Bands that a thread takes at a time.
const TASK_BANDS: usize = 64;

/// The sums of bands.
pub struct Sums(pub(super) Table<Elements>);

impl Bands for Sums {
    fn rows(&self, bands: Range<usize>, factors: &[K]) -> Result<Vec<K>, DeviceError> {
        let factors: Vec<_> = factors.iter().map(|factor| Factor::new(*factor)).collect();
        let rows = self.0[bands].par_chunks(factors.len());
        let row = |row: &[Elements]| {
            let mut sums = [Packed::zero(); TILE / SIMD_LANES];
            for (band, factor) in row.iter().zip(&factors) {
                for (sum, group) in sums.iter_mut().zip(band) {
                    *sum += packed(group) * *factor;
                }
            }
            sums.into_iter().flat_map(|sum| sum.to_array())
        };
        Ok(rows.flat_map_iter(row).collect())
    }

    fn values(&self, point: &[K]) -> Result<Vec<K>, DeviceError> {
        Ok(band_values(&self.0, point))
    }

    fn into_committed<'a>(
        self: Box<Self>,
        source: &'a dyn TileSource,
        codeword: &'a Codeword,
    ) -> Result<Box<dyn Committed + 'a>, OpeningProverError>
    where
        Self: 'a,
    {
        Ok(Box::new(CommittedWeights::new(source, codeword, self.0)?))
    }
}

/// First pass over the weights: `t_B(x) = sum_(d, y) B(d, x, y) eq(point, (d, y))` for every band, `x` the lane and `d` the
/// tile in the band. A point of six coordinates has bands of one tile, and every coordinate more doubles them. The table
/// has memory for `room` bytes, if these are more.
///
/// # Panics
/// If the last band is not full.
pub fn bind_bands(source: &dyn TileSource, point: &[K], room: usize) -> (Table<Elements>, Traffic) {
    let (isa, format) = (Isa::best(), source.format());
    let eq = eq_table(point);
    let of_tiles = eq.as_chunks::<TILE>().0;
    let terms: Vec<_> = of_tiles.iter().flat_map(|eq| planes_of(format, eq)).collect();
    let terms: Vec<Coefficients> = terms.as_chunks().0.iter().map(coefficients).collect();
    let band = of_tiles.len();
    let (size, number) = (band * tile_bytes(format), source.tiles() / band);
    assert_eq!(source.tiles(), number * band, "tiles of whole bands");
    let parts = cut(number, window_tiles(source) / band);
    let tiles = |bands: &Range<usize>| bands.start * band..bands.end * band;
    let windows: Vec<Window> = parts.clone().map(|bands| vec![tiles(&bands)]).collect();
    let mut out = Table::with_room(number, room);
    let ((), traffic) = WeightPass::run(source, &windows, |pass| {
        for bands in parts {
            let (bytes, sums) = (source.bytes(tiles(&bands)), &mut out[bands]);
            pass.next(|| {
                let bands = bytes.par_chunks(TASK_BANDS * size).zip(sums.par_chunks_mut(TASK_BANDS));
                bands.for_each(|(bands, sums)| combine(isa, bands.as_chunks().0, &terms, sums));
            });
        }
    });
    (out, traffic)
}

/// `B~(d, point, y)` of every band, from its sums of [`bind_bands`] at `(d, y)`.
pub fn band_values(tables: &[Elements], point: &[K]) -> Vec<K> {
    let inner = eq_table(point);
    let inner = inner.as_chunks::<SIMD_LANES>().0;
    let inner: Vec<Packed> = inner.iter().map(Packed::from_array).collect();
    let value = |band: &Elements| {
        let groups = band.iter().zip(&inner).map(|(group, inner)| packed(group) * *inner);
        groups.fold(Packed::zero(), |sum, v| sum + v).total()
    };
    tables.par_iter().map(value).collect()
}

/// Sixteen lanes as the field arithmetic takes them.
fn packed(group: &[[u32; 16]; 4]) -> Packed {
    Packed::from_words(group.map(Words::from_array))
}
