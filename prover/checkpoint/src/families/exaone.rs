//! EXAONE 3: Llama with fields and tensors of its own names.

use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::description::{Description, Family};
use super::place::{Parameter, Place};
use super::reader::Reader;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "EXAONE 3.0 and 3.5, EXAONE Deep",
    architecture: "ExaoneForCausalLM",
    model_type: "exaone",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        tied: true,
        biases: false,
        eps: "layer_norm_epsilon",
        layers: "num_layers",
        act: "activation_function",
        ..Defaults::LLAMA
    };
    let description = standard::describe(reader, &defaults)?;
    standard::own_head_dim(reader, &description);
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
