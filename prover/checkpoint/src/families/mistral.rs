//! Mistral and Ministral: Llama with a window in some of them, and with heads of a length of their own (Nemo).

use super::description::{Description, Family};
use super::reader::Reader;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Mistral 7B, Nemo and Small",
    architecture: "MistralForCausalLM",
    model_type: "mistral",
    describe,
    place: standard::place,
    inputs_first: false,
};

/// The window of a config that says nothing of it.
const WINDOW: usize = 4096;

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        kv_heads_as_heads: false,
        context: 131_072,
        biases: false,
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    // Every layer has the window, without a switch; null is none.
    let default = (!reader.states("sliding_window")).then_some(WINDOW);
    let window = standard::window(reader, true)?.or(default);
    standard::all_windowed(reader, &mut description, window)?;
    Ok(description)
}
