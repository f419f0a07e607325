//! Falcon 7B: LayerNorm, an MLP without gates, attention and MLP in parallel after one norm, one head of keys and values, and Q, K and V
//! in one tensor.

use serde_json::json;
use tessera_circuits::model::{Blocks, MatmulKind, ModelConfig, MAX_CONTEXT};

use super::description::{Description, Factors, Family, Norm};
use super::place::{Pairs, Parameter, Place};
use super::reader::Reader;
use super::rotation;
use super::standard;
use crate::config::EOS;
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Falcon 7B",
    architecture: "FalconForCausalLM",
    model_type: "falcon",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let (hidden, heads) = (reader.required("hidden_size")?, reader.required("num_attention_heads")?);
    if heads == 0 || !hidden.is_multiple_of(heads) {
        let problem = format!("hidden_size {hidden} is not a multiple of {heads} heads");
        return Err(reader.error("num_attention_heads", problem));
    }
    // Other Falcons order queries, keys and values otherwise, and have two norms.
    for (field, value) in [
        ("multi_query", true),
        ("parallel_attn", true),
        ("bias", false),
        ("alibi", false),
        ("new_decoder_architecture", false),
        ("apply_residual_connection_post_layernorm", false),
    ] {
        reader.only(field, &json!(value));
    }
    // Only of the other order; and of norms, where there may be two.
    reader.get("num_kv_heads");
    reader.get("num_ln_in_parallel_attn");
    let head_dim = hidden / heads;
    let context = reader.integer("max_position_embeddings")?.unwrap_or(2048);
    let config = ModelConfig {
        hidden,
        layers: reader.required("num_hidden_layers")?,
        heads,
        kv_heads: 1,
        head_dim,
        ff: reader.integer("ffn_hidden_size")?.unwrap_or(hidden.saturating_mul(4)),
        vocab: reader.required("vocab_size")?,
        context: context.min(MAX_CONTEXT),
        rms_eps: reader.positive("layer_norm_epsilon")?.unwrap_or(1e-5),
        rotations: Vec::new(),
        rotation_of: Vec::new(),
        positions: false,
        gated: false,
        head_norms: false,
        blocks: Blocks {
            parallel: true,
            ..Blocks::DECODER
        },
        bos: reader.token_ids("bos_token_id")?.first().copied(),
        eos: reader.token_ids(EOS)?,
    };
    let mut description = Description {
        config,
        tied: reader.switch("tie_word_embeddings")?.unwrap_or(true),
        types: None,
        labels: None,
        pairs: Pairs::halves(head_dim),
        factors: Factors {
            attention: 1.0 / (head_dim as f64).sqrt(),
            ..Factors::ONE
        },
        norm: Norm::Layer,
        gains_less_one: false,
        activation: standard::activation(reader, "activation", "gelu")?,
        biases: Vec::new(),
        notes: Vec::new(),
    };
    rotation::read(reader, &mut description, (rotation::NEWER, 10_000.0, 1.0))?;
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str| Place::whole(format!("model.h.{layer}.{part}"));
    let heads = |n: usize| n.saturating_mul(config.head_dim);
    let fused = |layer: usize, index| {
        let tensor = format!("model.h.{layer}.self_attention.query_key_value.weight");
        Place::part(tensor, &[heads(config.heads), heads(1), heads(1)], index)
    };
    match parameter {
        Parameter::Matrix(MatmulKind::Embed, _) => Place::whole("model.word_embeddings.weight"),
        Parameter::Matrix(MatmulKind::Q, layer) => fused(layer, 0),
        Parameter::Matrix(MatmulKind::K, layer) => fused(layer, 1),
        Parameter::Matrix(MatmulKind::V, layer) => fused(layer, 2),
        Parameter::Matrix(MatmulKind::O, layer) => of(layer, "self_attention.dense.weight"),
        Parameter::Matrix(MatmulKind::Up, layer) => of(layer, "mlp.dense_h_to_4h.weight"),
        Parameter::Matrix(MatmulKind::Down, layer) => of(layer, "mlp.dense_4h_to_h.weight"),
        Parameter::AttentionNorm(layer) | Parameter::MlpNorm(layer) => of(layer, "input_layernorm.weight"),
        Parameter::NormBias(MatmulKind::Head, _) => Place::whole("model.ln_f.bias"),
        Parameter::NormBias(_, layer) => of(layer, "input_layernorm.bias"),
        Parameter::FinalNorm => Place::whole("model.ln_f.weight"),
        other => standard::place(config, other),
    }
}
