//! Errors of set-ups.

use std::path::PathBuf;

use tessera_recipe::RecipeError;
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::KeyError;
use thiserror::Error;

use tessera_circuits::table_tree::TableArgument;
use tessera_verifier::suite::Suite;

use crate::model::LoadError;
use crate::plan::BudgetTooSmall;
use tessera_checkpoint::CheckpointError;
use tessera_model::directory::ModelDirError;
use tessera_prover::opening::OpeningProverError;
use tessera_quantise::comparison::FidelityError;
use tessera_quantise::texts::TextError;
use tessera_quantise::QuantiseError;
use tessera_support::files::FileError;
use tessera_text::tokenizer::TokenizerError;

/// Why a model was not set up, its cache not rebuilt, or its key not made again. A failed set-up leaves nothing on disk
/// but the directory that [`SetupError::Unfinished`] names.
#[derive(Debug, Error)]
pub enum SetupError {
    /// A file cannot be read or written, the model directory exists already, or another process is making it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The checkpoint cannot be opened, or its model is not supported.
    #[error("{}", source.of(dir))]
    Checkpoint {
        /// The checkpoint.
        dir: PathBuf,
        /// Why it cannot be opened.
        source: CheckpointError,
    },
    /// The tokenizer of the checkpoint cannot be used.
    #[error("{}: {}", dir.display(), source.advised())]
    Tokenizer {
        /// The checkpoint.
        dir: PathBuf,
        /// Why its tokenizer cannot be used.
        source: TokenizerError,
    },
    /// A text to calibrate or to measure on cannot be read or encoded; for calibration, another text may help.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The checkpoint cannot be quantised with these options and this calibration text.
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
    /// The weights or the description of the model directory cannot be written, or cannot be read again.
    #[error(transparent)]
    ModelDir(#[from] ModelDirError),
    /// The weights cannot be committed to, or the files of the commitment cannot be written.
    #[error(transparent)]
    Commit(#[from] OpeningProverError),
    /// No key of the suite has its lookup tables proved in this way.
    #[error(
        "no model under {} has its lookup tables proved by --tables {tables}, because contracts verify no STARK: leave it out, or \
         take --hash blake2s for proofs that no contract verifies",
        suite.name()
    )]
    Tables {
        /// The suite.
        suite: Suite,
        /// What was asked for.
        tables: TableArgument,
    },
    /// Nothing fits the memory budget; a larger one helps ([`BudgetTooSmall::smallest`]).
    #[error(transparent)]
    Memory(#[from] BudgetTooSmall),
    /// The set-up made a key that is not usable.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The recipe in the key cannot be written or read.
    #[error(transparent)]
    UnusableRecipe(#[from] RecipeError),
    /// A key cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The key of the model directory whose cache is to be rebuilt cannot be read.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// The model or the float model of its checkpoint cannot be run on the texts that measure their distance. A set-up
    /// with [`skip_fidelity`](super::SetupOptions::skip_fidelity) does without.
    #[error("the comparison with the float model failed: {0}")]
    Fidelity(#[from] FidelityError),
    /// [`recompute`](super::recompute) cannot follow the recipe of a key.
    #[error("the key cannot be made again: {problem}")]
    Recipe {
        /// A setting that this program does not know or that is missing, a calibration text that must be given, or why
        /// there is no temporary directory.
        problem: String,
    },
    /// [`rebuild_cache`](super::rebuild_cache) found other weights in a model directory than its key was made from:
    /// restore the file, or set the model up again.
    #[error("{}: the weights have root {got}, the key says {expected}", path.display())]
    OtherWeights {
        /// The file of the weights.
        path: PathBuf,
        /// Merkle root of the weights in the file, in hexadecimal.
        got: String,
        /// Merkle root in the key, in hexadecimal.
        expected: String,
    },
    /// A set-up failed after calibration. The finished steps are kept: the same set-up, run again, goes on from there.
    #[error("{source} (finished steps are kept in {}; run the same command again, or remove it)", partial.display())]
    Unfinished {
        /// The unfinished model directory.
        partial: PathBuf,
        /// Why the set-up failed.
        source: Box<SetupError>,
    },
}
