//! A stored weight matrix as it is quantised: with the gain of the norm before it folded into its input channels, and the
//! factors of its family, as that of scores into q; then turned with the residual stream, if that is rotated. Read in pieces,
//! never whole, but for matrices that are turned across their rows.

use std::ops::Range;
use std::simd::cmp::SimdPartialOrd;
use std::simd::num::SimdFloat;
use std::simd::{f32x16, f64x16, Select, StdFloat};

use rayon::prelude::*;
use tessera_circuits::model::MatmulKind;

use super::rotation::Rotation;
use tessera_checkpoint::families::{Norm, Parameter};
use tessera_checkpoint::{Checkpoint, CheckpointError, Orientation, Tensor};

/// No weight gets more fractional bits than this.
pub(super) const MAX_WEIGHT_BITS: i32 = 30;
/// Rows that a thread reads at once. Sums over rows are made per piece, so they depend on it.
const PIECE_ROWS: usize = 64;
const SIMD_LANES: usize = 16;

/// Columns that are turned at once.
const PANEL: usize = 64;

/// A float matrix with what is folded into it.
pub(super) struct Folded<'a> {
    /// As it is stored.
    tensor: Tensor<'a>,
    /// Of the rows that are read.
    pub orientation: Orientation,
    /// By input channel, the mean of its weights, which is subtracted from each before anything else.
    means: Option<Vec<f32>>,
    /// Factor of every input channel.
    gain: Option<Vec<f32>>,
    /// By output channel of what reads an encoder's norm, the mean of its weights, gains included: so it does not see a mean that rounding
    /// has left in a state.
    read_means: Option<Vec<f32>>,
    /// Factor of every output channel.
    outputs: Option<Vec<f32>>,
    turned: Turned<'a>,
    /// Powers of two of the input channels, last of all; none if all are 1.
    units: Vec<f32>,
}

/// How a matrix turns with the residual stream, which every matrix reads or writes.
enum Turned<'a> {
    No,
    /// The stream's channels are those of a row, which is turned where it is read.
    Rows(&'a Rotation),
    /// They are those of a column: the whole matrix, turned and transposed, so that they are those of a row here, too.
    Transposed {
        width: usize,
        values: Vec<f32>,
    },
}

impl<'a> Folded<'a> {
    pub fn new(
        checkpoint: &'a Checkpoint,
        kind: MatmulKind,
        layer: usize,
        rotation: Option<&'a Rotation>,
    ) -> Result<Self, CheckpointError> {
        let norm = match kind {
            MatmulKind::Q | MatmulKind::K | MatmulKind::V => Some(Parameter::AttentionNorm(layer)),
            MatmulKind::Gate | MatmulKind::Up => Some(Parameter::MlpNorm(layer)),
            MatmulKind::Head => Some(Parameter::FinalNorm),
            MatmulKind::Embed | MatmulKind::O | MatmulKind::Down => None,
        };
        let factor = checkpoint.description().factor(kind);
        let gain = match norm {
            Some(norm) => {
                let gain = checkpoint.gain(norm)?;
                Some(gain.iter().map(|g| (f64::from(*g) * factor) as f32).collect())
            }
            None if factor == 1.0 => None,
            None => Some(vec![factor as f32; checkpoint.config().dims(kind).0]),
        };
        let mut folded = Self {
            tensor: checkpoint.matrix(kind, layer)?,
            orientation: checkpoint.orientation(kind),
            means: None,
            gain,
            read_means: None,
            outputs: factors_of_outputs(checkpoint, kind, layer),
            turned: Turned::No,
            units: Vec::new(),
        };
        let writes = matches!(kind, MatmulKind::Embed | MatmulKind::O | MatmulKind::Down);
        if writes && checkpoint.description().norm != Norm::Rms {
            folded.means = Some(folded.input_means()?);
        }
        if norm.is_some() && checkpoint.config().is_encoder() {
            folded.read_means = Some(folded.output_means()?);
        }
        if let Some(rotation) = rotation {
            match writes == (folded.orientation == Orientation::InputsFirst) {
                true => folded.turned = Turned::Rows(rotation),
                false => folded.transpose(rotation)?,
            }
        }
        Ok(folded)
    }

    /// With the weights of every input channel times `2^k`, `k` its exponent, as its values are in units so many times as large.
    pub fn in_units(mut self, exponents: &[u8]) -> Self {
        self.units = exponents.iter().map(|k| f32::from(*k).exp2()).collect();
        self
    }

    /// Reads, turns and transposes all.
    fn transpose(&mut self, rotation: &Rotation) -> Result<(), CheckpointError> {
        let (columns, rows) = (self.tensor.width(), self.tensor.len() / self.tensor.width());
        let mut values = vec![0.0; rows * columns];
        let panels = values.par_chunks_mut(PANEL * rows).enumerate();
        panels.try_for_each(|(i, panel)| {
            let range = i * PANEL..columns.min((i + 1) * PANEL);
            let mut row = vec![0.0; range.len()];
            for r in 0..rows {
                self.read_stored(r, range.clone(), &mut row)?;
                panel
                    .iter_mut()
                    .skip(r)
                    .step_by(rows)
                    .zip(&row)
                    .for_each(|(to, w)| *to = *w);
            }
            panel.chunks_exact_mut(rows).for_each(|column| rotation.turn(column));
            Ok::<_, CheckpointError>(())
        })?;
        self.tensor.release();
        self.orientation = match self.orientation {
            Orientation::InputsFirst => Orientation::OutputsFirst,
            Orientation::OutputsFirst => Orientation::InputsFirst,
        };
        self.turned = Turned::Transposed { width: rows, values };
        Ok(())
    }

    /// Length of the rows that are read.
    pub fn width(&self) -> usize {
        match &self.turned {
            Turned::Transposed { width, .. } => *width,
            Turned::No | Turned::Rows(_) => self.tensor.width(),
        }
    }

    /// Lets the system take back the memory of what is stored.
    pub fn release(&self) {
        self.tensor.release();
    }

    /// Reads the columns `columns` of row `row`.
    pub fn read(&self, row: usize, columns: Range<usize>, out: &mut [f32]) -> Result<(), CheckpointError> {
        match &self.turned {
            Turned::No => self.read_stored(row, columns.clone(), out)?,
            Turned::Rows(rotation) => {
                let mut whole = vec![0.0; self.width()];
                self.read_stored(row, 0..whole.len(), &mut whole)?;
                rotation.turn(&mut whole);
                out.copy_from_slice(&whole[columns.clone()]);
            }
            Turned::Transposed { width, values } => out.copy_from_slice(&values[row * width..][columns.clone()]),
        }
        match (self.units.is_empty(), self.orientation) {
            (true, _) => {}
            (false, Orientation::OutputsFirst) => {
                let units = &self.units[columns];
                out.iter_mut().zip(units).for_each(|(w, unit)| *w *= unit);
            }
            (false, Orientation::InputsFirst) => out.iter_mut().for_each(|w| *w *= self.units[row]),
        }
        Ok(())
    }

    /// Of every input channel, the mean of its weights.
    fn input_means(&self) -> Result<Vec<f32>, CheckpointError> {
        let width = self.tensor.width();
        let rows = self.tensor.len() / width;
        let sums = self.pieces(|range| {
            let (mut row, mut sums, mut columns) = (vec![0.0; width], Vec::new(), vec![0.0f64; width]);
            for r in range {
                self.tensor.read(r * width, &mut row)?;
                sums.push(row.iter().map(|w| f64::from(*w)).sum::<f64>());
                columns.iter_mut().zip(&row).for_each(|(sum, w)| *sum += f64::from(*w));
            }
            Ok((sums, columns))
        })?;
        let mean = |sum: f64, of: usize| (sum / of as f64) as f32;
        if self.orientation == Orientation::InputsFirst {
            let sums = sums.into_iter().flat_map(|(sums, _)| sums);
            return Ok(sums.map(|sum| mean(sum, width)).collect());
        }
        let mut all = vec![0.0; width];
        for (_, columns) in sums {
            all.iter_mut().zip(columns).for_each(|(sum, own)| *sum += own);
        }
        Ok(all.into_iter().map(|sum| mean(sum, rows)).collect())
    }

    /// Of every output channel, the mean of its weights with their gains.
    fn output_means(&self) -> Result<Vec<f32>, CheckpointError> {
        let width = self.tensor.width();
        let rows = self.tensor.len() / width;
        let sums = self.pieces(|range| {
            let (mut row, mut sums, mut columns) = (vec![0.0; width], Vec::new(), vec![0.0f64; width]);
            for r in range {
                self.read_stored(r, 0..width, &mut row)?;
                sums.push(row.iter().map(|w| f64::from(*w)).sum::<f64>());
                columns.iter_mut().zip(&row).for_each(|(sum, w)| *sum += f64::from(*w));
            }
            Ok((sums, columns))
        })?;
        if self.orientation == Orientation::OutputsFirst {
            let sums = sums.into_iter().flat_map(|(sums, _)| sums);
            return Ok(sums.map(|sum| (sum / width as f64) as f32).collect());
        }
        let mut all = vec![0.0; width];
        for (_, columns) in sums {
            all.iter_mut().zip(columns).for_each(|(sum, own)| *sum += own);
        }
        Ok(all.into_iter().map(|sum| (sum / rows as f64) as f32).collect())
    }

    fn read_stored(&self, row: usize, columns: Range<usize>, out: &mut [f32]) -> Result<(), CheckpointError> {
        self.tensor.read(row * self.tensor.width() + columns.start, out)?;
        match (&self.means, self.orientation) {
            (None, _) => {}
            (Some(means), Orientation::OutputsFirst) => {
                out.iter_mut().zip(&means[columns.clone()]).for_each(|(w, m)| *w -= m);
            }
            (Some(means), Orientation::InputsFirst) => out.iter_mut().for_each(|w| *w -= means[row]),
        }
        match (&self.gain, self.orientation) {
            (None, _) => {}
            (Some(gain), Orientation::OutputsFirst) => {
                out.iter_mut().zip(&gain[columns.clone()]).for_each(|(w, g)| *w *= g);
            }
            (Some(gain), Orientation::InputsFirst) => out.iter_mut().for_each(|w| *w *= gain[row]),
        }
        match (&self.read_means, self.orientation) {
            (None, _) => {}
            (Some(means), Orientation::OutputsFirst) => out.iter_mut().for_each(|w| *w -= means[row]),
            (Some(means), Orientation::InputsFirst) => {
                out.iter_mut().zip(&means[columns.clone()]).for_each(|(w, m)| *w -= m);
            }
        }
        match (&self.outputs, self.orientation) {
            (None, _) => {}
            (Some(factors), Orientation::OutputsFirst) => out.iter_mut().for_each(|w| *w *= factors[row]),
            (Some(factors), Orientation::InputsFirst) => {
                out.iter_mut().zip(&factors[columns]).for_each(|(w, f)| *w *= f);
            }
        }
        Ok(())
    }

    /// Fractional bits of every output channel, for integers up to `max`.
    pub fn choose_bits(&self, max: i32) -> Result<Vec<i32>, CheckpointError> {
        match self.orientation {
            Orientation::InputsFirst => self.bits_of_columns(max),
            Orientation::OutputsFirst => {
                let rows = self.rows(|row| best_bits(abs_max(row), max, |bits| errors(row, bits, max)))?;
                Ok(rows.concat())
            }
        }
    }

    /// Sums of squares of the weights of every input channel, with a factor for every output.
    pub fn input_squares(&self, factor: impl Fn(usize) -> f64 + Sync) -> Result<Vec<f64>, CheckpointError> {
        self.squares(Orientation::InputsFirst, factor)
    }

    /// Sums of squares of the weights of every output channel, with a factor for every input.
    pub fn output_squares(&self, factor: impl Fn(usize) -> f64 + Sync) -> Result<Vec<f64>, CheckpointError> {
        self.squares(Orientation::OutputsFirst, factor)
    }

    /// Largest absolute weights of every output: of each of these inputs, and of all others together.
    pub fn output_maxima(&self, inputs: &[usize]) -> Result<(Vec<Vec<f32>>, Vec<f32>), CheckpointError> {
        let width = self.width();
        if self.orientation == Orientation::OutputsFirst {
            let split = |row: &[f32]| {
                let own: Vec<f32> = inputs.iter().map(|c| row[*c].abs()).collect();
                let mut row = row.to_vec();
                inputs.iter().for_each(|c| row[*c] = 0.0);
                (own, abs_max(&row))
            };
            let outputs: Vec<(Vec<f32>, f32)> = self.rows(split)?.into_iter().flatten().collect();
            let own = |i: usize| outputs.iter().map(|(own, _)| own[i]).collect();
            let others = outputs.iter().map(|(_, others)| *others);
            return Ok(((0..inputs.len()).map(own).collect(), others.collect()));
        }
        let read = |c: &usize| {
            let mut row = vec![0.0; width];
            self.read(*c, 0..width, &mut row)?;
            row.iter_mut().for_each(|w| *w = w.abs());
            Ok::<_, CheckpointError>(row)
        };
        let own = inputs.iter().map(read).collect::<Result<_, _>>()?;
        Ok((own, self.column_maxima(inputs)?))
    }

    /// Sums of squares of channels that are rows in matrices of this orientation, and columns in others, with a factor for
    /// every term.
    fn squares(&self, rows: Orientation, factor: impl Fn(usize) -> f64 + Sync) -> Result<Vec<f64>, CheckpointError> {
        let width = self.width();
        let square = |w: &f32| f64::from(*w) * f64::from(*w);
        if self.orientation == rows {
            let terms = |row: &[f32]| row.iter().enumerate().map(|(c, w)| square(w) * factor(c)).sum::<f64>();
            return Ok(self.rows(terms)?.concat());
        }
        let pieces = self.pieces(|range| {
            let (mut row, mut sums) = (vec![0.0; width], vec![0.0; width]);
            for r in range {
                self.read(r, 0..width, &mut row)?;
                let factor = factor(r);
                sums.iter_mut().zip(&row).for_each(|(s, w)| *s += square(w) * factor);
            }
            Ok(sums)
        })?;
        let mut sums = vec![0.0; width];
        for piece in pieces {
            sums.iter_mut().zip(piece).for_each(|(s, p)| *s += p);
        }
        Ok(sums)
    }

    /// Largest absolute values of columns, without some of the rows.
    fn column_maxima(&self, without: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let width = self.width();
        let pieces = self.pieces(|range| {
            let (mut row, mut maxima) = (vec![0.0; width], vec![0.0f32; width]);
            for r in range.filter(|r| !without.contains(r)) {
                self.read(r, 0..width, &mut row)?;
                maxima.iter_mut().zip(&row).for_each(|(m, w)| *m = m.max(w.abs()));
            }
            Ok(maxima)
        })?;
        let largest = pieces.into_iter().reduce(|mut all, piece| {
            all.iter_mut().zip(piece).for_each(|(a, b)| *a = a.max(b));
            all
        });
        Ok(largest.unwrap_or_default())
    }

    /// A value of every row, by pieces.
    fn rows<T: Send>(&self, value: impl Fn(&[f32]) -> T + Sync) -> Result<Vec<Vec<T>>, CheckpointError> {
        let width = self.width();
        self.pieces(|range| {
            let mut row = vec![0.0; width];
            range
                .map(|r| {
                    self.read(r, 0..width, &mut row)?;
                    Ok(value(&row))
                })
                .collect()
        })
    }

    fn pieces<T: Send>(
        &self,
        piece: impl Fn(Range<usize>) -> Result<T, CheckpointError> + Sync,
    ) -> Result<Vec<T>, CheckpointError> {
        let rows = self.tensor.len() / self.width();
        let starts = (0..rows).into_par_iter().step_by(PIECE_ROWS);
        starts.map(|first| piece(first..rows.min(first + PIECE_ROWS))).collect()
    }

    /// Bits of output channels that are columns: maxima, then squared errors, of all columns side by side.
    fn bits_of_columns(&self, max: i32) -> Result<Vec<i32>, CheckpointError> {
        let width = self.width();
        let largest = self.column_maxima(&[])?;
        let units: Vec<f32x16> = largest
            .chunks(SIMD_LANES)
            .map(|largest| {
                let bits = |lane: usize| largest.get(lane).map_or(0, |m| fit(*m, max));
                f32x16::from_array(std::array::from_fn(|lane| f64::from(bits(lane)).exp2() as f32))
            })
            .collect();
        let sums = self.pieces(|range| {
            let (mut row, mut sums) = (vec![0.0; width], vec![[f64x16::splat(0.0); 2]; units.len()]);
            for r in range {
                self.read(r, 0..width, &mut row)?;
                for ((values, unit), sums) in row.chunks(SIMD_LANES).zip(&units).zip(&mut sums) {
                    add_errors(f32x16::load_or_default(values) * *unit, max, sums);
                }
            }
            Ok(sums)
        })?;
        let error = |column: usize, bits: i32| {
            let (vector, lane) = (column / SIMD_LANES, column % SIMD_LANES);
            scaled_back(
                bits,
                add_pairs(sums.iter().map(|piece| piece[vector].map(|sum| sum[lane]))),
            )
        };
        Ok((0..width)
            .map(|c| best_bits(largest[c], max, |bits| error(c, bits)))
            .collect())
    }
}

/// Those of the channels of Q, where the rotation has a factor.
fn factors_of_outputs(checkpoint: &Checkpoint, kind: MatmulKind, layer: usize) -> Option<Vec<f32>> {
    let head = match kind {
        MatmulKind::Q => checkpoint.description().of_queries(layer)?,
        _ => return None,
    };
    let all = head.iter().map(|f| *f as f32).cycle();
    Some(all.take(checkpoint.config().dims(kind).1).collect())
}

fn add_pairs(pairs: impl Iterator<Item = [f64; 2]>) -> [f64; 2] {
    pairs.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d])
}

/// Largest absolute value.
pub(super) fn abs_max(values: &[f32]) -> f32 {
    let (vectors, rest) = values.as_chunks::<SIMD_LANES>();
    let max = vectors.iter().fold(f32x16::splat(0.0), |max, v| {
        let v = f32x16::from_array(*v).abs();
        v.simd_gt(max).select(v, max)
    });
    rest.iter().fold(max.reduce_max(), |m, w| m.max(w.abs()))
}

/// The most fractional bits with which values up to `largest` fit integers up to `max`.
pub(super) fn fit(largest: f32, max: i32) -> i32 {
    // A matrix or channel of zeros has any scale.
    let bits = ((f64::from(max) + 0.5) / f64::from(largest)).log2().ceil();
    bits.min(f64::from(MAX_WEIGHT_BITS)) as i32 - 1
}

/// Fractional bits for integers up to `max`: the most with which all values fit, or (for 8-bit weights) one
/// more if that lowers the squared error in spite of the values that it clips. `errors(bits)` are the errors with
/// `bits` and with one more.
pub(super) fn best_bits(largest: f32, max: i32, errors: impl FnOnce(i32) -> [f64; 2]) -> i32 {
    let bits = fit(largest, max);
    if max > i32::from(i8::MAX) || largest == 0.0 {
        return bits;
    }
    let [fitting, clipping] = errors(bits);
    bits + i32::from(clipping < fitting)
}

/// Squared errors of integers up to `max` with `bits` fractional bits, and with one more.
pub(super) fn errors(values: &[f32], bits: i32, max: i32) -> [f64; 2] {
    let mut sums = [f64x16::splat(0.0); 2];
    for values in values.chunks(SIMD_LANES) {
        add_errors(f32x16::load_or_default(values) * unit(bits), max, &mut sums);
    }
    scaled_back(bits, sums.map(|sum| sum.reduce_sum()))
}

/// Adds the squared errors of scaled values, and of their doubles.
#[inline(always)]
fn add_errors(scaled: f32x16, max: i32, sums: &mut [f64x16; 2]) {
    for (scaled, sum) in [scaled, scaled + scaled].into_iter().zip(sums) {
        let error = (scaled - rounded(scaled, max)).cast::<f64>();
        *sum = error.mul_add(error, *sum);
    }
}

/// Squared errors in the unit of the values.
fn scaled_back(bits: i32, [fitting, clipping]: [f64; 2]) -> [f64; 2] {
    let square = f64::from(-2 * bits).exp2();
    [fitting * square, clipping * square / 4.0]
}

/// `2^bits`.
pub(super) fn unit(bits: i32) -> f32x16 {
    f32x16::splat(f64::from(bits).exp2() as f32)
}

/// The nearest integers, ties away from zero, saturated to `-max..=max`.
#[inline(always)]
pub(super) fn rounded(values: f32x16, max: i32) -> f32x16 {
    let limit = f32x16::splat(max as f32);
    let whole = values.trunc();
    // The fraction is exact; adding 1/2 before cutting off would not be.
    let away = (values - whole).abs().simd_ge(f32x16::splat(0.5));
    let one = f32x16::splat(1.0).copysign(values);
    away.select(whole + one, whole).simd_clamp(-limit, limit)
}
