//! Qwen3: Llama with norms of the queries and keys of every head, before they are rotated.

use super::description::{Description, Family};
use super::reader::Reader;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Qwen3",
    architecture: "Qwen3ForCausalLM",
    model_type: "qwen3",
    describe,
    place: standard::place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        kv_heads_as_heads: false,
        // GGUF files that do not say it have heads that share the residual stream.
        head_dim: (!reader.converted()).then_some(128),
        context: 32_768,
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    standard::late_windows(reader, &mut description)?;
    description.config.head_norms = true;
    Ok(description)
}
