//! Command R and Aya: LayerNorm without biases, attention and MLP in parallel after one norm, neighbouring channels of a head rotated
//! together, and a factor of the logits. In those of the second kind some layers have a window, and the others no rotation.

use serde_json::json;
use tessera_circuits::model::ModelConfig;

use super::description::{Description, Factors, Family, Norm};
use super::place::{PairOrder, Pairs, Parameter, Place};
use super::reader::Reader;
use super::rotation;
use super::standard::{self, Defaults, ATTENTION};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Command R, Aya 23 and Aya Expanse",
    architecture: "CohereForCausalLM",
    model_type: "cohere",
    describe,
    place,
    inputs_first: false,
};
pub const SECOND: Family = Family {
    models: "Command R7B and Command A",
    architecture: "Cohere2ForCausalLM",
    model_type: "cohere2",
    describe: describe_second,
    place,
    inputs_first: false,
};

/// The window of a config that says nothing of it.
const WINDOW: usize = 4096;

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    describe_as(reader, 500_000.0)
}

/// Reads the fields that both kinds share; `rope_theta` is the base of rotations where the config names none.
fn describe_as(reader: &mut Reader<'_>, rope_theta: f64) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        context: 8192,
        rms_eps: 1e-5,
        rope_theta,
        tied: true,
        biases: false,
        eps: "layer_norm_eps",
        ..Defaults::LLAMA
    };
    let biased = reader.flag("attention_bias")?;
    let mut description = standard::describe(reader, &defaults)?;
    if biased {
        description.biases = ATTENTION.to_vec();
    }
    reader.only("use_qk_norm", &json!(false));
    description.config.blocks.parallel = true;
    description.norm = Norm::Centred;
    description.pairs = Pairs {
        order: PairOrder::Neighbours,
        ..description.pairs
    };
    description.factors = Factors {
        logits: reader.positive("logit_scale")?.unwrap_or(0.0625),
        ..description.factors
    };
    Ok(description)
}

fn describe_second(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let mut description = describe_as(reader, 10_000.0)?;
    // What all of them say of themselves.
    for (field, value) in [
        ("order_of_interleaved_layers", json!("local_attn_first")),
        ("position_embedding_type", json!("rope_gptj")),
        ("rotary_pct", json!(1)),
        ("use_embedding_sharing", json!(description.tied)),
        ("use_gated_activation", json!(true)),
        ("use_parallel_block", json!(true)),
    ] {
        reader.only(field, &value);
    }
    // How memory is laid out.
    reader.get("use_parallel_embedding");
    let pattern = reader.integer("sliding_window_pattern")?.unwrap_or(4).max(1);
    // Other names of the same number, which nothing reads; newer configs name the kind of every layer.
    for older in ["_sliding_window_pattern", "layer_switch"] {
        match reader.has("layer_types") {
            true => drop(reader.get(older)),
            false => reader.only(older, &json!(pattern)),
        }
    }
    standard::own_head_dim(reader, &description);
    let layers = description.config.layers;
    let rotated = standard::sliding(reader, layers, pattern)?;
    // Without one no layer is rotated.
    let keys = standard::some_window(reader, WINDOW)?;
    standard::windowed(&mut description, keys, &rotated);
    rotation::only_some(&mut description, &rotated);
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    match parameter {
        // One norm for both.
        Parameter::MlpNorm(layer) => standard::place(config, Parameter::AttentionNorm(layer)),
        other => standard::place(config, other),
    }
}
