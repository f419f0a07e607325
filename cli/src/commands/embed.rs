//! `tessera embed`, and what it has in common with `tessera rank`.

use std::path::Path;
use std::time::Instant;

use serde_json::{json, Map, Value};
use tessera::circuits::statement::Statement;
use tessera::plan::{Budget, Task};
use tessera::prompt::check_encoder;
use tessera::quantised::forward::ForwardState;
use tessera::quantised::generate::token_rows;
use tessera::support::progress::Progress;
use tessera::text::tokenizer::Tokenizer;
use tessera::verifier::key::ModelKey;
use tessera::{Model, PromptIds};
use tessera_verdict::rows::{seconds, Rows};

use super::claim::claim_of;
use super::prompt::{encoded, instead, rows, text_or_input};
use super::report::{memory, saturated_rows, warnings};
use crate::args::EmbedArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};

pub fn run(args: &EmbedArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    report(&args.model, args.memory, "embed", progress, |key, tokenizer| {
        let options = [" (tessera generate, or prove --prompt)", "", " (tessera rank)"];
        check_encoder(key).map_err(|error| instead(error, options))?;
        let prompt = match (&args.source.ids, &args.source.text) {
            (Some(ids), _) => ids.0.clone().into(),
            (None, text) => text_or_input(text.as_deref().unwrap_or_default())?.into(),
        };
        encoded(&prompt, key, tokenizer, " (--ids)")
    })
}

/// Makes the vector of a text, and says what it is.
pub(super) fn report(
    path: &Path,
    memory_limit: Option<Budget>,
    phase: &'static str,
    progress: &dyn Progress,
    read: impl FnOnce(&ModelKey, Option<&Tokenizer>) -> Result<PromptIds, Failure>,
) -> Result<Report, Failure> {
    progress.phase("open model", None);
    let mut prompt = PromptIds::default();
    let (model, plan) = Model::open_within::<Failure>(path, memory_limit, |key, tokenizer| {
        prompt = read(key, tokenizer)?;
        let rows = token_rows(prompt.ids.len(), 1, key.config.context)?;
        Ok(Task::Generate { rows, logits: false })
    })?;
    progress.phase(phase, None);
    let mut state = ForwardState::new(&model.quantised);
    let clock = Instant::now();
    let vector = state.vector(&prompt.ids)?;
    let time = clock.elapsed().as_secs_f64();
    let saturated = state.saturated();
    let statement = Statement::of_vector(prompt.ids.clone(), &vector);
    statement.check(&model.key.config)?;
    let claim = claim_of(&statement, &model.key, Ok(model.tokenizer.as_ref()));
    let mut json = Map::new();
    json.insert("model_id".to_owned(), json!(model.id.to_string()));
    claim.add_to(&mut json);
    for (key, value) in [
        ("prompt_notes", json!(prompt.notes)),
        (format!("{phase}_seconds").as_str(), json!(time)),
        ("saturated", json!(saturated)),
        ("warnings", json!(warnings(&saturated))),
        ("predicted_bytes", json!(plan.predicted_bytes())),
        ("peak_rss_bytes", json!(peak_rss_bytes())),
    ] {
        json.insert(key.to_owned(), value);
    }
    let text = rows(&prompt, claim.rows(Rows::default()))
        .row("time", seconds(time))
        .row("peak memory", memory(plan.predicted_bytes()));
    let text = saturated_rows(text, &saturated);
    Ok(Report::done(text.to_string(), Value::Object(json)))
}
