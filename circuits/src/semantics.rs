//! The integer semantics, normative and written once (docs/protocol.md, sections 2 and 16). Plain integers, no
//! field arithmetic; the forward pass, the lookup tables and the constraints all derive from these.

use crate::model::{Activation, ModelConfig, ModelParams, NormParams, RowClass, ScoreCap};

/// Fractional bits of softmax probabilities and of the exp table.
pub const PROB_BITS: u32 = 15;
/// `RECIPROCAL / (sum of exponentials)` is the reciprocal used by softmax: the largest number for which every probability is
/// rounded to less than 1, that is to at most `2^15 - 1`.
pub const RECIPROCAL: u64 = (1 << 36) - (1 << 20) - 1;
/// Shift (minus 8) from `exp * reciprocal` to a probability: 36 - 15 - 8.
pub const PROB_SHIFT: u8 = 13;
/// The difference to the maximum that masked pairs have: the last one of the exp table, whose entry is 0.
pub const MASKED: u32 = (1 << 16) - 1;
/// Fractional bits of the RoPE tables.
pub const ROPE_BITS: u32 = 14;
/// The reciprocal square root of RMSNorm is below `2^RSQRT_BITS`: the epsilon of a valid key sees to it.
pub const RSQRT_BITS: u32 = 24;

/// Clamps to int16.
pub fn sat16(v: i64) -> i16 {
    v.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

/// `floor((v + 2^(bits-1)) / 2^bits)`: add half, shift right arithmetically. `bits >= 1`.
pub fn round_shift(v: i64, bits: u32) -> i64 {
    (v + (1 << (bits - 1))) >> bits
}

/// Requantisation: the accumulator shifted right by `8 + shift` with rounding, saturated to int16.
pub fn requantise(acc: i64, shift: u8) -> i16 {
    sat16(round_shift(acc, 8 + u32::from(shift)))
}

/// Residual update: `acc` and the previous residual, scaled by `2^(8 + skip)`, in one rounding.
pub fn requantise_residual(acc: i64, previous: i16, skip: u8, shift: u8) -> i16 {
    requantise(acc + (i64::from(previous) << (8 + u32::from(skip))), shift)
}

/// Splits an int16 activation in limbs: `a = 256 hi + lo`, `hi` signed, `lo` unsigned 8-bit.
pub const fn limbs(a: i16) -> (i32, i32) {
    ((a >> 8) as i32, (a & 0xff) as i32)
}

/// The three limb sums of a row of RMSNorm: sums of `4^k hi^2`, `4^k hi lo`, `4^k lo^2`, `k` the exponent of the channel, or 0
/// where there is none.
pub fn norm_sums(x: &[i16], exponents: &[u8]) -> [i64; 3] {
    let exponents = exponents.iter().copied().chain(std::iter::repeat(0));
    x.iter().zip(exponents).fold([0; 3], |[a, b, c], (&v, k)| {
        let (hi, lo) = limbs(v);
        let (hi, lo) = (i64::from(hi), i64::from(lo));
        let k = 2 * u32::from(k);
        [a + ((hi * hi) << k), b + ((hi * lo) << k), c + ((lo * lo) << k)]
    })
}

/// Floor of the square root.
pub fn isqrt(n: u128) -> u128 {
    n.isqrt()
}

/// `hidden 2^(2 scale)` of a norm.
pub fn norm_bound(hidden: usize, scale: u8) -> u128 {
    (hidden as u128) << (2 * u32::from(scale.min(48)))
}

/// The reciprocal square root of RMSNorm: the largest `r` with
/// `r^2 (2^16 hh + 2^9 hl + ll + eps) <= hidden * 2^(2 scale)`. With a valid key it is below [`RSQRT_BITS`] bits.
pub fn norm_rsqrt(sums: [i64; 3], hidden: usize, p: &NormParams, class: RowClass) -> u32 {
    let eps = i128::from(p.eps.of(class));
    let squares = (i128::from(sums[0]) << 16) + (i128::from(sums[1]) << 9) + i128::from(sums[2]) + eps;
    let squares = squares.max(1) as u128;
    let root = isqrt(norm_bound(hidden, p.scale) / squares);
    u32::try_from(root).unwrap_or(u32::MAX)
}

/// RMSNorm of one element; `shift` is that of its channel.
pub fn norm_element(x: i16, rsqrt: u32, shift: u8) -> i16 {
    requantise(i64::from(x) * i64::from(rsqrt), shift)
}

/// RoPE rotation of a pair (first half, second half).
pub fn rope_pair(a: i16, b: i16, cos: i32, sin: i32) -> (i16, i16) {
    turn_pair(a, b, [(cos, sin); 2])
}

/// RoPE rotation of a pair (first half, second half) with gains: cos and sin of each of both times its gain.
pub fn turn_pair(a: i16, b: i16, turn: Turn) -> (i16, i16) {
    let [first, second] = turned(a, b, turn);
    (
        sat16(round_shift(first, ROPE_BITS)),
        sat16(round_shift(second, ROPE_BITS)),
    )
}

/// A rotated pair before it is rounded.
pub fn turned(a: i16, b: i16, [one, other]: Turn) -> [i64; 2] {
    let (a, b) = (i64::from(a), i64::from(b));
    let wide = |(cos, sin): (i32, i32)| (i64::from(cos), i64::from(sin));
    let ((a_cos, a_sin), (b_cos, b_sin)) = (wide(one), wide(other));
    [a * a_cos - b * b_sin, b * b_cos + a * a_sin]
}

/// cos and sin of position `pos` and pair `x` in a rotation of a model, with 14 fractional bits. Computed with the software
/// `libm`, so that every platform gets the same integers. Pairs without a rotation of this number stay as they are.
pub fn rope_angle(config: &ModelConfig, rotation: usize, pos: usize, x: usize) -> (i32, i32) {
    with_gain(direction(config, rotation, pos, x), 1 << ROPE_BITS)
}

/// cos and sin of position `pos` and pair `x` in a rotation of a model, as numbers.
pub fn direction(config: &ModelConfig, rotation: usize, pos: usize, x: usize) -> (f64, f64) {
    let rotation = config.rotations.get(rotation);
    let angle = pos as f64 * rotation.map_or(0.0, |r| r.frequency(config.head_dim, x));
    (libm::cos(angle), libm::sin(angle))
}

/// Both times a gain, rounded.
fn with_gain((cos, sin): (f64, f64), gain: i32) -> (i32, i32) {
    let gain = f64::from(gain);
    (libm::round(gain * cos) as i32, libm::round(gain * sin) as i32)
}

/// cos and sin with the gain of the first and of the second half's channel.
pub type Turn = [(i32, i32); 2];

/// What rotates pair `x` of heads that have these gains, by channel; channels beyond have the gain `2^14`, which changes nothing.
pub fn turn(direction: (f64, f64), gains: &[i16], x: usize, half: usize) -> Turn {
    [x, half + x].map(|channel| {
        let gain = gains.get(channel).map_or(1 << ROPE_BITS, |gain| i32::from(*gain));
        with_gain(direction, gain)
    })
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

/// Softmax reciprocal of a sum of exponentials (`sum >= 2^15`, the maximum contributes `2^15`).
pub fn reciprocal(sum: u32) -> u32 {
    (RECIPROCAL / u64::from(sum.max(1 << PROB_BITS))) as u32
}

/// Probability of an entry with exponential `e` in a row with reciprocal `r`.
pub fn probability(e: u32, r: u32) -> i16 {
    requantise(i64::from(e) * i64::from(r), PROB_SHIFT)
}

/// Index of the largest logit, the lowest index on a tie.
pub fn arg_max(logits: &[i16]) -> usize {
    let first = (0, i16::MIN);
    let best = logits
        .iter()
        .enumerate()
        .fold(first, |best, (i, &v)| if v > best.1 { (i, v) } else { best });
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{odd_config, ByClass, ChannelShift, Rotation};

    fn norm(scale: u8, eps: ByClass<u64>) -> NormParams {
        let shift = ChannelShift::one(1);
        NormParams { scale, eps, shift }
    }

    /// Worked out by hand: `floor(sqrt(hidden 2^(2 scale) / squares))`, where the squares are those of the row and epsilon.
    #[test]
    fn reciprocal_roots_are_those_of_the_document() {
        let of = |sums, hidden, scale, eps| {
            let eps = ByClass {
                body: eps,
                lead: 1 << 50,
            };
            norm_rsqrt(sums, hidden, &norm(scale, eps), RowClass::Body)
        };
        assert_eq!(of([0, 0, 3], 1, 10, 1), 1 << 9);
        assert_eq!(of([0, 0, 3], 4, 10, 1), 1 << 10);
        assert_eq!(of([0, 0, 7], 1, 10, 1), 362);
        // 2^16 + 2^9 + 1 + 255 = 66304.
        assert_eq!(
            of([1, 1, 1], 128, 20, 255),
            ((128u64 << 40) as f64 / 66304.0).sqrt() as u32
        );
        // Scales beyond the largest one count as that.
        assert_eq!(of([0; 3], 2, 48, 1), u32::MAX);
        assert_eq!(of([1 << 24, 0, 0], 1, 60, 1), of([1 << 24, 0, 0], 1, 48, 1));
        assert_eq!(of([0, 0, 0], 1, 21, 1), 1 << 21);
        // A bracket that is not positive counts as 1.
        assert_eq!(of([0, -1, 0], 1, 20, 1), 1 << 20);
    }

    /// Sums of squares of limbs are those of the values, in the units of their channels.
    #[test]
    fn norm_sums_are_sums_of_squares() {
        let row = [i16::MIN, -1, 0, 1, 255, 256, 12_345, i16::MAX];
        let whole = |[hh, hl, ll]: [i64; 3]| (hh << 16) + (hl << 9) + ll;
        let squares: i64 = row.iter().map(|v| i64::from(*v).pow(2)).sum();
        assert_eq!(whole(norm_sums(&row, &[])), squares);
        let exponents = [3, 0, 1, 0, 2, 7, 0, 1];
        let values = row.iter().zip(exponents).map(|(v, k)| i64::from(*v) << k);
        assert_eq!(whole(norm_sums(&row, &exponents)), values.map(|v| v * v).sum::<i64>());
    }

    /// Rows of each class have an epsilon in their own unit.
    #[test]
    fn leading_rows_have_their_own_epsilon() {
        let eps = ByClass { body: 1, lead: 13 };
        let norm = norm(10, eps);
        assert_eq!(norm_rsqrt([0, 0, 3], 1, &norm, RowClass::Body), 1 << 9);
        assert_eq!(norm_rsqrt([0, 0, 3], 1, &norm, RowClass::Lead), 1 << 8);
    }

    /// The reciprocal is that of the sum, of `2^15` for sums that no row has, and a probability of 1 is the largest int16 without
    /// being clipped.
    #[test]
    fn softmax_in_integers() {
        assert_eq!(reciprocal(0), (1 << 21) - 33);
        assert_eq!(reciprocal(1 << 15), (1 << 21) - 33);
        assert_eq!(reciprocal(3 << 15), ((1 << 21) - 33) / 3);
        let alone = i64::from(reciprocal(1 << 15)) << 15;
        assert_eq!(round_shift(alone, 8 + u32::from(PROB_SHIFT)), i64::from(i16::MAX));
        assert_eq!(probability(1 << 15, reciprocal(1 << 15)), i16::MAX);
        assert_eq!(probability(1 << 14, reciprocal(1 << 16)), 1 << 13);
    }

    /// A pair of frequency 0 is not rotated, whatever it is and wherever it stands.
    #[test]
    fn pairs_without_a_frequency_stay_as_they_are() {
        let config = ModelConfig {
            rotations: vec![Rotation::Base(1e4), Rotation::Frequencies(vec![0.25, 0.0, 0.0])],
            rotation_of: vec![0, 1],
            ..odd_config(2)
        };
        for pos in [0, 1, 7, 8191] {
            let (cos, sin) = rope_angle(&config, 1, pos, 2);
            assert_eq!((cos, sin), (1 << ROPE_BITS, 0));
            for (a, b) in [(i16::MIN, i16::MAX), (-1, 1), (0, 12_345)] {
                assert_eq!(rope_pair(a, b, cos, sin), (a, b));
            }
            let own = libm::round(16_384.0 * libm::cos(pos as f64 / 4.0)) as i32;
            assert_eq!(rope_angle(&config, 1, pos, 0).0, own);
        }
        assert_ne!(rope_angle(&config, 0, 8191, 2), rope_angle(&config, 1, 8191, 2));
    }

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
        assert_eq!(requantise_residual(-512, 3, 2, 1), 5);
        assert_eq!(rope_pair(1 << 14, 1 << 13, 1 << 14, 0), (1 << 14, 1 << 13));
        assert_eq!(rope_pair(100, 200, 0, 1 << 14), (-200, 100));
        assert_eq!(arg_max(&[-5, 7, 7, -9]), 1);
        assert_eq!(arg_max(&[i16::MIN; 3]), 0);
    }
}
