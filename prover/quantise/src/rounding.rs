//! How float weights become integers: the fractional bits of a channel, and rounding to the nearest integer.

use std::simd::cmp::SimdPartialOrd;
use std::simd::num::SimdFloat;
use std::simd::{f32x16, f64x16, Select, StdFloat};

/// No weight gets more fractional bits than this.
pub(super) const MAX_WEIGHT_BITS: i32 = 30;
/// Weights that are rounded side by side.
pub(super) const SIMD_LANES: usize = 16;

/// Squared errors of lanes of weights: with some number of fractional bits, and with one more.
pub(super) type Errors = [f64x16; 2];

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

/// Whether integers up to `max` are so short that clipping a few of them may pay.
pub(super) fn may_clip(max: i32) -> bool {
    max <= i32::from(i8::MAX)
}

/// Fractional bits for integers up to `max`: the most with which all values fit, or (for 8-bit weights) one
/// more if that lowers the squared error in spite of the values that it clips. `errors(bits)` are the errors with
/// `bits` and with one more.
pub(super) fn best_bits(largest: f32, max: i32, errors: impl FnOnce(i32) -> [f64; 2]) -> i32 {
    let bits = fit(largest, max);
    if !may_clip(max) || largest == 0.0 {
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
pub(super) fn add_errors(scaled: f32x16, max: i32, sums: &mut Errors) {
    for (scaled, sum) in [scaled, scaled + scaled].into_iter().zip(sums) {
        let error = (scaled - rounded(scaled, max)).cast::<f64>();
        *sum = error.mul_add(error, *sum);
    }
}

/// Squared errors in the unit of the values.
pub(super) fn scaled_back(bits: i32, [fitting, clipping]: [f64; 2]) -> [f64; 2] {
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
