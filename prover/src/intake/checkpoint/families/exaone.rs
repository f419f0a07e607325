//! EXAONE 3: Llama with fields and tensors of its own names.

use serde_json::json;
use tessera_circuits::model::{Activation, MatmulKind, ModelConfig, MAX_CONTEXT};

use super::description::{Description, Factors, Family, Norm};
use super::place::{Pairs, Parameter, Place};
use super::reader::Reader;
use super::{rotation, standard};
use crate::intake::checkpoint::config::EOS;
use crate::intake::checkpoint::CheckpointError;

pub const FAMILY: Family = Family {
    models: "EXAONE 3.0 and 3.5, EXAONE Deep",
    architecture: "ExaoneForCausalLM",
    model_type: "exaone",
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
    let head_dim = hidden / heads;
    // What follows from others, and is written all the same.
    reader.only("head_dim", &json!(head_dim));
    reader.only("activation_function", &json!("silu"));
    let context = reader.integer("max_position_embeddings")?.unwrap_or(2048);
    let config = ModelConfig {
        hidden,
        layers: reader.required("num_layers")?,
        heads,
        kv_heads: reader.integer("num_key_value_heads")?.unwrap_or(heads),
        head_dim,
        ff: reader.integer("intermediate_size")?.unwrap_or(hidden.saturating_mul(4)),
        vocab: reader.required("vocab_size")?,
        context: context.min(MAX_CONTEXT),
        rms_eps: reader.positive("layer_norm_epsilon")?.unwrap_or(1e-6),
        rotations: Vec::new(),
        rotation_of: Vec::new(),
        positions: false,
        gated: true,
        parallel: false,
        bos: reader.token_ids("bos_token_id")?.first().copied(),
        eos: reader.token_ids(EOS)?,
    };
    let mut description = Description {
        config,
        tied: reader.switch("tie_word_embeddings")?.unwrap_or(true),
        pairs: Pairs::halves(head_dim),
        factors: Factors {
            attention: 1.0 / (head_dim as f64).sqrt(),
            ..Factors::ONE
        },
        norm: Norm::Rms,
        activation: Activation::Silu,
        biases: Vec::new(),
        notes: Vec::new(),
    };
    rotation::read(reader, &mut description, (10_000.0, 1.0))?;
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str| Place::whole(format!("model.h.{layer}.{part}.weight"));
    match parameter {
        Parameter::Matrix(MatmulKind::Embed, _) => Place::whole("model.wte.weight"),
        Parameter::Matrix(MatmulKind::Q, layer) => of(layer, "attn.attention.q_proj"),
        Parameter::Matrix(MatmulKind::K, layer) => of(layer, "attn.attention.k_proj"),
        Parameter::Matrix(MatmulKind::V, layer) => of(layer, "attn.attention.v_proj"),
        Parameter::Matrix(MatmulKind::O, layer) => of(layer, "attn.attention.out_proj"),
        Parameter::Matrix(MatmulKind::Gate, layer) => of(layer, "mlp.c_fc_0"),
        Parameter::Matrix(MatmulKind::Up, layer) => of(layer, "mlp.c_fc_1"),
        Parameter::Matrix(MatmulKind::Down, layer) => of(layer, "mlp.c_proj"),
        Parameter::AttentionNorm(layer) => of(layer, "ln_1"),
        Parameter::MlpNorm(layer) => of(layer, "ln_2"),
        Parameter::FinalNorm => Place::whole("model.ln_f.weight"),
        other => standard::place(config, other),
    }
}
