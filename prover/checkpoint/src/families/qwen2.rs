//! Qwen2 and Qwen2.5: Llama with biases of queries, keys and values.

use serde_json::json;
use tessera_circuits::model::MatmulKind;

use super::description::{Description, Family};
use super::reader::Reader;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Qwen2, Qwen2.5 and QwQ (also DeepSeek-R1-Distill-Qwen)",
    architecture: "Qwen2ForCausalLM",
    model_type: "qwen2",
    describe,
    place: standard::place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    // Its biases are there without a switch.
    reader.only("attention_bias", &json!(true));
    let defaults = Defaults {
        kv_heads_as_heads: false,
        context: 32_768,
        biases: false,
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    standard::late_windows(reader, &mut description)?;
    description.biases = vec![MatmulKind::Q, MatmulKind::K, MatmulKind::V];
    Ok(description)
}
