//! How to set a model up.

use std::path::PathBuf;

use tessera_verifier::suite::Suite;

use super::cache::CodewordCache;
use crate::plan::Budget;
use tessera_quantise::QuantiseOptions;

/// How to set a model up.
#[derive(Clone, Debug, Default)]
pub struct SetupOptions {
    pub quantise: QuantiseOptions,
    /// Calibration text; `None` for the bundled one, or for random ids if the model has no tokenizer.
    pub calibration: Option<PathBuf>,
    pub codeword_cache: CodewordCache,
    /// The most memory to use; `None` for any.
    pub memory: Option<Budget>,
    /// Does not compare the model with its checkpoint.
    pub skip_fidelity: bool,
    /// What the model is committed to with, and proofs are hashed with.
    pub suite: Suite,
    /// Leaves digests of texts and files and the figures of the comparison out of the key.
    pub private_recipe: bool,
}
