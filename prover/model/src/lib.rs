//! The quantised model: its weights in memory or mapped ([`weights`], [`tiles`]), its directory on disk ([`directory`]), its forward pass in
//! exact integers ([`forward`]), and generation, of one text ([`generate`]) and of several at a time ([`together`]). A proof is about this model, not about the float model of a checkpoint.

mod awake;
pub mod directory;
pub mod forward;
pub mod generate;
pub mod passes;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod tiles;
pub mod together;
pub mod weights;

use tessera_circuits::model::{Matmul, MatmulKind, MatrixId, ModelConfig, ModelParams, TILE};

use self::tiles::TileSource;
use self::weights::{channels, natural_index, PackedWeights};

/// A quantised model: architecture, integer parameters and weights, the norm gains (and `1/sqrt(head_dim)`
/// for q) folded in before quantisation.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantisedModel {
    pub config: ModelConfig,
    pub params: ModelParams,
    pub weights: PackedWeights,
    /// Of the config, in file order.
    matmuls: Vec<Matmul>,
}

impl QuantisedModel {
    /// A model.
    ///
    /// # Panics
    /// If the weights are not those of the config's dimensions and the format of the parameters.
    pub fn new(config: ModelConfig, params: ModelParams, weights: PackedWeights) -> Self {
        assert_eq!(
            (weights.tiles(), weights.format()),
            (config.total_tiles(), params.format),
            "weights of the model"
        );
        Self {
            matmuls: config.matmuls(),
            config,
            params,
            weights,
        }
    }

    /// A matrix with its tiles.
    pub fn matmul(&self, id: MatrixId) -> &Matmul {
        let (kind, layer) = (id.kind(), id.layer());
        let kinds = self.config.layer_kinds();
        let at = match kinds.clone().position(|k| k == kind) {
            Some(at) => 1 + layer * kinds.count() + at,
            None if kind == MatmulKind::Embed => 0,
            None => self.matmuls.len() - 1,
        };
        &self.matmuls[at]
    }

    /// Weight from input channel `x` to output channel `out` (real indices).
    pub fn weight(&self, id: MatrixId, x: usize, out: usize) -> i16 {
        let kind = id.kind();
        let m = self.matmul(id);
        let (x, y) = (self.config.pad_in(kind, x), self.config.pad_out(kind, out));
        let t = m.first_tile + x / TILE * m.out_blocks + y / TILE;
        tiles::weight(self.params.format, self.weights.bytes(t..t + 1), x % TILE, y % TILE)
    }

    /// A whole matrix in real dimensions: `[vocab][hidden]` for the embedding, else `[out][in]`.
    pub fn matrix(&self, id: MatrixId) -> Vec<i16> {
        let m = self.matmul(id);
        let (inputs, outputs) = channels(&self.config, m);
        let mut matrix = vec![0; m.in_dim * m.out_dim];
        let mut tile = [0; tiles::TILE_WEIGHTS];
        for t in 0..m.tiles() {
            self.weights.tile(m.first_tile + t, &mut tile);
            let (rows, columns) = (&inputs[t / m.out_blocks * TILE..], &outputs[t % m.out_blocks * TILE..]);
            for (i, w) in tile.iter().enumerate() {
                if let (Some(x), Some(y)) = (rows[i / TILE], columns[i % TILE]) {
                    matrix[natural_index(m, x, y)] = *w;
                }
            }
        }
        matrix
    }
}
