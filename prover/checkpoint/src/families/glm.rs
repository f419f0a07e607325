//! GLM-4 (9B): biases of Q, K and V, half of the channels of a head rotated, as neighbours, and gate and up in one tensor.

use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::description::{Description, Family};
use super::place::{PairOrder, Pairs, Parameter, Place};
use super::reader::Reader;
use super::standard::{self, Defaults, ATTENTION};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "GLM-4 9B (of 2024)",
    architecture: "GlmForCausalLM",
    model_type: "glm",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let biased = reader.switch("attention_bias")?.unwrap_or(true);
    // Without it, the length of a head is not that of the other families.
    reader.required("head_dim")?;
    let defaults = Defaults {
        kv_heads_as_heads: false,
        context: 131_072,
        rms_eps: 1.5625e-7,
        rotated: 0.5,
        biases: false,
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    description.pairs = Pairs {
        order: PairOrder::Neighbours,
        ..description.pairs
    };
    if biased {
        let own = ATTENTION.iter().filter(|kind| **kind != MatmulKind::O);
        description.biases = own.copied().collect();
    }
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let fused = |layer: usize, index| {
        let tensor = format!("model.layers.{layer}.mlp.gate_up_proj.weight");
        Place::part(tensor, &[config.ff; 2], index)
    };
    match parameter {
        Parameter::Matrix(MatmulKind::Gate, layer) => fused(layer, 0),
        Parameter::Matrix(MatmulKind::Up, layer) => fused(layer, 1),
        other => standard::place(config, other),
    }
}
