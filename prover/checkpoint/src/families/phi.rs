//! Phi-1, Phi-1.5 and Phi-2: LayerNorm, biases, that of the head included, an MLP without gates, and attention and MLP in parallel
//! after one norm.

use serde_json::json;
use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::description::{Description, Family, Norm};
use super::place::{Parameter, Place};
use super::reader::Reader;
use super::standard::{self, Defaults, Mlp, ATTENTION, PLAIN};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Phi-1, Phi-1.5 and Phi-2",
    architecture: "PhiForCausalLM",
    model_type: "phi",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        rms_eps: 1e-5,
        rotated: 0.5,
        biases: false,
        eps: "layer_norm_eps",
        mlp: Mlp::Plain("gelu_new"),
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    reader.only("qk_layernorm", &json!(false));
    description.config.blocks.parallel = true;
    description.norm = Norm::Layer;
    description.biases = [ATTENTION, PLAIN, &[MatmulKind::Head]].concat();
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str, end: &str| Place::whole(format!("model.layers.{layer}.{part}.{end}"));
    let (kind, layer, end) = match parameter {
        Parameter::Matrix(kind, layer) => (kind, layer, "weight"),
        Parameter::Bias(kind, layer) => (kind, layer, "bias"),
        // One norm for both.
        Parameter::MlpNorm(layer) => return standard::place(config, Parameter::AttentionNorm(layer)),
        Parameter::NormBias(MatmulKind::Up, layer) => {
            return standard::place(config, Parameter::NormBias(MatmulKind::Q, layer));
        }
        Parameter::FinalNorm => return Place::whole("model.final_layernorm.weight"),
        Parameter::NormBias(MatmulKind::Head, _) => return Place::whole("model.final_layernorm.bias"),
        other => return standard::place(config, other),
    };
    match kind {
        MatmulKind::O => of(layer, "self_attn.dense", end),
        MatmulKind::Gate | MatmulKind::Up => of(layer, "mlp.fc1", end),
        MatmulKind::Down => of(layer, "mlp.fc2", end),
        _ => standard::place(config, parameter),
    }
}
