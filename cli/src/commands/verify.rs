//! `tessera verify`: reads a key and a proof, nothing else.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use tessera_prover::intake::tokenizer::Tokenizer;
use tessera_prover::tasks::loaded::{key_id, key_tokenizer, read_key};
use tessera_verdict::expected::Expected;
use tessera_verdict::{mistaken, Status as Decision, Verdict};
use tessera_verifier::codec::PROOF_LIMIT;
use tessera_verifier::verify::verify_bytes;

use super::claim::claim_of;
use super::given;
use super::prompt::NO_TOKENIZER;
use crate::args::VerifyArgs;
use crate::printer::{Failure, Report, Status};

pub fn run(args: &VerifyArgs) -> Result<Report, Failure> {
    given::key(&args.key)?;
    let key = read_key(&args.key)?;
    let id = key_id(&key, &args.key)?;
    // The verdict is about ids: it does not need a tokenizer, unless something is expected of the text.
    let tokenizer = key_tokenizer(&key, &args.key);
    let tokenizer = tokenizer.as_ref().map(Option::as_ref).map_err(|e| e.to_string());
    let expected = expected(args, &tokenizer)?;
    let bytes = read_proof(&args.proof)?;
    let clock = Instant::now();
    let found = verify_bytes(&key, &bytes);
    let time = Some(clock.elapsed().as_secs_f64());
    let (proof_name, key_name) = (args.proof.display().to_string(), args.key.display().to_string());
    let verdict = Verdict::new(id, bytes.len(), found, |statement| claim_of(statement, &key, tokenizer));
    let verdict = verdict.because(mistaken(&proof_name, &bytes));
    let verdict = verdict.expecting(&expected).map_err(Failure)?;
    let status = match (verdict.status(), verdict.reason(&proof_name, &key_name)) {
        (Decision::Accepted, _) => Status::Done,
        (Decision::Rejected, _) => Status::Rejected,
        (Decision::Undecided, reason) => return Err(Failure(reason.unwrap_or_default())),
    };
    Ok(Report {
        status,
        text: verdict.text(&proof_name, &key_name, time),
        json: Value::Object(verdict.json(&proof_name, &key_name, time)),
    })
}

/// Reads a proof file, but not much more of it than a proof can have.
fn read_proof(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |e| Failure(format!("cannot read {}: {e}", path.display()));
    if path.is_dir() {
        return Err(Failure(format!(
            "{} is a directory: give the file of the proof",
            path.display()
        )));
    }
    let mut bytes = Vec::new();
    let header = 64;
    File::open(path)
        .map_err(failed)?
        .take(PROOF_LIMIT as u64 + header)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// What the caller wants the proof to be about.
fn expected(args: &VerifyArgs, tokenizer: &Result<Option<&Tokenizer>, String>) -> Result<Expected, Failure> {
    let needed = || match tokenizer {
        Ok(tokenizer) => {
            tokenizer.ok_or_else(|| Failure(format!("{NO_TOKENIZER} (--expect-prompt-ids, --expect-output-ids)")))
        }
        Err(reason) => Err(Failure(reason.clone())),
    };
    let prompt = match &args.expect_prompt {
        Some(text) => Some(needed()?.encode(text)?),
        None => args.expect_prompt_ids.as_ref().map(|ids| ids.0.clone()),
    };
    if args.expect_output.is_some() {
        needed()?;
    }
    Ok(Expected {
        prompt,
        output: args.expect_output_ids.as_ref().map(|ids| ids.0.clone()),
        output_text: args.expect_output.clone(),
    })
}
