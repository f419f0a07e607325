//! Settings that several commands make in the same way: where results go, how long a text is.

use std::path::{Path, PathBuf};

use tessera::quantised::directory::FILES;
use tessera::quantised::generate::token_rows as rows;
use tessera::support::output::Output;
use tessera::verifier::key::ModelKey;
use tessera_verdict::shown;

use crate::printer::{claim_stdout, Failure};

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
