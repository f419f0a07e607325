//! `tessera setup`.

use std::time::Instant;

use serde_json::json;
use tessera::quantise::{QuantiseOptions, Strategy};
use tessera::setup::{partial_dir, rebuild_cache, setup, SetupError, SetupOptions, SetupReport};
use tessera::support::progress::Progress;
use tessera::verifier::suite::Suite;
use tessera_verdict::describe::{fidelity_json, fidelity_rows};
use tessera_verdict::rows::{bytes, count, seconds, Rows};
use tessera_verdict::shown;

use super::interrupt;
use super::report::{memory, phases_json, phases_text};
use crate::args::SetupArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};
use tessera::given;
use tessera::{mapped, Allowance};

pub fn run(args: &SetupArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let Some(checkpoint) = &args.checkpoint else {
        return rebuild(args, progress);
    };
    given::checkpoint(checkpoint)?;
    let partial = partial_dir(&args.out);
    interrupt::answer(move || match partial.exists() {
        true => format!(
            "what is finished is kept in {}, and the same command goes on from there",
            shown::path(&partial)
        ),
        false => "nothing was finished that could be kept".to_owned(),
    });
    // The checkpoint is mapped, and what is made of it.
    let allowance = Allowance::new(args.memory, 2 * mapped(checkpoint));
    let options = SetupOptions {
        quantise: quantise_options(args),
        calibration: args.calibration.clone(),
        codeword_cache: args.codeword_cache.into(),
        memory: allowance.budget,
        skip_fidelity: args.no_fidelity,
        suite: args.hash.map_or_else(Suite::default, Into::into),
        tables: args.tables.map(Into::into),
        private_recipe: args.private_recipe,
    };
    let report = setup(checkpoint, &args.out, &options, progress).map_err(|e| refusal(e, &allowance))?;
    let json = json!({
        "model_id": report.model_id.to_string(),
        "setup_seconds": total(&report),
        "phases": phases_json(&report.phases),
        "predicted_bytes": report.predicted_bytes,
        "peak_rss_bytes": peak_rss_bytes(),
        "weights": report.weights,
        "disk_bytes": report.disk_bytes,
        "codeword_kept": report.codeword_kept,
        "strategy": strategy(&report),
        "hash": report.key.header.hash_suite.label(),
        "tables": report.key.table_argument().name(),
        "calibration_tokens": report.calibration_tokens,
        "calibration_text": report.recipe.calibration.text,
        "fidelity": fidelity_json(Some(&report.fidelity)),
        "private_recipe": args.private_recipe,
        "model_dir": args.out.display().to_string(),
        "notes": report.notes,
    });
    let rows = Rows::default()
        .row("model", report.model_id)
        .path("directory", &args.out)
        .row("weights", format!("{}, {}", report.weights, strategy(&report)))
        .row("disk", disk(report.disk_bytes, report.codeword_kept))
        .row(
            "calibrated on",
            format!(
                "{}: {}",
                count(report.calibration_tokens, "token"),
                report.recipe.calibration.text
            ),
        );
    let rows = fidelity_rows(rows, Some(&report.fidelity))
        .row("time", seconds(total(&report)))
        .row("", phases_text(&report.phases))
        .row("peak memory", memory(report.predicted_bytes));
    Ok(Report::done(noted(rows, &report.notes).to_string(), json))
}

fn noted(rows: Rows, notes: &[String]) -> Rows {
    notes
        .iter()
        .fold(rows, |rows, note| rows.row("note", shown::line(note)))
}

fn quantise_options(args: &SetupArgs) -> QuantiseOptions {
    let strategy = args.strategy.map_or_else(Strategy::default, Into::into);
    let mut options = QuantiseOptions::from(strategy);
    if let Some(first) = args.leading {
        // None at all: a run has at least one row.
        (options.leading.first, options.leading.run) = (first, first > 0);
    }
    if let Some(headroom) = args.headroom {
        options.headroom = headroom;
    }
    options
}

/// A refusal for memory says where the limit is from.
pub fn refusal(error: SetupError, allowance: &Allowance) -> Failure {
    match error {
        SetupError::Memory(_) => allowance.refusal(error).into(),
        error => error.into(),
    }
}

fn rebuild(args: &SetupArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let clock = Instant::now();
    given::model_dir(&args.out)?;
    let allowance = Allowance::new(args.memory, mapped(&args.out));
    let report = rebuild_cache(&args.out, args.codeword_cache.into(), allowance.budget, progress);
    let report = report.map_err(|e| refusal(e, &allowance))?;
    let time = clock.elapsed().as_secs_f64();
    let json = json!({
        "model_dir": args.out.display().to_string(),
        "rebuild_seconds": time,
        "disk_bytes": report.disk_bytes,
        "codeword_kept": report.codeword_kept,
        "peak_rss_bytes": peak_rss_bytes(),
        "notes": report.notes,
    });
    let rows = Rows::default()
        .path("directory", &args.out)
        .row("disk", disk(report.disk_bytes, report.codeword_kept))
        .row("time", seconds(time));
    let rows = noted(rows, &report.notes);
    Ok(Report::done(rows.to_string(), json))
}

fn disk(n: u64, codeword_kept: bool) -> String {
    let codeword = if codeword_kept { "with" } else { "without" };
    format!("{}, {codeword} the codeword", bytes(n))
}

/// Seconds of all phases.
pub fn total(report: &SetupReport) -> f64 {
    report.phases.iter().map(|(_, s)| s).sum()
}

fn strategy(report: &SetupReport) -> &'static str {
    Strategy::of(&report.key.params).name()
}
