//! What row spaces are computed from: the architecture of a chunk, how its accumulators are claimed, and the lengths of a statement.

use crate::chunk::Chunk;
use crate::model::{log_ceil, LimbSet, Matmul, ModelConfig, Padded};
use crate::statement::Lengths;

/// log2 of the tokens of a block: scores are committed for the blocks of keys up to that of the query.
const BLOCK_LOG: u32 = 4;

/// The sizes of a chunk and of a statement of it.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// The architecture of the chunk alone: its layers, not the model's.
    pub config: ModelConfig,
    /// The layers that are proved.
    pub chunk: Chunk,
    /// Padded dimensions of the chunk.
    pub padded: Padded,
    /// log2 of the number of token rows.
    pub token: u32,
    /// Number of output tokens.
    pub outputs: usize,
    /// How accumulators are claimed.
    pub limbs: LimbSet,
}

impl Sizes {
    /// Of a chunk of a model and a statement of these lengths.
    pub fn new(model: &ModelConfig, limbs: LimbSet, chunk: &Chunk, lengths: impl Into<Lengths>) -> Self {
        let Lengths { rows, outputs } = lengths.into();
        let config = chunk.config(model);
        Self {
            padded: config.padded(),
            config,
            chunk: *chunk,
            token: ModelConfig::token_log(rows),
            outputs,
            limbs,
        }
    }

    /// Whether there are logits: of models that generate tokens, in the last chunk.
    pub const fn has_logits(&self) -> bool {
        self.chunk.is_last() && self.config.generates()
    }

    /// The architecture of the whole model.
    pub fn model(&self) -> ModelConfig {
        ModelConfig {
            layers: self.chunk.of,
            ..self.config.clone()
        }
    }

    /// The weight matrices of the chunk ([`Chunk::matmuls`]).
    pub fn matmuls(&self) -> Vec<Matmul> {
        self.chunk.matmuls(&self.model())
    }

    /// log2 of the padded number of output tokens.
    pub fn output(&self) -> u32 {
        log_ceil(self.outputs, 0)
    }

    /// Number of residual states.
    pub fn states(&self) -> usize {
        self.config.states()
    }

    /// log2 of the tokens of a block.
    pub const fn block(&self) -> u32 {
        if self.token < BLOCK_LOG {
            self.token
        } else {
            BLOCK_LOG
        }
    }

    /// log2 of the number of blocks of tokens.
    pub const fn blocks(&self) -> u32 {
        self.token - self.block()
    }
}
