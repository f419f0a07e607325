//! From a file to a verdict.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::input::{self, read_proof, read_reveal};
use crate::policy::Expectations;
use crate::{mistaken, Key, Verdict};

/// Runs `work`. A panic is a defect of the program: it is a failure, so that nothing looks decided. The program has to silence the message
/// of the panic itself.
///
/// # Errors
/// What `work` fails with, or the message of the panic.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    outcome.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text
            .or_else(|| cause.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(format!("internal error, please report it: {}", text.replace('\n', " ")))
    })
}

/// The verdict on one proof with reveals of ids that it hides, and the seconds that it took.
pub(super) fn judge(
    key: &Key,
    proof: &Path,
    reveals: &[PathBuf],
    expectations: &Expectations<'_>,
) -> Result<(Verdict, f64), String> {
    guarded(|| {
        let bytes = read_proof(proof, key.model_key())?;
        let read = |path: &PathBuf| read_reveal(path, key.model_key());
        let contents = reveals.iter().map(read).collect::<Result<Vec<_>, String>>()?;
        let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        let clock = Instant::now();
        let verdict = key.verify_revealed(&bytes, &contents);
        let time = clock.elapsed().as_secs_f64();
        let refused = verdict.refused_reveal().and_then(|(number, error)| {
            let path = reveals.get(number.checked_sub(1)?)?;
            Some(format!("reveal {}: {error}", input::name(path)))
        });
        let verdict = verdict.because(mistaken(&input::name(proof), &bytes).or(refused));
        Ok((expectations.judge(verdict)?, time))
    })
}
