//! Checks whether a key was made from a checkpoint: makes the model again by the key's recipe, and compares.

use std::path::{Path, PathBuf};

use tessera_circuits::model::ModelParams;
use tessera_recipe::{Recipe, SourceFile};
use tessera_verifier::key::{ModelId, ModelKey};

use super::recipe::{options as recipe_options, tool};
use super::{setup, CodewordCache, SetupError, SetupOptions};
use crate::plan::Budget;
use tessera_quantise::texts::OWN_TEXT;
use tessera_support::progress::Progress;

/// How a key compares, part by part, with the model that its recipe makes again from a checkpoint.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Id of the model that was made again.
    pub model_id: ModelId,
    /// Whether the ids are equal; if so, all other parts are, except perhaps `fidelity` and `other_files`.
    pub id: bool,
    /// Whether the architectures are equal.
    pub dimensions: bool,
    /// Whether the integer parameters are equal.
    pub parameters: bool,
    /// Whether shape, layout and hash suite of the commitments are equal.
    pub commitment: bool,
    /// Whether the Merkle roots of the weights are equal.
    pub weights_root: bool,
    /// Whether the Merkle roots of the lookup tables are equal.
    pub tables_root: bool,
    /// Whether the tokenizer's files are equal.
    pub tokenizer: bool,
    /// Whether the model made again is as close to its checkpoint as the key says; `None` if the key has no figures.
    pub fidelity: Option<bool>,
    /// Names of files that only the recipe or only the checkpoint has, or that differ; `None` if the recipe lists no
    /// files.
    pub other_files: Option<Vec<String>>,
    /// Sentences that may explain a difference.
    pub notes: Vec<String>,
}

/// Makes the model of `key` again from `checkpoint`, in a temporary directory, with the options that its recipe names.
/// `calibration` is the calibration text, if it was not the bundled one.
pub fn recompute(
    key: &ModelKey,
    checkpoint: &Path,
    calibration: Option<&PathBuf>,
    memory: Option<Budget>,
    progress: &dyn Progress,
) -> Result<Agreement, SetupError> {
    let refused = |problem: String| SetupError::Recipe { problem };
    let recipe = Recipe::of(key)?;
    let quantise = recipe_options(&recipe).map_err(refused)?;
    if recipe.calibration.text == OWN_TEXT && calibration.is_none() {
        let digest = recipe
            .calibration
            .sha256
            .map(|d| format!(" with SHA-256 {}", hex::encode(d)));
        let digest = digest.unwrap_or_default();
        return Err(refused(format!(
            "it was calibrated on a text of its own{digest}: give it with --calibration"
        )));
    }
    let dir = tempfile::Builder::new().prefix("tessera-against-").tempdir();
    let dir = dir.map_err(|e| refused(format!("cannot create a temporary directory: {e}")))?;
    let options = SetupOptions {
        quantise,
        calibration: calibration.cloned(),
        codeword_cache: CodewordCache::None,
        memory,
        skip_fidelity: recipe.measured().is_none(),
        suite: key.header.hash_suite,
        tables: Some(key.table_argument()),
        private_recipe: false,
    };
    let report = setup(checkpoint, &dir.path().join("model"), &options, progress)?;
    let (made, own_recipe) = (report.key, report.recipe);
    let own = own_recipe.files.clone().unwrap_or_default();
    let mut notes = Vec::new();
    let calibrated = (&recipe.calibration, &own_recipe.calibration);
    if calibrated.0.text != calibrated.1.text {
        let (then, now) = (&calibrated.0.text, &calibrated.1.text);
        notes.push(format!("the key was calibrated on {then}, the model made now on {now}"));
    } else if calibrated.0.sha256.is_some() && calibrated.0.sha256 != calibrated.1.sha256 {
        notes.push("the key was calibrated on another text".to_owned());
    }
    let otherwise = ModelParams {
        columns: key.params.columns.clone(),
        ..made.params.clone()
    };
    if made.params != key.params && otherwise == key.params {
        notes.push(
            "the key's norms of columns are not those of the weights: bounds that follow from them do not hold"
                .to_owned(),
        );
    }
    if recipe.tool != tool() {
        notes.push(format!("the key was made by {}, this is {}", recipe.tool, tool()));
    }
    Ok(Agreement {
        model_id: made.id()?,
        id: made.id()? == key.id()?,
        dimensions: made.config == key.config,
        parameters: made.params == key.params,
        commitment: (made.weights, made.header) == (key.weights, key.header),
        weights_root: made.weights_root == key.weights_root,
        tables_root: made.tables_root == key.tables_root,
        tokenizer: made.tokenizer_digest()? == key.tokenizer_digest()?,
        fidelity: recipe
            .measured()
            .map(|own| own_recipe.measured().is_some_and(|now| own.agrees(now))),
        other_files: recipe.files.as_ref().map(|listed| differing(listed, &own)),
        notes,
    })
}

/// Names of the files that are in only one of two lists, or differ.
fn differing(listed: &[SourceFile], own: &[SourceFile]) -> Vec<String> {
    let only = |a: &[SourceFile], b: &[SourceFile]| -> Vec<String> {
        let missing = a.iter().filter(|file| !b.contains(file));
        missing.map(|file| file.name.clone()).collect()
    };
    let mut names = [only(listed, own), only(own, listed)].concat();
    names.sort();
    names.dedup();
    names
}
