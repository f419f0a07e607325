//! Gemma 2: Gemma with norms of what attention and MLP add, capped scores of attention, and a window in every second layer.

use tessera_circuits::model::ScoreCap;

use super::description::{Description, Family};
use super::gemma;
use super::gemma3;
use super::reader::Reader;
use super::standard;
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Gemma 2",
    architecture: "Gemma2ForCausalLM",
    model_type: "gemma2",
    describe,
    place: gemma3::place,
    inputs_first: false,
};

/// What a config that says nothing of it has: of how many layers one sees all of a text, the window of the others, the cap of scores, and what scores are divided by the root of.
const PATTERN: usize = 2;
const WINDOW: usize = 4096;
const CAP: f64 = 50.0;
const SCALAR: f64 = 256.0;

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let mut description = gemma::describe_as(reader, &gemma::DEFAULTS)?;
    // The order of logits, and so every token, is the same with it and without.
    reader.positive("final_logit_softcapping")?;
    reader.only("use_bidirectional_attention", &serde_json::json!(false));
    let scalar = reader.positive("query_pre_attn_scalar")?.unwrap_or(SCALAR);
    description.factors.attention = 1.0 / scalar.sqrt();
    description.config.blocks.norm_outputs = true;
    description.config.blocks.score_cap = score_cap(reader)?;
    let keys = standard::some_window(reader, WINDOW)?;
    let layers = standard::sliding(reader, description.config.layers, PATTERN)?;
    standard::windowed(&mut description, keys, &layers);
    Ok(description)
}

/// Null is a model whose scores are not capped.
fn score_cap(reader: &mut Reader<'_>) -> Result<Option<ScoreCap>, CheckpointError> {
    const FIELD: &str = "attn_logit_softcapping";
    let cap = match reader.positive(FIELD)? {
        None if reader.states(FIELD) => return Ok(None),
        given => given.unwrap_or(CAP),
    };
    let own = ScoreCap::new(cap);
    if own.is_none() {
        reader.refuse(FIELD, format!("{cap} is no multiple of 1/256 up to 1024"));
    }
    Ok(own)
}
