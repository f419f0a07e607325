//! Why there is no model directory.

use std::path::PathBuf;

use tessera_verifier::codec::CodecError;
use tessera_verifier::key::KeyError;
use thiserror::Error;

use crate::loaded::LoadError;
use crate::plan::BudgetTooSmall;
use tessera_checkpoint::CheckpointError;
use tessera_model::directory::ModelDirError;
use tessera_prover::opening::OpeningProverError;
use tessera_quantise::comparison::FidelityError;
use tessera_quantise::texts::TextError;
use tessera_quantise::QuantiseError;
use tessera_support::files::FileError;
use tessera_text::tokenizer::TokenizerError;

/// Why there is no model directory. Nothing is left on disk but what [`SetupError::Unfinished`] names.
#[derive(Debug, Error)]
pub enum SetupError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}", source.of(dir))]
    Checkpoint { dir: PathBuf, source: CheckpointError },
    #[error("{}: {}", dir.display(), source.advised())]
    Tokenizer { dir: PathBuf, source: TokenizerError },
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
    #[error(transparent)]
    ModelDir(#[from] ModelDirError),
    #[error(transparent)]
    Commit(#[from] OpeningProverError),
    #[error(transparent)]
    Memory(#[from] BudgetTooSmall),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Library(#[from] LoadError),
    #[error("the comparison with the float model failed: {0}")]
    Fidelity(#[from] FidelityError),
    #[error("the key cannot be made again: {problem}")]
    Recipe { problem: String },
    #[error("{}: the weights have root {got}, the key says {expected}", path.display())]
    OtherWeights {
        path: PathBuf,
        got: String,
        expected: String,
    },
    #[error("{source} (finished steps are kept in {}; run the same command again, or remove it)", partial.display())]
    Unfinished { partial: PathBuf, source: Box<SetupError> },
}
