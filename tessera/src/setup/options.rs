//! Options of a set-up.

use std::path::PathBuf;

use tessera_circuits::table_tree::TableArgument;
use tessera_verifier::suite::Suite;

use super::cache::CodewordCache;
use crate::plan::Budget;
use tessera_quantise::QuantiseOptions;

/// How to set a model up.
#[derive(Clone, Debug, Default)]
pub struct SetupOptions {
    /// How the weights are quantised and the scales chosen.
    pub quantise: QuantiseOptions,
    /// File of the calibration text; `None` for the bundled one, or for random ids if the model has no tokenizer.
    pub calibration: Option<PathBuf>,
    /// Whether the model directory keeps the codeword of the weights, which makes proofs faster.
    pub codeword_cache: CodewordCache,
    /// The most memory to use; `None` for no limit.
    pub memory: Option<Budget>,
    /// Leaves out the comparison of the model with its checkpoint.
    pub skip_fidelity: bool,
    /// Hash suite of the commitment to the model, and of its proofs.
    pub suite: Suite,
    /// How proofs of the model prove its lookup tables. Under Keccak-256 a STARK has to.
    pub tables: TableArgument,
    /// Leaves digests of texts and files and the figures of the comparison out of the key.
    pub private_recipe: bool,
}
