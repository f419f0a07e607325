//! Largest values, squares and what has no influence on either, of the values of a site.

use rayon::prelude::*;

/// Values of which the maxima are found side by side.
const SIMD_LANES: usize = 16;
/// Scores this far (in nats) below the maximum of their row have no influence: they may saturate.
const SCORE_DEPTH: f32 = 16.0;
/// So many times the cap of scores: those beyond may saturate, as what they are capped to differs by less than a ten-thousandth of it.
const CAPPED: f32 = 5.0;
/// Gates below this have no influence: `silu(-16)` is `-1.8e-6`.
const GATE_DEPTH: f32 = 16.0;

/// Raises the largest absolute values of channels to those of a row.
pub(super) fn grow_each(max: &mut Vec<f32>, row: &[f32]) {
    max.resize(row.len(), 0.0);
    max.iter_mut().zip(row).for_each(|(m, v)| *m = m.max(v.abs()));
}

pub(super) fn add_squares(sums: &mut Vec<f64>, row: &[f32]) {
    sums.resize(row.len(), 0.0);
    sums.iter_mut()
        .zip(row)
        .for_each(|(s, v)| *s += f64::from(*v) * f64::from(*v));
}

pub(super) fn mean_square(row: &[f32]) -> f64 {
    row.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>() / row.len() as f64
}

pub(super) fn row_max(row: &[f32]) -> f32 {
    row.iter().fold(0.0, |m, v| m.max(v.abs()))
}

/// Values that are worth a thread.
pub(super) const SMALL: usize = 1 << 14;

/// The largest result of `f`, at least 0. Maxima do not depend on the order.
fn largest(values: &[f32], f: impl Fn(f32) -> f32 + Sync) -> f32 {
    let of = |values: &[f32]| {
        let (vectors, rest) = values.as_chunks::<SIMD_LANES>();
        let mut max = [0.0f32; SIMD_LANES];
        for vector in vectors {
            max.iter_mut().zip(vector).for_each(|(max, v)| *max = max.max(f(*v)));
        }
        let rest = rest.iter().map(|v| f(*v));
        rest.chain(max).fold(0.0, f32::max)
    };
    values.par_chunks(SMALL).map(of).reduce(|| 0.0, f32::max)
}

pub(super) fn abs_max(values: &[f32]) -> f32 {
    largest(values, f32::abs)
}

/// Largest length of a RoPE pair, which no rotation can exceed.
pub(super) fn pair_max(values: &[f32], head_dim: usize) -> f32 {
    let head = |head: &[f32]| {
        let (a, b) = head.split_at(head_dim / 2);
        a.iter().zip(b).map(|(a, b)| a.hypot(*b)).fold(0.0, f32::max)
    };
    values.par_chunks_exact(head_dim).map(head).reduce(|| 0.0, f32::max)
}

/// Largest absolute value, of the scores that are not far below the maximum of the row.
pub(super) fn score_max(row: &[f32]) -> f32 {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter()
        .filter(|s| **s >= top - SCORE_DEPTH)
        .fold(0.0, |m, s| m.max(s.abs()))
}

/// What a score was before it was capped, up to what may saturate.
pub(super) fn uncapped(score: f32, cap: f32) -> f32 {
    let most = CAPPED * cap;
    let score = cap * (score / cap).atanh();
    // Beyond the cap, or at it, there is no such score.
    if score < most {
        score
    } else {
        most
    }
}

pub(super) fn gate_max(values: &[f32]) -> f32 {
    largest(values, |v| v.max(-GATE_DEPTH).abs())
}
