//! `tessera fidelity`, and how the commands show the distance between a model and its checkpoint.

use serde_json::json;
use tessera::given;
use tessera::quantise::comparison::FidelityReport;
use tessera::support::progress::Progress;
use tessera::{Fidelity, Model};
use tessera_verdict::describe::{fidelity_json, fidelity_rows, figures_json, figures_rows};
use tessera_verdict::rows::Rows;
use tessera_verdict::shown;

use super::report::{saturated_rows, warnings};
use crate::args::FidelityArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};

pub fn run(args: &FidelityArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    progress.phase("open models", None);
    given::model_dir(&args.model)?;
    given::checkpoint(&args.checkpoint)?;
    let model = Model::open(&args.model)?;
    let (fidelity, name) = model.fidelity(&args.checkpoint, args.text.as_deref(), progress)?;
    let report = match fidelity {
        Fidelity::Predictions(report) => report,
        Fidelity::Vectors(report) => {
            let fidelity = report.fidelity(name, &model.key.config);
            let mut json = fidelity_json(Some(&fidelity));
            json["model_id"] = json!(model.id.to_string());
            json["saturated"] = json!(report.saturated);
            json["warnings"] = json!(warnings(&report.saturated));
            let rows = fidelity_rows(Rows::default().row("model", model.id), Some(&fidelity));
            return Ok(Report::done(saturated_rows(rows, &report.saturated).to_string(), json));
        }
    };
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
