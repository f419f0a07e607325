//! `tessera verify`: reads a key and a proof, nothing else.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use serde_json::{json, Map, Value};
use tessera_prover::intake::tokenizer::Tokenizer;
use tessera_prover::tasks::loaded::{key_id, key_tokenizer, read_key};
use tessera_verifier::codec::PROOF_LIMIT;
use tessera_verifier::verify::{verify_bytes, Verified, VerifyError};

use super::claim::Claim;
use super::given;
use super::prompt::NO_TOKENIZER;
use crate::args::VerifyArgs;
use crate::printer::{seconds, Failure, Report, Rows, Status};
use crate::shown;

pub fn run(args: &VerifyArgs) -> Result<Report, Failure> {
    given::key(&args.key)?;
    let key = read_key(&args.key)?;
    let id = key_id(&key, &args.key)?;
    // The verdict is about ids: it does not need a tokenizer, unless something is expected of the text.
    let tokenizer = key_tokenizer(&key, &args.key);
    let tokenizer = tokenizer.as_ref().map(Option::as_ref).map_err(|e| e.to_string());
    let expected = Expected::of(args, &tokenizer)?;
    let bytes = read_proof(&args.proof)?;
    let clock = Instant::now();
    let result = verify_bytes(&key, &bytes);
    let verify_seconds = clock.elapsed().as_secs_f64();
    let mut json = Map::new();
    json.insert("model_id".to_owned(), json!(id.to_string()));
    json.insert("verify_seconds".to_owned(), json!(verify_seconds));
    json.insert("proof_bytes".to_owned(), json!(bytes.len()));
    let verified = match result {
        Ok(verified) => verified,
        // The key cannot decide about a proof of another model, whatever that is worth.
        Err(VerifyError::OtherModel { got, expected }) => {
            let (proof, key) = (args.proof.display(), args.key.display());
            return Err(Failure(format!(
                "{proof} is about model {got}, {key} is the key of another model, {expected}"
            )));
        }
        Err(error) => {
            let reason = given::no_proof(&args.proof).unwrap_or_else(|| error.to_string());
            return Ok(rejected(reason, String::new(), json));
        }
    };
    let claim = Claim::new(&verified.statement, &key.config, tokenizer);
    let rows = rows(&verified, &claim, verify_seconds);
    claim.add_to(&mut json);
    json.insert("mode".to_owned(), json!(mode(verified.chunks)));
    json.insert("chunks".to_owned(), json!(verified.chunks));
    json.insert("security_bits".to_owned(), json!(verified.security_bits));
    if let Some(reason) = expected.mismatch(&verified, &claim)? {
        return Ok(rejected(reason, format!("the proof proves\n{rows}"), json));
    }
    json.insert("verdict".to_owned(), json!("accept"));
    Ok(Report::done(format!("accepted\n{rows}"), Value::Object(json)))
}

fn rejected(reason: String, details: String, mut json: Map<String, Value>) -> Report {
    json.insert("verdict".to_owned(), json!("reject"));
    json.insert("reason".to_owned(), json!(reason));
    Report {
        status: Status::Rejected,
        text: format!("rejected: {}\n{details}", shown::line(&reason)),
        json: Value::Object(json),
    }
}

/// What an accepted proof proves.
fn rows(verified: &Verified, claim: &Claim<'_>, verify_seconds: f64) -> Rows {
    claim
        .rows(Rows::default().row("model", verified.model))
        .row("mode", mode_text(verified.chunks))
        .row(
            "security",
            format!("{:.1} bits, proven (unique decoding)", verified.security_bits),
        )
        .row("time", seconds(verify_seconds))
}

/// How a proof is composed: one STARK for all layers, or one for every chunk of them.
pub const fn mode(chunks: usize) -> &'static str {
    match chunks {
        1 => "unified",
        _ => "chain",
    }
}

/// The same for people.
fn mode_text(chunks: usize) -> String {
    match chunks {
        1 => "unified: all layers in one piece".to_owned(),
        n => format!("chain of {n} chunks"),
    }
}

/// Reads a proof file, but not much more of it than a proof can have.
fn read_proof(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |e| Failure(format!("cannot read {}: {e}", path.display()));
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
struct Expected<'a> {
    prompt: Option<Vec<u32>>,
    output: Option<&'a [u32]>,
    output_text: Option<&'a str>,
}

impl<'a> Expected<'a> {
    fn of(args: &'a VerifyArgs, tokenizer: &Result<Option<&Tokenizer>, String>) -> Result<Self, Failure> {
        let needed = || match tokenizer {
            Ok(tokenizer) => tokenizer.ok_or_else(|| Failure(NO_TOKENIZER.to_owned())),
            Err(reason) => Err(Failure(reason.clone())),
        };
        let prompt = match &args.expect_prompt {
            Some(text) => Some(needed()?.encode(text)?),
            None => args.expect_prompt_ids.as_ref().map(|ids| ids.0.clone()),
        };
        if args.expect_output.is_some() {
            needed()?;
        }
        Ok(Self {
            prompt,
            output: args.expect_output_ids.as_ref().map(|ids| ids.0.as_slice()),
            output_text: args.expect_output.as_deref(),
        })
    }

    /// Why a proven statement is not the expected one. Errors if that cannot be decided.
    fn mismatch(&self, verified: &Verified, claim: &Claim<'_>) -> Result<Option<String>, Failure> {
        let prompt = self
            .prompt
            .as_deref()
            .and_then(|e| difference("prompt", &verified.statement.prompt, e));
        let output = || {
            self.output
                .and_then(|e| difference("output", &verified.statement.output, e))
        };
        let text = match (self.output_text, claim.texts()) {
            (None, _) => None,
            (Some(expected), Ok(texts)) => {
                let differs = expected != texts.output.text;
                differs.then(|| "the output is not the expected text".to_owned())
            }
            (Some(_), Err(reason)) => return Err(Failure(format!("the output has no text to compare: {reason}"))),
        };
        Ok(prompt.or_else(output).or(text))
    }
}

/// The first difference of two id lists.
fn difference(what: &str, got: &[u32], expected: &[u32]) -> Option<String> {
    if let Some(at) = got.iter().zip(expected).position(|(g, e)| g != e) {
        let (got, expected) = (got[at], expected[at]);
        return Some(format!(
            "the {what} is not the expected one: id {got} at position {at}, expected {expected}"
        ));
    }
    let (got, expected) = (got.len(), expected.len());
    (got != expected).then(|| format!("the {what} is not the expected one: {got} ids, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn differences_are_located() {
        assert_eq!(difference("prompt", &[1, 2], &[1, 2]), None);
        let text = difference("prompt", &[1, 2], &[1, 3]).unwrap();
        assert!(text.contains("id 2 at position 1, expected 3"), "{text}");
        let text = difference("output", &[1, 2], &[1]).unwrap();
        assert!(text.contains("2 ids, expected 1"), "{text}");
        assert!(difference("output", &[], &[1]).is_some());
    }
}
