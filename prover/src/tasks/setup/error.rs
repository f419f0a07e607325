//! Why there is no model directory.

use std::path::PathBuf;

use tessera_recipe::RecipeError;
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::KeyError;
use thiserror::Error;

use crate::intake::checkpoint::CheckpointError;
use crate::intake::texts::TextError;
use crate::intake::tokenizer::TokenizerError;
use crate::model::directory::ModelDirError;
use crate::prove::opening::OpeningProverError;
use crate::quantise::comparison::FidelityError;
use crate::quantise::QuantiseError;
use crate::support::files::FileError;
use crate::tasks::loaded::LoadError;
use crate::tasks::plan::BudgetTooSmall;

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
    UnusableRecipe(#[from] RecipeError),
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
