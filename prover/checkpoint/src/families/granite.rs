//! Granite 3: Llama with four factors, all of which are folded into weights.

use super::description::{Description, Factors, Family};
use super::reader::Reader;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Granite 3 (dense)",
    architecture: "GraniteForCausalLM",
    model_type: "granite",
    describe,
    place: standard::place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let mut description = standard::describe(reader, &Defaults::LLAMA)?;
    // Scores are not divided by the root of the length of a head here.
    description.factors = Factors {
        embedding: reader.positive("embedding_multiplier")?.unwrap_or(1.0),
        attention: reader.positive("attention_multiplier")?.unwrap_or(1.0),
        residual: reader.positive("residual_multiplier")?.unwrap_or(1.0),
        logits: 1.0 / reader.positive("logits_scaling")?.unwrap_or(1.0),
        ..description.factors
    };
    Ok(description)
}
