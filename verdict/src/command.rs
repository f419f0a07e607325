//! `verify` as a command: what the programs with a command line share, from arguments and files to a report.

mod args;
mod batch;
mod judge;
mod keys;
mod output;
mod report;
mod version;

pub use args::{PolicyArgs, VerifyArgs};
pub use batch::Summary;
pub use judge::guarded;
pub use keys::read_key;
pub use output::{delivered, line};
pub use report::{How, Report};
pub use version::Version;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::input;
use crate::policy::Expectations;
use crate::verdict::Status;
use crate::Key;

use self::judge::judge;

/// Verifies proofs. Of several, or with `--lines`, each has a line on standard output at once, and the report is the summary.
///
/// # Errors
/// If nothing could be done or decided.
pub fn verify(args: &VerifyArgs, how: How) -> Result<Report, String> {
    input::once(args.names().into_iter().chain(args.policy.files()))?;
    let policy = args.policy.policy()?;
    let key = guarded(|| read_key(&args.key))?;
    let expectations = guarded(|| Expectations::of(&policy, &key))?;
    match args.proofs.as_slice() {
        [proof] if !args.lines => single(&key, &args.key, (proof, &args.reveal), &expectations),
        _ if !args.reveal.is_empty() => Err("--reveal says ids of one proof: give one".to_owned()),
        _ => batch::run(&key, args, &expectations, how),
    }
}

fn single(
    key: &Key,
    key_path: &Path,
    (proof, reveals): (&Path, &[PathBuf]),
    expectations: &Expectations<'_>,
) -> Result<Report, String> {
    let (verdict, time) = judge(key, proof, reveals, expectations)?;
    let names = (input::name(proof), input::name(key_path));
    if let (Status::Undecided, Some(reason)) = (verdict.status(), verdict.reason(&names.0, &names.1)) {
        return Err(reason);
    }
    Ok(Report {
        status: verdict.status(),
        text: verdict.text(&names.0, &names.1, Some(time)),
        json: Value::Object(verdict.json(&names.0, &names.1, Some(time))),
    })
}
