//! Configs of models, each with what makes one kind of model different.

use tessera_circuits::model::{Blocks, Mask, ModelConfig, Output, Pooling, Reranker, Rotation, ScoreCap, Windows};

/// A config without any power-of-two dimension and with grouped queries.
pub fn odd_config() -> ModelConfig {
    ModelConfig {
        hidden: 20,
        layers: 2,
        heads: 3,
        kv_heads: 1,
        head_dim: 6,
        ff: 44,
        vocab: 300,
        context: 25,
        rms_eps: 1e-6,
        rotations: vec![Rotation::Base(10_000.0)],
        rotation_of: Vec::new(),
        positions: false,
        gated: true,
        head_norms: false,
        blocks: Blocks::DECODER,
        bos: Some(1),
        eos: vec![2],
    }
}

/// A config whose first and last layers are rotated by one base, the ones between them in part and not at all.
pub fn rotations_config() -> ModelConfig {
    ModelConfig {
        layers: 4,
        rotations: vec![
            Rotation::Base(10_000.0),
            Rotation::Frequencies(vec![0.75, 0.03125, 0.0]),
            Rotation::Frequencies(vec![0.0; 3]),
        ],
        rotation_of: vec![0, 1, 2, 0],
        ..odd_config()
    }
}

/// A config with all that GPT-2 and its successors have and Llama has not: learned positions, an MLP without gates, attention and MLP
/// in parallel.
pub fn plain_config() -> ModelConfig {
    ModelConfig {
        positions: true,
        gated: false,
        blocks: Blocks {
            parallel: true,
            ..Blocks::DECODER
        },
        ..odd_config()
    }
}

/// A config whose heads of queries and keys are normed, several queries to a key.
pub fn normed_config() -> ModelConfig {
    ModelConfig {
        heads: 6,
        kv_heads: 3,
        head_norms: true,
        ..odd_config()
    }
}

/// A config of which what attention and MLP add is normed, and heads, too.
pub fn post_normed_config() -> ModelConfig {
    ModelConfig {
        blocks: Blocks {
            norm_outputs: true,
            ..Blocks::DECODER
        },
        ..normed_config()
    }
}

/// The same, with scores that are capped.
pub fn capped_config() -> ModelConfig {
    ModelConfig {
        blocks: Blocks {
            norm_outputs: true,
            score_cap: Some(ScoreCap { units: 1 << 10 }),
            ..Blocks::DECODER
        },
        ..post_normed_config()
    }
}

/// A config of three layers, some of which have a window of so many keys; texts may be three windows long, and more than two blocks.
pub fn windowed_config(keys: u32, layers: impl IntoIterator<Item = usize>) -> ModelConfig {
    ModelConfig {
        layers: 3,
        context: (3 * keys as usize + 1).max(48),
        blocks: Blocks {
            mask: Mask::Windows(Windows::new(keys, layers)),
            ..Blocks::DECODER
        },
        ..odd_config()
    }
}

/// A config of three layers with few weights, whose residual stream is wide: boundaries of few rows are committed to.
pub fn wide_config(hidden: usize, context: usize) -> ModelConfig {
    ModelConfig {
        hidden,
        layers: 3,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        ff: 8,
        vocab: 40,
        context,
        ..odd_config()
    }
}

/// A config of an encoder, with texts of more than a block of tokens.
pub fn encoder_config(pooling: Pooling) -> ModelConfig {
    ModelConfig {
        context: 40,
        positions: true,
        gated: false,
        blocks: Blocks::encoder(Output::Vector(pooling)),
        bos: None,
        eos: Vec::new(),
        ..odd_config()
    }
}

/// A config of a reranker; with a separator, tokens after it are of a second type.
pub fn reranker_config(separator: Option<u32>) -> ModelConfig {
    ModelConfig {
        blocks: Blocks::encoder(Output::Scores(Reranker {
            separator,
            sigmoid: true,
        })),
        ..encoder_config(Pooling::First)
    }
}

/// A config with tiles and heads that are only partly filled.
pub fn ragged_config() -> ModelConfig {
    ModelConfig {
        hidden: 64,
        layers: 5,
        heads: 8,
        kv_heads: 4,
        head_dim: 8,
        ff: 172,
        vocab: 512,
        context: 128,
        ..odd_config()
    }
}

/// A config whose tiles are opened in bands of `2^log_band` (1 or 2), the last of a row being only partly filled.
pub fn banded_config(log_band: u32) -> ModelConfig {
    ModelConfig {
        hidden: 50 << log_band,
        heads: 4,
        kv_heads: 2,
        head_dim: 20 << log_band,
        ff: 55 << log_band,
        vocab: 185 << log_band,
        ..odd_config()
    }
}

/// The dimensions of the TinyStories fixture.
pub fn fixture_size_config() -> ModelConfig {
    ModelConfig {
        hidden: 128,
        layers: 2,
        heads: 8,
        kv_heads: 4,
        head_dim: 16,
        ff: 384,
        vocab: 2048,
        context: 512,
        ..odd_config()
    }
}
