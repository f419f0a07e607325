//! Llama, and all models that are published as such.

use super::description::{Description, Family};
use super::reader::Reader;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Llama 1 to 3.x (also SmolLM2, TinyLlama, Yi, Falcon 3, DeepSeek-R1-Distill-Llama)",
    architecture: "LlamaForCausalLM",
    model_type: "llama",
    describe,
    place: standard::place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    standard::describe(reader, &Defaults::LLAMA)
}
