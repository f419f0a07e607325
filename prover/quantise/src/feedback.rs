//! Error feedback: weights are rounded one input channel after the other, and what each rounding does to the outputs of
//! the calibration texts is made up for by the channels that follow.
//!
//! For inputs with Gram matrix `G = R^T R`, `R` upper triangular, an output channel with weights `w` and integers `q`
//! has the squared error `|R (w - q)|^2`. From the last channel to the first, `q_i` is rounded so that row `i` of
//! `R (w - q)` is as small as it can be: `w_i + sum over j > i of R_ij / R_ii (w_j - q_j)`. Channels are sorted, so that
//! those with the largest inputs come last in `R` and are rounded first. A wide matrix is cut into blocks of input channels,
//! each with a Gram matrix of its own, so that time and memory stay in proportion to the number of weights.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::simd::num::SimdFloat;
use std::simd::{f32x16, StdFloat};

use rayon::prelude::*;
use tessera_circuits::model::{Maker, MatmulKind, MatrixId, ModelConfig, WeightFormat, TILE};

use super::rotation::{Rotation, Turned};
use super::rounding::{rounded, unit, SIMD_LANES};
use super::QuantiseError;
use tessera_checkpoint::Checkpoint;
use tessera_float::{FloatModel, FloatRun, Observer, Site};
use tessera_model::tiles::tile_bytes;

/// The most input channels of a block.
const BLOCK: usize = 2048;
/// The most bytes of a quantised matrix, which is held in memory whole while its errors are fed back. Larger ones are
/// rounded channel by channel.
pub(super) const LARGEST_MATRIX: usize = 512 << 20;
/// Added to the diagonal of a Gram matrix, relative to its mean: channels that the texts do not use stay where they are.
const DAMPING: f32 = 0.01;
/// The most token rows that enter a Gram matrix.
const ROWS: usize = 2048;

/// Bytes that feeding errors back needs beside the float model, with texts of `tokens` tokens: the inputs of a layer, the
/// factors of all of them, what a factor is made of, twice, and the largest matrix that is made, while another is written.
pub fn feedback_bytes(config: &ModelConfig, format: WeightFormat, tokens: usize) -> u64 {
    let (rows, attended) = (tokens.min(ROWS), config.heads * config.head_dim);
    let widths = [
        config.hidden,
        config.hidden,
        config.hidden,
        attended,
        config.hidden,
        config.ff,
    ];
    let size = |width: usize| width.div_ceil(width.div_ceil(BLOCK)).next_multiple_of(STRIDE);
    let factors = widths.map(|width| width.div_ceil(BLOCK) * size(width).pow(2));
    let making = widths.map(|width| size(width).pow(2) + 2 * rows * size(width));
    let largest = making.into_iter().max().unwrap_or(0);
    let matmuls = config.matmuls().into_iter().map(|m| m.tiles() * tile_bytes(format));
    let matrix = matmuls.filter(|bytes| *bytes <= LARGEST_MATRIX).max().unwrap_or(0);
    let floats = rows * widths.iter().sum::<usize>() + factors.iter().sum::<usize>() + 2 * largest;
    (4 * floats + 2 * matrix) as u64
}

/// Columns of matrices here are padded to whole pairs of vectors.
const STRIDE: usize = 2 * SIMD_LANES;
/// Rows that are computed at once.
const GROUP: usize = 4;

/// What feeds errors back among a range of input channels.
pub(super) struct Factor {
    channels: Range<usize>,
    /// Input channel, counted from the first one, by row of the factor.
    order: Vec<usize>,
    /// Rows of `R`, each divided by its element on the diagonal.
    rows: Vec<f32>,
    stride: usize,
}

/// Sums over `0..k` of the products of the elements `i..i + GROUP` and `j..j + STRIDE` of the rows of a matrix.
#[inline(always)]
fn products(rows: &[f32], stride: usize, k: usize, i: usize, j: usize) -> [[f32x16; 2]; GROUP] {
    let mut sums = [[f32x16::splat(0.0); 2]; GROUP];
    for row in rows.chunks_exact(stride).take(k) {
        let right = [
            f32x16::from_slice(&row[j..]),
            f32x16::from_slice(&row[j + SIMD_LANES..]),
        ];
        for (sums, left) in sums.iter_mut().zip(&row[i..i + GROUP]) {
            let left = f32x16::splat(*left);
            sums[0] = left.mul_add(right[0], sums[0]);
            sums[1] = left.mul_add(right[1], sums[1]);
        }
    }
    sums
}

/// Gram matrix of rows, upper triangle (and some of the lower).
fn gram(rows: &[f32], stride: usize) -> Vec<f32> {
    let mut gram = vec![0.0; stride * stride];
    gram.par_chunks_exact_mut(GROUP * stride)
        .enumerate()
        .for_each(|(g, out)| {
            let i = g * GROUP;
            for j in (i / STRIDE * STRIDE..stride).step_by(STRIDE) {
                let sums = products(rows, stride, usize::MAX, i, j);
                for (row, sums) in out.chunks_exact_mut(stride).zip(sums) {
                    sums[0].copy_to_slice(&mut row[j..j + SIMD_LANES]);
                    sums[1].copy_to_slice(&mut row[j + SIMD_LANES..j + STRIDE]);
                }
            }
        });
    gram
}

impl Factor {
    /// From token rows of the channels, `[rows][channels]`.
    fn new(channels: Range<usize>, rows: &[f32]) -> Self {
        let n = channels.len();
        let stride = n.next_multiple_of(STRIDE);
        let mut squares = vec![0.0f32; n];
        for row in rows.chunks_exact(n) {
            squares.iter_mut().zip(row).for_each(|(s, v)| *s += v * v);
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| squares[*a].total_cmp(&squares[*b]).then(a.cmp(b)));
        let mut sorted = vec![0.0; rows.len() / n * stride];
        for (to, from) in sorted.chunks_exact_mut(stride).zip(rows.chunks_exact(n)) {
            to.iter_mut().zip(&order).for_each(|(to, c)| *to = from[*c]);
        }
        let mut gram = gram(&sorted, stride);
        let mean = squares.iter().sum::<f32>() / n as f32;
        // Texts without any input leave nothing to be fed back.
        let damping = (DAMPING * mean).max(f32::MIN_POSITIVE);
        (0..stride).for_each(|i| gram[i * stride + i] += damping);
        Self {
            rows: cholesky(gram, stride, damping),
            channels,
            order,
            stride,
        }
    }

    /// Rounds the weights of [`TILE`] output channels, `[input][output]` in units of their scale, to integers up to `max`.
    // `v` counts the vectors of weights, sums, errors and results alike.
    #[allow(clippy::needless_range_loop)]
    fn round(&self, weights: &[[f32; TILE]], max: i32, out: &mut [[i16; TILE]]) {
        let (n, stride) = (self.order.len(), self.stride);
        let (weights, out) = (&weights[self.channels.clone()], &mut out[self.channels.clone()]);
        let mut errors = vec![[0.0f32; TILE]; n];
        let mut end = n;
        while end > 0 {
            let start = end.saturating_sub(GROUP);
            let mut sums = self.feedback(&errors, start, end);
            for i in (start..end).rev() {
                let from = &weights[self.order[i]];
                for v in 0..TILE / SIMD_LANES {
                    let lanes = v * SIMD_LANES..(v + 1) * SIMD_LANES;
                    let wanted = f32x16::from_slice(&from[lanes.clone()]);
                    let integer = rounded(wanted + sums[i - start][v], max);
                    let error = wanted - integer;
                    error.copy_to_slice(&mut errors[i][lanes.clone()]);
                    integer.cast::<i16>().copy_to_slice(&mut out[self.order[i]][lanes]);
                    for earlier in start..i {
                        let factor = f32x16::splat(self.rows[earlier * stride + i]);
                        sums[earlier - start][v] += factor * error;
                    }
                }
            }
            end = start;
        }
    }

    /// What the errors of the channels from `end` on ask of those in `start..end`.
    #[inline(always)]
    fn feedback(&self, errors: &[[f32; TILE]], start: usize, end: usize) -> [[f32x16; TILE / SIMD_LANES]; GROUP] {
        let mut sums = [[f32x16::splat(0.0); TILE / SIMD_LANES]; GROUP];
        let row = |i: usize| {
            // A short last group repeats its first row.
            let at = if start + i < end { start + i } else { start };
            &self.rows[at * self.stride..][..errors.len()]
        };
        let rows: [&[f32]; GROUP] = std::array::from_fn(row);
        for (j, errors) in errors.iter().enumerate().skip(end) {
            let errors: [f32x16; TILE / SIMD_LANES] =
                std::array::from_fn(|v| f32x16::from_slice(&errors[v * SIMD_LANES..]));
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let factor = f32x16::splat(row[j]);
                for (sum, error) in sums.iter_mut().zip(&errors) {
                    *sum = factor.mul_add(*error, *sum);
                }
            }
        }
        sums
    }
}

/// The rows of `R` with `R^T R = gram`, each divided by its element on the diagonal. No pivot is below `least`: none can
/// be, but for rounding.
fn cholesky(mut gram: Vec<f32>, stride: usize, least: f32) -> Vec<f32> {
    for i in (0..stride).step_by(GROUP) {
        let (done, rest) = gram.split_at_mut(i * stride);
        let group = &mut rest[..GROUP * stride];
        for j in (i / STRIDE * STRIDE..stride).step_by(STRIDE) {
            let sums = products(done, stride, i, i, j);
            for (row, sums) in group.chunks_exact_mut(stride).zip(sums) {
                for (half, sum) in sums.into_iter().enumerate() {
                    let row = &mut row[j + half * SIMD_LANES..][..SIMD_LANES];
                    (f32x16::from_slice(row) - sum).copy_to_slice(row);
                }
            }
        }
        for k in 0..GROUP {
            let (above, row) = group.split_at_mut(k * stride);
            let row = &mut row[..stride];
            for above in above.chunks_exact(stride) {
                let factor = above[i + k];
                row[i..].iter_mut().zip(&above[i..]).for_each(|(r, a)| *r -= factor * a);
            }
            let pivot = row[i + k].max(least).sqrt();
            row[i + k..].iter_mut().for_each(|r| *r /= pivot);
            row[i + k] = pivot;
        }
    }
    for (i, row) in gram.chunks_exact_mut(stride).enumerate() {
        let pivot = row[i];
        row[i..].iter_mut().for_each(|r| *r /= pivot);
    }
    gram
}

/// What a matmul reads. Queries, keys and values read the same rows, but not all rows matter as much to each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Input {
    Query,
    Key,
    Value,
    Attention,
    NormMlp,
    Product,
    NormFinal,
}

impl Input {
    fn of(kind: MatmulKind) -> Option<Self> {
        match kind {
            // One-hot rows: there is nothing to feed back to.
            MatmulKind::Embed => None,
            MatmulKind::Q => Some(Self::Query),
            MatmulKind::K => Some(Self::Key),
            MatmulKind::V => Some(Self::Value),
            MatmulKind::O => Some(Self::Attention),
            MatmulKind::Gate | MatmulKind::Up => Some(Self::NormMlp),
            MatmulKind::Down => Some(Self::Product),
            MatmulKind::Head => Some(Self::NormFinal),
        }
    }
}

/// Keeps the inputs of the matmuls of one layer.
struct Inputs<'a> {
    config: &'a ModelConfig,
    /// Their widths, of those that are wanted.
    widths: BTreeMap<Input, usize>,
    hidden: usize,
    rows: BTreeMap<Input, Vec<f32>>,
    attended: Attended,
    /// By layer, exponents of the channels of the product: their values are in units so many times as large.
    products: &'a [Vec<u8>],
    /// By state, those of the channels of the norm's output.
    normed: &'a [Vec<u8>],
}

/// How much errors in queries, keys and values of each row matter, from the scores of the texts that come together.
#[derive(Default)]
struct Attended {
    heads: usize,
    /// Rows of all texts.
    texts: Vec<usize>,
    /// Rows of the texts that come together, those whose scores are still to come.
    lengths: VecDeque<usize>,
    /// First row of the first of them, its next row and head.
    next: [usize; 3],
    /// By row, in the order of `SEEN`.
    weights: Vec<[f32; 3]>,
}

/// Inputs whose rows are weighed by what is attended to.
const SEEN: [Input; 3] = [Input::Query, Input::Key, Input::Value];

impl Attended {
    fn expect(&mut self, texts: Range<usize>) {
        self.lengths = self.texts[texts].iter().copied().collect();
        self.next = [0; 3];
        self.weights = vec![[0.0; 3]; self.lengths.iter().sum()];
    }

    /// Takes in the next row of scores. An error of a value comes out times its probability `p`; one of a score, times
    /// `p (1 - p)`. The first row of a text gets most of the attention, and counts accordingly.
    fn add(&mut self, scores: &[f32]) {
        let [first, row, head] = self.next;
        let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exp: Vec<f32> = scores.iter().map(|s| (s - top).exp()).collect();
        let sum: f32 = exp.iter().sum();
        let mut query = 0.0;
        for (weights, exp) in self.weights[first..].iter_mut().zip(&exp) {
            let p = exp / sum;
            let slope = p * (1.0 - p);
            query += slope * slope;
            weights[1] += slope * slope;
            weights[2] += p * p;
        }
        self.weights[first + row][0] += query;
        self.next = match (head + 1 == self.heads, self.lengths.front() == Some(&(row + 1))) {
            (false, _) => [first, row, head + 1],
            (true, false) => [first, row + 1, 0],
            (true, true) => {
                self.lengths.pop_front();
                [first + row + 1, 0, 0]
            }
        };
    }
}

impl Inputs<'_> {
    fn keep_all(&mut self, input: Input, values: &[f32]) {
        if self.widths.contains_key(&input) {
            self.rows.entry(input).or_default().extend(values);
        }
    }

    /// Keeps values in the units of their channels.
    fn keep(&mut self, input: Input, exponents: &[u8], values: &[f32]) {
        if exponents.is_empty() {
            return self.keep_all(input, values);
        }
        let units: Vec<f32> = exponents.iter().map(|k| (-f32::from(*k)).exp2()).collect();
        let rows = values.chunks_exact(units.len());
        let values: Vec<f32> = rows
            .flat_map(|row| row.iter().zip(&units).map(|(v, unit)| v * unit))
            .collect();
        self.keep_all(input, &values);
    }

    /// Weighs the last rows of what queries, keys and values are made of by how much their errors matter.
    fn weigh_attended(&mut self) {
        let weights = &self.attended.weights;
        for (i, input) in SEEN.iter().enumerate() {
            let (Some(width), Some(values)) = (self.widths.get(input), self.rows.get_mut(input)) else {
                continue;
            };
            let first = values.len() - weights.len() * width;
            for (row, weights) in values[first..].chunks_exact_mut(*width).zip(weights) {
                let weight = weights[i].sqrt();
                row.iter_mut().for_each(|v| *v *= weight);
            }
        }
    }

    /// Weighs the last rows of what a matmul reads by the reciprocal root mean square of the state that it writes to:
    /// otherwise the Gram matrix would see nothing but the leading rows.
    fn weigh(&mut self, input: Input, state: &[f32]) {
        let (Some(width), Some(values)) = (self.widths.get(&input), self.rows.get_mut(&input)) else {
            return;
        };
        let first = values.len() - state.len() / self.hidden * width;
        let rows = values[first..].chunks_exact_mut(*width);
        for (row, state) in rows.zip(state.chunks_exact(self.hidden)) {
            let squares: f32 = state.iter().map(|v| v * v).sum();
            let inverse = (self.hidden as f32 / squares.max(f32::MIN_POSITIVE)).sqrt();
            row.iter_mut().for_each(|v| *v *= inverse);
        }
    }

    /// Factors of all that was kept since the last call.
    fn factors(&mut self) -> BTreeMap<Input, Vec<Factor>> {
        let mut blocks = Vec::new();
        let rows = std::mem::take(&mut self.rows);
        for (input, rows) in &rows {
            let width = self.widths[input];
            let size = width.div_ceil(width.div_ceil(BLOCK));
            let starts = (0..width).step_by(size);
            blocks.extend(starts.map(|first| (*input, width, rows, first..width.min(first + size))));
        }
        let factor = |(input, width, rows, channels): (Input, usize, &Vec<f32>, Range<usize>)| {
            let own: Vec<f32> = rows
                .chunks_exact(width)
                .flat_map(|row| &row[channels.clone()])
                .copied()
                .collect();
            (input, Factor::new(channels, &own))
        };
        let made: Vec<_> = blocks.into_par_iter().map(factor).collect();
        let mut factors: BTreeMap<Input, Vec<Factor>> = BTreeMap::new();
        for (input, factor) in made {
            factors.entry(input).or_default().push(factor);
        }
        factors
    }
}

impl Observer for Inputs<'_> {
    fn sequences(&mut self, sequences: Range<usize>) {
        self.attended.expect(sequences);
    }

    fn wants_scores(&self) -> bool {
        SEEN.iter().any(|input| self.widths.contains_key(input))
    }

    fn observe(&mut self, site: Site, values: &[f32]) {
        let (products, normed, config) = (self.products, self.normed, self.config);
        match site {
            Site::NormAttn(l) => {
                let exponents = &normed[config.attention_state(l)];
                SEEN.iter().for_each(|input| self.keep(*input, exponents, values));
            }
            Site::Scores(_) => self.attended.add(values),
            // All scores have come.
            Site::Q(_) => self.weigh_attended(),
            Site::Attention(_) => self.keep_all(Input::Attention, values),
            Site::NormMlp(l) => self.keep(Input::NormMlp, &normed[config.mlp_state(l)], values),
            Site::Product(l) => self.keep(Input::Product, &products[l], values),
            Site::NormFinal => self.keep(Input::NormFinal, &normed[config.states() - 1], values),
            Site::Residual(n) => match self.config.maker(n) {
                Maker::Matmul(id) => match id.kind() {
                    MatmulKind::O => self.weigh(Input::Attention, values),
                    MatmulKind::Down => self.weigh(Input::Product, values),
                    _ => {}
                },
                Maker::Sum(_) => {}
            },
            _ => {}
        }
    }
}

/// The float model on its way through the calibration texts, a layer ahead of the weights that are written.
pub(super) struct Feedback<'a> {
    run: FloatRun<'a>,
    inputs: Inputs<'a>,
    rotation: Option<&'a Rotation>,
    layers: usize,
    /// Layers that were run; one more than there are once the last norm was.
    done: usize,
    factors: BTreeMap<Input, Vec<Factor>>,
}

impl<'a> Feedback<'a> {
    /// For the matmuls of these kinds; `None` if there are none. `products` are the exponents of the products' channels by layer, `normed` those of the
    /// outputs of norms by state.
    pub fn new(
        checkpoint: &'a Checkpoint,
        kinds: &[MatmulKind],
        texts: &[&[u32]],
        rotation: Option<&'a Rotation>,
        [products, normed]: [&'a [Vec<u8>]; 2],
    ) -> Result<Option<Self>, QuantiseError> {
        let config = checkpoint.config();
        let width = |kind: &MatmulKind| Some((Input::of(*kind)?, config.dims(*kind).0));
        let widths: BTreeMap<Input, usize> = kinds.iter().filter_map(width).collect();
        if widths.is_empty() {
            return Ok(None);
        }
        // A part of every text, if all are too many rows.
        let tokens: usize = texts.iter().map(|ids| ids.len()).sum();
        let part = |ids: &&'_ [u32]| (ids.len() * ROWS / tokens.max(ROWS)).max(1);
        let texts: Vec<&[u32]> = texts.iter().map(|ids| &ids[..part(ids)]).collect();
        Ok(Some(Self {
            run: FloatModel::new(checkpoint).run(&texts).map_err(QuantiseError::of)?,
            inputs: Inputs {
                config,
                widths,
                hidden: config.hidden,
                rows: BTreeMap::new(),
                attended: Attended {
                    heads: config.heads,
                    texts: texts.iter().map(|ids| ids.len()).collect(),
                    ..Attended::default()
                },
                products,
                normed,
            },
            rotation,
            layers: config.layers,
            done: 0,
            factors: BTreeMap::new(),
        }))
    }

    /// The factors of a matmul, none if errors are not fed back in it. Layers must be asked for in order.
    pub fn factors(&mut self, id: MatrixId) -> Result<&[Factor], QuantiseError> {
        let (kind, layer) = (id.kind(), id.layer());
        let Some(input) = Input::of(kind).filter(|input| self.inputs.widths.contains_key(input)) else {
            return Ok(&[]);
        };
        let wanted = match input {
            Input::NormFinal => self.layers + 1,
            _ => layer + 1,
        };
        while self.done < wanted {
            self.inputs.rows.clear();
            let (rotation, observer) = (self.rotation, &mut self.inputs);
            let mut turned = Turned { rotation, observer };
            match self.done < self.layers {
                true => self.run.layer(self.done, &mut turned),
                false => self.run.observe_last_norm(&mut turned),
            }
            .map_err(QuantiseError::of)?;
            self.done += 1;
            self.factors = match self.done == wanted {
                true => self.inputs.factors(),
                false => BTreeMap::new(),
            };
        }
        Ok(self.factors.get(&input).map_or(&[], Vec::as_slice))
    }
}

/// Rounds the weights of [`TILE`] output channels, `[input][output]`, at these fractional bits of each output.
pub(super) fn round(
    factors: &[Factor],
    mut weights: Vec<[f32; TILE]>,
    bits: &[i32; TILE],
    max: i32,
) -> Vec<[i16; TILE]> {
    let units: [f32; TILE] = bits.map(|bits| unit(bits)[0]);
    for row in &mut weights {
        row.iter_mut().zip(&units).for_each(|(w, unit)| *w *= unit);
    }
    let mut out = vec![[0; TILE]; weights.len()];
    factors.iter().for_each(|factor| factor.round(&weights, max, &mut out));
    out
}

#[cfg(test)]
mod tests;
