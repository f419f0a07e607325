//! `tessera fidelity`.

use serde_json::json;
use tessera_prover::checkpoint::Checkpoint;
use tessera_prover::fidelity::fidelity;
use tessera_prover::library::Model;
use tessera_prover::progress::Progress;
use tessera_prover::texts::TextReader;

use super::{given, saturated_text};
use crate::args::FidelityArgs;
use crate::printer::{peak_rss_bytes, Failure, Report, Rows};

pub fn run(args: &FidelityArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    progress.phase("open models", None);
    given::model_dir(&args.model)?;
    given::checkpoint(&args.checkpoint)?;
    let model = Model::open(&args.model)?;
    let checkpoint =
        Checkpoint::open(&args.checkpoint).map_err(|e| Failure(format!("{}: {e}", args.checkpoint.display())))?;
    let reader = TextReader {
        config: &model.key.config,
        tokenizer: model.tokenizer.as_ref(),
    };
    let texts = reader.read(&args.text)?;
    let report = fidelity(&model, &checkpoint, &texts, progress)?;
    let f = &report.fidelity;
    let (float, integer) = (f.perplexity_float(), f.perplexity_integer());
    let change = integer / float - 1.0;
    let json = json!({
        "model_id": model.id.to_string(),
        "perplexity_float": float,
        "perplexity_integer": integer,
        "perplexity_change": change,
        "kl": f.kl(),
        "top1": f.top1(),
        "saturated": report.saturated,
        "texts": report.texts,
        "tokens": report.tokens,
        "peak_rss_bytes": peak_rss_bytes(),
    });
    let text = Rows::default()
        .row("model", model.id)
        .row("texts", format!("{}, {} tokens", report.texts, report.tokens))
        .row(
            "perplexity",
            format!("{float:.4} float, {integer:.4} integer ({:+.3} %)", 100.0 * change),
        )
        .row("KL", format!("{:.2e} nats per position", f.kl()))
        .row("top-1", format!("{:.2} % of positions agree", 100.0 * f.top1()))
        .row("saturated", saturated_text(&report.saturated));
    Ok(Report::done(text.to_string(), json))
}
