//! Reads a Llama checkpoint: a directory in the hub layout (`config.json` and `model.safetensors`, or several safetensors
//! files with an index), or a GGUF file. Whatever a supported model does not have is refused by name.

mod config;
mod encoding;
mod gguf;
mod mistaken;
mod orientation;
mod storage;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tessera_circuits::model::{MatmulKind, ModelConfig};
use thiserror::Error;

pub use config::ARCHITECTURE;
pub use gguf::MAGIC as GGUF_MAGIC;
pub use mistaken::CONVERT;
pub use orientation::{orientation, Orientation};
pub use storage::Tensor;
pub use survey::{Survey, TensorSummary, Unsupported};

use crate::intake::tokenizer::{TokenizerError, TokenizerFiles};
use crate::support::files::FileError;
use config::HubConfig;
use storage::Storage;

/// Why a checkpoint cannot be used.
#[derive(Debug, Error)]
pub enum CheckpointError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{origin}: {field}: {problem}")]
    Config {
        origin: &'static str,
        field: String,
        problem: String,
    },
    #[error("{}: {problem}", path.display())]
    Format { path: PathBuf, problem: String },
    #[error("{origin}: the architecture is {found}, only {ARCHITECTURE} is supported")]
    Architecture { origin: &'static str, found: String },
    #[error("the model is not supported: {}", list(.0))]
    Unsupported(Vec<Unsupported>),
    #[error("tensor {tensor} is missing")]
    Missing { tensor: String },
    #[error("tensor {tensor} has shape {got:?}, expected {expected:?}")]
    Shape {
        tensor: String,
        got: Vec<usize>,
        expected: Vec<usize>,
    },
    #[error("tensor {tensor} has type {dtype}, which is not read")]
    Dtype { tensor: String, dtype: String },
    #[error("tensor {tensor} has {value} at index {index}")]
    NotFinite { tensor: String, index: usize, value: f32 },
}

fn list(unsupported: &[Unsupported]) -> String {
    unsupported
        .iter()
        .map(Unsupported::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Name of the embedding.
pub const EMBED: &str = "model.embed_tokens.weight";
/// Name of the gain of the last norm.
pub const FINAL_NORM: &str = "model.norm.weight";
/// Name of the output head.
pub const HEAD: &str = "lm_head.weight";

/// Name of a weight matrix; its shape is `[out, in]`, except for the embedding, `[vocab, hidden]`.
pub fn matmul_tensor(kind: MatmulKind, layer: usize) -> String {
    let part = match kind {
        MatmulKind::Embed => return EMBED.to_string(),
        MatmulKind::Head => return HEAD.to_string(),
        MatmulKind::Q => "self_attn.q_proj",
        MatmulKind::K => "self_attn.k_proj",
        MatmulKind::V => "self_attn.v_proj",
        MatmulKind::O => "self_attn.o_proj",
        MatmulKind::Gate => "mlp.gate_proj",
        MatmulKind::Up => "mlp.up_proj",
        MatmulKind::Down => "mlp.down_proj",
    };
    format!("model.layers.{layer}.{part}.weight")
}

/// Name of the gain of the norm before attention.
pub fn attn_norm_tensor(layer: usize) -> String {
    format!("model.layers.{layer}.input_layernorm.weight")
}

/// Name of the gain of the norm before the MLP.
pub fn mlp_norm_tensor(layer: usize) -> String {
    format!("model.layers.{layer}.post_attention_layernorm.weight")
}

/// All tensors that a model has, with their shapes; the head only if it is not tied.
fn expected_tensors(config: &ModelConfig, tied: bool) -> BTreeMap<String, Vec<usize>> {
    let mut tensors = BTreeMap::from([(FINAL_NORM.to_string(), vec![config.hidden])]);
    for layer in 0..config.layers {
        tensors.insert(attn_norm_tensor(layer), vec![config.hidden]);
        tensors.insert(mlp_norm_tensor(layer), vec![config.hidden]);
    }
    for m in config.matmuls() {
        if m.kind == MatmulKind::Head && tied {
            continue;
        }
        let shape = match orientation(ARCHITECTURE, m.kind) {
            Some(Orientation::InputsFirst) => vec![m.in_dim, m.out_dim],
            _ => vec![m.out_dim, m.in_dim],
        };
        tensors.insert(matmul_tensor(m.kind, m.layer), shape);
    }
    tensors
}

/// The stored names by the names of the hub layout.
#[derive(Debug)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn of(storage: &Storage) -> Self {
        Self(
            storage
                .tensors()
                .map(|(name, _)| (storage.canonical(name), name.to_string()))
                .collect(),
        )
    }

    /// Names of the hub layout with the stored ones.
    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, stored)| (name.as_str(), stored.as_str()))
    }

    /// The stored name. The embedding and a tied head are the same tensor, stored under either name.
    fn resolve(&self, name: &str, tied: bool) -> Option<&str> {
        let aliases: &[&str] = match name {
            EMBED | HEAD if tied => &[EMBED, HEAD],
            _ => &[name],
        };
        aliases.iter().find_map(|n| self.0.get(*n)).map(String::as_str)
    }
}

/// Where tokenizer files come from.
#[derive(Debug)]
enum TokenizerSource {
    Directory(PathBuf),
    /// Made from the metadata of the file.
    Made(TokenizerFiles),
}

/// What is read of a checkpoint before it is known to be supported.
#[derive(Debug)]
struct Source {
    hub: HubConfig,
    storage: Storage,
    tokenizer: TokenizerSource,
    /// What the format found, beside all that fields and tensors say.
    unsupported: Vec<Unsupported>,
}

impl Source {
    /// A file is a GGUF file, anything else a directory in the hub layout.
    fn open(path: &Path) -> Result<Self, CheckpointError> {
        if path.is_file() {
            return gguf::open(path);
        }
        let hub = HubConfig::read(path)?;
        let storage = match Storage::open(path) {
            Ok(storage) => storage,
            // Another model may store its tensors in another way.
            Err(error) => {
                hub.check_architecture()?;
                hub.model()?;
                return Err(error);
            }
        };
        Ok(Self {
            hub,
            storage,
            tokenizer: TokenizerSource::Directory(path.to_path_buf()),
            unsupported: Vec::new(),
        })
    }
}

/// An open checkpoint of a supported model, with all tensors present and of the right shape.
#[derive(Debug)]
pub struct Checkpoint {
    config: ModelConfig,
    tied: bool,
    names: Names,
    storage: Storage,
    tokenizer: TokenizerSource,
}

impl Checkpoint {
    /// Opens a checkpoint directory or file; refuses whatever the proof system does not represent.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let source = Source::open(path)?;
        source.hub.check_architecture()?;
        // What the format found may be the reason why a dimension is missing.
        let config = source.hub.model();
        let config = if source.unsupported.is_empty() {
            Some(config?)
        } else {
            config.ok()
        };
        let survey = Survey::new(&source);
        let (Some(config), []) = (config, survey.unsupported.as_slice()) else {
            return Err(CheckpointError::Unsupported(survey.unsupported));
        };
        let tied = source.hub.tied();
        let Source { storage, tokenizer, .. } = source;
        let names = Names::of(&storage);
        for (tensor, expected) in expected_tensors(&config, tied) {
            match names.resolve(&tensor, tied).and_then(|n| storage.info(n)) {
                None => return Err(CheckpointError::Missing { tensor }),
                Some(info) if info.shape != expected => {
                    return Err(CheckpointError::Shape {
                        tensor,
                        got: info.shape.clone(),
                        expected,
                    });
                }
                Some(_) => {}
            }
        }
        Ok(Self {
            config,
            tied,
            names,
            storage,
            tokenizer,
        })
    }

    /// Reports what a checkpoint directory or file contains, supported or not. Errors only if the files cannot be
    /// read as a checkpoint at all.
    pub fn survey(path: &Path) -> Result<Survey, CheckpointError> {
        Survey::of(path)
    }

    /// The architecture.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Whether the output head is the embedding.
    pub fn tied(&self) -> bool {
        self.tied
    }

    /// A tensor by its name in the hub layout.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, CheckpointError> {
        let missing = || CheckpointError::Missing {
            tensor: name.to_string(),
        };
        self.storage
            .tensor(self.names.resolve(name, self.tied).ok_or_else(missing)?)
    }

    /// The values of a tensor, row-major, by its name in the hub layout. Errors name a value that is not
    /// finite.
    pub fn values(&self, name: &str) -> Result<Vec<f32>, CheckpointError> {
        self.tensor(name)?.values()
    }

    /// A weight matrix; [`orientation`] says how it is stored.
    pub fn matrix(&self, kind: MatmulKind, layer: usize) -> Result<Tensor<'_>, CheckpointError> {
        self.tensor(&matmul_tensor(kind, layer))
    }

    /// How the weight matrices of a kind are stored.
    pub fn orientation(&self, kind: MatmulKind) -> Orientation {
        // Every architecture that can be opened has one.
        orientation(ARCHITECTURE, kind).unwrap_or(Orientation::OutputsFirst)
    }

    /// The tokenizer files, as a directory in the hub layout has them.
    pub fn tokenizer_files(&self) -> Result<TokenizerFiles, TokenizerError> {
        match &self.tokenizer {
            TokenizerSource::Directory(dir) => TokenizerFiles::read(dir),
            TokenizerSource::Made(files) => Ok(files.clone()),
        }
    }

    /// The files with tensors, and of each what precedes the tensors.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.storage.files()
    }
}
