//! Settings that several commands make in the same way: a model within a budget, where results go, how long a text is.

use std::path::{Path, PathBuf};

use tessera::lengths::fewest_chunks;
use tessera::loaded::{key_tokenizer, read_key, Model};
use tessera::plan::{Budget, Plan, Subject, Task};
use tessera_circuits::statement::Lengths;
use tessera_model::directory::{FILES, KEY_FILE};
use tessera_model::generate::{token_rows as rows, GenerateError};
use tessera_support::output::Output;
use tessera_text::tokenizer::Tokenizer;
use tessera_verdict::shown;
use tessera_verifier::key::ModelKey;

use super::budget::{mapped, Allowance};
use super::given;
use crate::printer::{claim_stdout, Failure};

/// Opens a model directory to use it within a budget; refuses before weights are read. `task` gets the tokenizer.
pub(super) fn open_planned(
    dir: &Path,
    memory: Option<Budget>,
    task: impl FnOnce(&ModelKey, Option<&Tokenizer>) -> Result<Task, Failure>,
) -> Result<(Model, Plan), Failure> {
    given::model_dir(dir)?;
    let path = dir.join(KEY_FILE);
    let key = read_key(&path)?;
    let tokenizer = key_tokenizer(&key, &path)?;
    let task = task(&key, tokenizer.as_ref())?;
    let allowance = Allowance::new(memory, mapped(dir));
    let subject = Subject::of_dir(&key, dir);
    let plan = subject.plan(task, allowance.budget).map_err(|error| {
        let Failure(text) = allowance.refusal(error);
        match task {
            Task::Prove { lengths, .. } => Failure(text + &in_chunks(&key, &subject, lengths, allowance.budget)),
            _ => Failure(text),
        }
    })?;
    let model = Model::of_key(dir, key, tokenizer)?.with_choices(plan.choices);
    Ok((model, plan))
}

/// What a refusal for memory adds where chunks fit: how to prove in chunks.
pub(super) fn in_chunks(key: &ModelKey, subject: &Subject, lengths: Lengths, budget: Option<Budget>) -> String {
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

/// Where the result of a command goes; fails early where it could not be written in the end. If it goes to standard
/// output, reports do not.
pub(super) fn output(path: &Path) -> Result<Output, Failure> {
    let output = Output::of(path)?;
    if output == Output::Stdout {
        claim_stdout();
    }
    output.check()?;
    Ok(output)
}

/// Where a result goes, as [`output`] finds it. Refuses one that would replace one of the files that the command reads.
pub(super) fn output_beside<P: AsRef<Path>>(path: &Path, read: impl IntoIterator<Item = P>) -> Result<Output, Failure> {
    let output = output(path)?;
    let target = match &output {
        // A file that is not there yet replaces none.
        Output::File(target) => target.canonicalize().ok(),
        _ => None,
    };
    let mut read = read.into_iter().filter_map(|own| own.as_ref().canonicalize().ok());
    match target.is_some_and(|target| read.any(|own| own == target)) {
        true => {
            let problem = "is one of the files that this command reads: name another file for the result";
            Err(Failure(format!("--out {}: {problem}", shown::path(path))))
        }
        false => Ok(output),
    }
}

/// The files of a model directory.
pub(super) fn model_files(dir: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    FILES.into_iter().map(|name| dir.join(name))
}

/// Token rows of prompt and generated tokens; refuses what the context has no room for.
pub(super) fn token_rows(key: &ModelKey, prompt: usize, tokens: usize) -> Result<usize, Failure> {
    Ok(rows(prompt, tokens, key.config.context)?)
}

/// Lengths of what is proved of a prompt: `tokens` are generated after it, or none if it is the text of an encoder.
pub(super) fn lengths(key: &ModelKey, prompt: usize, tokens: Option<usize>) -> Result<Lengths, Failure> {
    match (key.config.is_encoder(), tokens) {
        (true, Some(_)) => Err(GenerateError::Encoder.into()),
        (_, tokens) => Ok(Lengths {
            rows: token_rows(key, prompt, tokens.unwrap_or(1))?,
            outputs: tokens.unwrap_or(0),
        }),
    }
}
