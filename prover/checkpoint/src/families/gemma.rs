//! Gemma 1: Llama with gains of norms that are stored less one, embeddings times the root of their length, gates through
//! GELU, and a length of heads of its own.

use half::{bf16, f16};
use serde_json::json;

use super::description::{Description, Factors, Family};
use super::reader::Reader;
use super::standard::{self, Defaults, Mlp};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Gemma 1 (also CodeGemma)",
    architecture: "GemmaForCausalLM",
    model_type: "gemma",
    describe,
    place: standard::place,
    inputs_first: false,
};

/// What its functions are called in the field of the newer configs.
const ACT: &str = "gelu_pytorch_tanh";

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    // Null is no function here, but in the other kinds, which do not read it.
    reader.get("hidden_act");
    describe_as(reader, &DEFAULTS)
}

/// What all of its kind have in common.
pub fn describe_as(reader: &mut Reader<'_>, defaults: &Defaults) -> Result<Description, CheckpointError> {
    // The field of older configs, which nothing reads any more: it calls the same function `gelu`.
    if reader.has("hidden_act") && reader.get("hidden_act") != Some(&json!("gelu")) {
        reader.only("hidden_act", &json!(ACT));
    }
    let mut description = standard::describe(reader, defaults)?;
    description.gains_less_one = !reader.converted();
    description.factors = Factors {
        embedding: embedding_factor(reader, description.config.hidden),
        ..description.factors
    };
    Ok(description)
}

/// What a config of Gemma 1 leaves out.
pub const DEFAULTS: Defaults = Defaults {
    kv_heads_as_heads: false,
    head_dim: Some(256),
    context: 8192,
    tied: true,
    act: "hidden_activation",
    mlp: Mlp::GatedBy(ACT),
    ..Defaults::LLAMA
};

/// The root of the length of an embedding, in the numbers in which the model is kept: transformers multiplies by it in
/// these. GGUF files do not say which they were; llama.cpp does not round it.
fn embedding_factor(reader: &mut Reader<'_>, hidden: usize) -> f64 {
    let root = (hidden as f64).sqrt();
    let kept = ["dtype", "torch_dtype"].map(|field| reader.get(field).and_then(|v| v.as_str()));
    match kept.into_iter().flatten().next() {
        Some("bfloat16") => bf16::from_f64(root).to_f64(),
        Some("float16") => f16::from_f64(root).to_f64(),
        _ => f64::from(root as f32),
    }
}
