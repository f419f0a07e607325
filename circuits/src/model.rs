//! The model that is proved: architecture, quantisation parameters, padded dimensions and the list of
//! weight matmuls. Everything here is public and part of the model key (docs/protocol.md, section 1).

mod blocks;
mod layers;
mod matrices;
mod mlp;
mod padding;
mod params;
mod rotation;
mod samples;
mod shifts;
mod states;
mod windows;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use params::{max_weight, ColumnNorms, LeadingRows, ModelParams, WeightBits, WeightFormat, MIN_WEIGHT_BITS};

pub use blocks::*;
pub use layers::{AttentionParams, HeadNorm, HeadNorms, LayerParams, MlpParams, NormParams, PostNorm, Writer};
pub use matrices::{LimbSet, Limbs, Matmul, MatmulKind, MatrixId, LAYER_KINDS};
pub use mlp::Activation;
pub use padding::Padded;
pub use rotation::{Rotation, MAX_ROTATIONS};
#[cfg(test)]
pub(crate) use samples::{odd_config, test_params};
pub use shifts::{ByClass, ChannelShift, RowClass, StreamShift};
pub use states::Maker;
pub use windows::Windows;

/// Side of a weight tile, log2 (docs/protocol.md, section 3).
pub const TILE_LOG: u32 = 6;
/// Side of a weight tile.
pub const TILE: usize = 1 << TILE_LOG;
/// log2 of the most tiles of a band.
pub const MAX_BAND_LOG: u32 = 2;
/// log2 of the rows of the tallest part that anybody proves: the ledger refuses taller ones, so that a verifier's memory is bounded.
pub const MAX_ROWS_LOG: u32 = 27;
/// log2 of the most cells of a chunk that anybody proves: a verifier calculates a coefficient of every unit of them, here of 2^24.
pub const MAX_CELLS_LOG: u32 = 36;
/// Smallest log2 of the number of rows of a component.
pub const MIN_ROWS_LOG: u32 = 12;
/// Most layers of a model.
pub const MAX_LAYERS: usize = 1 << 10;
/// Most channels of a head (docs/protocol.md, section 16.5).
pub const MAX_HEAD_DIM: usize = 1 << 8;
/// Largest vocabulary.
pub const MAX_VOCAB: usize = 1 << 19;
/// Largest supported context (bounds of softmax sums are derived from it).
pub const MAX_CONTEXT: usize = 1 << 13;
/// Most weights of rotations, one for every layer, token row and pair of a head, where layers have gains of their own: a verifier makes
/// them all.
const MAX_TURNS: usize = 1 << 23;
/// Most entries of all lists of a key together ([`ModelParams::entries`]): a verifier goes over each of them several times.
pub const MAX_ENTRIES: usize = 1 << 25;

/// Architecture of a model, as its family reads it from `config.json`. Dimensions are the real, unpadded ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Channels of the residual stream.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads, a divisor of the query heads.
    pub kv_heads: usize,
    /// Channels of a head, an even number.
    pub head_dim: usize,
    /// Channels of the MLP.
    pub ff: usize,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Largest number of token rows.
    pub context: usize,
    /// What the norms add to the mean square.
    pub rms_eps: f64,
    /// The rotations of queries and keys, at most [`MAX_ROTATIONS`].
    pub rotations: Vec<Rotation>,
    /// Which of them each layer has; empty if there is one only.
    pub rotation_of: Vec<u8>,
    /// Whether positions have rows of their own in the embedding, after those of the vocabulary: one for each of the context and each type of
    /// tokens.
    pub positions: bool,
    /// Whether the MLP is gated: its inputs are then multiplied by the activation of the gates, otherwise put through it.
    pub gated: bool,
    /// Whether every head of queries and keys is normed before it is rotated.
    pub head_norms: bool,
    /// How the blocks are built, and what comes out of the last one.
    pub blocks: Blocks,
    /// Token that begins a text.
    pub bos: Option<u32>,
    /// Tokens that end one.
    pub eos: Vec<u32>,
}

/// log2 of the next power of two, at least `min`.
pub fn log_ceil(n: usize, min: u32) -> u32 {
    n.max(1).next_power_of_two().trailing_zeros().max(min)
}

/// A config or parameter set that the proof system cannot represent.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum ModelError {
    #[error("{what} is {value}, but must be in {min}..={max}")]
    OutOfRange {
        what: &'static str,
        value: u64,
        min: u64,
        max: u64,
    },
    /// The value as text: not every number is equal to itself.
    #[error("{what} is {value}, but must be in {range}")]
    NumberOutOfRange {
        what: &'static str,
        value: String,
        range: &'static str,
    },
    #[error("this program does not prove this combination of features of blocks: {0}")]
    Blocks(String),
    #[error("{heads} heads are not a multiple of {kv_heads} key/value heads")]
    HeadGroups { heads: usize, kv_heads: usize },
    #[error("{what}: {got} entries, expected {expected}")]
    Length {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error(
        "{what} in layer {layer}: accumulators can reach {bound}, which with shift {shift} does not fit the field"
    )]
    Accumulator {
        what: &'static str,
        layer: usize,
        bound: u64,
        shift: u8,
    },
    #[error("{what} in layer {layer}: a bias is {bias}, but must be at most 2^30 in absolute value")]
    Bias {
        what: &'static str,
        layer: usize,
        bias: i32,
    },
    #[error(
        "{what} in layer {layer}: with the gains of the norm before it, the limbs of what is added can reach {high}, and those of accumulators {low}, which do not fit the field"
    )]
    Residual {
        what: &'static str,
        layer: usize,
        high: u64,
        low: u64,
    },
    #[error(
        "{what} in layer {layer}: no matrix has columns of {inputs} weights up to {most} with norms l1 {l1} and square {square}"
    )]
    Norms {
        what: &'static str,
        layer: usize,
        l1: u64,
        square: u64,
        inputs: usize,
        most: i32,
    },
}

pub(crate) fn range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), ModelError> {
    if value < min || value > max {
        return Err(ModelError::OutOfRange { what, value, min, max });
    }
    Ok(())
}

/// Bases of the rotation that a key may have: with them every angle is a number.
pub const ROPE_THETA: std::ops::RangeInclusive<f64> = 1.0..=1e12;
/// Frequencies of rotations that a key may have.
pub const FREQUENCY: std::ops::RangeInclusive<f64> = 0.0..=1024.0;
/// Epsilons of the norms that a key may have.
pub const RMS_EPS: std::ops::RangeInclusive<f64> = 0.0..=1.0;

fn number(
    what: &'static str,
    value: f64,
    range: &std::ops::RangeInclusive<f64>,
    text: &'static str,
) -> Result<(), ModelError> {
    // No range contains what is no number.
    match range.contains(&value) {
        true => Ok(()),
        false => Err(ModelError::NumberOutOfRange {
            what,
            value: value.to_string(),
            range: text,
        }),
    }
}

impl ModelConfig {
    /// Checks that every dimension is one the constraints were written for. Total on hostile input.
    pub fn check(&self) -> Result<(), ModelError> {
        range("hidden_size", self.hidden as u64, 2, 1 << 14)?;
        range("num_hidden_layers", self.layers as u64, 1, MAX_LAYERS as u64)?;
        range("num_attention_heads", self.heads as u64, 1, 1 << 8)?;
        range("num_key_value_heads", self.kv_heads as u64, 1, 1 << 8)?;
        range("head_dim", self.head_dim as u64, 2, MAX_HEAD_DIM as u64)?;
        range("head_dim modulo 2", (self.head_dim % 2) as u64, 0, 0)?;
        range("intermediate_size", self.ff as u64, 1, 1 << 16)?;
        range("vocab_size", self.vocab as u64, 2, MAX_VOCAB as u64)?;
        range(
            "max_position_embeddings",
            self.context as u64,
            1,
            self.max_context() as u64,
        )?;
        number("rms_norm_eps", self.rms_eps, &RMS_EPS, "0..=1")?;
        self.check_rotations()?;
        self.blocks.check()?;
        self.windows().map_or(Ok(()), |own| own.check(self))?;
        if let Some(separator) = self.reranker().and_then(|own| own.separator) {
            range("separator", separator.into(), 0, self.vocab as u64 - 1)?;
            // Types of tokens are in the rows of the positions.
            range("positions of a model with types", self.positions.into(), 1, 1)?;
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(ModelError::HeadGroups {
                heads: self.heads,
                kv_heads: self.kv_heads,
            });
        }
        Ok(())
    }

    /// The longest context that a model of these layers and heads may have.
    pub fn max_context(&self) -> usize {
        if !self.head_norms {
            return MAX_CONTEXT;
        }
        let row = self.layers.saturating_mul(self.head_dim / 2).max(1);
        // The axes of rows have a power of two.
        let rows = (MAX_TURNS / row).checked_ilog2().map_or(1, |log| 1 << log);
        rows.min(MAX_CONTEXT)
    }

    fn check_rotations(&self) -> Result<(), ModelError> {
        let count = self.rotations.len();
        range("number of rotations", count as u64, 1, MAX_ROTATIONS as u64)?;
        let length = |what, got: usize, expected| match got == expected {
            true => Ok(()),
            false => Err(ModelError::Length { what, got, expected }),
        };
        for rotation in &self.rotations {
            match rotation {
                Rotation::Base(theta) => number("rope_theta", *theta, &ROPE_THETA, "1..=10^12")?,
                Rotation::Frequencies(all) => {
                    length("frequencies of a rotation", all.len(), self.head_dim / 2)?;
                    let mut all = all.iter();
                    all.try_for_each(|f| number("frequency of a rotation", *f, &FREQUENCY, "0..=1024"))?;
                }
            }
        }
        let listed = if count == 1 { 0 } else { self.layers };
        length("rotations of layers", self.rotation_of.len(), listed)?;
        let mut layers = self.rotation_of.iter();
        layers.try_for_each(|r| range("rotation of a layer", u64::from(*r), 0, count as u64 - 1))
    }

    /// Which of the rotations a layer has. Layers beyond the real ones have the first.
    pub fn rotation(&self, layer: usize) -> usize {
        self.rotation_of.get(layer).map_or(0, |r| usize::from(*r))
    }

    /// Key/value head of (padded) query head `h`.
    pub fn kv_head(&self, h: usize) -> usize {
        if h < self.heads {
            h / (self.heads / self.kv_heads)
        } else {
            0
        }
    }

    /// Whether the MLP reads the state that attention reads.
    pub const fn is_parallel(&self) -> bool {
        self.blocks.parallel
    }

    /// How the vector of an encoder is made; `None` of models that generate tokens.
    pub const fn pooling(&self) -> Option<Pooling> {
        self.blocks.pooling()
    }

    /// What a reranker has that other encoders have not; `None` of other models.
    pub const fn reranker(&self) -> Option<Reranker> {
        self.blocks.reranker()
    }

    /// How many types of tokens there are: positions have rows of their own for each.
    pub fn token_types(&self) -> usize {
        let two = self.reranker().is_some_and(|own| own.separator.is_some());
        1 + usize::from(two)
    }

    /// The type of every token: 0 up to the first separator, which is one of them, and 1 after it (docs/protocol.md, section 16.14). All are
    /// 0 where there is one type.
    pub fn types_of(&self, ids: &[u32]) -> Vec<usize> {
        let separator = self.reranker().and_then(|own| own.separator);
        let first = separator.and_then(|separator| ids.iter().position(|id| *id == separator));
        let before = first.map_or(ids.len(), |at| at + 1);
        (0..ids.len()).map(|i| usize::from(i >= before)).collect()
    }

    /// How many rows of a text of `rows` the vector of an encoder is the sum of, from the first on; 0 of other models.
    pub fn pooled_rows(&self, rows: usize) -> usize {
        match self.pooling() {
            Some(Pooling::Mean) => rows,
            Some(Pooling::First) => rows.min(1),
            None => 0,
        }
    }

    /// Whether the model generates tokens. Other models make a vector of a text, or score it.
    pub const fn generates(&self) -> bool {
        matches!(self.blocks.output, Output::Tokens)
    }

    /// Whether a token sees itself and those before it, or the last of these. In other models it sees all tokens of the text.
    pub const fn is_causal(&self) -> bool {
        !matches!(self.blocks.mask, Mask::Full)
    }

    /// Whether attention and MLP add to the normed state before, and the sum is normed.
    pub const fn sums_first(&self) -> bool {
        matches!(self.blocks.order, Order::SumFirst)
    }

    /// Whether the outputs of attention and MLP are normed before they are added.
    pub const fn norms_outputs(&self) -> bool {
        self.blocks.norm_outputs
    }

    /// The row of the embedding of a position of a token of this type, if positions have rows there.
    pub fn position_row(&self, position: usize, token_type: usize) -> Option<usize> {
        (self.positions && position < self.context).then_some(self.vocab + token_type * self.context + position)
    }

    /// log2 of the length of axes of token rows, of a text of so many rows. A proof has the rows of the blocks of the text alone
    /// ([`crate::sizes::Sizes::text_rows`]).
    pub fn token_log(rows: usize) -> u32 {
        log_ceil(rows, 0)
    }
}

#[cfg(test)]
mod tests;
