//! BERT and the text encoders that are made like it: LayerNorm after every sum, attention in both directions, learned positions and
//! token types. Their vectors are made of the last states, as `1_Pooling` says.

use serde_json::{json, Value};
use tessera_circuits::model::{Blocks, MatmulKind, ModelConfig, Output, Pooling, Reranker, Rotation, MAX_CONTEXT};

use super::description::{Description, Factors, Family, Norm};
use super::place::{Pairs, Parameter, Place};
use super::reader::Reader;
use super::standard::{self, ATTENTION, PLAIN};
use crate::config::{MODULES, POOLING};
use crate::CheckpointError;

pub const FAMILY: Family = Family {
    models: "BERT encoders (MiniLM, bge, e5, gte)",
    architecture: "BertModel",
    model_type: "bert",
    describe,
    place,
    inputs_first: false,
};

/// Steps after the encoder that are known: what is made of the last states, and that the vector is normalised.
const STEPS: [&str; 3] = ["Transformer", "Pooling", "Normalize"];

fn describe(reader: &mut Reader<'_>) -> Result<Description, CheckpointError> {
    encoder(reader, &Fields::BERT)
}

/// How a family calls the fields of its config, and what it takes where one says nothing.
pub(super) struct Fields {
    pub(super) hidden: &'static str,
    pub(super) layers: &'static str,
    pub(super) heads: &'static str,
    pub(super) ff: &'static str,
    pub(super) activation: &'static str,
    /// Types of tokens; `None` if no token has one.
    pub(super) types: Option<usize>,
    /// Rows of positions before that of the first token.
    pub(super) skipped: usize,
    /// What reads a head to which the first row goes; `None` where the last states make a vector.
    pub(super) head: Option<ReadHead>,
}

/// Reads what a reranker has beside an encoder of so many types of tokens, and how many scores it makes.
pub(super) type ReadHead = fn(&mut Reader<'_>, Option<usize>) -> Result<(Reranker, usize), CheckpointError>;

impl Fields {
    pub(super) const BERT: Self = Self {
        hidden: "hidden_size",
        layers: "num_hidden_layers",
        heads: "num_attention_heads",
        ff: "intermediate_size",
        activation: "hidden_act",
        types: Some(2),
        skipped: 0,
        head: None,
    };
}

/// An encoder whose config has fields of these names.
pub(super) fn encoder(reader: &mut Reader<'_>, fields: &Fields) -> Result<Description, CheckpointError> {
    let (hidden, heads) = (reader.required(fields.hidden)?, reader.required(fields.heads)?);
    if heads == 0 || !hidden.is_multiple_of(heads) {
        let problem = format!("{} {hidden} is not a multiple of {heads} heads", fields.hidden);
        return Err(reader.error(fields.heads, problem));
    }
    let positions = reader.integer("max_position_embeddings")?.unwrap_or(512);
    let context = positions.saturating_sub(fields.skipped);
    if context > MAX_CONTEXT {
        let detail = format!("{context} positions are more than {MAX_CONTEXT}");
        reader.refuse("max_position_embeddings", detail);
    }
    reader.only("position_embedding_type", &json!("absolute"));
    // Newer configs say it of every model; here is no head that could be the embedding.
    reader.switch("tie_word_embeddings")?;
    // Marks of a text, which the tokenizer writes.
    reader.get("bos_token_id");
    reader.get("eos_token_id");
    let types = match fields.types {
        Some(default) => Some(reader.integer("type_vocab_size")?.unwrap_or(default)),
        None => None,
    };
    let head_dim = hidden / heads;
    let (blocks, labels) = match fields.head {
        Some(head) => head(reader, types).map(|(own, labels)| (Blocks::encoder(Output::Scores(own)), Some(labels)))?,
        None => (Blocks::encoder(Output::Vector(pooling(reader, hidden)?)), None),
    };
    let config = ModelConfig {
        hidden,
        layers: reader.required(fields.layers)?,
        heads,
        kv_heads: heads,
        head_dim,
        ff: reader.required(fields.ff)?,
        vocab: reader.required("vocab_size")?,
        context: context.min(MAX_CONTEXT),
        rms_eps: reader.positive("layer_norm_eps")?.unwrap_or(1e-12),
        // No head that a key may have is longer.
        rotations: vec![Rotation::Frequencies(vec![0.0; (head_dim / 2).min(MAX_CONTEXT)])],
        rotation_of: Vec::new(),
        positions: true,
        gated: false,
        head_norms: false,
        blocks,
        bos: None,
        eos: Vec::new(),
    };
    Ok(Description {
        config,
        tied: false,
        types,
        labels,
        pairs: Pairs::halves(head_dim),
        factors: Factors {
            attention: 1.0 / (head_dim as f64).sqrt(),
            ..Factors::ONE
        },
        norm: Norm::Layer,
        gains_less_one: false,
        activation: standard::activation(reader, fields.activation, "gelu")?,
        biases: [ATTENTION, PLAIN].concat(),
        notes: Vec::new(),
    })
}

/// How the vector is made: the mean of all rows, where nothing is said.
fn pooling(reader: &mut Reader<'_>, hidden: usize) -> Result<Pooling, CheckpointError> {
    for step in reader.list(MODULES)?.unwrap_or_default() {
        let name = step.get("type").and_then(Value::as_str).unwrap_or_default();
        if !STEPS.iter().any(|known| name.ends_with(&format!(".{known}"))) {
            let detail = format!(
                "modules.json has a step {name:?}, which is none of {}",
                STEPS.join(", ")
            );
            reader.refuse("steps after the encoder", detail);
        }
    }
    if !reader.has(POOLING) {
        return Ok(Pooling::Mean);
    }
    let field = |name: &str| format!("{POOLING}.{name}");
    reader.only(&field("word_embedding_dimension"), &json!(hidden));
    // As sentence-transformers 6 writes it.
    reader.only(&field("embedding_dimension"), &json!(hidden));
    // About instructions before a text, which are tokens like others.
    reader.get(&field("include_prompt"));
    if let Some(mode) = reader.get(&field("pooling_mode")).cloned() {
        let one = mode
            .as_array()
            .filter(|list| list.len() == 1)
            .map_or(&mode, |list| &list[0]);
        return Ok(match one.as_str() {
            Some("cls") => Pooling::First,
            Some("mean") => Pooling::Mean,
            _ => {
                reader.refuse(
                    "pooling",
                    format!("pooling_mode is {mode}, and only \"mean\" and \"cls\" are supported"),
                );
                Pooling::Mean
            }
        });
    }
    for other in ["max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"] {
        reader.only(&field(&format!("pooling_mode_{other}")), &json!(false));
    }
    let first = reader.flag(&field("pooling_mode_cls_token"))?;
    let mean = reader.flag(&field("pooling_mode_mean_tokens"))?;
    match (first, mean) {
        (true, false) => Ok(Pooling::First),
        (false, true) => Ok(Pooling::Mean),
        _ => {
            let detail = "neither the mean of all tokens nor the first token alone makes the vector";
            reader.refuse("pooling", detail);
            Ok(Pooling::Mean)
        }
    }
}

pub(super) fn place(config: &ModelConfig, parameter: Parameter) -> Place {
    let of = |layer: usize, part: &str| format!("model.encoder.layer.{layer}.{part}");
    let embeddings = |part: &str| Place::whole(format!("model.embeddings.{part}"));
    // The norm that a layer reads is that after the layer before it.
    let entering = |layer: usize, end: &str| match layer.checked_sub(1) {
        Some(before) => Place::whole(of(before, &format!("output.LayerNorm.{end}"))),
        None => embeddings(&format!("LayerNorm.{end}")),
    };
    let middle = |layer: usize, end: &str| Place::whole(of(layer, &format!("attention.output.LayerNorm.{end}")));
    let (kind, layer, end) = match parameter {
        Parameter::Matrix(kind, layer) => (kind, layer, "weight"),
        Parameter::Bias(kind, layer) => (kind, layer, "bias"),
        Parameter::AttentionNorm(layer) => return entering(layer, "weight"),
        Parameter::MlpNorm(layer) => return middle(layer, "weight"),
        Parameter::FinalNorm => return entering(config.layers, "weight"),
        Parameter::NormBias(MatmulKind::Head, _) => return entering(config.layers, "bias"),
        Parameter::NormBias(MatmulKind::Up, layer) => return middle(layer, "bias"),
        Parameter::NormBias(_, layer) => return entering(layer, "bias"),
        Parameter::Positions => return embeddings("position_embeddings.weight"),
        Parameter::Types(_) => return embeddings("token_type_embeddings.weight"),
        // There are none.
        Parameter::HeadNorm(..) | Parameter::PostNorm(..) | Parameter::Head(..) => {
            return super::standard::place(config, parameter);
        }
    };
    Place::whole(match kind {
        MatmulKind::Embed => return embeddings("word_embeddings.weight"),
        // What classifiers read, and no vector.
        MatmulKind::Head => format!("model.pooler.dense.{end}"),
        MatmulKind::Q => of(layer, &format!("attention.self.query.{end}")),
        MatmulKind::K => of(layer, &format!("attention.self.key.{end}")),
        MatmulKind::V => of(layer, &format!("attention.self.value.{end}")),
        MatmulKind::O => of(layer, &format!("attention.output.dense.{end}")),
        MatmulKind::Gate | MatmulKind::Up => of(layer, &format!("intermediate.dense.{end}")),
        MatmulKind::Down => of(layer, &format!("output.dense.{end}")),
    })
}
