//! Scales with which a matmul that reads a norm is proved in one limb (docs/protocol.md, section 2.6): what it can reach follows
//! from the norms of its columns, so the bits of norm and weights decide. A channel gives up bits of its weights only where its own
//! shift or bound asks for it, and a norm gives up bits where that costs less.

use std::collections::BTreeMap;
use std::iter::repeat;

use tessera_circuits::bounds::{fits_one_limb, most_shift, normed_bound, ONE_LIMB_NORM};
use tessera_circuits::model::MatrixId;

use super::options::MIN_SHIFT;

/// Shift that every requantisation has in addition.
pub(super) const BASE: i32 = 8;
/// Norms give up no bits below this many: rounding their output would make more noise than weights of 13 bits do.
const LOWERED_TO: i32 = 10;
/// Norms of fewer bits than this cost more than a second limb.
const LEAST_NORM_BITS: i32 = 8;

/// Sums of squares of the columns of a float matrix.
pub(super) type Squares = BTreeMap<MatrixId, Vec<f64>>;

/// A matmul that reads the output of a norm.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub id: MatrixId,
    pub hidden: usize,
    /// Fractional bits of its output, and how many fewer they are by channel, if they are.
    pub output: i32,
    pub exponents: &'a [u8],
    /// Fractional bits of the weights, by channel, and their squares.
    pub weights: &'a [i32],
    pub squares: &'a [f64],
    /// What is added to each channel; nothing if there are none.
    pub biases: &'a [f64],
}

/// The largest scale of a norm in one limb.
pub(super) fn most_scale(hidden: usize) -> i32 {
    ((f64::from(ONE_LIMB_NORM) - (hidden as f64).log2()) / 2.0).floor() as i32
}

/// The most bits of a norm whose scale is that of one limb where channels have exponents up to `exponent`; `None` if they are so few
/// that the norm keeps its two limbs.
pub(super) fn most_norm_bits(hidden: usize, exponent: i32) -> Option<i32> {
    let bits = most_scale(hidden) - BASE - MIN_SHIFT - exponent;
    (bits >= LEAST_NORM_BITS).then_some(bits)
}

impl Reader<'_> {
    /// Fractional bits of the outputs of all channels.
    pub fn outputs(&self) -> impl Iterator<Item = i32> + '_ {
        let exponents = self.exponents.iter().copied().chain(repeat(0));
        exponents.map(|k| self.output - i32::from(k))
    }

    /// Bits of the weights of a channel with inputs and outputs of so many bits: the most with which it fits one limb, its own if
    /// there are none.
    fn channel(&self, input: i32, output: i32, own: i32, (square, bias): (f64, f64)) -> i32 {
        let least = output - input + BASE + MIN_SHIFT;
        let most = own.min(output - input + most_shift(self.id.kind()));
        let fits = |bits: &i32| {
            // Rounding moves no weight by more than one unit, on average.
            let norm = square.sqrt() * f64::from(*bits).exp2() + (self.hidden as f64).sqrt();
            let bias = (bias.abs() * f64::from(input + *bits).exp2()).ceil() as u128;
            let bound = normed_bound(self.hidden, input, (norm * norm).ceil() as u64).saturating_add(bias);
            fits_one_limb(self.id.kind(), bound, most_shift(self.id.kind()))
        };
        (least..=most).rev().find(fits).unwrap_or(own)
    }

    /// Bits of the weights of all channels.
    pub fn bits(&self, input: i32) -> impl Iterator<Item = i32> + '_ {
        let biases = self.biases.iter().copied().chain(repeat(0.0));
        let channels = self.weights.iter().zip(self.squares.iter().copied().zip(biases));
        let channels = channels.zip(self.outputs());
        channels.map(move |((own, square), output)| self.channel(input, output, *own, square))
    }

    /// Whether no output bit is lost with an input of `input` bits.
    pub fn allows(&self, input: i32) -> bool {
        let mut channels = self.weights.iter().zip(self.outputs());
        channels.all(|(weight, output)| output <= input + weight - BASE - MIN_SHIFT)
    }

    /// Squared error of the outputs, relative to their squares, that rounding input and weights causes: rows of the input have
    /// a mean square of 1.
    fn noise(&self, input: i32) -> f64 {
        let variance = |bits: i32| f64::from(-2 * bits).exp2();
        let channels = self.bits(input).zip(self.squares);
        let errors = channels.map(|(bits, square)| square * variance(input) + self.hidden as f64 * variance(bits));
        errors.sum::<f64>() / self.squares.iter().sum::<f64>().max(f64::MIN_POSITIVE)
    }
}

/// Bits of a norm with which its readers are best, `own` at most.
pub(super) fn norm_bits(readers: &[Reader<'_>], own: i32) -> i32 {
    let noise = |bits: i32| readers.iter().map(|r| r.noise(bits)).sum::<f64>();
    let mut best = (own, noise(own));
    for bits in (LOWERED_TO..own).rev() {
        let noise = noise(bits);
        if noise < best.1 && readers.iter().all(|r| r.allows(bits)) {
            best = (bits, noise);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_circuits::model::MatmulKind;

    const HIDDEN: usize = 576;

    /// A reader with an output of 12 bits.
    fn reader<'a>(id: MatrixId, weights: &'a [i32], squares: &'a [f64]) -> Reader<'a> {
        Reader {
            id,
            hidden: HIDDEN,
            output: 12,
            exponents: &[],
            weights,
            squares,
            biases: &[],
        }
    }

    /// Shifts up to 14 stay, larger ones cost bits; so do columns so long that their bound needs more than a limb, and no others.
    #[test]
    fn a_channel_gives_up_bits_where_its_own_shift_or_bound_asks_for_it() {
        // With 10 bits of input the shift is the bits minus 2: 13, 15, 17. The square of the last column is large.
        let (weights, squares) = ([15, 17, 19, 17], [0.01, 0.01, 0.001, 1.5]);
        let up = reader(MatmulKind::Up.at(0), &weights, &squares);
        assert_eq!(up.bits(10).collect::<Vec<_>>(), [15, 16, 16, 15]);
        let bound = |bits: i32| normed_bound(HIDDEN, 10, (1.5 * f64::from(2 * bits).exp2()) as u64);
        assert!(fits_one_limb(MatmulKind::Up, bound(15), 14) && !fits_one_limb(MatmulKind::Up, bound(16), 14));
        // Logits have one bit less.
        let head = reader(MatrixId::HEAD, &weights, &squares);
        assert_eq!(head.bits(10).collect::<Vec<_>>(), [15, 15, 15, 15]);
        // What fits with no shift stays as it is: two limbs lose nothing.
        let long = [1e12; 4];
        let up = reader(MatmulKind::Up.at(0), &weights, &long);
        assert_eq!(up.bits(10).collect::<Vec<_>>(), weights);
    }

    /// A norm has more bits than it needs where its readers would have to give up theirs, and keeps them where they would not.
    #[test]
    fn a_norm_gives_up_bits_where_that_makes_less_noise() {
        let squares = [0.01; 3];
        let bits = |weights: &[i32; 3], own| norm_bits(&[reader(MatmulKind::Up.at(0), weights, &squares)], own);
        assert_eq!(bits(&[19; 3], 12), 10);
        assert_eq!(bits(&[14; 3], 12), 12);
        // One bit less would leave an output without its smallest shift.
        assert_eq!(bits(&[19, 19, 9], 12), 12);
    }

    #[test]
    fn scales_of_norms_are_those_of_one_limb() {
        assert_eq!(
            [64, 65, 128, 576, 4096, 1 << 14].map(most_scale),
            [26, 25, 25, 24, 23, 22]
        );
        assert_eq!(most_norm_bits(576, 4), Some(11));
        // Exponents take their bits off, up to a limit.
        assert_eq!([most_norm_bits(4096, 6), most_norm_bits(1 << 14, 6)], [Some(8), None]);
    }
}
