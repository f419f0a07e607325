//! Why a checkpoint cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use tessera_support::files::FileError;

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
    /// A file of fields that could not be read.
    #[error("{origin}: {problem}")]
    Unread { origin: &'static str, problem: String },
    /// The folder is no checkpoint; the text says what it is and what helps.
    #[error("{text}")]
    Mistaken { text: String },
    /// A folder that has a config and no tensors of any kind.
    #[error("{} has no weights: neither model.safetensors nor the shards of model.safetensors.index.json", dir.display())]
    NoWeights { dir: PathBuf },
    #[error("{}: {problem}", path.display())]
    Format { path: PathBuf, problem: String },
    #[error("{origin}: {refusal}")]
    Architecture {
        origin: &'static str,
        found: String,
        /// What is known of it.
        refusal: String,
    },
    #[error("the model is not supported: {}", list(.0))]
    Unsupported(Vec<Unsupported>),
    #[error("tensor {tensor} is missing: a file of the checkpoint is incomplete, or its config is another model's")]
    Missing { tensor: String },
    #[error("tensor {tensor} has shape {got:?}, expected {expected:?}: its config is another model's")]
    Shape {
        tensor: String,
        got: Vec<usize>,
        expected: Vec<usize>,
    },
    #[error("tensor {tensor} has type {dtype}, which is not read: convert it to BF16 or F32")]
    Dtype { tensor: String, dtype: String },
    #[error("tensor {tensor} has {value} at index {index}: weights have to be finite numbers")]
    NotFinite { tensor: String, index: usize, value: f32 },
}

impl CheckpointError {
    /// The error with the checkpoint that it is about; errors of a file name that already.
    pub fn of(&self, checkpoint: &Path) -> String {
        match self {
            Self::File(_) | Self::Format { .. } | Self::NoWeights { .. } | Self::Mistaken { .. } => self.to_string(),
            _ => format!("{}: {self}", checkpoint.display()),
        }
    }
}

fn list(unsupported: &[Unsupported]) -> String {
    unsupported
        .iter()
        .map(Unsupported::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

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
