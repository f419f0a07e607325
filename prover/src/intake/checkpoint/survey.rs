//! What a checkpoint contains and what of it cannot be proved.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tessera_circuits::model::{ModelConfig, ModelError};

use super::config::{HubConfig, ARCHITECTURE};
use super::storage::{Info, Storage};
use super::{expected_tensors, CheckpointError, Names, Source};

/// Something in a checkpoint that the proof system does not represent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// Name of the feature, as the config names it where it does.
    pub feature: String,
    /// What was found.
    pub detail: String,
    /// Every tensor concerned, by its name in the checkpoint.
    pub tensors: Vec<String>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.feature, self.detail)?;
        match self.tensors.as_slice() {
            [] => Ok(()),
            tensors => write!(f, " [{}]", tensors.join(", ")),
        }
    }
}

/// One stored tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorSummary {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<usize>,
}

/// A report about a checkpoint, whether supported or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    pub architecture: String,
    /// Dimensions and constants; `None` if the config does not give them all; `unsupported` says what
    /// is wrong with them.
    pub config: Option<ModelConfig>,
    pub tied_embeddings: bool,
    pub tensors: Vec<TensorSummary>,
    pub unsupported: Vec<Unsupported>,
    /// Tensors that a supported model of these dimensions has and this checkpoint lacks.
    pub missing: Vec<String>,
    /// Tensors whose shape is not that of the dimensions: what is wrong with each.
    pub misshapen: Vec<String>,
}

impl Survey {
    /// Surveys a checkpoint directory or file. Errors only if the files cannot be read as a checkpoint at all.
    pub fn of(path: &Path) -> Result<Self, CheckpointError> {
        Ok(Self::new(&Source::open(path)?))
    }

    /// Whether the model can be quantised and proved.
    pub fn is_supported(&self) -> bool {
        self.unsupported.is_empty() && self.missing.is_empty() && self.misshapen.is_empty()
    }

    pub(super) fn new(source: &Source) -> Self {
        let (hub, storage) = (&source.hub, &source.storage);
        let names = Names::of(storage);
        let mut findings = Findings {
            names: &names,
            list: source.unsupported.clone(),
        };
        findings.features(hub);
        let expected = findings
            .dimensions(hub)
            .as_ref()
            .map(|c| expected_tensors(c, hub.tied()));
        let (mut missing, mut misshapen) = (Vec::new(), Vec::new());
        for (name, shape) in expected.iter().flatten() {
            match names.resolve(name, hub.tied()).and_then(|stored| storage.info(stored)) {
                None => missing.push(name.clone()),
                Some(info) if info.shape != *shape => {
                    misshapen.push(format!("{name} has shape {:?}, expected {shape:?}", info.shape));
                }
                Some(_) => {}
            }
        }
        findings.tensors(storage, expected.as_ref());
        Self {
            architecture: hub.architecture(),
            config: hub.model().ok(),
            tied_embeddings: hub.tied(),
            tensors: storage.tensors().map(|(name, info)| summary(name, info)).collect(),
            unsupported: findings.list,
            missing,
            misshapen,
        }
    }
}

fn summary(name: &str, info: &Info) -> TensorSummary {
    TensorSummary {
        name: name.to_string(),
        dtype: info.encoding.to_string(),
        shape: info.shape.clone(),
    }
}

/// Projections of attention and of the MLP, as parts of tensor names.
const ATTENTION: [&str; 4] = ["q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"];
const ROTATED: [&str; 2] = ["q_proj.weight", "k_proj.weight"];

/// Kinds of tensor that are not part of the supported architecture: feature, what, parts of names.
const FOREIGN: [(&str, &str, &[&str]); 7] = [
    (
        "attention_bias",
        "attention projections have biases",
        &[
            "q_proj.bias",
            "k_proj.bias",
            "v_proj.bias",
            "o_proj.bias",
            "qkv_proj.bias",
        ],
    ),
    (
        "mlp_bias",
        "MLP projections have biases",
        &["gate_proj.bias", "up_proj.bias", "down_proj.bias"],
    ),
    ("qk_norm", "queries or keys are normalised", &["q_norm.", "k_norm."]),
    ("norm bias", "normalisations have biases", &["norm.bias"]),
    (
        "mixture of experts",
        "the MLP is a mixture of experts",
        &[
            "block_sparse_moe.",
            "mlp.experts.",
            "mlp.router.",
            "mlp.gate.",
            "shared_expert",
        ],
    ),
    (
        "quantised weights",
        "weights are stored in a quantised format",
        &[
            ".qweight",
            ".qzeros",
            ".scales",
            ".g_idx",
            "weight_scale",
            ".absmax",
            ".quant_map",
            "weight_packed",
        ],
    ),
    (
        "rope_scaling",
        "rotary frequencies are scaled one by one",
        &["other.rope_freqs", "other.rope_factors"],
    ),
];

/// What is wrong with a type that is not read.
const NOT_READ: &str = "not F32, F16 or BF16, nor, in a GGUF file, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K";

struct Findings<'a> {
    names: &'a Names,
    list: Vec<Unsupported>,
}

impl Findings<'_> {
    /// Stored tensors whose names contain one of the parts.
    fn with(&self, parts: &[&str]) -> Vec<String> {
        let found = self.names.iter().filter(|(n, _)| parts.iter().any(|p| n.contains(p)));
        found.map(|(_, stored)| stored.to_string()).collect()
    }

    /// Adds a finding, or the tensors to a finding of the same feature.
    fn add(&mut self, feature: &str, detail: impl Into<String>, tensors: Vec<String>) {
        match self.list.iter_mut().find(|u| u.feature == feature) {
            Some(known) => {
                known.tensors.extend(tensors);
                known.tensors.sort();
                known.tensors.dedup();
            }
            None => self.list.push(Unsupported {
                feature: feature.to_string(),
                detail: detail.into(),
                tensors,
            }),
        }
    }

    /// Features that the config declares.
    fn features(&mut self, hub: &HubConfig) {
        let architecture = hub.architecture();
        let model_type = hub.get("model_type").and_then(Value::as_str).unwrap_or("llama");
        if architecture != ARCHITECTURE || model_type != "llama" {
            let detail = format!("{architecture} (model_type {model_type}) is not {ARCHITECTURE}");
            self.add("architecture", detail, Vec::new());
        }
        for (flag, parts) in [("attention_bias", FOREIGN[0].2), ("mlp_bias", FOREIGN[1].2)] {
            if hub.flag(flag) {
                self.add(flag, "true", self.with(parts));
            }
        }
        if let Some(kind) = hub.rope_scaling() {
            self.add("rope_scaling", kind, self.with(&ROTATED));
        }
        let partial = hub.rope().and_then(|(_, r)| r.get("partial_rotary_factor"));
        if let Some(factor) = partial
            .or(hub.get("partial_rotary_factor"))
            .filter(|f| f.as_f64() != Some(1.0))
        {
            self.add("partial_rotary_factor", factor.to_string(), self.with(&ROTATED));
        }
        let act = hub.get("hidden_act").or(hub.get("hidden_activation"));
        if let Some(act) = act.filter(|a| a.as_str() != Some("silu")) {
            self.add(
                "hidden_act",
                format!("{act} is not \"silu\""),
                self.with(&["gate_proj.weight"]),
            );
        }
        let window = hub.get("sliding_window");
        let used = hub.get("use_sliding_window").and_then(Value::as_bool).unwrap_or(true);
        if let Some(window) = window.filter(|_| used) {
            self.add("sliding_window", window.to_string(), self.with(&ATTENTION));
        }
        for field in ["num_local_experts", "num_experts", "n_routed_experts"] {
            if let Some(n) = hub.get(field).filter(|n| n.as_u64() != Some(0)) {
                self.add("mixture of experts", format!("{field} is {n}"), self.with(FOREIGN[4].2));
            }
        }
        for field in ["use_qk_norm", "qk_norm", "qk_layernorm"] {
            if hub.flag(field) {
                self.add("qk_norm", format!("{field} is true"), self.with(FOREIGN[2].2));
            }
        }
        for field in [
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "logit_scale",
            "residual_multiplier",
        ] {
            if let Some(v) = hub.get(field).filter(|v| v.as_f64() != Some(1.0)) {
                self.add(field, v.to_string(), Vec::new());
            }
        }
        if hub.get("quantization_config").is_some() {
            self.add("quantised weights", "quantization_config is present", Vec::new());
        }
    }

    /// The dimensions, if they are given and the proof system can represent them; a finding if not.
    fn dimensions(&mut self, hub: &HubConfig) -> Option<ModelConfig> {
        let config = match hub.model() {
            Ok(config) => config,
            Err(e) => {
                self.add("dimensions", e.to_string(), Vec::new());
                return None;
            }
        };
        if let Err(e) = config.check() {
            let parts: &[&str] = match &e {
                ModelError::OutOfRange { what, .. } if what.starts_with("head_dim") => &ATTENTION,
                ModelError::HeadGroups { .. } => &ATTENTION,
                ModelError::OutOfRange {
                    what: "intermediate_size",
                    ..
                } => &["gate_proj.", "up_proj.", "down_proj."],
                ModelError::OutOfRange { what: "vocab_size", .. } => &["embed_tokens.", "lm_head."],
                _ => &[],
            };
            self.add("dimensions", e.to_string(), self.with(parts));
            // Dimensions may be far out of range: no list of tensors is made from them.
            return None;
        }
        if let Some(id) = config
            .bos
            .iter()
            .chain(&config.eos)
            .find(|id| **id as usize >= config.vocab)
        {
            let detail = format!(
                "special token id {id} is not below the vocabulary size {}",
                config.vocab
            );
            self.add("special tokens", detail, Vec::new());
        }
        Some(config)
    }

    /// Tensors that no supported model has, and types that cannot be read.
    fn tensors(&mut self, storage: &Storage, expected: Option<&BTreeMap<String, Vec<usize>>>) {
        for (name, info) in storage.tensors() {
            let canonical = storage.canonical(name);
            if canonical.ends_with("rotary_emb.inv_freq") {
                continue;
            }
            let owned = || vec![name.to_string()];
            if let Some((feature, detail, _)) = FOREIGN.iter().find(|(_, _, p)| p.iter().any(|p| canonical.contains(p)))
            {
                self.add(feature, *detail, owned());
                continue;
            }
            let known = expected.is_none_or(|e| e.contains_key(&canonical) || canonical == "lm_head.weight");
            if !known {
                self.add("unknown tensors", "tensors that are not part of a Llama model", owned());
            } else if info.encoding.unit().is_none() {
                let feature = format!("dtype {}", info.encoding);
                self.add(&feature, NOT_READ, owned());
            }
        }
    }
}
