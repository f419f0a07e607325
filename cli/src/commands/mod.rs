//! The commands: each turns its arguments into settings, makes one call and reports the result.

mod bench;
mod claim;
mod demo;
mod fidelity;
mod generate;
mod inspect;
pub mod predict;
mod prompt;
mod prove;
mod setup;
mod synth;
mod verify;
mod work;

use std::path::Path;

use serde_json::{json, Map, Value};
use tessera_prover::library::{key_tokenizer, read_key, Model, KEY_FILE};
use tessera_prover::plan::{Budget, Plan, Subject, Task};
use tessera_prover::progress::Progress;
use tessera_prover::stream::Traffic;
use tessera_prover::tokenizer::Tokenizer;
use tessera_prover::weights::Residency;
use tessera_verifier::key::ModelKey;

use crate::args::Command;
use crate::printer::{bytes, peak_rss_bytes, Failure, Report};

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
        Command::Inspect(args) => inspect::run(args),
        Command::Fidelity(args) => fidelity::run(args, progress),
        Command::Generate(args) => generate::run(args, progress),
        Command::Synth(args) => synth::run(args, progress),
        Command::Bench(args) => bench::run(args, progress),
    }
}

/// Opens a model directory to use it within a budget; refuses before weights are read. `task` gets the tokenizer.
fn open_planned(
    dir: &Path,
    memory: Option<Budget>,
    task: impl FnOnce(&ModelKey, Option<&Tokenizer>) -> Result<Task, Failure>,
) -> Result<(Model, Plan), Failure> {
    let path = dir.join(KEY_FILE);
    let key = read_key(&path)?;
    let task = task(&key, key_tokenizer(&key, &path)?.as_ref())?;
    let plan = Subject::of_dir(&key, dir).plan(task, memory.or_else(Budget::available))?;
    let model = Model::open(dir)?.with_choices(plan.choices);
    Ok((model, plan))
}

/// Token rows of prompt and generated tokens, as many as the context has at most.
fn token_rows(key: &ModelKey, prompt: usize, tokens: usize) -> usize {
    let rows = prompt.saturating_add(tokens).saturating_sub(1);
    rows.clamp(1, key.config.context)
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
