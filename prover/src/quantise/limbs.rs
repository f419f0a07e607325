//! Scales with which a matmul that reads a norm is proved in one limb (docs/protocol.md, section 2.6): what it can reach follows
//! from the norms of its columns, so the bits of norm and weights decide. A channel gives up bits of its weights only where its own
//! shift or bound asks for it, and a norm gives up bits where that costs less.

use std::collections::BTreeMap;

use tessera_circuits::bounds::{fits_one_limb, normed_bound, ONE_LIMB_NORM, ONE_LIMB_SHIFT};
use tessera_circuits::model::MatmulKind;

use super::options::MIN_SHIFT;
use super::plan::BASE;

/// How many bits a norm may give up.
const LOWERED: i32 = 4;
/// Norms of fewer bits than this cost more than a second limb.
const LEAST_NORM_BITS: i32 = 8;

/// Sums of squares of the columns of a float matrix.
pub(super) type Squares = BTreeMap<(MatmulKind, usize), Vec<f64>>;

/// A matmul that reads the output of a norm.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub kind: MatmulKind,
    pub hidden: usize,
    /// Fractional bits of its output.
    pub output: i32,
    /// Fractional bits of the weights, by channel, and their squares.
    pub weights: &'a [i32],
    pub squares: &'a [f64],
}

/// The largest total shift of a kind. Logits have one limb with a shift of 14 too, but only up to half the bound.
const fn most_shift(kind: MatmulKind) -> i32 {
    match kind {
        MatmulKind::Head => ONE_LIMB_SHIFT - 2,
        _ => ONE_LIMB_SHIFT,
    }
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
    /// Bits of the weights of a channel with an input of `input` bits: the most with which it fits one limb, its own if there are
    /// none.
    fn channel(&self, input: i32, own: i32, square: f64) -> i32 {
        let least = self.output - input + BASE + MIN_SHIFT;
        let most = own.min(self.output - input + most_shift(self.kind));
        let fits = |bits: &i32| {
            // Rounding moves no weight by more than one unit, on average.
            let norm = square.sqrt() * f64::from(*bits).exp2() + (self.hidden as f64).sqrt();
            let bound = normed_bound(self.hidden, input, (norm * norm).ceil() as u64);
            fits_one_limb(self.kind, bound, most_shift(self.kind))
        };
        (least..=most).rev().find(fits).unwrap_or(own)
    }

    /// Bits of the weights of all channels.
    pub fn bits(&self, input: i32) -> impl Iterator<Item = i32> + '_ {
        let channels = self.weights.iter().zip(self.squares);
        channels.map(move |(own, square)| self.channel(input, *own, *square))
    }

    /// Whether no output bit is lost with an input of `input` bits.
    fn allows(&self, input: i32) -> bool {
        let least = self.weights.iter().min().copied().unwrap_or(0);
        self.output <= input + least - BASE - MIN_SHIFT
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
    for bits in (own - LOWERED..own).rev() {
        let noise = noise(bits);
        if noise < best.1 && readers.iter().all(|r| r.allows(bits)) {
            best = (bits, noise);
        }
    }
    best.0
}
