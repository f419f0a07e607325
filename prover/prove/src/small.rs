//! The dimensions of a small model, for the tests of this crate, which has no samples of models.

use tessera_circuits::model::{Blocks, ModelConfig, Rotation};

/// Three layers with gates and without norms of heads.
pub fn config() -> ModelConfig {
    ModelConfig {
        hidden: 48,
        layers: 3,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        ff: 96,
        vocab: 200,
        context: 64,
        rms_eps: 1e-5,
        rotations: vec![Rotation::Base(1e4)],
        rotation_of: Vec::new(),
        positions: false,
        gated: true,
        head_norms: false,
        blocks: Blocks::DECODER,
        bos: None,
        eos: Vec::new(),
    }
}
