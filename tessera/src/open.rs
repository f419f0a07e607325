//! Models from checkpoints and from model directories, within a budget of memory.

use std::path::Path;

use tessera_circuits::statement::Lengths;
use tessera_model::directory::KEY_FILE;
use tessera_support::progress::Progress;
use tessera_text::tokenizer::Tokenizer;
use tessera_verifier::key::ModelKey;

use crate::allowance::{mapped, Allowance, OutOfBudget};
use crate::given;
use crate::lengths::fewest_chunks;
use crate::model::{key_tokenizer, read_key, Model};
use crate::plan::{Budget, Plan, Subject, Task};
use crate::setup::{setup, SetupOptions};
use crate::Error;

impl Model {
    /// Opens a model directory and checks that its files are whole and belong together. Weights stay on disk. Only the
    /// contents of the codeword are not read here, but checked where they are opened.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let dir = dir.as_ref();
        given::model_dir(dir)?;
        let path = dir.join(KEY_FILE);
        let key = read_key(&path)?;
        let tokenizer = key_tokenizer(&key, &path)?;
        Ok(Self::of_key(dir, key, tokenizer)?)
    }

    /// Sets a checkpoint up in a new model directory, and opens the model.
    ///
    /// # Errors
    /// If `dir` is there already, or if the checkpoint cannot be set up.
    pub fn setup(
        checkpoint: impl AsRef<Path>,
        dir: impl AsRef<Path>,
        options: &SetupOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let (checkpoint, dir) = (checkpoint.as_ref(), dir.as_ref());
        given::checkpoint(checkpoint)?;
        let allowance = Allowance::new(options.memory, 2 * mapped(checkpoint));
        let options = SetupOptions {
            memory: allowance.budget,
            ..options.clone()
        };
        setup(checkpoint, dir, &options, progress)?;
        Self::open(dir)
    }

    /// Opens a model directory for a task within a budget, and refuses what does not fit before weights are read. `task` gets the
    /// key and the tokenizer, and says what is to be done.
    ///
    /// # Errors
    /// If the directory is no model directory, if its model cannot do the task, or if there is too little memory for it.
    pub fn open_within<E: From<Error>>(
        dir: &Path,
        memory: Option<Budget>,
        task: impl FnOnce(&ModelKey, Option<&Tokenizer>) -> Result<Task, E>,
    ) -> Result<(Self, Plan), E> {
        given::model_dir(dir).map_err(Error::from)?;
        let path = dir.join(KEY_FILE);
        let key = read_key(&path).map_err(Error::from)?;
        let tokenizer = key_tokenizer(&key, &path).map_err(Error::from)?;
        let task = task(&key, tokenizer.as_ref())?;
        let allowance = Allowance::new(memory, mapped(dir));
        let subject = Subject::of_dir(&key, dir);
        let plan = subject.plan(task, allowance.budget).map_err(|error| {
            let OutOfBudget(text) = allowance.refusal(error);
            let chunks = match task {
                // Proofs in chunks hide nothing.
                Task::Prove {
                    lengths, hides: false, ..
                } => in_chunks(&key, &subject, lengths, allowance.budget),
                _ => String::new(),
            };
            Error::from(OutOfBudget(text + &chunks))
        })?;
        let model = Self::of_key(dir, key, tokenizer).map_err(Error::from)?;
        Ok((model.with_choices(plan.choices), plan))
    }

    /// The subject of plans for this model.
    pub fn subject(&self) -> Subject {
        Subject::of_dir(&self.key, &self.dir)
    }

    /// How much memory a task with this model may take.
    pub(crate) fn allowance(&self, memory: Option<Budget>) -> Allowance {
        Allowance::new(memory, mapped(&self.dir))
    }
}

/// The sentence that a refusal for memory adds where chunks fit: how to prove in chunks.
pub fn in_chunks(key: &ModelKey, subject: &Subject, lengths: Lengths, budget: Option<Budget>) -> String {
    let fewest = fewest_chunks(key, lengths).unwrap_or(1);
    match subject.divide(lengths, fewest, budget) {
        Ok((layers, _)) if layers.len() > 1 => {
            format!(
                "; prove --work DIR proves it in {} chunks of layers, which fit",
                layers.len()
            )
        }
        _ => String::new(),
    }
}
