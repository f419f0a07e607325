//! The integer semantics, normative and written once (docs/protocol.md, sections 2 and 16). Plain integers, no
//! field arithmetic; the forward pass, the lookup tables and the constraints all derive from these. Here are roundings and
//! the functions in tables; what an operator computes of its own stands in its file, and is named here.

use crate::model::{Activation, ModelParams, ScoreCap};
pub use crate::ops::logits::arg_max;
pub use crate::ops::norms::{isqrt, norm_bound, norm_element, norm_rsqrt, norm_sums, RSQRT_BITS};
pub use crate::ops::rope::{direction, rope_angle, rope_pair, turn, turn_pair, turned, Turn, ROPE_BITS};
pub use crate::ops::softmax::{probability, reciprocal, PROB_SHIFT, RECIPROCAL};
pub use crate::ops::stream::requantise_residual;

/// Fractional bits of softmax probabilities and of the exp table.
pub const PROB_BITS: u32 = 15;
/// The difference to the maximum that masked pairs have: the last one of the exp table, whose entry is 0.
pub const MASKED: u32 = (1 << 16) - 1;
/// The smallest and the largest value of 16 bits.
pub const INT16: [i64; 2] = [i16::MIN as i64, i16::MAX as i64];
/// The smallest and the largest value of 15 bits. Values of attention have so few because sums of probabilities times values then fit one
/// limb.
pub const INT15: [i64; 2] = [-(1 << 14), (1 << 14) - 1];

/// Clamps to int16.
pub fn sat16(v: i64) -> i16 {
    v.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

/// `floor((v + 2^(bits-1)) / 2^bits)`: add half, shift right arithmetically. `bits >= 1`.
#[inline]
pub fn round_shift(v: i64, bits: u32) -> i64 {
    (v + (1 << (bits - 1))) >> bits
}

/// Requantisation: the accumulator shifted right by `8 + shift` with rounding, saturated to int16.
#[inline]
pub fn requantise(acc: i64, shift: u8) -> i16 {
    requantise_within(INT16, acc, shift)
}

/// Requantisation that saturates at these ends, which int16 has.
#[inline]
pub fn requantise_within([least, most]: [i64; 2], acc: i64, shift: u8) -> i16 {
    round_shift(acc, 8 + u32::from(shift)).clamp(least, most) as i16
}

/// Requantisation of the values of attention: as [`requantise`], saturated to 15 bits ([`INT15`]).
#[inline]
pub fn requantise_value(acc: i64, shift: u8) -> i16 {
    requantise_within(INT15, acc, shift)
}

/// Splits an int16 activation in limbs: `a = 256 hi + lo`, `hi` signed, `lo` unsigned 8-bit.
pub const fn limbs(a: i16) -> (i32, i32) {
    ((a >> 8) as i32, (a & 0xff) as i32)
}

/// The exp table: entry `d` is `round(2^15 exp(-d / 2^score_bits))`, `0 <= d < 2^16`. The last one is 0 whatever the unit:
/// it is that of masked pairs.
pub fn exp_table(score_bits: i32) -> Vec<u32> {
    let unit = libm::pow(2.0, -f64::from(score_bits));
    (0..1 << 16)
        .map(|d| match d {
            MASKED => 0,
            d => libm::round(f64::from(1 << PROB_BITS) * libm::exp(-f64::from(d) * unit)) as u32,
        })
        .collect()
}

/// The table of an activation: entry `g + 2^15` is the function of `g / 2^in_bits` with `out_bits` fractional bits, rounded and
/// saturated.
pub fn activation_table(activation: Activation, in_bits: i32, out_bits: i32) -> Vec<i16> {
    let unit = libm::pow(2.0, -f64::from(in_bits));
    let out = libm::pow(2.0, f64::from(out_bits));
    (-(1 << 15)..1 << 15)
        .map(|g: i32| sat16(libm::round(out * activation.of(f64::from(g) * unit)) as i64))
        .collect()
}

/// The table of the MLP of a model.
pub fn mlp_table(params: &ModelParams) -> Vec<i16> {
    activation_table(params.activation, params.gate_bits, params.silu_bits)
}

/// The table of capped scores: entry `s + 2^15` is `round(2^b c tanh(s / (2^b c)))`, `b` the fractional bits of scores and `c` the
/// cap. None is larger than its score in absolute value, so that none is saturated.
pub fn cap_table(cap: ScoreCap, score_bits: i32) -> Vec<i16> {
    let scale = libm::pow(2.0, f64::from(score_bits)) * cap.value();
    (-(1 << 15)..1 << 15)
        .map(|s: i32| sat16(libm::round(scale * libm::tanh(f64::from(s) / scale)) as i64))
        .collect()
}

/// What a unit of a normed channel with this gain has in the mean of `hidden` channels, rounded.
pub const fn mean_gain(gain: i32, hidden: usize) -> i32 {
    let twice = 2 * hidden as i64;
    (2 * gain as i64 + hidden as i64).div_euclid(if twice > 0 { twice } else { 1 }) as i32
}

/// The limbs of a bias, as those of the accumulator that it is added to.
pub const fn bias_limbs(bias: i32) -> (i32, i32) {
    (bias >> 8, bias & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of activations, against values worked out by hand.
    #[test]
    fn activations_are_their_functions() {
        let known = [
            (Activation::Silu, 1.0, 0.731_058_578_630_004_9),
            (Activation::Silu, -2.0, -0.238_405_844_044_235_17),
            (Activation::Gelu, 1.0, 0.841_344_746_068_542_9),
            (Activation::Gelu, -2.0, -0.045_500_263_896_358_42),
            (Activation::GeluTanh, 1.0, 0.841_191_990_608_276_6),
            (Activation::GeluTanh, -2.0, -0.045_402_305_912_171_67),
            (Activation::Relu, 1.5, 1.5),
            (Activation::Relu, -1.5, 0.0),
        ];
        for (activation, x, expected) in known {
            let value = activation.of(x);
            assert!((value - expected).abs() < 1e-12, "{activation:?} of {x} is {value}");
        }
        for (activation, names) in Activation::ALL {
            assert!(!names.is_empty() && names.iter().all(|name| Activation::named(name) == Some(activation)));
            assert_eq!(activation.of(0.0), 0.0, "{activation:?}");
            // Padding is 0, and so is what the table has for it.
            let table = activation_table(activation, 10, 12);
            assert_eq!((table[1 << 15], table[(1 << 16) - 1]), (0, i16::MAX), "{activation:?}");
            // With most bits no entry is the smallest int16: products of gated MLPs stay below 2^30.
            let finest = activation_table(activation, 0, crate::bounds::MAX_SILU_BITS.into());
            assert!(finest.iter().all(|v| *v > i16::MIN), "{activation:?}");
            assert!((-64..=64).all(|bits| activation_table(activation, bits, bits)[1 << 15] == 0));
        }
    }

    /// Capped scores, against values worked out by hand: small scores stay what they are, large ones stay below the cap.
    #[test]
    fn capped_scores_are_their_function() {
        let cap = ScoreCap::new(50.0).expect("a cap");
        let table = cap_table(cap, 8);
        let of = |s: i32| table[(s + (1 << 15)) as usize];
        // 12800 tanh(1) is 9748.44, and tanh(2.56) is 0.988119...
        assert_eq!((of(0), of(1), of(100), of(12_800)), (0, 1, 100, 9748));
        assert_eq!(of(i32::from(i16::MAX)), 12_648);
        assert_eq!(of(i32::from(i16::MIN)), -12_648);
        for bits in [-64, -3, 0, 8, 12, 64] {
            for cap in [1, 12_800, 1 << 18] {
                let table = cap_table(ScoreCap { units: cap }, bits);
                let all = (-(1 << 15)..1 << 15).zip(&table);
                assert!(all.clone().all(|(s, t): (i32, _)| i32::from(*t).abs() <= s.abs()));
                assert!(table.is_sorted() && table[1 << 15] == 0);
                // It is odd, but for the lowest score.
                assert!((1..1 << 15).all(|s| table[(1 << 15) + s] == -table[(1 << 15) - s]));
            }
        }
    }

    /// Halves are rounded up, and what does not fit saturates.
    #[test]
    fn rounding_and_saturation() {
        assert_eq!([-3, -2, -1, 1, 2, 3].map(|v| round_shift(v, 1)), [-1, -1, 0, 1, 1, 2]);
        assert_eq!(requantise(1 << 24, 1), i16::MAX);
        assert_eq!(requantise(-(1 << 25), 1), i16::MIN);
        // Values of attention have a bit less: halves of the last one are rounded up beyond the end.
        assert_eq!(
            [1 << 14, (1 << 23) - 257, -(1 << 14)].map(|acc| requantise_value(acc, 1)),
            [32, 16383, -32]
        );
        assert_eq!(
            [(1 << 23) - 256, 1 << 24].map(|acc| requantise_value(acc, 1)),
            [16383; 2]
        );
        assert_eq!(
            [-(1 << 23), -(1 << 23) - 257, i64::MIN >> 1].map(|acc| requantise_value(acc, 1)),
            [-16384; 3]
        );
        assert_eq!(requantise_residual(-512, 3, 2, 1), 5);
        assert_eq!(rope_pair(1 << 14, 1 << 13, 1 << 14, 0), (1 << 14, 1 << 13));
        assert_eq!(rope_pair(100, 200, 0, 1 << 14), (-200, 100));
        assert_eq!(arg_max(&[-5, 7, 7, -9]), 1);
        assert_eq!(arg_max(&[i16::MIN; 3]), 0);
    }
}
