//! Phi-3, Phi-3.5 and Phi-4: Q, K and V in one tensor, gate and up in another; a window in some.

use serde_json::json;
use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::description::{Description, Family};
use super::place::{Parameter, Place};
use super::reader::Reader;
use super::rotation;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Phi-3, Phi-3.5 and Phi-4 (language models)",
    architecture: "Phi3ForCausalLM",
    model_type: "phi3",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        context: 4096,
        rms_eps: 1e-5,
        biases: false,
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    let original = "original_max_position_embeddings";
    match reader.rope(rotation::NEWER)? {
        None | Some((_, "default")) => {}
        // What stands beside the divisors does not count in this family.
        Some((_, "longrope" | "su")) => drop(reader.required(original)?),
        Some((_, kind)) => reader.refuse("rope_scaling", format!("{kind} is neither default nor longrope")),
    }
    reader.integer(original)?;
    reader.only("full_attn_mod", &json!(1));
    reader.only("interpolate_factor", &json!(1));
    reader.only("lm_head_bias", &json!(false));
    let window = standard::window(reader, true)?;
    standard::all_windowed(reader, &mut description, window)?;
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let Parameter::Matrix(kind, layer) = parameter else {
        return standard::place(config, parameter);
    };
    let heads = |n: usize| n.saturating_mul(config.head_dim);
    let (q, kv) = (heads(config.heads), heads(config.kv_heads));
    let attention = |index| {
        let tensor = format!("model.layers.{layer}.self_attn.qkv_proj.weight");
        Place::part(tensor, &[q, kv, kv], index)
    };
    let mlp = |index| {
        let tensor = format!("model.layers.{layer}.mlp.gate_up_proj.weight");
        Place::part(tensor, &[config.ff; 2], index)
    };
    match kind {
        MatmulKind::Q => attention(0),
        MatmulKind::K => attention(1),
        MatmulKind::V => attention(2),
        MatmulKind::Gate => mlp(0),
        MatmulKind::Up => mlp(1),
        _ => standard::place(config, parameter),
    }
}
