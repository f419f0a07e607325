//! `tessera verify`: reads a key and a proof, nothing else.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use tessera::circuits::model::ModelConfig;
use tessera::model::{key_id, key_tokenizer};
use tessera::text::tokenizer::Tokenizer;
use tessera::verifier::verify::verify_bytes;
use tessera::PromptError;
use tessera_verdict::expected::Expected;
use tessera_verdict::input;
use tessera_verdict::{mistaken, Status as Decision, Verdict};

use super::claim::claim_of;
use super::key;
use crate::args::VerifyArgs;
use crate::printer::{Failure, Report, Status};

pub fn run(args: &VerifyArgs) -> Result<Report, Failure> {
    input::once([args.key.as_path(), &args.proof]).map_err(Failure)?;
    let (proof_name, key_name) = (input::name(&args.proof), input::name(&args.key));
    let key = key::read_key(&args.key)?;
    let id = key_id(&key, Path::new(&key_name))?;
    // The verdict is about ids: it does not need a tokenizer, unless something is expected of the text.
    let tokenizer = key_tokenizer(&key, Path::new(&key_name));
    let tokenizer = tokenizer.as_ref().map(Option::as_ref).map_err(|e| e.to_string());
    let expected = expected(args, &key.config, &tokenizer)?;
    let bytes = input::read_proof(&args.proof, &key).map_err(Failure)?;
    let clock = Instant::now();
    let found = verify_bytes(&key, &bytes);
    let time = Some(clock.elapsed().as_secs_f64());
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

/// What the caller wants the proof to be about.
fn expected(
    args: &VerifyArgs,
    config: &ModelConfig,
    tokenizer: &Result<Option<&Tokenizer>, String>,
) -> Result<Expected, Failure> {
    let needed = || match tokenizer {
        Ok(tokenizer) => {
            let none = PromptError::NoTokenizer;
            tokenizer.ok_or_else(|| Failure(format!("{none} (--expect-prompt-ids, --expect-output-ids)")))
        }
        Err(reason) => Err(Failure(reason.clone())),
    };
    if args.expect_pair.is_some() && config.reranker().is_none() {
        return Err(Failure(format!("{} (--expect-prompt)", PromptError::NoReranker)));
    }
    let prompt = match (&args.expect_prompt, args.expect_pair.as_deref()) {
        (Some(text), _) => Some(needed()?.encode(text)?),
        (_, Some([query, document])) => Some(needed()?.encode_pair(query, document, config)?),
        _ => args.expect_prompt_ids.as_ref().map(|ids| ids.0.clone()),
    };
    if args.expect_output.is_some() {
        needed()?;
    }
    Ok(Expected {
        prompt,
        output: args.expect_output_ids.as_ref().map(|ids| ids.0.clone()),
        output_text: args.expect_output.clone(),
        context: args.expect_context,
    })
}
