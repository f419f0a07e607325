//! The quantised model in memory.

use tessera_circuits::model::{MatmulKind, ModelConfig, ModelParams};

/// Quantised weights of one layer; every matrix is row-major `[out][in]` in real dimensions, with the
/// norm gains (and `1/sqrt(head_dim)` for q) folded in before quantisation.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LayerWeights {
    pub q: Vec<i16>,
    pub k: Vec<i16>,
    pub v: Vec<i16>,
    pub o: Vec<i16>,
    pub gate: Vec<i16>,
    pub up: Vec<i16>,
    pub down: Vec<i16>,
}

/// A quantised model: architecture, integer parameters and weights.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantisedModel {
    pub config: ModelConfig,
    pub params: ModelParams,
    /// `[vocab][hidden]`.
    pub embed: Vec<i16>,
    pub layers: Vec<LayerWeights>,
    /// `[vocab][hidden]`.
    pub head: Vec<i16>,
}

impl QuantisedModel {
    /// Weight from input channel `x` to output channel `out` (real indices).
    pub fn weight(&self, kind: MatmulKind, layer: usize, x: usize, out: usize) -> i16 {
        let (in_dim, out_dim) = self.config.dims(kind);
        let at = match kind {
            MatmulKind::Embed => x * out_dim + out,
            _ => out * in_dim + x,
        };
        self.matrix(kind, layer)[at]
    }

    /// The matrix of a kind, in the layout given at its field.
    pub fn matrix(&self, kind: MatmulKind, layer: usize) -> &[i16] {
        match kind {
            MatmulKind::Embed => &self.embed,
            MatmulKind::Q => &self.layers[layer].q,
            MatmulKind::K => &self.layers[layer].k,
            MatmulKind::V => &self.layers[layer].v,
            MatmulKind::O => &self.layers[layer].o,
            MatmulKind::Gate => &self.layers[layer].gate,
            MatmulKind::Up => &self.layers[layer].up,
            MatmulKind::Down => &self.layers[layer].down,
            MatmulKind::Head => &self.head,
        }
    }
}
