//! SmolLM3: Llama whose every fourth layer is not rotated.

use tessera_circuits::wording::count;

use super::description::{Description, Family};
use super::reader::Reader;
use super::rotation;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "SmolLM3",
    architecture: "SmolLM3ForCausalLM",
    model_type: "smollm3",
    describe,
    place: standard::place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        kv_heads_as_heads: false,
        context: 32_768,
        rope_theta: 2_000_000.0,
        tied: true,
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    let window = standard::window(reader, false)?;
    reader.get("max_window_layers");
    let layers = description.config.layers;
    let interval = reader.integer("no_rope_layer_interval")?.unwrap_or(4).max(1);
    let rotated = match reader.list("no_rope_layers")? {
        // In spite of its name, 1 is a layer that is rotated.
        Some(list) if list.len() == layers => list.iter().map(|v| v.as_u64() != Some(0)).collect::<Vec<_>>(),
        Some(list) => {
            let problem = format!(
                "{}, but the model has {}",
                count(list.len(), "number"),
                count(layers, "layer")
            );
            return Err(reader.error("no_rope_layers", problem));
        }
        // A model of more layers is refused for its dimensions.
        None => (1..=layers.min(1 << 12)).map(|l| l % interval != 0).collect(),
    };
    if let Some(keys) = window {
        // Without a list of kinds, layers that are not rotated have it.
        let windowed = match reader.has("layer_types") {
            true => standard::sliding(reader, layers, 1)?,
            false => rotated.iter().map(|rotated| !rotated).collect(),
        };
        standard::windowed(&mut description, keys, &windowed);
    }
    rotation::only_some(&mut description, &rotated);
    Ok(description)
}
