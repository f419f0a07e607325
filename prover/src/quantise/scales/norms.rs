//! Scales of norms: the reciprocal square root, its shift and the epsilon.

use tessera_circuits::bounds::{epsilons, ONE_LIMB_SHIFT};
use tessera_circuits::model::{ByClass, ChannelShift, MatmulKind, NormParams, RowClass};

use super::bits::Bits;
use super::limits::{small, CLASSES};
use super::Scales;
use crate::quantise::limbs::{most_norm_bits, most_scale, norm_bits, BASE};
use crate::quantise::options::{MAX_SHIFT, MIN_SHIFT};
use crate::quantise::QuantiseError;

/// The reciprocal square root stays below `2^RSQRT_TARGET` on calibrated rows, a sixteenth of its bound.
const RSQRT_TARGET: f64 = 20.0;

impl Scales<'_> {
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

    /// Largest exponent of the channels of a state.
    fn largest_exponent_of(&self, n: usize) -> i32 {
        match self.is_output(n) {
            true => 0,
            false => self.largest_exponent(),
        }
    }

    /// Lowers the bits of norms to those of one limb, and to those that are best for matmuls in one limb.
    pub(super) fn lower_norms(&mut self, bits: &Bits) {
        for n in 0..self.norms.len() {
            let most = most_norm_bits(self.config.hidden, self.largest_exponent_of(n));
            let own = self.norms[n].min(most.unwrap_or(i32::MAX));
            let layer = n / self.config.states_per_layer();
            let of = |kind, layer, output| self.reader(kind, layer, output);
            let readers = match bits.layers.get(layer) {
                None if self.config.is_encoder() => Vec::new(),
                None => vec![of(MatmulKind::Head, 0, bits.logit)],
                Some(b) => {
                    let attention = [(MatmulKind::Q, b.q), (MatmulKind::K, b.k), (MatmulKind::V, b.v)];
                    let mlp = [(MatmulKind::Gate, bits.gate), (MatmulKind::Up, b.up)];
                    let mlp = mlp.into_iter().skip(usize::from(!self.config.gated));
                    let kinds = attention
                        .into_iter()
                        .filter(|_| n == self.config.attention_state(layer));
                    let kinds = kinds.chain(mlp.filter(|_| n == self.config.mlp_state(layer)));
                    kinds.map(|(kind, output)| of(kind, layer, output)).collect()
                }
            };
            self.norms[n] = norm_bits(&readers, own);
        }
    }

    /// Shifts of the channels of the norm of a state, of which those without exponent have this one.
    fn norm_shifts(&self, n: usize, shift: i32) -> Result<ChannelShift, QuantiseError> {
        let own = |c: usize| {
            small(shift - if self.is_output(n) { 0 } else { self.exponent(c) }, || {
                format!("norm {n}")
            })
        };
        let channels = match self.is_output(n) || self.exponents.is_empty() {
            true => 0..1,
            false => 0..self.config.hidden,
        };
        channels.map(own).collect::<Result<_, _>>().map(ChannelShift)
    }

    pub(super) fn norm(&self, n: usize, residual_bits: ByClass<i32>) -> Result<NormParams, QuantiseError> {
        let name = || format!("norm {n}");
        let output = self.norms[n];
        let least = MIN_SHIFT + self.largest_exponent_of(n);
        let scale = self.norm_scale(n, residual_bits).min(most_scale(self.config.hidden));
        let most = (ONE_LIMB_SHIFT - BASE).clamp(least, MAX_SHIFT);
        let shift = (scale - BASE - output).clamp(least, most);
        let scale = small(output + BASE + shift, name)?;
        // The least one is that of rows of some units: it changes none that is not almost zero.
        let least = *epsilons(self.config.hidden, scale).start();
        let eps = |class| {
            let unit = f64::from(2 * residual_bits.of(class)).exp2();
            let eps = self.config.rms_eps * self.config.hidden as f64 * unit;
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
