//! The commands: each turns its arguments into settings, makes one call and reports the result.

mod bench;
mod budget;
mod demo;
mod fidelity;
mod generate;
mod given;
mod inspect;
pub mod predict;
mod prove;
mod recipe;
mod security;
mod setup;
mod synth;
mod verify;
mod work;

use std::path::Path;

use serde_json::{json, Map, Value};
use tessera_prover::forward::Saturations;
use tessera_prover::generate::token_rows as rows;
use tessera_prover::library::{key_tokenizer, read_key, Model, KEY_FILE};
use tessera_prover::limits::fewest_chunks;
use tessera_prover::output::Output;
use tessera_prover::plan::{Budget, Plan, Subject, Task};
use tessera_prover::progress::Progress;
use tessera_prover::quantise::explain;
use tessera_prover::stream::Traffic;
use tessera_prover::tokenizer::Tokenizer;
use tessera_prover::weights::Residency;
use tessera_verifier::key::ModelKey;

use self::budget::{mapped, Allowance};
use crate::args::{Command, PromptArgs};
use crate::printer::{bytes, claim_stdout, peak_rss_bytes, quoted, Failure, Report};

/// Runs a command.
pub fn run(command: &Command, progress: &dyn Progress, quiet: bool) -> Result<Report, Failure> {
    match command {
        Command::Resume(args) => work::resume(args, progress, quiet),
        Command::Status(args) => work::status(args),
        Command::ProveChunk(args) => work::prove_chunk(args, progress),
        Command::Compose(args) => work::compose(args, progress),
        Command::Demo(args) => demo::run(args, progress),
        Command::Setup(args) => setup::run(args, progress),
        Command::Prove(args) => prove::run(args, progress, quiet),
        Command::Verify(args) => verify::run(args),
        Command::Inspect(args) => inspect::run(args, progress),
        Command::Fidelity(args) => fidelity::run(args, progress),
        Command::Generate(args) => generate::run(args, progress),
        Command::Synth(args) => synth::run(args, progress),
        Command::Bench(args) => bench::run(args, progress),
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

/// Opens a model directory to use it within a budget; refuses before weights are read. `task` gets the tokenizer.
fn open_planned(
    dir: &Path,
    memory: Option<Budget>,
    task: impl FnOnce(&ModelKey, Option<&Tokenizer>) -> Result<Task, Failure>,
) -> Result<(Model, Plan), Failure> {
    given::model_dir(dir)?;
    let path = dir.join(KEY_FILE);
    let key = read_key(&path)?;
    let task = task(&key, key_tokenizer(&key, &path)?.as_ref())?;
    let allowance = Allowance::new(memory, mapped(dir));
    let subject = Subject::of_dir(&key, dir);
    let plan = subject.plan(task, allowance.budget).map_err(|error| {
        let Failure(text) = allowance.refusal(error);
        match task {
            Task::Prove { rows, .. } => Failure(text + &in_chunks(&key, &subject, rows, allowance.budget)),
            _ => Failure(text),
        }
    })?;
    let model = Model::open(dir)?.with_choices(plan.choices);
    Ok((model, plan))
}

/// What a refusal for memory adds where chunks fit: how to prove in chunks.
fn in_chunks(key: &ModelKey, subject: &Subject, rows: usize, budget: Option<Budget>) -> String {
    let fewest = fewest_chunks(key, rows).unwrap_or(1);
    match subject.divide(rows, fewest, budget) {
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
fn output(path: &Path) -> Result<Output, Failure> {
    let output = Output::of(path)?;
    if output == Output::Stdout {
        claim_stdout();
    }
    output.check()?;
    Ok(output)
}

/// Token rows of prompt and generated tokens; refuses what the context has no room for.
fn token_rows(key: &ModelKey, prompt: usize, tokens: usize) -> Result<usize, Failure> {
    Ok(rows(prompt, tokens, key.config.context)?)
}

/// Measured peak of resident memory beside the predicted one.
fn memory(predicted: u64) -> String {
    format!("{}, predicted {}", bytes(peak_rss_bytes()), bytes(predicted))
}

/// What was chosen to stay within the budget.
fn choices_json(plan: &Plan) -> Value {
    let streamed = match plan.choices.residency {
        Residency::Keep => None,
        Residency::Stream { bytes } => Some(bytes),
    };
    json!({
        "streamed_window_bytes": streamed,
        "keep_coefficients": plan.choices.keep_coefficients,
        "codeword_split": 1 << plan.choices.split.log(),
        "predicted_phases": predicted_phases(plan),
    })
}

/// `{"name": bytes}`.
fn predicted_phases(plan: &Plan) -> Value {
    let phases = plan.phases.iter().map(|p| (p.name.to_owned(), json!(p.bytes)));
    Value::Object(phases.collect())
}

/// What every pass read of the weights.
fn traffic_json(passes: &[(String, Traffic)]) -> Value {
    let pass = |(name, t): &(String, Traffic)| {
        let value = json!({"bytes": t.bytes, "seconds": t.seconds, "stall_seconds": t.stall_seconds});
        (name.clone(), value)
    };
    Value::Object(passes.iter().map(pass).collect())
}

/// `matmuls 0.52 s, of which 0.10 s waiting for 1.12 GB`, a line per pass.
fn traffic_text(passes: &[(String, Traffic)]) -> String {
    let line = |(name, t): &(String, Traffic)| {
        let (seconds, stall) = (
            crate::printer::seconds(t.seconds),
            crate::printer::seconds(t.stall_seconds),
        );
        format!("{name} {seconds}, of which {stall} waiting for {}", bytes(t.bytes))
    };
    passes.iter().map(line).collect::<Vec<_>>().join("\n")
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

/// `none`, or a sentence for every tensor with clipped values.
fn saturated_text(saturated: &Saturations) -> String {
    let sentences: Vec<String> = explain(saturated).into_iter().map(|e| e.sentence).collect();
    match sentences.is_empty() {
        true => "none".to_owned(),
        false => sentences.join("\n"),
    }
}
