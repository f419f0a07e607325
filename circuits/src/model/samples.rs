//! Sample parameters, and the models of the tests of this crate.

use super::*;

/// As the odd model of the prover's tests, which this crate does not know: no dimension is a power of two.
#[cfg(test)]
pub(crate) fn odd_config(layers: usize) -> ModelConfig {
    ModelConfig {
        hidden: 20,
        layers,
        heads: 3,
        kv_heads: 1,
        head_dim: 6,
        ff: 44,
        vocab: 300,
        context: 25,
        rms_eps: 1e-6,
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

/// Parameters of a config, all valid.
#[cfg(test)]
pub(crate) fn test_params(config: &ModelConfig) -> ModelParams {
    ModelParams::sample(config).with_largest_norms(config)
}

impl ModelParams {
    /// Sample parameters of these dimensions, for tests and for estimates of memory: all channels and layers have the same shifts, there
    /// are no biases, and norms of columns are left out.
    pub fn sample(config: &ModelConfig) -> Self {
        let norm = NormParams {
            scale: 26,
            eps: ByClass { body: 1700, lead: 1800 },
            shift: ChannelShift::one(7),
        };
        let one = ChannelShift::one;
        let head_norm = HeadNorm {
            scale: 26,
            eps: 1700,
            shift: 7,
            gains: vec![1 << 14; config.head_dim],
        };
        let post_norm = config.norms_outputs().then(|| PostNorm {
            norm: norm.clone(),
            sum: StreamShift::one(5),
        });
        let attention = AttentionParams {
            norm: norm.clone(),
            q: one(3),
            k: one(3),
            v: one(3),
            head_norms: config.head_norms.then(|| HeadNorms {
                q: head_norm.clone(),
                k: head_norm,
            }),
            score: 5,
            att: 7,
            o: StreamShift::one(5),
            skip: ByClass::both(0),
            post_norm: post_norm.clone(),
        };
        let mlp = MlpParams {
            norm: norm.clone(),
            gate: one(3),
            up: one(3),
            act: ByClass::both(3),
            down: StreamShift::one(5),
            skip: ByClass::both(0),
            post_norm,
        };
        let layer = LayerParams { attention, mlp };
        Self {
            format: WeightFormat::Int8,
            weight_bits: WeightBits::all(8),
            leading: LeadingRows {
                first: 1,
                run: true,
                token: None,
            },
            exponents: Vec::new(),
            embed_exponent: 0,
            embed: StreamShift::one(1),
            layers: vec![layer; config.layers],
            norm_final: norm,
            head: one(4),
            score_bits: 10,
            gate_bits: 10,
            activation: Activation::Silu,
            silu_bits: 10,
            logit_bits: 10,
            columns: Vec::new(),
            biases: Vec::new(),
        }
    }
}
