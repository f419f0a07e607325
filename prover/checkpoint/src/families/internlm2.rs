//! InternLM2 and 2.5: Llama with tensors of its own names, Q, K and V in one of them, by heads of keys.

use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::description::{Description, Family};
use super::place::{Parameter, Place};
use super::reader::Reader;
use super::standard::{self, Defaults, ATTENTION};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "InternLM2 and 2.5",
    architecture: "InternLM2ForCausalLM",
    model_type: "internlm2",
    describe,
    place,
    inputs_first: false,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let defaults = Defaults {
        biases: false,
        ..Defaults::LLAMA
    };
    let mut description = standard::describe(reader, &defaults)?;
    if reader.switch("bias")?.unwrap_or(true) {
        description.biases = ATTENTION.to_vec();
    }
    Ok(description)
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str, end: &str| Place::whole(format!("model.layers.{layer}.{part}.{end}"));
    // The queries of a head of keys, its keys and its values follow each other.
    let group = config.heads / config.kv_heads.max(1);
    let fused = |layer: usize, end: &str, first: usize, count: usize| {
        let rows = |heads: usize| heads.saturating_mul(config.head_dim);
        let start = |head: usize| rows(head.saturating_mul(group + 2).saturating_add(first));
        let ranges = (0..config.kv_heads).map(|head| start(head)..start(head).saturating_add(rows(count)));
        Place {
            fused: Some((rows(config.kv_heads.saturating_mul(group + 2)), ranges.collect())),
            ..of(layer, "attention.wqkv", end)
        }
    };
    let (kind, layer, end) = match parameter {
        Parameter::Matrix(kind, layer) => (kind, layer, "weight"),
        Parameter::Bias(kind, layer) => (kind, layer, "bias"),
        Parameter::AttentionNorm(layer) => return of(layer, "attention_norm", "weight"),
        Parameter::MlpNorm(layer) => return of(layer, "ffn_norm", "weight"),
        other => return standard::place(config, other),
    };
    match kind {
        MatmulKind::Embed => Place::whole("model.tok_embeddings.weight"),
        MatmulKind::Head => Place::whole("model.output.weight"),
        MatmulKind::Q => fused(layer, end, 0, group),
        MatmulKind::K => fused(layer, end, group, 1),
        MatmulKind::V => fused(layer, end, group + 1, 1),
        MatmulKind::O => of(layer, "attention.wo", end),
        MatmulKind::Gate => of(layer, "feed_forward.w1", end),
        MatmulKind::Up => of(layer, "feed_forward.w3", end),
        MatmulKind::Down => of(layer, "feed_forward.w2", end),
    }
}
