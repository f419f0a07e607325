//! `tessera-verdict` for JavaScript: keys and proofs are bytes, verdicts are JSON. `npm/index.js` is what users import.

use std::sync::{Mutex, PoisonError};

use serde_json::{json, Map, Value};
use tessera_verdict::claim::Claim;
use tessera_verdict::conversation::Turn;
use tessera_verdict::describe::{key_json, proof_json};
use tessera_verdict::policy::{Expectations, Policy, Spelling};
use tessera_verdict::text::{Side, Texts};
use tessera_verdict::{conversation, mistaken, shown, Key, Outcome, Verdict};
use tessera_verifier::proof::Proof;
use tessera_verifier::reveal::Reveal;
use wasm_bindgen::prelude::{wasm_bindgen, JsError};

/// Tokens of the statement that the security of a key is said for.
const TOKENS: usize = 64;

/// The last panic: nothing unwinds here, so JavaScript asks for it after a trap.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Keeps the message of a panic.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|info| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string().replace('\n', " ");
    }));
}

/// The message of the panic that ended the last call; empty if there was none.
#[wasm_bindgen]
pub fn panicked() -> String {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A model key.
#[wasm_bindgen]
pub struct RawKey(Key);

#[wasm_bindgen]
impl RawKey {
    /// Reads a key.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: &[u8]) -> Result<RawKey, JsError> {
        Ok(Self(Key::from_bytes(bytes)?))
    }

    /// What the key says, as JSON.
    pub fn describe(&self) -> Result<String, JsError> {
        let key = self.0.model_key();
        let tokens = TOKENS.min(key.config.context + 1);
        let json = key_json((key, self.0.recipe()), self.0.tokenizer() == Ok(true), tokens)?;
        Ok(Value::Object(json).to_string())
    }

    /// Whether bytes are a reveal that says it is about a proof; nothing is verified.
    pub fn is_about(&self, reveal: &[u8], proof: &[u8]) -> bool {
        Reveal::is_about(reveal, self.0.model_key().header.hash_suite, proof)
    }

    /// The verdict on a proof, as JSON; `policy` is a JSON object of options, which says what the proof has to be about. Messages call
    /// options as a page does, or as JavaScript does. `reveals` are reveals of ids that the proof hides, one behind the other, of these lengths.
    pub fn verify(
        &self,
        proof: &[u8],
        name: &str,
        policy: &str,
        page: bool,
        reveals: &[u8],
        lengths: &[u32],
    ) -> String {
        let mut rest = reveals;
        let each = lengths.iter().map(|length| {
            let (own, others) = rest.split_at_checked(*length as usize).unwrap_or((rest, &[]));
            rest = others;
            own
        });
        let reveals: Vec<&[u8]> = each.collect();
        let judged = || {
            let policy = Policy::parse(policy, spelling(page))?;
            let expectations = Expectations::of(&policy, &self.0)?;
            expectations.judge(self.0.verify_revealed(proof, &reveals).because(mistaken(name, proof)))
        };
        let json = match judged() {
            Ok(verdict) => answer(&verdict, name),
            Err(error) => Map::from_iter([("error".to_owned(), json!(error))]),
        };
        Value::Object(json).to_string()
    }
}

const fn spelling(page: bool) -> Spelling {
    match page {
        true => Spelling::Page,
        false => Spelling::Camel,
    }
}

/// The options of a policy, as JSON: names, what they take, labels for a page and help.
#[wasm_bindgen]
pub fn options() -> String {
    Spelling::Camel.options().to_string()
}

/// What a proof says of itself, as JSON: nothing is verified.
#[wasm_bindgen]
pub fn describe_proof(bytes: &[u8]) -> Result<String, JsError> {
    Ok(proof_json(&Proof::from_bytes(bytes)?, bytes.len()).to_string())
}

/// The fields of `tessera verify --json`, and what people are shown: hostile text is escaped in it.
fn answer(verdict: &Verdict, name: &str) -> Map<String, Value> {
    let mut json = verdict.json(name, "the key", None);
    let reason = verdict.reason(name, "the key").map(|reason| shown::line(&reason));
    let help = verdict.help().map(shown::line);
    let warnings: Vec<String> = verdict.warnings().map(|warning| shown::line(warning)).collect();
    let mut said = json!({"reason": reason, "help": help, "warnings": warnings});
    if let Outcome::Accepted(proved)
    | Outcome::Rejected {
        proved: Some(proved), ..
    } = &verdict.outcome
    {
        let claim = proved.claim();
        said["prompt"] = json!(text(claim, |t| &t.prompt));
        // A vector has no text, and does not end.
        if claim.vector().is_none() {
            said["output"] = json!(text(claim, |t| &t.output));
            said["end"] = json!(claim.finish_text());
        }
        if let Some(turns) = conversation::turns(claim) {
            let turn = |turn: &Turn| json!({"role": turn.role, "text": turn.text, "generated": turn.generated});
            said["conversation"] = turns.iter().map(turn).collect();
        }
    }
    json.insert("shown".to_owned(), said);
    json
}

fn text(claim: &Claim, side: fn(&Texts) -> &Side) -> String {
    match claim.texts() {
        Ok(texts) => shown::pieces(&side(texts).pieces),
        Err(reason) => format!("(no text: {})", shown::line(reason)),
    }
}
