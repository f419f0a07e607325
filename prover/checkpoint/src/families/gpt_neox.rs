//! GPT-NeoX and Pythia: LayerNorm, biases, an MLP without gates, attention and MLP in parallel, heads rotated in part, and Q, K and V
//! in one tensor, head by head.

use serde_json::json;
use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::description::{Description, Family, Norm};
use super::place::{Parameter, Place};
use super::reader::Reader;
use super::standard::{self, Defaults, Mlp, ATTENTION, PLAIN};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "GPT-NeoX and Pythia",
    architecture: "GPTNeoXForCausalLM",
    model_type: "gpt_neox",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    // Newer configs say both twice.
    let rotated = reader.positive("rotary_pct")?.unwrap_or(0.25);
    let rope_theta = reader.positive("rotary_emb_base")?.unwrap_or(10_000.0);
    reader.only("partial_rotary_factor", &json!(rotated));
    reader.only("rope_theta", &json!(rope_theta));
    let attention_bias = reader.switch("attention_bias")?.unwrap_or(true);
    let defaults = Defaults {
        rms_eps: 1e-5,
        rope_theta,
        rotated,
        biases: false,
        eps: "layer_norm_eps",
        mlp: Mlp::Plain("gelu"),
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    description.config.blocks.parallel = reader.switch("use_parallel_residual")?.unwrap_or(true);
    description.norm = Norm::Layer;
    description.biases = PLAIN.to_vec();
    if attention_bias {
        description.biases.extend(ATTENTION);
    }
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str| format!("model.layers.{layer}.{part}");
    // Queries, keys and values of a head follow each other.
    let fused = |layer: usize, end: &str, index: usize| {
        let start = |head: usize| (3 * head + index).saturating_mul(config.head_dim);
        let rows = (0..config.heads).map(|head| start(head)..start(head).saturating_add(config.head_dim));
        let all = config.heads.saturating_mul(config.head_dim).saturating_mul(3);
        Place {
            tensor: of(layer, &format!("attention.query_key_value.{end}")),
            fused: Some((all, rows.collect())),
        }
    };
    let (kind, layer, end) = match parameter {
        Parameter::Matrix(kind, layer) => (kind, layer, "weight"),
        Parameter::Bias(kind, layer) => (kind, layer, "bias"),
        Parameter::FinalNorm => return Place::whole("model.final_layer_norm.weight"),
        Parameter::NormBias(MatmulKind::Head, _) => return Place::whole("model.final_layer_norm.bias"),
        other => return standard::place(config, other),
    };
    Place::whole(match kind {
        MatmulKind::Q => return fused(layer, end, 0),
        MatmulKind::K => return fused(layer, end, 1),
        MatmulKind::V => return fused(layer, end, 2),
        MatmulKind::Embed => "model.embed_in.weight".to_string(),
        MatmulKind::Head => "model.embed_out.weight".to_string(),
        MatmulKind::O => of(layer, &format!("attention.dense.{end}")),
        MatmulKind::Gate | MatmulKind::Up => of(layer, &format!("mlp.dense_h_to_4h.{end}")),
        MatmulKind::Down => of(layer, &format!("mlp.dense_4h_to_h.{end}")),
    })
}
