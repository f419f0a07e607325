//! StableLM: Llama with LayerNorm, and with biases of queries, keys and values in some.

use serde_json::json;
use tessera_circuits::model::MatmulKind;

use super::description::{Description, Family, Norm};
use super::reader::Reader;
use super::standard::{self, Defaults};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "StableLM 3B, StableLM 2 1.6B",
    architecture: "StableLmForCausalLM",
    model_type: "stablelm",
    describe,
    place: standard::place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        kv_heads_as_heads: false,
        context: 4096,
        rms_eps: 1e-5,
        rotated: 0.25,
        biases: false,
        eps: "layer_norm_eps",
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    // StableLM 2 12B has norms of queries and keys.
    reader.only("qk_layernorm", &json!(false));
    // Such models have one norm in each layer, and others two.
    reader.only("use_parallel_residual", &json!(false));
    description.norm = Norm::Layer;
    if reader.flag("use_qkv_bias")? {
        description.biases = vec![MatmulKind::Q, MatmulKind::K, MatmulKind::V];
    }
    Ok(description)
}
