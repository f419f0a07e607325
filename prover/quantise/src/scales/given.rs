//! The inputs of all phases, which no phase changes: the ranges that calibration saw, the user's options, and numbers of the model.

use std::iter::repeat;

use tessera_circuits::bounds::MAX_SILU_BITS;
use tessera_circuits::model::{max_weight, Activation, ByClass, MatmulKind, MatrixId, ModelConfig, WeightBits};

use super::bits::LayerBits;
use super::limits::{fit, gate_bits};
use crate::biases::{self, Biases};
use crate::calibrate::{LayerRanges, Ranges};
use crate::limbs::BASE;
use crate::options::{shift_limit, MIN_SHIFT};
use crate::products::Room;
use crate::QuantiseOptions;

/// Room of the channels of Up's output and of the product where some have exponents: another text may make a channel large that
/// was not, and then the units of the largest ones are not its own.
const CHANNEL_HEADROOM: f64 = 2.0;
/// Room of the first state of the residual stream, which is bounded exactly, for the rounding of its weights.
const EMBEDDING_HEADROOM: f64 = 1.01;

/// By state of the residual stream and channel: squares of the weights that read it, relative to their mean.
pub(crate) type Readers = Vec<Vec<f64>>;

/// The inputs of all phases.
pub(crate) struct Given<'a> {
    pub config: &'a ModelConfig,
    pub options: &'a QuantiseOptions,
    pub ranges: &'a Ranges,
    /// Bits of the integers of weights, by kind.
    pub weight_bits: WeightBits,
    pub activation: Activation,
    pub biases: Biases,
    pub gains: Gains,
}

/// Gains that are not folded into weights.
#[derive(Default)]
pub(crate) struct Gains {
    /// The gains of the norms of all states of an encoder.
    pub states: Vec<Vec<f64>>,
    /// By layer, the gains of the norms of the heads of queries and of keys, with all factors of scores; none where heads are not normed.
    pub heads: Vec<[Vec<f64>; 2]>,
    /// By layer, the gains of the norms of what attention and MLP add; none where that is not normed.
    pub outputs: Vec<[Vec<f32>; 2]>,
}

impl Given<'_> {
    /// The most bits with which values up to `max` fit, with room.
    pub(super) fn fit(&self, max: f32) -> i32 {
        fit(f64::from(max) * self.options.headroom)
    }

    /// Room of a state of the residual stream.
    pub(super) const fn headroom(&self, n: usize) -> f64 {
        match n {
            0 => EMBEDDING_HEADROOM,
            _ => self.options.headroom,
        }
    }

    /// Fits of all layers, the smallest.
    pub(super) fn global(&self, fit: impl Fn(&LayerRanges) -> i32) -> i32 {
        self.ranges.layers.iter().map(fit).min().unwrap_or(0)
    }

    /// Bits of the SiLU of gates.
    pub(super) fn silu(&self) -> i32 {
        let headroom = self.options.headroom;
        self.global(|r| gate_bits(r.silu, headroom)).min(MAX_SILU_BITS.into())
    }

    /// What Up's output and the products of a layer have room for, with exponents of their channels or without. The norm before
    /// has `input` bits, the weights of Up have `up`.
    pub(super) fn room(&self, layer: usize, (input, up): (i32, &[i32]), silu: i32, exponents: bool) -> Room {
        let range = &self.ranges.layers[layer].product;
        let fits = |max: &[f32], headroom: f64| max.iter().map(|max| fit(f64::from(*max) * headroom)).collect();
        let own = self.options.headroom;
        let by_channel = if exponents { own.max(CHANNEL_HEADROOM) } else { own };
        let outputs: Vec<i32> = fits(&range.up, by_channel);
        let outputs = outputs.into_iter().zip(up);
        Room {
            up: outputs
                .map(|(output, weight)| output.min(input + weight - BASE - MIN_SHIFT))
                .collect(),
            body: fits(&range.max.body, by_channel),
            lead: fits(&range.max.lead, own),
            silu,
            seen: self.ranges.leading.token.is_some(),
        }
    }

    /// The matmul whose outputs are looked up in the table.
    pub(super) const fn table_kind(&self) -> MatmulKind {
        match self.config.gated {
            true => MatmulKind::Gate,
            false => MatmulKind::Up,
        }
    }

    /// Largest shift of a matmul, and largest exponent of the residual's factor.
    pub(super) fn limit(&self, kind: MatmulKind) -> i32 {
        let bits = self.weight_bits.of(kind);
        // `Strategy::weight_bits` has seen to it that there is one.
        shift_limit(self.config, kind, max_weight(bits)).unwrap_or(MIN_SHIFT)
    }

    /// The biases of a matrix; nothing if it has none.
    pub(super) fn biases(&self, id: MatrixId) -> &[f64] {
        self.biases.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Whether a matrix has biases: then rows of both classes need accumulators of the same units.
    pub(super) fn is_biased(&self, id: MatrixId) -> bool {
        self.biases.contains_key(&id)
    }

    /// The most bits of the weights of every channel with which biases fit, where the input has `input` bits.
    pub(super) fn bias_bits(&self, id: MatrixId, input: i32) -> impl Iterator<Item = i32> {
        let biases = self.biases(id).iter();
        let own: Vec<i32> = biases.map(|b| biases::most_bits(*b) - input).collect();
        own.into_iter().chain(repeat(i32::MAX))
    }

    /// Whether a state is an output of O or Down, which is normed before it is added and whose channels have no exponents.
    pub(super) const fn is_output(&self, n: usize) -> bool {
        self.config.norms_outputs() && n % 2 == 1
    }
}

/// Kind, layer and input bits of the matmul that leads to state `n >= 1` of the residual stream.
pub(super) fn update(n: usize, layers: &[LayerBits]) -> (MatrixId, ByClass<i32>) {
    let layer = (n - 1) / 2;
    match n % 2 {
        1 => (MatmulKind::O.at(layer), ByClass::both(layers[layer].attention)),
        _ => (MatmulKind::Down.at(layer), layers[layer].product),
    }
}
