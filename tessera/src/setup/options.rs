//! Options of a set-up.

use std::path::PathBuf;

use tessera_circuits::table_tree::TableArgument;
use tessera_verifier::suite::Suite;

use super::cache::CodewordCache;
use super::error::SetupError;
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
    /// How proofs of the model prove its lookup tables; `None` for what keys of the suite have unless somebody asks for more.
    pub tables: Option<TableArgument>,
    /// Leaves digests of texts and files and the figures of the comparison out of the key.
    pub private_recipe: bool,
}

impl SetupOptions {
    /// How proofs of the model are to prove its lookup tables.
    pub(super) fn table_argument(&self) -> Result<TableArgument, SetupError> {
        let suite = self.suite;
        let tables = self.tables.unwrap_or(suite.default_tables());
        match suite.allows(tables) {
            true => Ok(tables),
            false => Err(SetupError::Tables { suite, tables }),
        }
    }
}
