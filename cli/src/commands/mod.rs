//! The commands: each turns its arguments into settings, makes one call and reports the result.

mod demo;
mod fidelity;
mod generate;
mod inspect;
pub mod predict;
mod prove;
mod setup;
mod synth;
mod verify;

use serde_json::{json, Map, Value};
use tessera_prover::progress::Progress;
use tessera_prover::tokenizer::Tokenizer;

use crate::args::{Command, PromptArgs};
use crate::printer::{quoted, Failure, Report};

/// Runs a command.
pub fn run(command: &Command, progress: &dyn Progress) -> Result<Report, Failure> {
    match command {
        Command::Demo(args) => demo::run(args, progress),
        Command::Setup(args) => setup::run(args, progress),
        Command::Prove(args) => prove::run(args, progress),
        Command::Verify(args) => verify::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Fidelity(args) => fidelity::run(args, progress),
        Command::Generate(args) => generate::run(args, progress),
        Command::Synth(args) => synth::run(args, progress),
    }
}

const NO_TOKENIZER: &str = "the model has no tokenizer, so texts must be given as token ids";

/// Token ids of a text under the model's tokenizer.
fn encode(text: &str, tokenizer: Option<&Tokenizer>) -> Result<Vec<u32>, Failure> {
    let tokenizer = tokenizer.ok_or_else(|| Failure(NO_TOKENIZER.to_owned()))?;
    Ok(tokenizer.encode(text)?)
}

/// The prompt of the command line as ids.
fn prompt_ids(args: &PromptArgs, tokenizer: Option<&Tokenizer>) -> Result<Vec<u32>, Failure> {
    match (&args.prompt_ids, &args.prompt) {
        (Some(ids), _) => Ok(ids.clone()),
        (None, text) => encode(text.as_deref().unwrap_or_default(), tokenizer),
    }
}

/// Prompt and output as people read them; special tokens are left out.
struct Texts {
    prompt: String,
    output: String,
}

impl Texts {
    /// `None` if the model has no tokenizer. The output is what it adds to the text of the prompt, so that
    /// both together read as one text.
    fn of(prompt: &[u32], output: &[u32], tokenizer: Option<&Tokenizer>) -> Result<Option<Self>, Failure> {
        let Some(tokenizer) = tokenizer else {
            return Ok(None);
        };
        let head = tokenizer.decode(prompt, true)?;
        let whole = tokenizer.decode(&[prompt, output].concat(), true)?;
        let output = match whole.strip_prefix(&head) {
            Some(rest) => rest.to_owned(),
            None => tokenizer.decode(output, true)?,
        };
        Ok(Some(Self { prompt: head, output }))
    }

    /// The whole text.
    fn whole(&self) -> String {
        format!("{}{}", self.prompt, self.output)
    }
}

/// The quoted text, or the reason why there is none.
fn shown(text: Option<&str>) -> String {
    text.map_or_else(|| "(the model has no tokenizer)".to_owned(), quoted)
}

/// `{"name": seconds}`.
fn phases_json(phases: &[(String, f64)]) -> Value {
    let mut map = Map::new();
    for (name, seconds) in phases {
        map.insert(name.clone(), json!(seconds));
    }
    Value::Object(map)
}

/// `forward pass 12.3 ms, stark 1.02 s`, without what takes no time.
fn phases_text(phases: &[(String, f64)]) -> String {
    let shown = phases.iter().filter(|(_, s)| *s >= 5e-4);
    shown
        .map(|(name, s)| format!("{name} {}", crate::printer::seconds(*s)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// `none`, or the tensors whose values were clamped.
fn saturated_text(saturated: &std::collections::BTreeMap<String, u64>) -> String {
    let shown: Vec<_> = saturated
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    if shown.is_empty() {
        "none".to_owned()
    } else {
        shown.join("\n")
    }
}
