//! `tessera embed`, and what it has in common with `tessera rank`.

use std::path::Path;
use std::time::Instant;

use serde_json::{json, Map, Value};
use tessera::plan::{Budget, Task};
use tessera_circuits::statement::Statement;
use tessera_model::forward::ForwardState;
use tessera_model::generate::token_rows;
use tessera_support::progress::Progress;
use tessera_text::tokenizer::Tokenizer;
use tessera_verdict::rows::{seconds, Rows};
use tessera_verifier::key::ModelKey;

use super::claim::claim_of;
use super::planned::open_planned;
use super::prompt::{Prompt, NO_EMBEDDING, NO_ENCODER, NO_TOKENIZER};
use super::report::{memory, saturated_rows, warnings};
use crate::args::EmbedArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};

pub fn run(args: &EmbedArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    report(&args.model, args.memory, "embed", progress, |key, tokenizer| {
        if !key.config.is_encoder() {
            return Err(Failure(format!("{NO_ENCODER} (tessera generate, or prove --prompt)")));
        }
        if key.config.reranker().is_some() {
            return Err(Failure(format!("{NO_EMBEDDING} (tessera rank)")));
        }
        match (&args.source.ids, &args.source.text) {
            (Some(ids), _) => Ok(Prompt::of_ids(ids)),
            (None, text) => {
                let tokenizer = tokenizer.ok_or_else(|| Failure(format!("{NO_TOKENIZER} (--ids)")))?;
                Prompt::of_text(text.as_deref().unwrap_or_default(), tokenizer)
            }
        }
    })
}

/// Makes the vector of a text, and says what it is.
pub(super) fn report(
    path: &Path,
    memory_limit: Option<Budget>,
    phase: &'static str,
    progress: &dyn Progress,
    read: impl FnOnce(&ModelKey, Option<&Tokenizer>) -> Result<Prompt, Failure>,
) -> Result<Report, Failure> {
    progress.phase("open model", None);
    let mut prompt = Prompt::default();
    let (model, plan) = open_planned(path, memory_limit, |key, tokenizer| {
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
    let text = prompt
        .rows(claim.rows(Rows::default()))
        .row("time", seconds(time))
        .row("peak memory", memory(plan.predicted_bytes()));
    let text = saturated_rows(text, &saturated);
    Ok(Report::done(text.to_string(), Value::Object(json)))
}
