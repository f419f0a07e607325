//! From arguments and files to a verdict.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tessera_verdict::expected::Expected;
use tessera_verdict::input::{self, read_proof};
use tessera_verdict::{mistaken, Key, Verdict};

use crate::args::VerifyArgs;
use crate::keys::read_key;

/// A panic is a defect of this program: it is reported as a failure, so that nothing looks decided.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panic::set_hook(Box::new(|_| ()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    outcome.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text
            .or_else(|| cause.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(format!("internal error, please report it: {}", text.replace('\n', " ")))
    })
}

/// The key, and what its proofs have to be about.
pub fn prepare(args: &VerifyArgs) -> Result<(Key, Expected), String> {
    let inputs = [&args.key].into_iter().chain(&args.proofs);
    input::once(inputs.map(PathBuf::as_path))?;
    let key = guarded(|| read_key(&args.key))?;
    if args.expect_output.is_some() && !key.tokenizer()? {
        return Err("the model has no tokenizer, so texts must be given as token ids (--expect-output-ids)".to_owned());
    }
    let expected = Expected {
        prompt: args.expect_prompt_ids.as_ref().map(|ids| ids.0.clone()),
        output: args.expect_output_ids.as_ref().map(|ids| ids.0.clone()),
        output_text: args.expect_output.clone(),
        context: args.expect_context,
    };
    Ok((key, expected))
}

/// The verdict on one proof, and the seconds that it took.
pub fn judge(key: &Key, proof: &Path, expected: &Expected) -> Result<(Verdict, f64), String> {
    guarded(|| {
        let bytes = read_proof(proof, key.model_key())?;
        let clock = Instant::now();
        let verdict = key.verify(&bytes);
        let time = clock.elapsed().as_secs_f64();
        let verdict = verdict.because(mistaken(&input::name(proof), &bytes));
        Ok((verdict.expecting(expected)?, time))
    })
}
