//! Reads a checkpoint: a directory in the hub layout (`config.json` and `model.safetensors`, or several safetensors
//! files with an index), or a GGUF file. Its family says what its
//! config and its tensors mean ([`families`]). Whatever a supported model does not have is refused by name.

mod config;
mod encoding;
pub mod families;
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

pub use gguf::MAGIC as GGUF_MAGIC;
pub use mistaken::CONVERT;
pub use orientation::{orientation, Orientation};
pub use storage::Tensor;
pub use survey::{Survey, TensorSummary, Unsupported};

use crate::intake::tokenizer::{TokenizerError, TokenizerFiles};
use crate::support::files::FileError;
use config::HubConfig;
use families::{Description, Family, Pairs, Parameter, Place};
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
    #[error("{origin}: {}", families::refusal(found))]
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

/// Name of the embedding in most checkpoints.
pub const EMBED: &str = "model.embed_tokens.weight";
/// Name of the gain of the last norm in most checkpoints.
pub const FINAL_NORM: &str = "model.norm.weight";
/// Name of the output head in most checkpoints.
pub const HEAD: &str = "lm_head.weight";

/// Name of a weight matrix in most checkpoints, which messages use for all; its shape is `[out, in]`, except for the
/// embedding, `[vocab, hidden]`.
pub fn matmul_tensor(kind: MatmulKind, layer: usize) -> String {
    families::name(Parameter::Matrix(kind, layer))
}

/// Name of the gain of the norm before attention in most checkpoints.
pub fn attn_norm_tensor(layer: usize) -> String {
    families::name(Parameter::AttentionNorm(layer))
}

/// Name of the gain of the norm before the MLP in most checkpoints.
pub fn mlp_norm_tensor(layer: usize) -> String {
    families::name(Parameter::MlpNorm(layer))
}

/// A tensor that a model has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// What it is, or the first of what is in it.
    pub parameter: Parameter,
    /// Its name in the hub layout.
    pub name: String,
    pub shape: Vec<usize>,
}

/// All tensors that a model has; the head only if it is not tied.
fn needed(family: &Family, description: &Description) -> Vec<Needed> {
    let config = &description.config;
    let mut all: Vec<Parameter> = Vec::new();
    for m in config.matmuls() {
        match m.kind {
            MatmulKind::Head if description.tied => continue,
            _ => all.push(Parameter::Matrix(m.kind, m.layer)),
        }
        if m.kind == MatmulKind::Down {
            all.extend([Parameter::AttentionNorm(m.layer), Parameter::MlpNorm(m.layer)]);
        }
    }
    all.push(Parameter::FinalNorm);
    let tensor = |parameter: Parameter| {
        let (rows, width) = parameter.shape(config);
        let Place { tensor, fused } = (family.place)(config, parameter);
        let rows = fused.as_ref().map_or(rows, |(stored, _)| *stored);
        // Of a fused tensor, what comes first stands for all.
        let first = fused.is_none_or(|(_, own)| own.first().is_some_and(|r| r.start == 0));
        let shape = match parameter {
            Parameter::Matrix(..) => vec![rows, width],
            _ => vec![width],
        };
        let name = tensor;
        first.then_some(Needed { parameter, name, shape })
    };
    all.into_iter().filter_map(tensor).collect()
}

/// The shapes of all tensors that a model has, by name.
fn expected_tensors(family: &Family, description: &Description) -> BTreeMap<String, Vec<usize>> {
    let all = needed(family, description).into_iter();
    all.map(|Needed { name, shape, .. }| (name, shape)).collect()
}

/// All tensors of a model with this `config.json`, and what it is.
pub fn tensors(config: &[u8]) -> Result<(Vec<Needed>, Description), CheckpointError> {
    let hub = HubConfig::parse(config)?;
    hub.check_architecture()?;
    let families::Read {
        family,
        description,
        unsupported,
    } = families::read(&hub);
    let (Some(family), []) = (family, unsupported.as_slice()) else {
        return Err(CheckpointError::Unsupported(unsupported));
    };
    let description = description?;
    match description.config.check() {
        Ok(()) => Ok((needed(family, &description), description)),
        Err(error) => Err(CheckpointError::Unsupported(vec![Unsupported {
            feature: "dimensions".to_string(),
            detail: error.to_string(),
            tensors: Vec::new(),
        }])),
    }
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

    /// The stored name, where `aliases` are names of one and the same tensor.
    fn resolve(&self, name: &str, aliases: &[String]) -> Option<&str> {
        let found = match aliases.iter().any(|n| n == name) {
            true => aliases.iter().find_map(|n| self.0.get(n)),
            false => self.0.get(name),
        };
        found.map(String::as_str)
    }
}

/// The embedding and a tied head are the same tensor, stored under either name.
fn aliases(family: &Family, description: &Description) -> Vec<String> {
    let place = |kind| (family.place)(&description.config, Parameter::Matrix(kind, 0)).tensor;
    match description.tied {
        true => vec![place(MatmulKind::Embed), place(MatmulKind::Head)],
        false => Vec::new(),
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
                families::read(&hub).description?;
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
    family: &'static Family,
    description: Description,
    aliases: Vec<String>,
    names: Names,
    storage: Storage,
    tokenizer: TokenizerSource,
}

impl Checkpoint {
    /// Opens a checkpoint directory or file; refuses whatever the proof system does not represent.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let source = Source::open(path)?;
        source.hub.check_architecture()?;
        let families::Read {
            family, description, ..
        } = families::read(&source.hub);
        // What the format found may be the reason why a dimension is missing.
        let description = if source.unsupported.is_empty() {
            Some(description?)
        } else {
            description.ok()
        };
        let survey = Survey::new(&source);
        let (Some(family), Some(description), []) = (family, description, survey.unsupported.as_slice()) else {
            return Err(CheckpointError::Unsupported(survey.unsupported));
        };
        let Source { storage, tokenizer, .. } = source;
        let (names, aliases) = (Names::of(&storage), aliases(family, &description));
        for (tensor, expected) in expected_tensors(family, &description) {
            match names.resolve(&tensor, &aliases).and_then(|n| storage.info(n)) {
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
            family,
            description,
            aliases,
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
        &self.description.config
    }

    /// What the family of the model says of it.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Whether the output head is the embedding.
    pub fn tied(&self) -> bool {
        self.description.tied
    }

    /// A tensor by its name in the hub layout.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, CheckpointError> {
        let missing = || CheckpointError::Missing {
            tensor: name.to_string(),
        };
        self.storage
            .tensor(self.names.resolve(name, &self.aliases).ok_or_else(missing)?)
    }

    /// The values of a tensor, row-major, by its name in the hub layout. Errors name a value that is not
    /// finite.
    pub fn values(&self, name: &str) -> Result<Vec<f32>, CheckpointError> {
        self.tensor(name)?.values()
    }

    /// A weight matrix, with the channels of Q and K in the order of the proof; [`orientation`] says how it is stored.
    pub fn matrix(&self, kind: MatmulKind, layer: usize) -> Result<Tensor<'_>, CheckpointError> {
        let (config, pairs) = (self.config(), &self.description.pairs);
        let Place { tensor, fused } = (self.family.place)(config, Parameter::Matrix(kind, layer));
        let tensor = self.tensor(&tensor)?;
        let rotated = matches!(kind, MatmulKind::Q | MatmulKind::K) && !pairs.is_plain(config.head_dim);
        if fused.is_none() && !rotated {
            return Ok(tensor);
        }
        let rows = match fused {
            Some((_, ranges)) => ranges.into_iter().flatten().collect(),
            None => (0..config.dims(kind).1).collect::<Vec<_>>(),
        };
        Ok(tensor.with_rows(match rotated {
            true => turned(&rows, pairs, config.head_dim),
            false => rows,
        }))
    }

    /// The values of the gain of a norm.
    pub fn gain(&self, norm: Parameter) -> Result<Vec<f32>, CheckpointError> {
        self.values(&(self.family.place)(self.config(), norm).tensor)
    }

    /// How the weight matrices of a kind are stored.
    pub fn orientation(&self, kind: MatmulKind) -> Orientation {
        // Every architecture that can be opened has one.
        orientation(self.family.architecture, kind).unwrap_or(Orientation::OutputsFirst)
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

/// The rows of heads in the order of the pairs that are rotated together.
fn turned(rows: &[usize], pairs: &Pairs, head_dim: usize) -> Vec<usize> {
    let heads = rows.chunks_exact(head_dim);
    heads
        .flat_map(|head| (0..head_dim).map(|x| head[pairs.stored(x, head_dim)]))
        .collect()
}
