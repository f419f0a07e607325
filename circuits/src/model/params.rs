//! The integer parameters of a model: exponents, bits of weights, leading rows, lists of a key (docs/protocol.md, sections 1 and 2).

use serde::{Deserialize, Serialize};

use super::{
    Activation, ChannelShift, HeadNorm, LayerParams, Maker, MatmulKind, MatrixId, ModelConfig, NormParams, StreamShift,
    LAYER_KINDS,
};

/// How quantised weights are stored: bytes per weight. How many bits of them a matrix uses is
/// [`ModelParams::weight_bits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeightFormat {
    /// One byte: up to 8 bits.
    Int8,
    /// Two bytes: up to 14 bits.
    Int16,
}

impl WeightFormat {
    /// The most bits of a weight, the sign included.
    pub const fn max_bits(self) -> u8 {
        match self {
            Self::Int8 => 8,
            Self::Int16 => 14,
        }
    }

    /// Largest absolute value that a weight of any matrix may have.
    pub const fn max_weight(self) -> i32 {
        max_weight(self.max_bits())
    }
}

/// Fewest bits of a weight.
pub const MIN_WEIGHT_BITS: u8 = 2;

/// Largest absolute value of a weight of `bits` bits: weights are symmetric.
pub const fn max_weight(bits: u8) -> i32 {
    (1 << (bits - 1)) - 1
}

/// Bits of the weights by kind of matmul, sign included. A key has a number for every kind, those that the model does not have included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightBits([u8; MatmulKind::ALL.len()]);

impl WeightBits {
    /// The same bits for all kinds.
    pub const fn all(bits: u8) -> Self {
        Self([bits; MatmulKind::ALL.len()])
    }

    /// The bits that a function gives to each kind.
    pub fn by_kind(bits: impl Fn(MatmulKind) -> u8) -> Self {
        Self(MatmulKind::ALL.map(bits))
    }

    /// The bits of a kind.
    pub fn of(&self, kind: MatmulKind) -> u8 {
        self.0.get(kind as usize).copied().unwrap_or(MIN_WEIGHT_BITS)
    }

    /// Gives a kind other bits.
    pub fn set(&mut self, kind: MatmulKind, bits: u8) {
        *self = Self::by_kind(|other| if other == kind { bits } else { self.of(other) });
    }

    /// The bits of all kinds.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().copied()
    }
}

/// Which rows are leading: it follows from the token ids alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadingRows {
    /// So many first rows always are.
    pub first: u8,
    /// Whether the rows of an initial run of equal ids are, too: each of them attends to equal values only, so their
    /// streams are the same.
    pub run: bool,
    /// The token with which a text must begin for any of its rows to be leading; `None`: with whichever.
    pub token: Option<u32>,
}

impl LeadingRows {
    /// Number of leading rows among rows of these ids.
    pub fn count(&self, ids: &[u32]) -> usize {
        if self.token.is_some_and(|token| ids.first() != Some(&token)) {
            return 0;
        }
        let run = ids.iter().take_while(|id| Some(*id) == ids.first()).count();
        let first = usize::from(self.first).min(ids.len());
        match self.run {
            true => first.max(run),
            false => first,
        }
    }
}

/// Norms of the columns of a weight matrix, a column being the weights of one output channel: of each norm the largest of
/// all columns. What a matmul can reach follows from them (docs/protocol.md, section 2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnNorms {
    /// Sum of the absolute values.
    pub l1: u64,
    /// Sum of the squares.
    pub square: u64,
}

impl ColumnNorms {
    /// Those of a column of `inputs` weights that are all as large as they may be.
    pub fn largest(inputs: usize, max_weight: i32) -> Self {
        let most = u64::from(max_weight.unsigned_abs());
        let l1 = (inputs as u64).saturating_mul(most);
        Self {
            l1,
            square: l1.saturating_mul(most),
        }
    }

    /// Of each norm the larger one.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            l1: self.l1.max(other.l1),
            square: self.square.max(other.square),
        }
    }
}

/// All integer parameters of the quantised model: they define the integer semantics completely,
/// together with the weights and the lookup tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelParams {
    /// What a weight is stored as.
    pub format: WeightFormat,
    /// Bits of the weights: a weight is at most `2^(bits - 1) - 1` in absolute value.
    pub weight_bits: WeightBits,
    /// Which rows are leading.
    pub leading: LeadingRows,
    /// Exponents of the residual stream: channel `c` of a state is stored in units `2^exponents[c]` times as large as the
    /// state's. One per channel, or none at all.
    pub exponents: Vec<u8>,
    /// The one-hot matrix of the embedding has entries `2^(embed_exponent + 8)`, so the accumulator is
    /// `2^(8 + embed_exponent) * E[id]`; at most 13.
    pub embed_exponent: u8,
    /// Embedding into the residual stream.
    pub embed: StreamShift,
    /// The layers, in order.
    pub layers: Vec<LayerParams>,
    /// The norm before the head.
    pub norm_final: NormParams,
    /// Logits.
    pub head: ChannelShift,
    /// Fractional bits of attention scores; the exp table is `round(2^15 exp(-d / 2^score_bits))`.
    pub score_bits: i32,
    /// The function of the MLP's table.
    pub activation: Activation,
    /// Fractional bits of what the table is looked up for: gates, or the inputs of an MLP without gates.
    pub gate_bits: i32,
    /// Fractional bits of the output of the table.
    pub silu_bits: i32,
    /// Fractional bits of the logits.
    pub logit_bits: i32,
    /// Norms of the columns of all matrices but the embedding: seven for every layer ([`LAYER_KINDS`]), and the head's.
    pub columns: Vec<ColumnNorms>,
    /// What is added to the accumulators of the same matrices, in their units: a number for every (real) output channel, or none.
    /// No list at all if no matrix has any. In encoders, and where what attention and MLP add is normed, gains of norms follow
    /// ([`ModelParams::gain`]): a list for every state, which is empty where a state is added as it is. In rerankers the lists of the head follow
    /// ([`ModelParams::reranker_head`]).
    pub biases: Vec<Vec<i32>>,
}

impl ModelParams {
    /// Largest absolute value of a weight of this kind.
    pub fn max_weight(&self, kind: MatmulKind) -> i32 {
        max_weight(self.weight_bits.of(kind).clamp(MIN_WEIGHT_BITS, self.format.max_bits()))
    }

    /// Norms of the columns of a matrix; none of the embedding, and of what the model does not have.
    pub fn norms(&self, id: MatrixId) -> Option<ColumnNorms> {
        self.columns.get(self.place(id)?).copied()
    }

    /// The biases of a matrix; none of one that has none.
    pub fn bias(&self, id: MatrixId) -> &[i32] {
        let place = self.place(id);
        place.and_then(|at| self.biases.get(at)).map_or(&[], Vec::as_slice)
    }

    /// The gains of the norm of a state of an encoder, or of an output that is normed before it is added, a number for every channel: in
    /// units in which the normed state is added to the next accumulators, or, of the last state of an encoder, makes the vector.
    pub fn gain(&self, state: usize) -> &[i32] {
        self.biases.get(self.gain_list(state)).map_or(&[], Vec::as_slice)
    }

    /// Where the lists have the gains of a state.
    pub(crate) fn gain_list(&self, state: usize) -> usize {
        self.layers.len() * LAYER_KINDS.len() + 1 + state
    }

    /// What the integers of an encoder's vector stand for, in units of `2^-logit_bits / (channels rows)`: each, less the mean of all that
    /// rounding has left, times the gain of its channel, and the bias once for each row that was added up.
    pub fn embedding(&self, vector: &[i32], rows: usize) -> Vec<i128> {
        let (gains, biases) = (self.gain(2 * self.layers.len()), self.bias(MatrixId::HEAD));
        let (width, rows) = (vector.len() as i128, rows as i128);
        let sum: i128 = vector.iter().map(|v| i128::from(*v)).sum();
        let channels = vector.iter().zip(gains).zip(biases);
        let of = |((v, gain), bias): ((&i32, &i32), &i32)| {
            (i128::from(*v) * width - sum) * i128::from(*gain) + i128::from(*bias) * width * rows
        };
        channels.map(of).collect()
    }

    /// Output channels of a matrix that may differ in shift or bias, with their biases; the first of them if none do.
    pub fn rounded_channels<'a>(
        &'a self,
        id: MatrixId,
        shift: &ChannelShift,
    ) -> impl Iterator<Item = (usize, i32)> + 'a {
        let bias = self.bias(id);
        let of = |out: usize| (out, bias.get(out).copied().unwrap_or(0));
        (0..shift.0.len().max(bias.len())).map(of)
    }

    /// Where the lists have a matrix.
    fn place(&self, id: MatrixId) -> Option<usize> {
        let (kind, layer) = (id.kind(), id.layer());
        match LAYER_KINDS.iter().position(|k| *k == kind) {
            Some(at) if layer < self.layers.len() => Some(layer * LAYER_KINDS.len() + at),
            None if kind == MatmulKind::Head => Some(self.layers.len() * LAYER_KINDS.len()),
            _ => None,
        }
    }

    /// The same parameters with the largest norms that columns of their bits can have: before the weights are known.
    #[must_use]
    pub fn with_largest_norms(self, config: &ModelConfig) -> Self {
        let layers = (0..config.layers).flat_map(|_| LAYER_KINDS);
        let columns = layers.chain([MatmulKind::Head]).map(|kind| match kind {
            MatmulKind::Gate if !config.gated => ColumnNorms::default(),
            MatmulKind::Head if !config.generates() => ColumnNorms::default(),
            _ => ColumnNorms::largest(config.dims(kind).0, self.max_weight(kind)),
        });
        Self {
            columns: columns.collect(),
            ..self
        }
    }

    /// Entries of all lists of shifts, gains, biases and exponents.
    pub fn entries(&self) -> usize {
        let layer = |own: &LayerParams| {
            let (attention, mlp) = (&own.attention, &own.mlp);
            let read = [&attention.q, &attention.k, &attention.v, &mlp.gate, &mlp.up];
            let written = [&attention.o.body, &mlp.down.body];
            let norms = own.norms().map(|norm| &norm.shift);
            let outputs = own.post_norms().flat_map(|own| [&own.norm.shift, &own.sum.body]);
            let shifts = read.into_iter().chain(written).chain(norms).chain(outputs);
            let heads = attention.head_norms.iter().flat_map(|own| [&own.q, &own.k]);
            shifts.map(|own| own.0.len()).sum::<usize>() + heads.map(|own| own.gains.len()).sum::<usize>()
        };
        let ends = [&self.embed.body, &self.head, &self.norm_final.shift];
        let ends = ends.map(|own| own.0.len()).iter().sum::<usize>() + self.exponents.len();
        let biases = self.biases.iter().map(Vec::len).sum::<usize>();
        ends + biases + self.layers.iter().map(layer).sum::<usize>()
    }

    /// The norm of the heads that a matmul makes; none where heads are not normed.
    pub fn head_norm(&self, id: MatrixId) -> Option<&HeadNorm> {
        let (kind, layer) = (id.kind(), id.layer());
        self.layers.get(layer)?.attention.head_norms.as_ref()?.of(kind)
    }

    /// Whether what attention and MLP add is normed before. Every layer of checked parameters says the same.
    pub fn norms_outputs(&self) -> bool {
        self.layers
            .first()
            .is_some_and(|layer| layer.attention.post_norm.is_some())
    }

    /// What makes a state.
    pub fn maker(&self, state: usize) -> Maker {
        Maker::of(state, self.norms_outputs())
    }

    /// Whether a state is the output of O or Down alone, which is normed before it is added.
    pub fn is_output(&self, state: usize) -> bool {
        self.norms_outputs() && state % 2 == 1
    }

    /// Exponents of the channels of a state; none if all are 0, as those of outputs are.
    pub fn exponents_of(&self, state: usize) -> &[u8] {
        match self.is_output(state) {
            true => &[],
            false => &self.exponents,
        }
    }

    /// Exponent of channel `c` of a state.
    pub fn exponent_of(&self, state: usize, c: usize) -> u8 {
        self.exponents_of(state).get(c).copied().unwrap_or(0)
    }

    /// Fractional bits that no output of a norm of the residual stream exceeds, where the root mean square of all of them is 1: those of
    /// the channels in the finest units.
    pub fn normed_bits(&self, norm: &NormParams) -> i32 {
        let channels = 0..self.exponents.len().max(norm.shift.0.len());
        let totals = channels.map(|c| 8 + i32::from(norm.shift.at(c)) + i32::from(self.exponent(c)));
        i32::from(norm.scale) - totals.min().unwrap_or(0)
    }

    /// Exponent of channel `c` of the residual stream.
    pub fn exponent(&self, c: usize) -> u8 {
        self.exponents.get(c).copied().unwrap_or(0)
    }
}
