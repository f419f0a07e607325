//! Why a tokenizer or its files cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::guard::GuardError;

/// Why text and token ids could not be converted.
#[derive(Debug, Error)]
pub enum TokenizerError {
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A link to a file that is gone, as caches of downloads have them.
    #[error("{} is a link to {}, which is missing: download the file again", path.display(), target.display())]
    Dangling { path: PathBuf, target: PathBuf },
    #[error("tokenizer.json: {0}")]
    Format(String),
    #[error("tokenizer.json is refused: {0}")]
    Limit(String),
    #[error("tokenizer_config.json: {0}")]
    Config(String),
    /// Another file that decides ids, and what is wrong with it.
    #[error("{0}: {1}")]
    Beside(&'static str, String),
    /// Ids in several files that contradict each other.
    #[error("{0}")]
    Ids(String),
    #[error("text cannot be encoded: {0}")]
    Encode(String),
    #[error("token ids cannot be decoded: {0}")]
    Decode(String),
    #[error("tokenizer.json cannot be used: {0}")]
    Guard(#[from] GuardError),
}

impl TokenizerError {
    /// The error with what helps, where the tokenizer is a checkpoint's.
    pub fn advised(&self) -> String {
        match self {
            Self::Read { .. } | Self::Dangling { .. } => self.to_string(),
            _ => format!("{self}; without tokenizer.json, prompts are given as ids"),
        }
    }
}
