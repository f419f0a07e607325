//! Scales of norms: the reciprocal square root, its shift and the epsilon.

use std::ops::RangeInclusive;

use tessera_circuits::bounds::{epsilons, ONE_LIMB_SHIFT};
use tessera_circuits::model::{ByClass, ChannelShift, MatmulKind, MatrixId, NormParams, RowClass};

use super::bits::Bits;
use super::limits::{small, CLASSES};
use super::{Exponents, Given, Shifts};
use crate::limbs::{most_norm_bits, most_scale, norm_bits, Reader, BASE};
use crate::normed::{ChannelUnits, NormReaders, Normed};
use crate::options::MIN_SHIFT;
use crate::QuantiseError;

/// The reciprocal square root stays below `2^RSQRT_TARGET` on calibrated rows, a sixteenth of its bound.
const RSQRT_TARGET: f64 = 20.0;

impl Given<'_> {
    /// Largest scale of the reciprocal square root of a norm that keeps it below its target on calibrated
    /// rows. Rows whose root mean square is below one unit carry no information and do not count.
    fn norm_scale(&self, n: usize, residual_bits: ByClass<i32>) -> i32 {
        let scales = CLASSES.map(|class| {
            let square = self.ranges.residual[n].of(class).min_square + self.config.rms_eps;
            let log_rms = square.log2() / 2.0 + f64::from(residual_bits.of(class));
            (RSQRT_TARGET + log_rms.max(0.0)).floor() as i32
        });
        scales[0].min(scales[1])
    }
}

impl<'a> Exponents<'a> {
    /// How much larger the units of a channel of a state are than those of the same channel in the output of its norm: its exponent less
    /// that of the output.
    fn finer(&self, n: usize, exponents: &[u8], c: usize) -> i32 {
        self.state_exponent(n, c) - exponents.get(c).copied().map_or(0, i32::from)
    }

    /// The shifts that a norm of a state may have in channels whose units it leaves as they are, with outputs of these exponents.
    fn shift_range(&self, n: usize, exponents: &[u8]) -> RangeInclusive<i32> {
        let finer = || (0..self.given.config.hidden).map(|c| self.finer(n, exponents, c));
        let (most, least) = (finer().max().unwrap_or(0), finer().min().unwrap_or(0));
        MIN_SHIFT + most..=ONE_LIMB_SHIFT - BASE + least
    }

    /// Lowers the bits of norms as far as that is better, and gives exponents to the channels of their outputs.
    pub(crate) fn with_norms(mut self, mut readers: NormReaders) -> Shifts<'a> {
        let bits = self.activations();
        let states = 0..self.norms.len();
        let normed = states.map(|n| self.lower_norm(n, &bits, &mut readers)).collect();
        self.make_room_for_gains(&bits);
        Shifts { chosen: self, normed }
    }

    /// Lowers the bits of a norm to those of one limb, and to those that are best for matmuls in one limb; or raises them where
    /// channels get exponents, which are returned.
    fn lower_norm(&mut self, n: usize, bits: &Bits, all: &mut NormReaders) -> Vec<u8> {
        let hidden = self.given.config.hidden;
        let least = *self.shift_range(n, &[]).start();
        let most = most_norm_bits(hidden, least - MIN_SHIFT);
        let own = self.norms[n].min(most.unwrap_or(i32::MAX));
        let readers = self.readers_of(n, bits);
        let own = norm_bits(&readers, own);
        let chosen = readers.first().and_then(|first| {
            let allowed = |bits: i32, exponents: &[u8]| {
                let shifts = self.shift_range(n, exponents);
                shifts.start() <= shifts.end() && bits + BASE + shifts.start() <= most_scale(hidden)
            };
            let units = ChannelUnits {
                range: self.given.ranges.normed(first.id),
                stream: &self.stream,
                headroom: self.given.options.headroom,
            };
            Normed::choose((&readers, all), units, own, allowed)
        });
        self.norms[n] = own;
        let Some(chosen) = chosen else {
            return Vec::new();
        };
        chosen.apply(all, &mut self.weights.bits, &mut self.weights.squares);
        self.norms[n] = chosen.bits;
        chosen.exponents
    }

    /// What reads the norm of a state.
    fn readers_of(&self, n: usize, bits: &Bits) -> Vec<Reader<'_>> {
        let config = self.given.config;
        let layer = n / config.states_per_layer();
        let Some(b) = bits.layers.get(layer) else {
            let head = config.generates().then(|| self.reader(MatrixId::HEAD, bits.logit));
            return head.into_iter().collect();
        };
        let attention = [(MatmulKind::Q, b.q), (MatmulKind::K, b.k), (MatmulKind::V, b.v)];
        let mlp = [(MatmulKind::Gate, bits.gate), (MatmulKind::Up, b.up)];
        let mlp = mlp.into_iter().skip(usize::from(!config.gated));
        let attention = attention.into_iter().filter(|_| n == config.attention_state(layer));
        let kinds = attention.chain(mlp.filter(|_| n == config.mlp_state(layer)));
        kinds
            .map(|(kind, output)| self.reader(kind.at(layer), output))
            .collect()
    }
}

impl Shifts<'_> {
    /// Shifts of the channels of the norm of a state, where this is the shift of those whose units it leaves as they are.
    fn norm_shifts(&self, n: usize, shift: i32) -> Result<ChannelShift, QuantiseError> {
        let (hidden, exponents) = (self.chosen.given.config.hidden, &self.normed[n]);
        let shifts = (0..hidden).map(|c| shift - self.chosen.finer(n, exponents, c));
        let mut shifts: Vec<i32> = shifts.collect();
        if shifts.iter().all(|own| *own == shifts[0]) {
            shifts.truncate(1);
        }
        let shifts = shifts.into_iter().map(|own| small(own, || format!("norm {n}")));
        shifts.collect::<Result<_, _>>().map(ChannelShift)
    }

    /// The parameters of the norm of a state.
    pub(super) fn norm(&self, n: usize, residual_bits: ByClass<i32>) -> Result<NormParams, QuantiseError> {
        let name = || format!("norm {n}");
        let (given, chosen) = (self.chosen.given, &self.chosen);
        let (hidden, output) = (given.config.hidden, chosen.norms[n]);
        let (least, most) = chosen.shift_range(n, &self.normed[n]).into_inner();
        let scale = given.norm_scale(n, residual_bits).min(most_scale(hidden));
        let shift = (scale - BASE - output).clamp(least, most.max(least));
        let scale = small(output + BASE + shift, name)?;
        // The least one is that of rows of some units: it changes none that is not almost zero.
        let least = *epsilons(hidden, scale).start();
        let eps = |class| {
            let unit = f64::from(2 * residual_bits.of(class)).exp2();
            let eps = given.config.rms_eps * hidden as f64 * unit;
            (eps.round() as u64).max(least)
        };
        Ok(NormParams {
            scale,
            eps: ByClass {
                body: eps(RowClass::Body),
                lead: eps(RowClass::Lead),
            },
            shift: self.norm_shifts(n, shift)?,
        })
    }
}
