//! Scales of the normed states of encoders, which are added to the outputs of O and Down.

use tessera_circuits::bounds::MAX_BIAS;
use tessera_circuits::model::{ByClass, MatmulKind, MatrixId};

use super::bits::{Bits, LayerBits};
use super::given::update;
use super::limits::signed;
use super::{Exponents, Given, WeightScales};
use crate::limbs::BASE;
use crate::QuantiseError;

/// Room for the mean of a normed state in what it adds.
const WITH_MEAN: f64 = 1.25;
/// The most by which the bits of accumulators of one matrix differ: beyond it, a channel gives up bits of its weights.
const MOST_SKIP: i32 = 10;
/// Gains are given so many bits, as long as the norm keeps enough of its own.
const LEAST_GAIN_BITS: i32 = 14;
const LEAST_NORM_BITS: i32 = 8;
/// The most fractional bits of the gains that make the vector, and of the largest of them in all.
const VECTOR_GAIN_BITS: i32 = 14;
const MOST_GAIN_BITS: i32 = 24;

/// The least power of two that is no smaller.
fn log2_up(value: f64) -> i32 {
    value.max(f64::MIN_POSITIVE).log2().ceil() as i32
}

impl Given<'_> {
    /// Fractional bits of the gains that make the vector.
    fn last_gain_bits(&self, norm: i32) -> i32 {
        let largest = |values: &[f64]| log2_up(values.iter().fold(0.0, |max: f64, v| max.max(v.abs())));
        let gains = self.gains.states.last().map_or(0, |gains| largest(gains));
        let bias = self.biases.get(&MatrixId::HEAD).map_or(0, |bias| largest(bias));
        let bias = MAX_BIAS.ilog2() as i32 - bias - norm;
        VECTOR_GAIN_BITS.min(MOST_GAIN_BITS - gains).min(bias)
    }

    /// Fractional bits of the vector with its gains, where the last norm has `norm` bits.
    pub(super) fn vector_bits(&self, norm: i32) -> i32 {
        norm + self.last_gain_bits(norm)
    }
}

impl WeightScales {
    /// Brings the bits of the channels of O and Down so close to each other that one factor serves the normed state of all.
    pub(super) fn level_writers(&mut self, layer: usize) {
        for id in [MatmulKind::O, MatmulKind::Down].map(|kind| kind.at(layer)) {
            let most = self.fewest(id) + MOST_SKIP;
            let channels = self.bits.entry(id).or_default();
            channels.iter_mut().for_each(|w| *w = (*w).min(most));
        }
    }
}

impl Exponents<'_> {
    /// Bits of what is added to state `n >= 1`, as if it were a state of 16 bits: the state before, or in encoders the normed one, times
    /// its gains.
    pub(super) fn added(&self, n: usize, before: ByClass<i32>) -> ByClass<i32> {
        let Some(gains) = self.given.gains.states.get(n - 1) else {
            return before;
        };
        let largest = gains.iter().fold(0.0, |max: f64, g| max.max(g.abs()));
        ByClass::both(self.norms[n - 1] - log2_up(WITH_MEAN * largest))
    }

    /// Bits of what is added to an output of O or Down: nothing where that output is a state of its own.
    pub(super) fn added_to_output(&self, n: usize, before: ByClass<i32>) -> Option<ByClass<i32>> {
        (!self.given.config.norms_outputs()).then(|| self.added(n, before))
    }

    /// Lowers the bits of the norms of an encoder where gains would have too few: means that are taken off are as coarse as the units
    /// of the accumulators, and what rounding adds to a norm's output is less.
    pub(super) fn make_room_for_gains(&mut self, bits: &Bits) {
        for n in 0..self.given.gains.states.len().saturating_sub(1) {
            let gain = self.gain_bits(n + 1, &bits.layers).unwrap_or(LEAST_GAIN_BITS);
            let less = (LEAST_GAIN_BITS - gain).max(0);
            self.norms[n] = (self.norms[n] - less).max(LEAST_NORM_BITS.min(self.norms[n]));
        }
    }

    /// Fractional bits of the gains with which the state before `n >= 1` is added to it in an encoder; `None` in other models. The
    /// accumulator with the fewest bits has those of gain and normed state together.
    pub(super) fn gain_bits(&self, n: usize, layers: &[LayerBits]) -> Option<i32> {
        self.given.gains.states.get(n - 1)?;
        let (id, input) = update(n, layers);
        Some(input.body + self.weights.fewest(id) - self.norms[n - 1])
    }

    /// The difference of the exponents of factor and shift at state `n`, which has `after` bits, where gains have `gain` bits.
    pub(super) fn normed_skip(&self, n: usize, after: ByClass<i32>, gain: i32) -> Result<ByClass<i8>, QuantiseError> {
        let of = |after: i32| {
            signed(after + BASE - self.norms[n - 1] - gain, || {
                format!("gains of state {}", n - 1)
            })
        };
        Ok(ByClass {
            body: of(after.body)?,
            lead: of(after.lead)?,
        })
    }

    /// The gains of all states, as the key has them; nothing of models that are no encoders.
    pub(super) fn gain_integers(&self, bits: &Bits) -> Vec<Vec<i32>> {
        let of = |(n, gains): (usize, &Vec<f64>)| {
            let bits = match n + 1 < self.given.gains.states.len() {
                true => self.gain_bits(n + 1, &bits.layers).unwrap_or_default(),
                false => self.given.last_gain_bits(bits.norm_final),
            };
            let unit = f64::from(bits).exp2();
            gains.iter().map(|g| (g * unit).round() as i32).collect()
        };
        self.given.gains.states.iter().enumerate().map(of).collect()
    }
}
