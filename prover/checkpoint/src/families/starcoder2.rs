//! StarCoder2: LayerNorm, biases, an MLP without gates, and a window.

use serde_json::json;
use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::description::{Description, Family, Norm};
use super::place::{Parameter, Place};
use super::reader::Reader;
use super::standard::{self, Defaults, Mlp, ATTENTION, PLAIN};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "StarCoder2",
    architecture: "Starcoder2ForCausalLM",
    model_type: "starcoder2",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        kv_heads_as_heads: false,
        context: 4096,
        rms_eps: 1e-5,
        tied: true,
        biases: false,
        eps: "norm_epsilon",
        mlp: Mlp::Plain("gelu_pytorch_tanh"),
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    let window = standard::window(reader, true)?;
    standard::all_windowed(reader, &mut description, window)?;
    reader.only("norm_type", &json!("layer_norm"));
    reader.only("mlp_type", &json!("default"));
    description.norm = Norm::Layer;
    if reader.switch("use_bias")?.unwrap_or(true) {
        description.biases = [ATTENTION, PLAIN].concat();
    }
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str, end: &str| Place::whole(format!("model.layers.{layer}.{part}.{end}"));
    match parameter {
        Parameter::Matrix(MatmulKind::Up, layer) => of(layer, "mlp.c_fc", "weight"),
        Parameter::Bias(MatmulKind::Up, layer) => of(layer, "mlp.c_fc", "bias"),
        Parameter::Matrix(MatmulKind::Down, layer) => of(layer, "mlp.c_proj", "weight"),
        Parameter::Bias(MatmulKind::Down, layer) => of(layer, "mlp.c_proj", "bias"),
        other => standard::place(config, other),
    }
}
