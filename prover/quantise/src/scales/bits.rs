//! Fractional bits of activations.

use tessera_circuits::model::{ByClass, MatmulKind, MatrixId};

/// Fractional bits of the activations of one layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerBits {
    pub norm_attn: i32,
    pub q: i32,
    pub k: i32,
    /// Queries and keys after their rotation, with their gains where heads are normed.
    pub turned_q: i32,
    pub turned_k: i32,
    pub v: i32,
    pub attention: i32,
    pub norm_mlp: i32,
    pub up: i32,
    pub product: ByClass<i32>,
}

/// Fractional bits of all activations.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    pub layers: Vec<LayerBits>,
    pub residual: Vec<ByClass<i32>>,
    pub norm_final: i32,
    pub score: i32,
    pub gate: i32,
    pub silu: i32,
    pub logit: i32,
}

impl Bits {
    /// The bits of the inputs of a matrix in the body.
    pub fn input(&self, id: MatrixId) -> i32 {
        let (kind, layer) = (id.kind(), id.layer());
        let of = |bits: fn(&LayerBits) -> i32| self.layers.get(layer).map_or(0, bits);
        match kind {
            MatmulKind::Embed => 0,
            MatmulKind::Q | MatmulKind::K | MatmulKind::V => of(|b| b.norm_attn),
            MatmulKind::O => of(|b| b.attention),
            MatmulKind::Gate | MatmulKind::Up => of(|b| b.norm_mlp),
            MatmulKind::Down => of(|b| b.product.body),
            MatmulKind::Head => self.norm_final,
        }
    }
}
