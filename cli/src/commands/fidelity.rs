//! `tessera fidelity`, and how the commands show the distance between a model and its checkpoint.

use serde_json::json;
use tessera::checkpoint::Checkpoint;
use tessera::model::Model;
use tessera::quantise::comparison::FidelityReport;
use tessera::quantise::texts::{TextReader, HELD_OUT, OWN_TEXT, RANDOM_IDS};
use tessera::support::progress::Progress;
use tessera::text::tokenizer::TokenizerFiles;
use tessera_verdict::describe::{fidelity_json, fidelity_rows, figures_json, figures_rows};
use tessera_verdict::rows::Rows;
use tessera_verdict::shown;

use super::report::{saturated_rows, warnings};
use crate::args::FidelityArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};
use tessera::given;

pub fn run(args: &FidelityArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    progress.phase("open models", None);
    given::model_dir(&args.model)?;
    given::checkpoint(&args.checkpoint)?;
    let model = Model::open(&args.model)?;
    let checkpoint = Checkpoint::open(&args.checkpoint).map_err(|e| Failure(e.of(&args.checkpoint)))?;
    // As set-up reads texts.
    let tokenizer = TokenizerFiles::stored(&args.model)?.parse_alone()?;
    let reader = TextReader {
        config: &model.key.config,
        tokenizer: tokenizer.as_ref(),
    };
    let (texts, name) = match &args.text {
        Some(path) => (reader.read_whole(path)?, OWN_TEXT),
        None if model.tokenizer.is_none() => (reader.random_held_out(), RANDOM_IDS),
        None => (reader.held_out()?, HELD_OUT.name),
    };
    if model.key.config.is_encoder() {
        let report = model.compare_vectors(&checkpoint, &texts, progress)?;
        let fidelity = report.fidelity(name, &model.key.config);
        let mut json = fidelity_json(Some(&fidelity));
        json["model_id"] = json!(model.id.to_string());
        json["saturated"] = json!(report.saturated);
        json["warnings"] = json!(warnings(&report.saturated));
        let rows = fidelity_rows(Rows::default().row("model", model.id), Some(&fidelity));
        return Ok(Report::done(saturated_rows(rows, &report.saturated).to_string(), json));
    }
    let report = model.compare(&checkpoint, &texts, progress)?;
    let figures = report.figures(name);
    let worst = &report.integer.worst;
    let token_text = match &model.tokenizer {
        Some(tokenizer) => Some(tokenizer.decode(&[worst.token], false)?),
        None => None,
    };
    let mut json = figures_json(&figures);
    json["model_id"] = json!(model.id.to_string());
    json["saturated"] = json!(report.saturated);
    json["warnings"] = json!(warnings(&report.saturated));
    // Every window counts as a text.
    json["texts"] = json!(report.windows);
    json["worst"] = json!({
        "text": worst.text, "position": worst.position, "token": worst.token, "token_text": token_text,
    });
    json["peak_rss_bytes"] = json!(peak_rss_bytes());
    let rows = Rows::default().row("model", model.id);
    let rows = figures_rows(rows, &figures).row("worst", worst_text(&report, token_text.as_deref()));
    let rows = saturated_rows(rows, &report.saturated);
    Ok(Report::done(rows.to_string(), json))
}

/// Where the models disagree most.
fn worst_text(report: &FidelityReport, token: Option<&str>) -> String {
    let (kl, at) = (report.integer.kl_worst, &report.integer.worst);
    let token = token.map_or_else(String::new, |text| format!(" {}", shown::quoted(text)));
    format!(
        "{kl:.2e} nats after token {}{token} at position {} of text {} (both counted from 0)",
        at.token, at.position, at.text
    )
}
