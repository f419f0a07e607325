//! The metadata of a model as fields of the hub's `config.json`.

use std::collections::BTreeMap;

use serde_json::{json, Map, Value as Json};

use super::names;
use super::value::{Metadata, Problem, Value};
use crate::config::HubConfig;
use crate::error::Unsupported;
use crate::families;

/// A field of `config.json`, the key that it comes from (after the architecture), and whether a model must have it.
type Field = (&'static str, &'static str, bool);

/// An architecture whose files are read.
struct Architecture {
    /// As `general.architecture` names it, and as `config.json` does.
    name: &'static str,
    model_type: &'static str,
    /// Whether the rows of q and k are in the order of the pairs that are rotated together.
    paired: bool,
    /// What has a field beside [`FIELDS`].
    fields: &'static [Field],
    /// Whether heads may be rotated in part.
    partly: bool,
    /// What tensors are called in the hub layout.
    canonical: fn(&str) -> String,
}

const RMS_EPS: Field = ("rms_norm_eps", "attention.layer_norm_rms_epsilon", true);
const WINDOW: Field = ("sliding_window", "attention.sliding_window", false);

/// One whose files say no more than those of Llama.
const fn plain(name: &'static str, paired: bool) -> Architecture {
    Architecture {
        name,
        model_type: name,
        paired,
        fields: &[RMS_EPS],
        partly: false,
        canonical: names::canonical,
    }
}

/// Another one.
const fn with(
    name: &'static str,
    fields: &'static [Field],
    partly: bool,
    canonical: fn(&str) -> String,
) -> Architecture {
    Architecture {
        fields,
        partly,
        canonical,
        ..plain(name, false)
    }
}

const GEMMA2: &str = "gemma2";
const PHI3: &str = "phi3";
const STARCODER2: &str = "starcoder2";

/// The architectures that are read.
const ARCHITECTURES: [Architecture; 11] = [
    plain("llama", true),
    plain("qwen2", false),
    plain("qwen3", false),
    plain("gemma", false),
    with(
        GEMMA2,
        &[
            RMS_EPS,
            WINDOW,
            ("attn_logit_softcapping", "attn_logit_softcapping", false),
            ("final_logit_softcapping", "final_logit_softcapping", false),
        ],
        false,
        names::post_normed,
    ),
    // The text models of Gemma 3. Scores are divided by the root of the length of a head, but in the largest model.
    Architecture {
        model_type: "gemma3_text",
        ..with(
            "gemma3",
            &[
                RMS_EPS,
                WINDOW,
                ("rope_local_base_freq", "rope.freq_base_swa", false),
                ("query_pre_attn_scalar", "attention.key_length", false),
            ],
            false,
            names::post_normed,
        )
    },
    Architecture {
        fields: &[
            RMS_EPS,
            ("attention_multiplier", "attention.scale", true),
            ("embedding_multiplier", "embedding_scale", false),
            ("residual_multiplier", "residual_scale", false),
            ("logits_scaling", "logit_scale", false),
        ],
        ..plain("granite", true)
    },
    // Q, K and V are one tensor, gate and up another.
    with(PHI3, &[RMS_EPS, WINDOW], true, names::phi3),
    with(
        STARCODER2,
        &[("norm_epsilon", "attention.layer_norm_epsilon", true), WINDOW],
        false,
        names::starcoder2,
    ),
    with(
        "stablelm",
        &[
            ("layer_norm_eps", "attention.layer_norm_epsilon", true),
            ("use_parallel_residual", "use_parallel_residual", false),
        ],
        true,
        names::canonical,
    ),
    Architecture {
        model_type: "phi",
        ..with(
            "phi2",
            &[("layer_norm_eps", "attention.layer_norm_epsilon", true)],
            true,
            names::phi2,
        )
    },
];

/// Fields of the configs of all of them.
const FIELDS: [Field; 9] = [
    ("hidden_size", "embedding_length", true),
    ("num_hidden_layers", "block_count", true),
    ("num_attention_heads", "attention.head_count", true),
    ("num_key_value_heads", "attention.head_count_kv", false),
    ("head_dim", "attention.key_length", false),
    ("intermediate_size", "feed_forward_length", true),
    ("vocab_size", "vocab_size", false),
    ("max_position_embeddings", "context_length", true),
    ("rope_theta", "rope.freq_base", false),
];

/// All architectures that are read, for messages and documents.
pub fn architectures() -> Vec<&'static str> {
    ARCHITECTURES.iter().map(|own| own.name).collect()
}

const BOS: &str = "tokenizer.ggml.bos_token_id";
/// Keys of tokens that end a generation.
const ENDS: [&str; 3] = [
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
];

/// What the metadata say of a model.
pub(super) struct Described {
    pub(super) hub: HubConfig,
    pub(super) unsupported: Vec<Unsupported>,
    /// Whether the rows of q and k are in the order of the pairs that are rotated together.
    pub(super) paired: bool,
    /// What tensors are called in the hub layout.
    pub(super) canonical: fn(&str) -> String,
}

/// The fields of `config.json`, and what has no field there. `tied` is whether there is no separate output head,
/// `biased` whether queries have a bias, `tokens` the number of tokens of the tokenizer.
pub(super) fn describe(
    metadata: &Metadata<'_>,
    (tied, biased): (bool, bool),
    tokens: Option<usize>,
) -> Result<Described, Problem> {
    let architecture = metadata.text("general.architecture")?;
    let architecture = architecture.ok_or("general.architecture is missing")?;
    let known = ARCHITECTURES.iter().find(|own| own.name == architecture);
    let mut fields = Map::new();
    let mut names = BTreeMap::new();
    // Of other architectures what most have.
    let own = known.map_or(&[RMS_EPS][..], |known| known.fields);
    for (field, key, _) in FIELDS.iter().chain(own) {
        let key = format!("{architecture}.{key}");
        if let Some(value) = metadata.get(&key) {
            fields.insert((*field).to_string(), as_json(value));
        }
        names.insert(*field, key);
    }
    // The embedding has a row per token; files without a tokenizer give the number.
    if let (None, Some(tokens)) = (fields.get("vocab_size"), tokens) {
        fields.insert("vocab_size".to_string(), json!(tokens));
    }
    if let Some(bos) = metadata.get(BOS) {
        fields.insert("bos_token_id".to_string(), as_json(bos));
    }
    let mut ends: Vec<Json> = ENDS.iter().filter_map(|key| metadata.get(key)).map(as_json).collect();
    let mut seen = Vec::new();
    ends.retain(|id| !seen.contains(id) && (seen.push(id.clone()), true).1);
    fields.insert("eos_token_id".to_string(), ends.into());
    names.extend([("bos_token_id", BOS.to_string()), ("eos_token_id", ENDS.join(", "))]);
    fields.insert("tie_word_embeddings".to_string(), tied.into());
    let of_hub = known.map_or(architecture, |known| known.model_type);
    fields.insert("model_type".to_string(), json!(of_hub));
    unwritten(architecture, biased, &mut fields);
    let mut findings = Findings {
        metadata,
        architecture,
        fields: &mut fields,
        list: Vec::new(),
    };
    findings.of_file()?;
    if let Some(known) = known {
        findings.of_model(known, tokens)?;
    } else if families::family(architecture).is_some() {
        let detail = format!("GGUF files of {architecture} are not read; the checkpoint in the hub layout can be");
        findings.add("architecture", detail);
    }
    let unsupported = findings.list;
    Ok(Described {
        hub: HubConfig::of_fields("metadata", fields, names),
        unsupported,
        paired: known.is_some_and(|known| known.paired),
        canonical: known.map_or(names::canonical, |known| known.canonical),
    })
}

/// What configs say and metadata leave to the architecture, or to the tensors.
fn unwritten(architecture: &str, biased: bool, fields: &mut Map<String, Json>) {
    let no_window = fields.get("sliding_window").and_then(Json::as_u64) == Some(0);
    let said: &[(&str, Json)] = match architecture {
        GEMMA2 => &[("query_pre_attn_scalar", json!(gemma2_scalar(fields)))],
        // No window is one of length 0.
        PHI3 if no_window => &[("sliding_window", Json::Null)],
        // All models of this name have a window, and files do not say so.
        STARCODER2 if !fields.contains_key("sliding_window") => {
            &[("use_bias", biased.into()), ("sliding_window", json!(4096))]
        }
        STARCODER2 => &[("use_bias", biased.into())],
        "stablelm" => &[("use_qkv_bias", biased.into())],
        _ => &[],
    };
    fields.extend(said.iter().map(|(field, value)| ((*field).to_string(), value.clone())));
}

/// Files do not say what scores are divided by the root of. It is the length of a head, but in the model of 46 layers, where it is
/// the part of a head in the residual stream: llama.cpp tells them apart in the same way.
fn gemma2_scalar(fields: &Map<String, Json>) -> Option<u64> {
    let of = |field: &str| fields.get(field).and_then(Json::as_u64);
    let (hidden, heads) = (of("hidden_size")?, of("num_attention_heads")?);
    match of("num_hidden_layers") {
        Some(46) => hidden.checked_div(heads),
        _ => of("head_dim").or_else(|| hidden.checked_div(heads)),
    }
}

/// Strings and arrays do not become numbers: errors say what they are.
fn as_json(value: &Value) -> Json {
    match value {
        Value::Unsigned(n) => json!(n),
        Value::Signed(n) => json!(n),
        // JSON has no other numbers.
        Value::Real(x) if x.is_finite() => json!(x),
        Value::Real(x) => json!(x.to_string()),
        Value::Flag(b) => json!(b),
        Value::Text(_) => json!("text"),
        Value::Array(array) => json!(format!("array of {}", array.len())),
    }
}

/// What is in the metadata and not in a supported model.
struct Findings<'a> {
    metadata: &'a Metadata<'a>,
    /// As `general.architecture` names it.
    architecture: &'a str,
    fields: &'a mut Map<String, Json>,
    list: Vec<Unsupported>,
}

impl Findings<'_> {
    fn add(&mut self, feature: &str, detail: String) {
        self.list.push(Unsupported {
            feature: feature.to_string(),
            detail,
            tensors: Vec::new(),
        });
    }

    /// What a file of any architecture may say of itself.
    fn of_file(&mut self) -> Result<(), Problem> {
        if let Some(kind) = self.metadata.text("general.type")?.filter(|kind| *kind != "model") {
            self.add("general.type", format!("{kind:?} is not \"model\""));
        }
        if let Some(parts) = self.metadata.unsigned("split.count")?.filter(|n| *n > 1) {
            self.add(
                "split.count",
                format!("the model is split into {parts} files; llama-gguf-split --merge makes them one"),
            );
        }
        Ok(())
    }

    /// Every key of the architecture is either used, or neutral, or refused.
    fn of_model(&mut self, known: &'static Architecture, tokens: Option<usize>) -> Result<(), Problem> {
        let all = || FIELDS.iter().chain(known.fields);
        for (_, key, _) in all().filter(|(_, _, required)| *required) {
            let key = format!("{}.{key}", self.architecture);
            if self.metadata.get(&key).is_none() {
                self.add("metadata", format!("{key} is missing"));
            }
        }
        let vocab = self.fields.get("vocab_size").and_then(Json::as_u64);
        if let (Some(tokens), Some(vocab)) = (tokens, vocab) {
            if tokens as u64 != vocab {
                let detail = format!(
                    "{}.vocab_size is {vocab}, but there are {tokens} tokens",
                    self.architecture
                );
                self.add("tokenizer", detail);
            }
        }
        let head_dim = self.head_dim();
        let prefixed: Vec<String> = self.metadata.keys().map(str::to_string).collect();
        for key in &prefixed {
            let Some(own) = key
                .strip_prefix(self.architecture)
                .and_then(|rest| rest.strip_prefix('.'))
            else {
                continue;
            };
            if all().any(|(_, field, _)| *field == own) {
                continue;
            }
            let shown = self.shown(key);
            let number = self.number(key);
            match own {
                "rope.dimension_count" | "attention.value_length" if number.is_some() && number == head_dim => {}
                "rope.dimension_count" if known.partly && self.rotated(number, head_dim) => {}
                "rope.dimension_count" => self.add("partial_rotary_factor", format!("{key} is {shown}")),
                "attention.value_length" => self.add("dimensions", format!("{key} is {shown}, not that of keys")),
                "expert_count" | "expert_used_count" | "expert_shared_count" if number == Some(0.0) => {}
                "expert_count" | "expert_used_count" | "expert_shared_count" => {
                    self.add("mixture of experts", format!("{key} is {shown}"));
                }
                "attention.sliding_window" if number == Some(0.0) => {}
                "attention.sliding_window" => self.add("sliding_window", format!("{key} is {shown}")),
                // Texts of this length are not scaled.
                "rope.scaling.original_context_length"
                    if self.architecture == PHI3 && number == self.number(&self.own("context_length")) => {}
                "rope.scale_linear" if number == Some(1.0) => {}
                _ if own.starts_with("rope.scal") => self.scaling(key, &shown)?,
                "attention.causal" if self.metadata.get(key) == Some(&Value::Flag(true)) => {}
                "use_parallel_residual" if self.metadata.get(key) == Some(&Value::Flag(false)) => {}
                // How the rows of q and k are ordered, which is the same in all files.
                "tensor_data_layout" if shown == "\"Meta AI original pth\"" => {}
                _ => self.add("unknown metadata", format!("{key} is {shown}")),
            }
        }
        Ok(())
    }

    /// Says of a head of which `rotated` channels are rotated which part that is: a quarter of a channel more, as parts are rounded down.
    fn rotated(&mut self, rotated: Option<f64>, head_dim: Option<f64>) -> bool {
        let part = rotated
            .zip(head_dim)
            .filter(|(rotated, head_dim)| *rotated > 0.0 && rotated < head_dim);
        let part = part.map(|(rotated, head_dim)| (rotated + 0.25) / head_dim);
        if let Some(part) = part {
            self.fields.insert("partial_rotary_factor".to_string(), json!(part));
        }
        part.is_some()
    }

    /// RoPE scaling, as llama.cpp reads it: none if the type is `none`; linear without a type, and then none if the factor is 1, or 0,
    /// which stands for 1. The factor of cos and sin counts in all types.
    fn scaling(&mut self, key: &str, shown: &str) -> Result<(), Problem> {
        let kind = self.metadata.text(&self.own("rope.scaling.type"))?;
        let is_one = |key: &str| matches!(self.number(&self.own(key)), Some(0.0 | 1.0));
        let one = |key: &str| self.metadata.get(&self.own(key)).is_none() || is_one(key);
        let neutral = match key.strip_prefix(&self.own("rope.")) {
            Some("scaling.attn_factor") => self.number(key) == Some(1.0),
            Some("scale_linear") => one("rope.scale_linear"),
            // By it, the longer texts of these models are rotated otherwise.
            Some("scaling.original_context_length") if self.architecture == PHI3 => false,
            _ if kind == Some("none") => true,
            _ => matches!(kind, None | Some("linear")) && one("rope.scaling.factor") && one("rope.scale_linear"),
        };
        if !neutral {
            self.add("rope_scaling", format!("{key} is {shown}"));
        }
        Ok(())
    }

    /// A key of the architecture.
    fn own(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn number(&self, key: &str) -> Option<f64> {
        match self.metadata.get(key)? {
            Value::Unsigned(n) => Some(*n as f64),
            Value::Signed(n) => Some(*n as f64),
            Value::Real(x) => Some(*x),
            _ => None,
        }
    }

    fn head_dim(&self) -> Option<f64> {
        let given = self.number(&self.own("attention.key_length"));
        given.or_else(|| {
            let [hidden, heads] = ["embedding_length", "attention.head_count"].map(|key| self.own(key));
            Some(self.number(&hidden)? / self.number(&heads)?)
        })
    }

    /// A value as a message shows it.
    fn shown(&self, key: &str) -> String {
        match self.metadata.get(key) {
            Some(Value::Text(_)) => match self.metadata.text(key) {
                Ok(Some(text)) => format!("{:?}", text.chars().take(64).collect::<String>()),
                _ => "not UTF-8".to_string(),
            },
            Some(value) => as_json(value).to_string().trim_matches('"').to_string(),
            None => "missing".to_string(),
        }
    }
}
