//! Shifts of matmuls. Where a shift would be too large, the channel gives up bits of its weights.

use tessera_circuits::model::{ByClass, ChannelShift, MatrixId, StreamShift};

use super::limits::{signed, small, CLASSES};
use super::Shifts;
use crate::limbs::BASE;
use crate::QuantiseError;
use tessera_checkpoint::matmul_tensor;

impl Shifts<'_> {
    /// Shifts of a matmul that reads a norm; lowers the bits of weights whose shift would be too large, or whose accumulators
    /// would not fit one limb.
    pub(super) fn reading(&mut self, id: MatrixId, input: i32, output: i32) -> Result<ChannelShift, QuantiseError> {
        let chosen = &mut self.chosen;
        let bits = chosen.channel_bits(id, input, output);
        let outputs: Vec<i32> = chosen.reader(id, output).outputs().take(bits.len()).collect();
        let channels = chosen.weights.bits.entry(id).or_default();
        let shift = |(w, (bits, output)): (&mut i32, (i32, i32))| {
            *w = bits;
            small(input + *w - BASE - output, || matmul_tensor(id))
        };
        channels
            .iter_mut()
            .zip(bits.into_iter().zip(outputs))
            .map(shift)
            .collect::<Result<_, _>>()
            .map(ChannelShift)
    }

    /// Shifts into a state of the residual stream; lowers the bits of weights where a shift or the residual's factor would
    /// be too large in a class of rows. `before` is the state that is added, if there is one.
    pub(super) fn writing(
        &mut self,
        id: MatrixId,
        input: ByClass<i32>,
        before: Option<ByClass<i32>>,
        after: ByClass<i32>,
    ) -> Result<StreamShift, QuantiseError> {
        let kind = id.kind();
        let (given, chosen) = (self.chosen.given, &mut self.chosen);
        let limit = given.limit(kind);
        let most = CLASSES.map(|class| {
            let before = before.map_or(i32::MAX, |before| before.of(class));
            before.min(after.of(class)) + limit - (input.of(class) - BASE)
        });
        let most = most[0].min(most[1]);
        let name = || matmul_tensor(id);
        let channels = 0..given.config.hidden;
        let exponents: Vec<i32> = channels.map(|c| chosen.written_exponent(kind, c)).collect();
        let exponents = exponents.into_iter().zip(given.bias_bits(id, input.body));
        let channels = chosen.weights.bits.entry(id).or_default();
        let shift = |(w, (k, biased)): (&mut i32, (i32, i32))| {
            *w = (*w).min(most - k).min(biased);
            small(input.body + *w - BASE - (after.body - k), name)
        };
        let body = channels.iter_mut().zip(exponents).map(shift);
        let lead = (input.lead - input.body) - (after.lead - after.body);
        Ok(StreamShift {
            body: ChannelShift(body.collect::<Result<_, _>>()?),
            lead: signed(lead, name)?,
        })
    }
}
