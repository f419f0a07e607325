//! Where a checkpoint has a parameter, and in which order.

use std::ops::Range;

use tessera_circuits::model::{MatmulKind, ModelConfig};

/// A tensor that a model needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A weight matrix of a layer; 0 for embedding and head.
    Matrix(MatmulKind, usize),
    /// The gain of the norm before attention.
    AttentionNorm(usize),
    /// The gain of the norm before the MLP.
    MlpNorm(usize),
    /// The gain of the norm of what attention (O) or MLP (Down) adds.
    PostNorm(MatmulKind, usize),
    /// The gain of the last norm.
    FinalNorm,
    /// The gain of the norm of every head of Q or K.
    HeadNorm(MatmulKind, usize),
    /// What is added to the outputs of a matrix of a layer; 0 for the head.
    Bias(MatmulKind, usize),
    /// What is added to the output of the norm that a matrix reads: of Q, Up and Head.
    NormBias(MatmulKind, usize),
    /// The rows of the positions.
    Positions,
    /// The rows of so many types of tokens.
    Types(usize),
    /// A part of the head of a reranker, which makes so many scores.
    Head(HeadPart, usize),
}

/// The head of a reranker: a dense layer of the first row, tanh, and the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadPart {
    Dense,
    DenseBias,
    Scores,
    ScoresBias,
}

impl HeadPart {
    pub const ALL: [Self; 4] = [Self::Dense, Self::DenseBias, Self::Scores, Self::ScoresBias];
}

impl Parameter {
    /// Rows and columns in a model of these dimensions; a gain is a row.
    pub fn shape(self, config: &ModelConfig) -> (usize, usize) {
        match self {
            Self::Matrix(kind, _) => {
                let (inputs, outputs) = config.dims(kind);
                match kind {
                    MatmulKind::Embed => (config.vocab, outputs),
                    _ => (outputs, inputs),
                }
            }
            Self::HeadNorm(..) => (1, config.head_dim),
            Self::Bias(kind, _) => (1, config.dims(kind).1),
            Self::Positions => (config.context, config.hidden),
            Self::Types(types) => (types, config.hidden),
            Self::Head(HeadPart::Dense, _) => (config.hidden, config.hidden),
            Self::Head(HeadPart::DenseBias, _) => (1, config.hidden),
            Self::Head(HeadPart::Scores, labels) => (labels, config.hidden),
            Self::Head(HeadPart::ScoresBias, labels) => (1, labels),
            Self::AttentionNorm(_) | Self::MlpNorm(_) | Self::PostNorm(..) | Self::FinalNorm | Self::NormBias(..) => {
                (1, config.hidden)
            }
        }
    }
}

/// A tensor of a checkpoint, by its name in the hub layout, or rows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub tensor: String,
    /// Rows (of `Conv1D`, columns) of the stored tensor, and those that are meant, in their order; `None` if it is the whole tensor. The rows of a bias
    /// are its numbers.
    pub fused: Option<(usize, Vec<Range<usize>>)>,
}

impl Place {
    /// A whole tensor.
    pub fn whole(tensor: impl Into<String>) -> Self {
        Self {
            tensor: tensor.into(),
            fused: None,
        }
    }

    /// One of several matrices whose rows follow each other in one tensor; `rows` are those of each.
    pub fn part(tensor: impl Into<String>, rows: &[usize], index: usize) -> Self {
        let first = rows.iter().take(index).sum();
        let own = rows.get(index).copied().unwrap_or_default();
        Self {
            tensor: tensor.into(),
            fused: Some((rows.iter().sum(), std::iter::once(first..first + own).collect())),
        }
    }
}

/// Which channels of a head are rotated together. The proof has channels `i` and `i + head_dim / 2` of a pair; rows of Q
/// and K are read in that order. The first `rotated` channels are rotated, the others are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    pub rotated: usize,
    pub order: PairOrder,
}

/// How the channels that are rotated make pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairOrder {
    /// `i` and `i + rotated / 2`.
    Halves,
    /// `2 i` and `2 i + 1`.
    Neighbours,
}

impl Pairs {
    /// All channels, in halves.
    pub const fn halves(head_dim: usize) -> Self {
        Self {
            rotated: head_dim,
            order: PairOrder::Halves,
        }
    }

    /// Whether a head is stored as it is proved.
    pub fn is_plain(&self, head_dim: usize) -> bool {
        *self == Self::halves(head_dim)
    }

    /// The stored channel of the channel `x` of a head as it is proved.
    pub fn stored(&self, x: usize, head_dim: usize) -> usize {
        let half = head_dim / 2;
        let (side, pair) = (x / half, x % half);
        if 2 * pair >= self.rotated {
            // Channels that are not rotated make pairs in any order.
            return 2 * pair + side;
        }
        match self.order {
            PairOrder::Halves => pair + side * (self.rotated / 2),
            PairOrder::Neighbours => 2 * pair + side,
        }
    }
}
