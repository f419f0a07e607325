//! The metadata of a model as fields of the hub's `config.json`.

use std::collections::BTreeMap;

use serde_json::{json, Map, Value as Json};

use super::names;
use super::value::{Metadata, Problem, Value};
use crate::intake::checkpoint::config::HubConfig;
use crate::intake::checkpoint::error::Unsupported;
use crate::intake::checkpoint::families;

/// The architectures that are read, as `general.architecture` names them, and whether the rows of q and k are in the order of
/// the pairs that are rotated together.
const ARCHITECTURES: [(&str, bool); 6] = [
    ("llama", true),
    ("qwen2", false),
    ("qwen3", false),
    ("gemma", false),
    (GEMMA2, false),
    (GEMMA3, false),
];
/// Models with a window in every second layer, capped scores, and the same other names of tensors as the next ones.
const GEMMA2: &str = "gemma2";
/// The text models of Gemma 3, which have a window in most layers, and other names of tensors.
const GEMMA3: &str = "gemma3";
/// Fields of `config.json`, the keys they come from (after the architecture), and whether a model must have them.
const FIELDS: [(&str, &str, bool); 10] = [
    ("hidden_size", "embedding_length", true),
    ("num_hidden_layers", "block_count", true),
    ("num_attention_heads", "attention.head_count", true),
    ("num_key_value_heads", "attention.head_count_kv", false),
    ("head_dim", "attention.key_length", false),
    ("intermediate_size", "feed_forward_length", true),
    ("vocab_size", "vocab_size", false),
    ("max_position_embeddings", "context_length", true),
    ("rms_norm_eps", "attention.layer_norm_rms_epsilon", true),
    ("rope_theta", "rope.freq_base", false),
];
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
/// `tokens` the number of tokens of the tokenizer.
pub(super) fn describe(metadata: &Metadata<'_>, tied: bool, tokens: Option<usize>) -> Result<Described, Problem> {
    let architecture = metadata.text("general.architecture")?;
    let architecture = architecture.ok_or("general.architecture is missing")?;
    let mut fields = Map::new();
    let mut names = BTreeMap::new();
    for (field, key, _) in FIELDS {
        let key = format!("{architecture}.{key}");
        if let Some(value) = metadata.get(&key) {
            fields.insert(field.to_string(), as_json(value));
        }
        names.insert(field, key);
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
    let of_hub = if architecture == GEMMA3 {
        "gemma3_text"
    } else {
        architecture
    };
    fields.insert("model_type".to_string(), json!(of_hub));
    if architecture == GEMMA3 {
        // Scores are divided by the root of the length of a head, but in the largest model.
        for (field, key) in [
            ("sliding_window", "attention.sliding_window"),
            ("rope_local_base_freq", "rope.freq_base_swa"),
            ("query_pre_attn_scalar", "attention.key_length"),
        ] {
            let key = format!("{architecture}.{key}");
            if let Some(value) = metadata.get(&key) {
                fields.insert(field.to_string(), as_json(value));
            }
        }
    }
    if architecture == GEMMA2 {
        for (field, key) in [
            ("sliding_window", "attention.sliding_window"),
            ("attn_logit_softcapping", "attn_logit_softcapping"),
            ("final_logit_softcapping", "final_logit_softcapping"),
        ] {
            let key = format!("{architecture}.{key}");
            if let Some(value) = metadata.get(&key) {
                fields.insert(field.to_string(), as_json(value));
            }
        }
        fields.insert("query_pre_attn_scalar".to_string(), json!(gemma2_scalar(&fields)));
    }
    let known = ARCHITECTURES.iter().find(|(name, _)| *name == architecture);
    let mut findings = Findings {
        metadata,
        architecture,
        fields: &mut fields,
        list: Vec::new(),
    };
    findings.of_file()?;
    if known.is_some() {
        findings.of_model(tokens)?;
    } else if families::family(architecture).is_some() {
        let detail = format!("GGUF files of {architecture} are not read; the checkpoint in the hub layout can be");
        findings.add("architecture", detail);
    }
    let unsupported = findings.list;
    Ok(Described {
        hub: HubConfig::of_fields("metadata", fields, names),
        unsupported,
        paired: known.is_some_and(|(_, paired)| *paired),
        canonical: match architecture {
            GEMMA2 | GEMMA3 => names::post_normed,
            _ => names::canonical,
        },
    })
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
    fn of_model(&mut self, tokens: Option<usize>) -> Result<(), Problem> {
        for (_, key, _) in FIELDS.iter().filter(|(_, _, required)| *required) {
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
            if FIELDS.iter().any(|(_, field, _)| *field == own) {
                continue;
            }
            let shown = self.shown(key);
            let number = self.number(key);
            match own {
                "rope.dimension_count" | "attention.value_length" if number.is_some() && number == head_dim => {}
                "rope.dimension_count" => self.add("partial_rotary_factor", format!("{key} is {shown}")),
                "attention.value_length" => self.add("dimensions", format!("{key} is {shown}, not that of keys")),
                "expert_count" | "expert_used_count" | "expert_shared_count" if number == Some(0.0) => {}
                "expert_count" | "expert_used_count" | "expert_shared_count" => {
                    self.add("mixture of experts", format!("{key} is {shown}"));
                }
                "attention.sliding_window" | "rope.freq_base_swa" if self.architecture == GEMMA3 => {}
                "attention.sliding_window" | "attn_logit_softcapping" | "final_logit_softcapping"
                    if self.architecture == GEMMA2 => {}
                "attention.sliding_window" if number == Some(0.0) => {}
                "attention.sliding_window" => self.add("sliding_window", format!("{key} is {shown}")),
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

    /// RoPE scaling: none if the type is `none`, or without a type if the factor is 1.
    fn scaling(&mut self, key: &str, shown: &str) -> Result<(), Problem> {
        let kind = self.metadata.text(&self.own("rope.scaling.type"))?;
        let neutral = match kind {
            Some(kind) => kind == "none" && key != self.own("rope.scale_linear"),
            None => key == self.own("rope.scaling.factor") && self.number(key) == Some(1.0),
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
