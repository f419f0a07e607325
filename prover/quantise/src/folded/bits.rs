//! The fractional bits of the weights of every output.

use std::simd::{f32x16, f64x16};

use super::matrix::{Axis, Folded};
use super::sums::Maxima;
use super::tally::{Row, Tally};
use crate::rounding::{abs_max, add_errors, best_bits, errors, fit, may_clip, scaled_back, Errors, SIMD_LANES};
use tessera_checkpoint::CheckpointError;

/// The fractional bits of the weights of every output, for integers up to `max`.
pub(crate) struct BestBits {
    pub max: i32,
}

/// What is known of the outputs after some rows.
pub(crate) enum Found {
    /// The bits of outputs that are rows.
    Bits(Vec<i32>),
    /// The largest absolute weights of outputs that are columns.
    Largest(<Maxima<'static> as Tally>::Piece),
}

/// The largest absolute weights of all columns.
const COLUMNS: Maxima<'static> = Maxima { inputs: &[] };

impl Tally for BestBits {
    type Piece = Found;
    type Total = Vec<i32>;

    fn start(&self, matrix: &Folded<'_>) -> Found {
        match matrix.rows {
            Axis::Outputs => Found::Bits(Vec::new()),
            Axis::Inputs => Found::Largest(COLUMNS.start(matrix)),
        }
    }

    fn add(&self, piece: &mut Found, row: Row<'_>) {
        let (weights, max) = (row.weights, self.max);
        match piece {
            Found::Bits(all) => all.push(best_bits(abs_max(weights), max, |bits| errors(weights, bits, max))),
            Found::Largest(all) => COLUMNS.add(all, row),
        }
    }

    fn join(self, matrix: &Folded<'_>, pieces: Vec<Found>) -> Result<Vec<i32>, CheckpointError> {
        let (mut bits, mut largest) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Found::Bits(own) => bits.extend(own),
                Found::Largest(own) => largest.push(own),
            }
        }
        match matrix.rows {
            Axis::Outputs => Ok(bits),
            Axis::Inputs => self.of_columns(matrix, &COLUMNS.join(matrix, largest)?.others),
        }
    }
}

impl BestBits {
    /// The bits of columns with these largest absolute weights. Where clipping may pay, a second traversal finds out.
    fn of_columns(&self, matrix: &Folded<'_>, largest: &[f32]) -> Result<Vec<i32>, CheckpointError> {
        let errors = match may_clip(self.max) {
            true => matrix.tally(ColumnErrors::new(largest, self.max))?,
            false => Vec::new(),
        };
        let columns = largest.iter().enumerate();
        let bits = |(c, largest): (usize, &f32)| best_bits(*largest, self.max, |bits| scaled_back(bits, errors[c]));
        Ok(columns.map(bits).collect())
    }
}

/// Squared errors of columns, in their units, with the bits with which all weights fit, and with one more.
struct ColumnErrors {
    units: Vec<f32x16>,
    max: i32,
}

impl ColumnErrors {
    /// The errors of columns with these largest absolute weights.
    fn new(largest: &[f32], max: i32) -> Self {
        let units = largest.chunks(SIMD_LANES).map(|largest| {
            let bits = |lane: usize| largest.get(lane).map_or(0, |m| fit(*m, max));
            f32x16::from_array(std::array::from_fn(|lane| f64::from(bits(lane)).exp2() as f32))
        });
        Self {
            units: units.collect(),
            max,
        }
    }
}

impl Tally for ColumnErrors {
    type Piece = Vec<Errors>;
    type Total = Vec<[f64; 2]>;

    fn start(&self, _: &Folded<'_>) -> Vec<Errors> {
        vec![[f64x16::splat(0.0); 2]; self.units.len()]
    }

    fn add(&self, piece: &mut Vec<Errors>, row: Row<'_>) {
        let vectors = row.weights.chunks(SIMD_LANES).zip(&self.units);
        for ((weights, unit), sums) in vectors.zip(piece) {
            add_errors(f32x16::load_or_default(weights) * *unit, self.max, sums);
        }
    }

    fn join(self, matrix: &Folded<'_>, pieces: Vec<Vec<Errors>>) -> Result<Vec<[f64; 2]>, CheckpointError> {
        let column = |c: usize| {
            let pairs = pieces
                .iter()
                .map(|piece| piece[c / SIMD_LANES].map(|sum| sum[c % SIMD_LANES]));
            pairs.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d])
        };
        Ok((0..matrix.width()).map(column).collect())
    }
}
