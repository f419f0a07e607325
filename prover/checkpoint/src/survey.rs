//! What a checkpoint contains and what of it cannot be proved.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tessera_circuits::model::{MatmulKind, ModelConfig, ModelError};

use super::error::{CheckpointError, Unsupported};
use super::families::{self, Description, Family, Parameter};
use super::open;
use super::source::{Names, Source};
use super::storage::{Info, Storage};
use super::tensors::{aliases, expected_tensors};
use tessera_text::tokenizer::IdFile;

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
    /// Kinds of matrices whose outputs a proof adds biases to.
    pub biased: Vec<MatmulKind>,
    /// What the family of the model has to say of it.
    pub notes: Vec<String>,
    pub tensors: Vec<TensorSummary>,
    pub unsupported: Vec<Unsupported>,
    /// Whether there are weights at all.
    pub weights: bool,
    /// Tensors that a supported model of these dimensions has and this checkpoint lacks; none are named where there are no weights.
    pub missing: Vec<String>,
    /// Tensors whose shape is not that of the dimensions: what is wrong with each.
    pub misshapen: Vec<String>,
    /// Whether there is a tokenizer, or why it cannot be used.
    pub tokenizer: Result<bool, String>,
    /// The files that decide ids, with the fields that count.
    pub id_files: Vec<IdFile>,
}

impl Survey {
    /// Surveys a checkpoint directory or file. Errors only if the files cannot be read as a checkpoint at all.
    pub fn of(path: &Path) -> Result<Self, CheckpointError> {
        let source = open::open_with(path, true)?;
        let mut survey = Self::new(&source);
        match source.tokenizer.files() {
            Ok(ids) => {
                survey.tokenizer = Ok(ids.files.tokenizer.is_some());
                survey.id_files = ids.record;
                survey.notes.extend(ids.notes);
                // A GGUF file's tokenizer was made, and not read yet.
                if let Err(error) = ids.files.parse() {
                    survey.tokenizer = Err(error.advised());
                }
            }
            Err(error) => survey.tokenizer = Err(error.advised()),
        }
        Ok(survey)
    }

    /// Whether tensors and config are those of a model that can be quantised and proved.
    pub fn is_supported(&self) -> bool {
        self.weights && self.unsupported.is_empty() && self.missing.is_empty() && self.misshapen.is_empty()
    }

    /// The same without a look at the tokenizer.
    pub(super) fn new(source: &Source) -> Self {
        let (hub, storage) = (&source.hub, &source.storage);
        let names = Names::of(storage);
        let read = source.read(&names);
        let mut findings = Findings {
            names: &names,
            list: source.unsupported.clone(),
        };
        findings.features(read.unsupported);
        let usable = findings.dimensions(&read.description);
        // Another architecture may have other tensors of the same names.
        let family = read.family.unwrap_or(&families::LLAMA);
        let expected = usable.map(|description| expected_tensors(family, description));
        let same = usable.map_or_else(Vec::new, |description| aliases(family, description));
        let (mut missing, mut misshapen) = (Vec::new(), Vec::new());
        for (name, shape) in expected.iter().flatten().filter(|_| source.weights) {
            match names.resolve(name, &same).and_then(|stored| storage.info(stored)) {
                None => missing.push(name.clone()),
                Some(info) if info.shape != *shape => {
                    misshapen.push(format!("{name} has shape {:?}, expected {shape:?}", info.shape));
                }
                Some(_) => {}
            }
        }
        findings.twice(storage);
        findings.tensors(storage, expected.as_ref(), &head(family, &read.description));
        let description = read.description.ok();
        Self {
            architecture: hub.architecture(),
            biased: description.as_ref().map_or_else(Vec::new, Description::biased),
            tied_embeddings: description.as_ref().is_some_and(|d| d.tied),
            notes: description.as_ref().map_or_else(Vec::new, |d| d.notes.clone()),
            config: description.map(|d| d.config),
            tensors: storage.tensors().map(|(name, info)| summary(name, info)).collect(),
            unsupported: findings.list,
            weights: source.weights,
            missing,
            misshapen,
            tokenizer: Ok(false),
            id_files: Vec::new(),
        }
    }
}

/// Where an output head would be, which may be stored in tied models, too.
fn head(family: &Family, description: &Result<Description, CheckpointError>) -> String {
    let head = Parameter::Matrix(MatmulKind::Head, 0);
    match description {
        Ok(description) => (family.place)(&description.config, head).tensor,
        Err(_) => families::name(head),
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
const ATTENTION: [&str; 5] = [
    "q_proj.weight",
    "k_proj.weight",
    "v_proj.weight",
    "qkv_proj.weight",
    "o_proj.weight",
];
const ROTATED: [&str; 3] = ["q_proj.weight", "k_proj.weight", "qkv_proj.weight"];

/// Tensors that a feature of the config concerns.
const CONCERNED: [(&str, &[&str]); 8] = [
    ("attention_bias", FOREIGN[0].2),
    ("mlp_bias", FOREIGN[1].2),
    ("qk_norm", FOREIGN[2].2),
    ("rope_scaling", &ROTATED),
    ("partial_rotary_factor", &ROTATED),
    ("hidden_act", &["gate_proj.weight", "gate_up_proj.weight"]),
    ("sliding_window", &ATTENTION),
    ("num_local_experts", FOREIGN[4].2),
];

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

/// Ends of the names of tensors that are the same in all models, or that nothing reads: frequencies of rotations, numbers of positions
/// and causal masks, which older programs stored, and what classifiers make of an encoder's first row.
const CONSTANTS: [&str; 8] = [
    "embeddings.position_ids",
    "model.pooler.dense.weight",
    "model.pooler.dense.bias",
    "rotary_emb.inv_freq",
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
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

    /// What the family refuses, with the tensors concerned.
    fn features(&mut self, unsupported: Vec<Unsupported>) {
        for Unsupported { feature, detail, .. } in unsupported {
            let parts = CONCERNED.iter().find(|(own, _)| *own == feature);
            let tensors = parts.map_or_else(Vec::new, |(_, parts)| self.with(parts));
            self.add(&feature, detail, tensors);
        }
    }

    /// The description, if it is complete and the proof system can represent its dimensions; a finding if not.
    fn dimensions<'d>(&mut self, description: &'d Result<Description, CheckpointError>) -> Option<&'d Description> {
        let description = match description {
            Ok(description) => description,
            Err(e) => {
                self.add("dimensions", e.to_string(), Vec::new());
                return None;
            }
        };
        let config = &description.config;
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
        Some(description)
    }

    /// Two tensors that are one in the hub layout: only one of them could count. Copies may be there.
    fn twice(&mut self, storage: &Storage) {
        for (one, other) in self.names.twice() {
            let canonical = storage.canonical(one);
            if !CONSTANTS.iter().any(|end| canonical.ends_with(end)) && !storage.same(one, other) {
                self.add(
                    "two tensors for one place",
                    "tensors have other values or shapes, and the names of one and the same",
                    vec![one.to_string(), other.to_string()],
                );
            }
        }
    }

    /// Tensors that no supported model has, and types that cannot be read.
    fn tensors(&mut self, storage: &Storage, expected: Option<&BTreeMap<String, Vec<usize>>>, head: &str) {
        for (name, info) in storage.tensors() {
            let canonical = storage.canonical(name);
            let is_expected = expected.is_some_and(|e| e.contains_key(&canonical));
            if !is_expected && CONSTANTS.iter().any(|end| canonical.ends_with(end)) {
                continue;
            }
            let owned = || vec![name.to_string()];
            if let Some((feature, detail, _)) = FOREIGN
                .iter()
                .find(|(_, _, p)| !is_expected && p.iter().any(|p| canonical.contains(p)))
            {
                self.add(feature, *detail, owned());
                continue;
            }
            let known = expected.is_none_or(|e| e.contains_key(&canonical) || canonical == head);
            if !known {
                self.add(
                    "unknown tensors",
                    "tensors that are not part of a model of this family",
                    owned(),
                );
            } else if info.encoding.unit().is_none() {
                let feature = format!("dtype {}", info.encoding);
                self.add(&feature, NOT_READ, owned());
            }
        }
    }
}
