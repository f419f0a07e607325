//! Bits of queries: heads longer than 128 have as many as the bound of their scores leaves (docs/protocol.md, section 16.5).

use std::iter::repeat;

use tessera_circuits::bounds::{normed_bound, rotated_sum, rounded_bound, MAX_QUERY_SUM};
use tessera_circuits::model::{ColumnNorms, MatmulKind, MatrixId, ModelParams, LAYER_KINDS};

use super::Exponents;
use crate::limbs::BASE;

/// Heads up to this long need no bound but the range of queries.
const SHORT: usize = 128;
/// Queries give up no more bits than this: with fewer, scores would be noise.
const MOST_LOST: i32 = 8;

impl Exponents<'_> {
    /// Bits of the weights of every channel of a matmul that reads a norm of `input` bits: fewer than there might be where its shift
    /// would be too large, its accumulators would not fit one limb, or its bias would not fit.
    pub(super) fn channel_bits(&self, id: MatrixId, input: i32, output: i32) -> Vec<i32> {
        let kind = id.kind();
        let spare = BASE + self.given.limit(kind) - input;
        let reader = self.reader(id, output);
        let bits = reader.bits(input).zip(reader.outputs());
        let channels = bits.zip(self.given.bias_bits(id, input));
        channels
            .map(|((bits, output), biased)| bits.min(output + spare).min(biased))
            .collect()
    }

    /// Bits of the queries of a layer, `wish` at most, with which scores keep their bound; `wish` if there are none.
    pub(super) fn query_bits(&self, layer: usize, input: i32, wish: i32) -> i32 {
        let kept = |bits: &i32| self.query_sum(layer, input, *bits) <= MAX_QUERY_SUM;
        match self.given.config.head_dim {
            0..=SHORT => wish,
            // What is normed is bounded by its norm.
            _ if self.given.config.head_norms => wish,
            _ => (wish - MOST_LOST..=wish).rev().find(kept).unwrap_or(wish),
        }
    }

    /// The largest sum of squares of a column of Q whose weights have so many bits.
    fn query_square(&self, layer: usize, bits: &[i32]) -> u64 {
        // Rounding moves no weight by more than one unit, on average.
        let error = (self.given.config.hidden as f64).sqrt();
        let squares = self.weights.squares[&MatmulKind::Q.at(layer)].iter().zip(bits);
        let norms = squares.map(|(square, bits)| square.sqrt() * f64::from(*bits).exp2() + error);
        let longest = norms.fold(0.0, f64::max);
        (longest * longest).ceil() as u64
    }

    /// The norms of the columns of Q that its weights will have, as far as is known before they are rounded: with the largest that
    /// there may be, no scores of long heads would keep their bound.
    pub(super) fn expect_queries(&self, params: &mut ModelParams) {
        let hidden = self.given.config.hidden as u64;
        let long = self.given.config.head_dim > SHORT && !self.given.config.head_norms;
        for layer in (0..self.given.config.layers).filter(|_| long) {
            let bits = &self.weights.bits[&MatmulKind::Q.at(layer)];
            let own = &mut params.columns[layer * LAYER_KINDS.len()];
            let square = own.square.min(self.query_square(layer, bits));
            let l1 = square.min((hidden.saturating_mul(square)).isqrt());
            *own = ColumnNorms { l1, square };
        }
    }

    /// What the absolute values of a query add up to at most, in the head where that is most, as the key will say.
    fn query_sum(&self, layer: usize, input: i32, output: i32) -> u64 {
        let id = MatmulKind::Q.at(layer);
        let bits = self.channel_bits(id, input, output);
        let bound = normed_bound(self.given.config.hidden, input, self.query_square(layer, &bits));
        let biases = self.given.biases(id);
        let biases = biases.iter().copied().chain(repeat(0.0));
        let channels = bits.iter().zip(biases).map(|(bits, bias)| {
            let bias = (bias.abs() * f64::from(input + bits).exp2()).ceil() as u128;
            rounded_bound(bound + bias, (input + bits - output).unsigned_abs())
        });
        let channels: Vec<u128> = channels.collect();
        let heads = channels.chunks_exact(self.given.config.head_dim).map(rotated_sum);
        heads.max().unwrap_or(0)
    }
}
