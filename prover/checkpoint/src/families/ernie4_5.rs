//! ERNIE 4.5 (dense): Llama that rotates neighbouring channels of a head together.

use serde_json::json;

use super::description::{Description, Family};
use super::place::{PairOrder, Pairs};
use super::reader::Reader;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "ERNIE 4.5 (dense)",
    architecture: "Ernie4_5ForCausalLM",
    model_type: "ernie4_5",
    describe,
    place: standard::place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        kv_heads_as_heads: false,
        context: 131_072,
        rms_eps: 1e-5,
        rope_theta: 500_000.0,
        tied: true,
        biases: false,
        ..Defaults::LLAMA
    };
    // Without it, the length of a head is not that of the other families.
    reader.required("head_dim")?;
    let mut description = standard::describe(reader, &defaults)?;
    reader.only("use_bias", &json!(false));
    description.pairs = Pairs {
        order: PairOrder::Neighbours,
        ..description.pairs
    };
    Ok(description)
}
