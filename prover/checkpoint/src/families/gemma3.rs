//! Gemma 3 (text): Gemma with norms of heads, norms of what attention and MLP add, and layers of two kinds: most see a window and
//! have a rotation of their own.

use serde_json::json;
use tessera_circuits::model::{MatmulKind, ModelConfig, Rotation};

use super::description::{Description, Family};
use super::gemma;
use super::place::{Parameter, Place};
use super::reader::Reader;
use super::rotation;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "Gemma 3 (text)",
    architecture: "Gemma3ForCausalLM",
    model_type: "gemma3_text",
    describe,
    place,
    inputs_first: false,
};

/// What a config that says nothing of it has: of how many layers one sees all of a text, the window of the others, the base of their
/// rotation, and what scores are divided by the root of.
const PATTERN: usize = 6;
const WINDOW: usize = 4096;
const LOCAL_THETA: f64 = 10_000.0;
const SCALAR: f64 = 256.0;
/// Where newer configs have the rotations of layers that see all of a text, and of layers with a window.
const GLOBAL: &str = "rope_parameters.full_attention";
const LOCAL: &str = "rope_parameters.sliding_attention";

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        context: 131_072,
        rope: GLOBAL,
        rope_theta: 1e6,
        ..gemma::DEFAULTS
    };
    // transformers reads such an object, but not the kind in it.
    if reader.has("rope_scaling.type") && !reader.has("rope_scaling.rope_type") {
        return Err(reader.error(
            "rope_scaling.rope_type",
            "missing, and models of this family do not read type",
        ));
    }
    let mut description = gemma::describe_as(reader, &defaults)?;
    for field in ["attn_logit_softcapping", "final_logit_softcapping"] {
        reader.only(field, &json!(null));
    }
    reader.only("use_bidirectional_attention", &json!(false));
    let scalar = reader.positive("query_pre_attn_scalar")?.unwrap_or(SCALAR);
    description.factors.attention = 1.0 / scalar.sqrt();
    description.config.blocks.norm_outputs = true;
    description.config.head_norms = true;
    let own = reader.integer("_sliding_window_pattern")?;
    let pattern = reader.integer("sliding_window_pattern")?.or(own).unwrap_or(PATTERN);
    let layers = standard::sliding(reader, description.config.layers, pattern)?;
    let keys = standard::some_window(reader, WINDOW)?;
    standard::windowed(&mut description, keys, &layers);
    let theta = local_theta(reader)?;
    rotation::others(&mut description, Rotation::Base(theta), &layers);
    Ok(description)
}

/// The base of the rotation of layers with a window. Newer configs have it in an object, beside the kind, which may be no other than the
/// plain one; older ones have a field of it.
fn local_theta(reader: &mut Reader<'_>) -> Result<f64, CheckpointError> {
    let older = reader.positive("rope_local_base_freq")?;
    reader.only(&format!("{LOCAL}.rope_type"), &json!("default"));
    let newer = reader.positive(&format!("{LOCAL}.rope_theta"))?;
    Ok(newer.or(older).unwrap_or(LOCAL_THETA))
}

/// Names of the norms of what is added, and of what is before attention and MLP.
pub fn place(_: &ModelConfig, parameter: Parameter) -> Place {
    let part = |layer: usize, part: &str| Place::whole(format!("model.layers.{layer}.{part}_layernorm.weight"));
    match parameter {
        Parameter::MlpNorm(l) => part(l, "pre_feedforward"),
        Parameter::PostNorm(MatmulKind::O, l) => part(l, "post_attention"),
        Parameter::PostNorm(_, l) => part(l, "post_feedforward"),
        other => Place::whole(standard::name(other)),
    }
}
