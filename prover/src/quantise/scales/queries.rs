//! Bits of queries: heads longer than 128 have as many as the bound of their scores leaves (docs/protocol.md, section 16.5).

use std::iter::repeat;

use tessera_circuits::bounds::{normed_bound, rotated_sum, rounded_bound, MAX_QUERY_SUM};
use tessera_circuits::model::MatmulKind;

use super::{Scales, BASE};

/// Heads up to this long need no bound but the range of queries.
const SHORT: usize = 128;
/// Queries give up no more bits than this: with fewer, scores would be noise.
const MOST_LOST: i32 = 8;

impl Scales<'_> {
    /// Bits of the weights of every channel of a matmul that reads a norm of `input` bits: fewer than there might be where its shift
    /// would be too large, its accumulators would not fit one limb, or its bias would not fit.
    pub(super) fn channel_bits(&self, kind: MatmulKind, layer: usize, input: i32, output: i32) -> Vec<i32> {
        let spare = BASE + self.limit(kind) - input;
        let reader = self.reader(kind, layer, output);
        let bits = reader.bits(input).zip(reader.outputs());
        let channels = bits.zip(self.bias_bits(kind, layer, input));
        channels
            .map(|((bits, output), biased)| bits.min(output + spare).min(biased))
            .collect()
    }

    /// Bits of the queries of a layer, `wish` at most, with which scores keep their bound; `wish` if there are none.
    pub(super) fn query_bits(&self, layer: usize, input: i32, wish: i32) -> i32 {
        let kept = |bits: &i32| self.query_sum(layer, input, *bits) <= MAX_QUERY_SUM;
        match self.config.head_dim {
            0..=SHORT => wish,
            _ => (wish - MOST_LOST..=wish).rev().find(kept).unwrap_or(wish),
        }
    }

    /// What the absolute values of a query add up to at most, in the head where that is most, as the key will say.
    fn query_sum(&self, layer: usize, input: i32, output: i32) -> u64 {
        let kind = MatmulKind::Q;
        let bits = self.channel_bits(kind, layer, input, output);
        let unit = |bits: i32| f64::from(bits).exp2();
        // Rounding moves no weight by more than one unit, on average.
        let error = (self.config.hidden as f64).sqrt();
        let norms = self.squares[&(kind, layer)]
            .iter()
            .zip(&bits)
            .map(|(s, b)| s.sqrt() * unit(*b) + error);
        let longest = norms.fold(0.0, f64::max);
        let bound = normed_bound(self.config.hidden, input, (longest * longest).ceil() as u64);
        let biases = self.biases.get(&(kind, layer)).map_or(&[][..], Vec::as_slice);
        let biases = biases.iter().copied().chain(repeat(0.0));
        let channels = bits.iter().zip(biases).map(|(bits, bias)| {
            let bias = (bias.abs() * unit(input + bits)).ceil() as u128;
            rounded_bound(bound + bias, (input + bits - output).unsigned_abs())
        });
        let channels: Vec<u128> = channels.collect();
        let heads = channels.chunks_exact(self.config.head_dim).map(rotated_sum);
        heads.max().unwrap_or(0)
    }
}
