//! GPT-2: LayerNorm, biases, learned positions, an MLP without gates, and matrices with a row per input.

use serde_json::json;
use tessera_circuits::model::{Blocks, MatmulKind, ModelConfig, Rotation, MAX_CONTEXT};

use super::description::{Description, Factors, Family, Norm};
use super::place::{Pairs, Parameter, Place};
use super::reader::Reader;
use super::standard::{self, ATTENTION, PLAIN};
use crate::config::EOS;
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "GPT-2 (also DistilGPT-2)",
    architecture: "GPT2LMHeadModel",
    model_type: "gpt2",
    describe,
    place,
    inputs_first: true,
};

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    let (hidden, heads) = (reader.required("n_embd")?, reader.required("n_head")?);
    if heads == 0 || !hidden.is_multiple_of(heads) {
        return Err(reader.error("n_head", format!("n_embd {hidden} is not a multiple of {heads} heads")));
    }
    let context = reader.integer("n_positions")?.unwrap_or(1024);
    if context > MAX_CONTEXT {
        reader.refuse(
            "n_positions",
            format!("{context} positions are more than {MAX_CONTEXT}"),
        );
    }
    // An older name of the same number, which nothing reads.
    reader.only("n_ctx", &json!(context));
    reader.only("scale_attn_by_inverse_layer_idx", &json!(false));
    // In which order and precision scores are computed.
    reader.get("reorder_and_upcast_attn");
    let scaled = reader.switch("scale_attn_weights")?.unwrap_or(true);
    let head_dim = hidden / heads;
    let config = ModelConfig {
        hidden,
        layers: reader.required("n_layer")?,
        heads,
        kv_heads: heads,
        head_dim,
        ff: reader.integer("n_inner")?.unwrap_or(hidden.saturating_mul(4)),
        vocab: reader.required("vocab_size")?,
        context: context.min(MAX_CONTEXT),
        rms_eps: reader.positive("layer_norm_epsilon")?.unwrap_or(1e-5),
        // No head that a key may have is longer.
        rotations: vec![Rotation::Frequencies(vec![0.0; (head_dim / 2).min(MAX_CONTEXT)])],
        rotation_of: Vec::new(),
        positions: true,
        gated: false,
        head_norms: false,
        blocks: Blocks::DECODER,
        bos: reader.token_ids("bos_token_id")?.first().copied(),
        eos: reader.token_ids(EOS)?,
    };
    Ok(Description {
        config,
        tied: reader.switch("tie_word_embeddings")?.unwrap_or(true),
        types: None,
        labels: None,
        pairs: Pairs::halves(head_dim),
        factors: Factors {
            attention: if scaled { 1.0 / (head_dim as f64).sqrt() } else { 1.0 },
            ..Factors::ONE
        },
        norm: Norm::Layer,
        gains_less_one: false,
        activation: standard::activation(reader, "activation_function", "gelu_new")?,
        biases: [ATTENTION, PLAIN].concat(),
        notes: Vec::new(),
    })
}

fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str| format!("model.h.{layer}.{part}");
    let fused = |layer: usize, end: &str, index| {
        Place::part(of(layer, &format!("attn.c_attn.{end}")), &[config.hidden; 3], index)
    };
    let (kind, layer, end) = match parameter {
        Parameter::Matrix(kind, layer) => (kind, layer, "weight"),
        Parameter::Bias(kind, layer) => (kind, layer, "bias"),
        Parameter::AttentionNorm(layer) => return Place::whole(of(layer, "ln_1.weight")),
        Parameter::MlpNorm(layer) => return Place::whole(of(layer, "ln_2.weight")),
        Parameter::FinalNorm => return Place::whole("model.ln_f.weight"),
        Parameter::NormBias(MatmulKind::Head, _) => return Place::whole("model.ln_f.bias"),
        Parameter::NormBias(MatmulKind::Up, layer) => return Place::whole(of(layer, "ln_2.bias")),
        Parameter::NormBias(_, layer) => return Place::whole(of(layer, "ln_1.bias")),
        Parameter::Positions => return Place::whole("model.wpe.weight"),
        Parameter::HeadNorm(..) | Parameter::PostNorm(..) | Parameter::Types(_) | Parameter::Head(..) => {
            return standard::place(config, parameter);
        }
    };
    Place::whole(match kind {
        MatmulKind::Q => return fused(layer, end, 0),
        MatmulKind::K => return fused(layer, end, 1),
        MatmulKind::V => return fused(layer, end, 2),
        MatmulKind::Embed => "model.wte.weight".to_string(),
        MatmulKind::Head => "lm_head.weight".to_string(),
        MatmulKind::O => of(layer, &format!("attn.c_proj.{end}")),
        MatmulKind::Gate | MatmulKind::Up => of(layer, &format!("mlp.c_fc.{end}")),
        MatmulKind::Down => of(layer, &format!("mlp.c_proj.{end}")),
    })
}
