//! The instances of the batched matmul sumcheck (docs/protocol.md, sections 6 and 16).

use stwo::core::fields::qm31::SecureField;

use crate::model::{Limbs, MatmulKind};
use crate::shape::{Part, Shape};

/// The operand instances of the batched matmul sumcheck (docs/protocol.md, sections 6 and 16), in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Normed states times those of q, k, v, gate and up that are claimed in one limb; variables (state, feature).
    Norm,
    /// Attention output times o; variables (layer, head, index).
    Att,
    /// MLP product times down; variables (layer, feature).
    Ff,
    /// Public one-hot matrix times embedding, its rows of positions included; variables (row of the embedding).
    Embed,
    /// Queries times the keys of their blocks and those before; variables (layer, head, block, half, index).
    Score,
    /// Probabilities times values; variables (layer, head, key).
    Value,
    /// The last normed state of the generated positions times head; variables (feature).
    Head,
    /// Limbs of the normed states times those of q, k, v, gate and up that are claimed in two; variables as Norm.
    NormLimbs,
    /// The activation of the gate times up projection, entry by entry, in gated MLPs; variables (layer, token, feature).
    Act,
    /// The stream times itself, entry by entry; variables (state, token, feature).
    Square,
    /// Reciprocals of softmax times the sums of exponentials, and times the exponentials; variables (layer, head, query).
    Reciprocal,
    /// Of every row of a state: its reciprocal root times its values, quotient times sum of squares, and root times root;
    /// variables (state, token, which of these).
    Root,
    /// Queries times themselves, entry by entry, where heads are normed; variables (layer, token, head, half, index).
    QuerySquare,
    /// Of every head of queries that is normed what Root has of a state; variables (layer, token, head, which of these).
    QueryRoot,
    /// As QuerySquare, of keys.
    KeySquare,
    /// As QueryRoot, of keys.
    KeyRoot,
}

/// All products, in order.
pub const PRODUCTS: [Product; 16] = [
    Product::Norm,
    Product::Att,
    Product::Ff,
    Product::Embed,
    Product::Score,
    Product::Value,
    Product::Head,
    Product::NormLimbs,
    Product::Act,
    Product::Square,
    Product::Reciprocal,
    Product::Root,
    Product::QuerySquare,
    Product::QueryRoot,
    Product::KeySquare,
    Product::KeyRoot,
];

/// The last evaluations of both factors of every product, in the order of [`PRODUCTS`].
pub type Operands<K = SecureField> = [[K; 2]; PRODUCTS.len()];

/// The products with weights, in order.
pub const WEIGHTED: [Product; 6] = [
    Product::Norm,
    Product::Att,
    Product::Ff,
    Product::Embed,
    Product::Head,
    Product::NormLimbs,
];

/// log2 of the products of a row in [`Product::Root`] and its likes, of which one is 0.
pub const ROOT_FACTORS: u32 = 2;

/// Matmuls of normed states.
const NORMED: [MatmulKind; 5] = [
    MatmulKind::Q,
    MatmulKind::K,
    MatmulKind::V,
    MatmulKind::Gate,
    MatmulKind::Up,
];

impl Product {
    /// Whether a chunk has this product. If not, it is the constant product 0 0.
    pub fn exists(self, shape: &Shape) -> bool {
        let normed = |limbs: Limbs| NORMED.iter().any(|kind| shape.limbs.of(*kind) == limbs);
        match self {
            Self::Norm => normed(Limbs::One),
            Self::NormLimbs => normed(Limbs::Two),
            Self::Embed => shape.chunk.is_first(),
            Self::Head => shape.has_logits(),
            Self::Act => shape.config.gated,
            Self::QuerySquare | Self::QueryRoot | Self::KeySquare | Self::KeyRoot => shape.config.head_norms,
            Self::Att | Self::Ff | Self::Score | Self::Value | Self::Square | Self::Reciprocal | Self::Root => true,
        }
    }

    /// Number of variables of this instance.
    pub fn variables(self, shape: &Shape) -> u32 {
        let p = &shape.padded;
        let lead = |part: Part| shape.full_axes(part).first().copied().unwrap_or(0);
        match self {
            _ if !self.exists(shape) => 0,
            Self::Norm | Self::NormLimbs => lead(Part::STREAM) + p.hidden,
            Self::Att => lead(Part::ATT) + p.q(),
            Self::Ff => lead(Part::FF) + p.ff,
            Self::Embed => p.embed,
            Self::Head => p.hidden,
            Self::Score => p.layers + p.heads + shape.blocks() + p.head_dim(),
            Self::Value | Self::Reciprocal => p.layers + p.heads + shape.token,
            Self::Act => lead(Part::FF) + shape.token + p.ff,
            Self::Square => lead(Part::STREAM) + shape.token + p.hidden,
            Self::Root => lead(Part::NORMS) + shape.token + ROOT_FACTORS,
            Self::QuerySquare => lead(Part::Q) + shape.token + p.q(),
            Self::KeySquare => lead(Part::K) + shape.token + p.kv(),
            Self::QueryRoot => lead(Part::Q_NORMS) + shape.token + p.heads + ROOT_FACTORS,
            Self::KeyRoot => lead(Part::K_NORMS) + shape.token + p.kv_heads + ROOT_FACTORS,
        }
    }

    /// The instance that a matmul kind belongs to, and its index on the instance's leading axis.
    pub fn of(kind: MatmulKind, layer: usize, shape: &Shape) -> (Self, usize) {
        let norm = match shape.limbs.of(kind) {
            Limbs::One => Self::Norm,
            Limbs::Two => Self::NormLimbs,
        };
        match kind {
            MatmulKind::Embed => (Self::Embed, 0),
            MatmulKind::Q | MatmulKind::K | MatmulKind::V => (norm, shape.config.attention_state(layer)),
            MatmulKind::Gate | MatmulKind::Up => (norm, shape.config.mlp_state(layer)),
            MatmulKind::Head => (Self::Head, 0),
            MatmulKind::O => (Self::Att, layer),
            MatmulKind::Down => (Self::Ff, layer),
        }
    }
}

/// Largest number of variables of a product.
pub fn product_variables(shape: &Shape) -> u32 {
    PRODUCTS.iter().map(|p| p.variables(shape)).max().unwrap_or(0)
}
