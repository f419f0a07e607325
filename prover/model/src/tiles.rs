//! How a tile of 64 x 64 weights is stored (docs/format.md, section 4.1). Only this module and `kernels`
//! know it.
//!
//! A plane is 4096 signed bytes in the order `[y / 4][x][y % 4]`: a run of 64 bytes holds four neighbouring
//! output channels `y` of sixteen input channels `x`, which is what byte dot products read. `W8` is one
//! plane. `W12` is two, low and high, `weight = 256 high + low`; both are signed, so every kernel treats a
//! tile of `W12` as two of `W8`.

use std::ops::Range;

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::{ColumnNorms, WeightFormat, TILE};

use tessera_support::files::Mapped;

/// Weights of a tile, and bytes of a plane.
pub const TILE_WEIGHTS: usize = TILE * TILE;
/// Neighbouring output channels that are stored together.
pub const GROUP: usize = 4;

/// Planes of a stored tile.
pub const fn planes(format: WeightFormat) -> usize {
    match format {
        WeightFormat::Int8 => 1,
        WeightFormat::Int16 => 2,
    }
}

/// Bytes of a stored tile.
pub const fn tile_bytes(format: WeightFormat) -> usize {
    planes(format) * TILE_WEIGHTS
}

/// Place in a plane of the weight from local input `x` to local output `y`.
pub const fn position(x: usize, y: usize) -> usize {
    (y / GROUP * TILE + x) * GROUP + y % GROUP
}

/// Stores a tile: `weights[64 x + y]` is the weight from local input `x` to local output `y`.
///
/// # Panics
/// If `out` is not [`tile_bytes`] long.
pub fn pack_tile(format: WeightFormat, weights: &[i16; TILE_WEIGHTS], out: &mut [u8]) {
    assert_eq!(out.len(), tile_bytes(format), "bytes of a tile");
    let (low, high) = out.split_at_mut(TILE_WEIGHTS);
    for (x, row) in weights.as_chunks::<TILE>().0.iter().enumerate() {
        for (y, &w) in row.iter().enumerate() {
            low[position(x, y)] = w as u8;
            if format == WeightFormat::Int16 {
                high[position(x, y)] = ((i32::from(w) - i32::from(w as i8)) >> 8) as u8;
            }
        }
    }
}

/// Reads a stored tile; the inverse of [`pack_tile`]. Bytes that no tile is stored as give weights that
/// the format does not allow.
///
/// # Panics
/// If `bytes` is not [`tile_bytes`] long.
pub fn unpack_tile(format: WeightFormat, bytes: &[u8], out: &mut [i16; TILE_WEIGHTS]) {
    assert_eq!(bytes.len(), tile_bytes(format), "bytes of a tile");
    for (x, row) in out.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
        for (y, w) in row.iter_mut().enumerate() {
            *w = weight(format, bytes, x, y);
        }
    }
}

/// The weight from local input `x` to local output `y` of a stored tile.
///
/// # Panics
/// If there is no such place.
pub fn weight(format: WeightFormat, bytes: &[u8], x: usize, y: usize) -> i16 {
    let at = position(x, y);
    match format {
        WeightFormat::Int8 => i16::from(bytes[at] as i8),
        WeightFormat::Int16 => word(bytes[at], bytes[TILE_WEIGHTS + at]),
    }
}

/// The weight of two planes.
fn word(low: u8, high: u8) -> i16 {
    // The sum is outside i16 only if the high byte is -128 and the low one negative.
    i16::from(low as i8).saturating_add(256 * i16::from(high as i8))
}

/// Whether all weights of a stored tile are at most `most` in absolute value.
///
/// # Panics
/// If `bytes` is not [`tile_bytes`] long.
pub fn all_within(format: WeightFormat, most: i32, bytes: &[u8]) -> bool {
    assert_eq!(bytes.len(), tile_bytes(format), "bytes of a tile");
    let (low, high) = bytes.split_at(TILE_WEIGHTS);
    let most = most as i16;
    let beyond = |w: i16| w.saturating_abs() > most;
    // Without a branch, so that many weights are looked at together.
    match format {
        WeightFormat::Int8 => !low.iter().fold(false, |any, w| any | beyond(i16::from(*w as i8))),
        WeightFormat::Int16 => !low
            .iter()
            .zip(high)
            .fold(false, |any, (low, high)| any | beyond(word(*low, *high))),
    }
}

/// Adds the norms of the columns of a stored tile, by local output.
///
/// # Panics
/// If `bytes` is not [`tile_bytes`] long.
pub fn add_norms(format: WeightFormat, bytes: &[u8], columns: &mut [ColumnNorms; TILE]) {
    /// Sums side by side, which stay in registers.
    const SIMD_LANES: usize = 64;
    assert_eq!(bytes.len(), tile_bytes(format), "bytes of a tile");
    let (low, high) = bytes.split_at(TILE_WEIGHTS);
    for (group, columns) in columns.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        // Squares in two halves, so that sums of any weights fit.
        let [mut l1, mut square_low, mut square_high] = [[0u32; SIMD_LANES]; 3];
        for at in (group * GROUP * TILE..(group + 1) * GROUP * TILE).step_by(SIMD_LANES) {
            let low = &low[at..at + SIMD_LANES];
            let mut add = |lane: usize, w: i16| {
                let magnitude = u32::from(w.unsigned_abs());
                let square = magnitude * magnitude;
                l1[lane] += magnitude;
                square_low[lane] += square & 0xffff;
                square_high[lane] += square >> 16;
            };
            match format {
                WeightFormat::Int8 => low.iter().enumerate().for_each(|(i, w)| add(i, i16::from(*w as i8))),
                WeightFormat::Int16 => {
                    let words = low.iter().zip(&high[at..at + SIMD_LANES]).enumerate();
                    words.for_each(|(i, (low, high))| add(i, word(*low, *high)));
                }
            }
        }
        let by_column = |lanes: [u32; SIMD_LANES]| {
            let mut sums = [0; GROUP];
            for lanes in lanes.as_chunks::<GROUP>().0 {
                sums.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += lane);
            }
            sums
        };
        let (l1, square_low, square_high) = (by_column(l1), by_column(square_low), by_column(square_high));
        for (i, column) in columns.iter_mut().enumerate() {
            column.l1 += u64::from(l1[i]);
            column.square += u64::from(square_low[i]) + (u64::from(square_high[i]) << 16);
        }
    }
}

/// The coordinates of a field element, as kernels take them.
pub fn coordinates(value: &SecureField) -> [u32; 4] {
    value.to_m31_array().map(|c| c.0)
}

/// Coefficients of all planes of tiles, from those of the weights: a unit of the high plane is 256.
pub fn planes_of(format: WeightFormat, coefficients: &[SecureField]) -> Vec<[u32; 4]> {
    let unit = |plane: usize| SecureField::from(BaseField::from_u32_unchecked(1u32 << (8 * plane)));
    (0..planes(format))
        .flat_map(|plane| coefficients.iter().map(move |c| coordinates(&(*c * unit(plane)))))
        .collect()
}

/// Packed tiles.
pub trait TileSource: Sync {
    /// How the weights are quantised.
    fn format(&self) -> WeightFormat;
    /// Number of tiles.
    fn tiles(&self) -> usize;
    /// The stored bytes of a range of tiles.
    ///
    /// # Panics
    /// If there are no such tiles.
    fn bytes(&self, tiles: Range<usize>) -> &[u8];

    /// The tile of the file that is the first one here.
    fn offset(&self) -> usize {
        0
    }

    /// The file that the bytes are mapped from and how many of them may be in memory at a time, if they are to
    /// be streamed; `None` if they stay where they are.
    fn streamed(&self) -> Option<(&Mapped, usize)> {
        None
    }

    /// Tells that these tiles are not needed for a while, so that memory need not hold them.
    fn release(&self, _tiles: Range<usize>) {}

    /// Unpacks tile `t`: weight `(x, y)` at `64 x + y`.
    fn tile(&self, t: usize, out: &mut [i16; TILE_WEIGHTS]) {
        unpack_tile(self.format(), self.bytes(t..t + 1), out);
    }
}

/// Some of the tiles of a source, numbered from 0 on.
pub struct TileRange<'a> {
    source: &'a dyn TileSource,
    tiles: Range<usize>,
}

impl<'a> TileRange<'a> {
    /// # Panics
    /// If the source does not have these tiles.
    pub fn new(source: &'a dyn TileSource, tiles: Range<usize>) -> Self {
        assert!(
            tiles.start <= tiles.end && tiles.end <= source.tiles(),
            "tiles of the source"
        );
        Self { source, tiles }
    }

    fn outer(&self, tiles: &Range<usize>) -> Range<usize> {
        assert!(tiles.end <= self.tiles(), "tiles of the range");
        self.tiles.start + tiles.start..self.tiles.start + tiles.end
    }
}

impl TileSource for TileRange<'_> {
    fn format(&self) -> WeightFormat {
        self.source.format()
    }

    fn tiles(&self) -> usize {
        self.tiles.len()
    }

    fn bytes(&self, tiles: Range<usize>) -> &[u8] {
        self.source.bytes(self.outer(&tiles))
    }

    fn offset(&self) -> usize {
        self.source.offset() + self.tiles.start
    }

    fn streamed(&self) -> Option<(&Mapped, usize)> {
        self.source.streamed()
    }

    fn release(&self, tiles: Range<usize>) {
        self.source.release(self.outer(&tiles));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_support::random::SplitMix;

    #[test]
    fn tiles_round_trip() {
        let mut rng = SplitMix(1);
        for format in [WeightFormat::Int8, WeightFormat::Int16] {
            let max = format.max_weight() as i16;
            let fills: [&mut dyn FnMut(usize) -> i16; 4] = [
                &mut |_| max,
                &mut |_| -max,
                &mut |i| (i % (2 * max as usize + 1)) as i16 - max,
                &mut |_| rng.below(2 * max as u64 + 1) as i16 - max,
            ];
            for fill in fills {
                let weights: [i16; TILE_WEIGHTS] = std::array::from_fn(fill);
                let mut bytes = vec![0; tile_bytes(format)];
                pack_tile(format, &weights, &mut bytes);
                let mut back = [0; TILE_WEIGHTS];
                unpack_tile(format, &bytes, &mut back);
                assert!(back == weights);
            }
        }
    }

    #[test]
    fn a_run_holds_four_outputs_of_sixteen_inputs() {
        let weights = std::array::from_fn(|i| (i / TILE) as i16 + if i % TILE == 5 { 64 } else { 0 });
        let mut bytes = vec![0; TILE_WEIGHTS];
        pack_tile(WeightFormat::Int8, &weights, &mut bytes);
        assert_eq!(bytes[256..264], [0, 64, 0, 0, 1, 65, 1, 1]);
        assert_eq!(position(63, 63), TILE_WEIGHTS - 1);
    }

    #[test]
    fn no_bytes_overflow() {
        for low in 0..=255u8 {
            for high in 0..=255u8 {
                let mut bytes = vec![low; 2 * TILE_WEIGHTS];
                bytes[TILE_WEIGHTS] = high;
                let exact = 256 * i32::from(high as i8) + i32::from(low as i8);
                let planes = [vec![low; TILE_WEIGHTS], vec![high; TILE_WEIGHTS]].concat();
                for most in [2047, 8191] {
                    assert_eq!(all_within(WeightFormat::Int16, most, &planes), exact.abs() <= most);
                }
                assert_eq!(
                    all_within(WeightFormat::Int8, 127, &planes[..TILE_WEIGHTS]),
                    low as i8 != -128
                );
                let got = i32::from(weight(WeightFormat::Int16, &bytes, 0, 0));
                assert!(got == exact || (exact.abs() > 8191 && got.abs() > 8191));
            }
        }
    }
}
