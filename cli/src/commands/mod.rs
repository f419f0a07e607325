//! The commands: each turns its arguments into settings, makes one call and reports the result.

mod bench;
mod budget;
mod claim;
mod demo;
mod fidelity;
mod generate;
mod given;
pub mod inspect;
pub mod predict;
mod prompt;
mod prove;
mod recipe;
mod security;
mod setup;
mod synth;
mod verify;
mod work;

use std::path::Path;

use serde_json::{json, Map, Value};
use tessera_circuits::statement::Lengths;
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
use crate::args::Command;
use crate::printer::{bytes, claim_stdout, peak_rss_bytes, Failure, Report, Rows};

/// Warnings that are written out.
const WARNINGS: usize = 8;

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
            Task::Prove { lengths, .. } => Failure(text + &in_chunks(&key, &subject, lengths, allowance.budget)),
            _ => Failure(text),
        }
    })?;
    let model = Model::open(dir)?.with_choices(plan.choices);
    Ok((model, plan))
}

/// What a refusal for memory adds where chunks fit: how to prove in chunks.
fn in_chunks(key: &ModelKey, subject: &Subject, lengths: Lengths, budget: Option<Budget>) -> String {
    let fewest = fewest_chunks(key, lengths).unwrap_or(1);
    match subject.divide(lengths, fewest, budget) {
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

/// What harmful saturation means, a sentence for each tensor; programs get the same.
fn warnings(saturated: &Saturations) -> Vec<String> {
    let harmful = explain(saturated).into_iter().filter(|e| e.harmful);
    harmful.map(|e| e.sentence).collect()
}

/// The tensors whose values were clamped, and a warning for each where that does harm.
fn saturated_rows(rows: Rows, saturated: &Saturations) -> Rows {
    let shown = explain(saturated).into_iter().map(|e| {
        let count = &saturated[&e.tensor];
        let judgement = if e.harmful { "harmful" } else { "harmless" };
        format!("{} {} of {}, {judgement}", e.tensor, count.total(), count.of)
    });
    let list = shown.collect::<Vec<_>>().join("\n");
    let mut rows = rows.row("saturated", if list.is_empty() { "none" } else { &list });
    let warnings = warnings(saturated);
    for sentence in warnings.iter().take(WARNINGS) {
        rows = rows.row("WARNING", sentence);
    }
    match warnings.len().saturating_sub(WARNINGS) {
        0 => rows,
        more => rows.row("WARNING", format!("harmful in {more} more tensors, see above")),
    }
}

#[cfg(test)]
mod tests {
    use tessera_prover::forward::Saturation;

    use super::*;

    /// A text that the integers spoiled does not look like the model's.
    #[test]
    fn harmful_saturation_is_a_warning_that_names_its_place_and_harmless_one_is_listed() {
        let count = |low, high| Saturation { low, high, of: 576 };
        let mut saturated = Saturations::from([
            ("layers.18.score".to_owned(), count(7, 0)),
            ("layers.3.residual_attn".to_owned(), count(0, 2)),
        ]);
        let text = saturated_rows(Rows::default(), &saturated).render(1000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "saturated  layers.3.residual_attn 2 of 576, harmful");
        assert_eq!(lines[1], "           layers.18.score 7 of 576, harmless");
        assert!(lines[2].starts_with("WARNING    2 of 576 values of the residual stream after attention of layer 3"));
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(warnings(&saturated).len(), 1);

        saturated.extend((0..WARNINGS).map(|layer| (format!("layers.{layer}.act"), count(1, 1))));
        let text = saturated_rows(Rows::default(), &saturated).render(1000);
        assert_eq!(text.matches("WARNING").count(), WARNINGS + 1, "{text}");
        assert!(text.ends_with("harmful in 1 more tensors, see above\n"), "{text}");
        let none = saturated_rows(Rows::default(), &Saturations::new()).to_string();
        assert_eq!(none, "saturated  none\n");
    }
}
