//! The instances of the batched matmul sumcheck (docs/protocol.md, sections 5 and 6).

use stwo::core::fields::qm31::SecureField;

use crate::model::MatmulKind;
use crate::shape::{Part, Shape};

/// The operand instances of the batched matmul sumcheck (docs/protocol.md, sections 5 and 6), in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Normed states times q, k, v, gate and up; variables (state, feature).
    Norm,
    /// Attention output times o; variables (layer, head, index).
    Att,
    /// MLP product times down; variables (layer, feature).
    Ff,
    /// Public one-hot matrix times embedding; variables (vocabulary).
    Embed,
    /// Queries times keys; variables (layer, head, half, index).
    Score,
    /// Probabilities times values; variables (layer, head, key).
    Value,
    /// The last normed state of the generated positions times head; variables (feature).
    Head,
}

/// All products, in order.
pub const PRODUCTS: [Product; 7] = [
    Product::Norm,
    Product::Att,
    Product::Ff,
    Product::Embed,
    Product::Score,
    Product::Value,
    Product::Head,
];

/// The last evaluations of both factors of every product, in the order of [`PRODUCTS`].
pub type Operands = [[SecureField; 2]; PRODUCTS.len()];

/// The products with weights, in order.
pub const WEIGHTED: [Product; 5] = [Product::Norm, Product::Att, Product::Ff, Product::Embed, Product::Head];

impl Product {
    /// Number of variables of this instance.
    pub fn variables(self, shape: &Shape) -> u32 {
        let p = &shape.padded;
        let lead = |part: Part| shape.full_axes(part).first().copied().unwrap_or(0);
        match self {
            Self::Norm => lead(Part::Stream) + p.hidden,
            Self::Att => lead(Part::Att) + p.q(),
            Self::Ff => lead(Part::Ff) + p.ff,
            Self::Embed if shape.chunk.is_first() => p.vocab,
            Self::Head if shape.chunk.is_last() => p.hidden,
            // No embedding, no head: the constant product 0 0.
            Self::Embed | Self::Head => 0,
            Self::Score => p.layers + p.heads + p.head_dim(),
            Self::Value => p.layers + p.heads + shape.token,
        }
    }

    /// The instance that a matmul kind belongs to, and its index on the instance's leading axis.
    pub fn of(kind: MatmulKind, layer: usize) -> (Self, usize) {
        match kind {
            MatmulKind::Embed => (Self::Embed, 0),
            MatmulKind::Q | MatmulKind::K | MatmulKind::V => (Self::Norm, 2 * layer),
            MatmulKind::Gate | MatmulKind::Up => (Self::Norm, 2 * layer + 1),
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
