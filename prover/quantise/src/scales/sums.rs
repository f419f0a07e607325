//! Scales of what is normed before it is added: the sums of a state and a normed output of O or Down, times its gains.

use tessera_circuits::model::{ByClass, ChannelShift, Maker, MatmulKind, MatrixId, PostNorm, StreamShift};

use super::bits::Bits;
use super::limits::{lower, signed, small, CLASSES};
use super::{Exponents, Given, Shifts};
use crate::limbs::BASE;
use crate::options::MAX_SHIFT;
use crate::QuantiseError;

/// log2 of what gains stay below in a key.
const GAIN_BITS: i32 = 21;
/// As many bits as no state has.
const NO_STATE: i32 = 1 << 16;

impl Given<'_> {
    /// The gains of an output of O or Down that is normed before it is added.
    fn gains_of_output(&self, id: MatrixId) -> &[f32] {
        let (kind, layer) = (id.kind(), id.layer());
        let own = usize::from(kind == MatmulKind::Down);
        self.gains.outputs.get(layer).map_or(&[], |gains| &gains[own])
    }
}

impl Exponents<'_> {
    /// The most bits of what a normed output, state `n - 1`, is added up with, less the base shift, so that all gains fit.
    fn most_sum(&self, n: usize, gains: &[f32]) -> i32 {
        let channels = gains.iter().enumerate().filter(|(_, gain)| **gain != 0.0);
        let room = channels.map(|(c, gain)| {
            let log = f64::from(gain.abs()).log2().floor() as i32 + 1;
            // A unit of room, so that no gain is as large as the limit.
            GAIN_BITS - 1 - BASE + self.norms[n - 1] + self.exponent(c) - log
        });
        room.min().unwrap_or(NO_STATE)
    }

    /// Bits of a sum before it is rounded into state `n`, less the base shift: as many as shifts and gains have room for.
    fn sum_bits(&self, n: usize, gains: &[f32], [before, after]: [ByClass<i32>; 2]) -> i32 {
        let most = CLASSES.map(|class| before.of(class).min(after.of(class)) + MAX_SHIFT);
        most[0].min(most[1]).min(self.most_sum(n, gains))
    }

    /// Lowers the bits of states until the sum or the output that state `n` is has shifts.
    pub(super) fn lower_state(&self, n: usize, x: &mut [ByClass<i32>], input: impl Fn(MatrixId) -> ByClass<i32>) {
        let (front, back) = x.split_at_mut(n);
        let after = &mut back[0];
        match self.given.config.maker(n) {
            Maker::Sum(id) => {
                let most = self.most_sum(n, self.given.gains_of_output(id));
                lower([&mut front[n - 2], after], most, 0, MAX_SHIFT);
            }
            Maker::Matmul(id) => {
                let (input, mut nothing) = (input(id), ByClass::both(NO_STATE));
                let accumulator = input.body - BASE + self.fewest_written(id);
                lower(
                    [&mut nothing, after],
                    accumulator,
                    input.lead - input.body,
                    self.given.limit(id.kind()),
                );
            }
        }
    }

    /// The gains of all states, as the key has them; nothing of models that add outputs as they are.
    pub(super) fn sum_integers(&self, bits: &Bits) -> Vec<Vec<i32>> {
        let of = |n: usize| {
            let Maker::Sum(id) = self.given.config.maker(n + 1) else {
                return Vec::new();
            };
            let gains = self.given.gains_of_output(id);
            let sum = self.sum_bits(n + 1, gains, [bits.residual[n - 1], bits.residual[n + 1]]);
            let channel = |(c, gain): (usize, &f32)| {
                let bits = sum - self.exponent(c) + BASE - self.norms[n];
                (f64::from(*gain) * f64::from(bits).exp2()).round() as i32
            };
            gains.iter().enumerate().map(channel).collect()
        };
        let states = (0..self.given.config.states()).filter(|_| self.given.config.norms_outputs());
        states.map(|n| if n % 2 == 1 { of(n) } else { Vec::new() }).collect()
    }
}

impl Shifts<'_> {
    /// The norm of the output of O or Down of a layer, where outputs are normed. The layer's states are `x`, from the one that attention
    /// reads on.
    pub(super) fn post_norm(&self, output: MatrixId, x: &[ByClass<i32>]) -> Result<Option<PostNorm>, QuantiseError> {
        let (given, chosen) = (self.chosen.given, &self.chosen);
        if !given.config.norms_outputs() {
            return Ok(None);
        }
        let (at, l) = (if output.kind() == MatmulKind::O { 1 } else { 3 }, output.layer());
        let n = given.config.attention_state(l) + at;
        let (before, after) = (x[at - 1], x[at + 1]);
        let bits = chosen.sum_bits(n + 1, given.gains_of_output(output), [before, after]);
        let name = || format!("what is added in layer {l}");
        Ok(Some(PostNorm {
            norm: self.norm(n, x[at])?,
            sum: StreamShift {
                body: ChannelShift(vec![small(bits - after.body, name)?]),
                lead: signed(after.body - after.lead, name)?,
            },
        }))
    }
}
