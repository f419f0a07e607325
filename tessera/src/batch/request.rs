//! A request of a batch.

use std::path::{Path, PathBuf};

use tessera_model::generate::GenerateError;
use tessera_verifier::key::ModelKey;
use thiserror::Error as ThisError;

use crate::prompt::{check_encoder, check_reranker, Prompt};
use crate::{Error, Options};

/// How the name of a proof ends.
const PROOF: &str = "proof";

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A text.
    Text,
    /// The vector of an encoder.
    Vector,
    /// The scores of a reranker.
    Scores,
}

impl Wish {
    /// Refuses a model that does something else.
    pub(crate) fn check(self, key: &ModelKey) -> Result<(), Error> {
        match self {
            Self::Text if !key.config.generates() => Err(GenerateError::Encoder.into()),
            Self::Text => Ok(()),
            Self::Vector => Ok(check_encoder(key)?),
            Self::Scores => Ok(check_reranker(key)?),
        }
    }
}

/// A request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRequest {
    /// The name of the request, and of its proof: letters, digits, `.`, `_` and `-`. The number of the line if it has no other.
    pub id: String,
    /// The line of the file, counted from 1.
    pub line: usize,
    /// What it asks for.
    pub wish: Wish,
    /// The prompt.
    pub prompt: Prompt,
    /// How much to generate, or the answer that is expected, and the context.
    pub options: Options,
}

impl BatchRequest {
    /// The proof of the request, in the directory of the batch.
    pub fn path(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{}.{PROOF}", self.id))
    }
}

/// Requests that are refused before any work.
#[derive(Clone, Debug, ThisError, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// A line is no request.
    #[error("line {line}: {problem}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what helps.
        problem: String,
    },
    /// There is no request.
    #[error("there is no request: write one JSON object per line, such as {{\"id\": \"a\", \"prompt\": \"Hello\", \"tokens\": 16}}")]
    Empty,
}
