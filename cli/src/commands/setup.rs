//! `tessera setup`.

use serde_json::json;
use tessera_prover::progress::Progress;
use tessera_prover::setup::{setup, SetupOptions, SetupReport};

use super::{phases_json, phases_text};
use crate::args::SetupArgs;
use crate::printer::{bytes, peak_rss_bytes, seconds, Failure, Report, Rows};

pub fn run(args: &SetupArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let options = SetupOptions {
        strategy: args.strategy.into(),
        calibration: args.calibration.clone(),
    };
    let report = setup(&args.checkpoint, &args.out, &options, progress)?;
    let json = json!({
        "model_id": report.model_id.to_string(),
        "setup_seconds": total(&report),
        "phases": phases_json(&report.phases),
        "peak_rss_bytes": peak_rss_bytes(),
        "weights": report.weights,
        "disk_bytes": report.disk_bytes,
        "strategy": strategy(&report),
        "calibration_tokens": report.calibration_tokens,
        "model_dir": args.out.display().to_string(),
    });
    let text = Rows::default()
        .row("model", report.model_id)
        .row("directory", args.out.display())
        .row("weights", format!("{}, {}", report.weights, strategy(&report)))
        .row("disk", bytes(report.disk_bytes))
        .row("calibrated on", format!("{} tokens", report.calibration_tokens))
        .row("time", seconds(total(&report)))
        .row("", phases_text(&report.phases))
        .row("peak memory", bytes(peak_rss_bytes()));
    Ok(Report::done(text.to_string(), json))
}

/// Seconds of all phases.
pub fn total(report: &SetupReport) -> f64 {
    report.phases.iter().map(|(_, s)| s).sum()
}

fn strategy(report: &SetupReport) -> &'static str {
    super::predict::strategy_name(report.key.params.strategy)
}
