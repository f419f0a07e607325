//! `tessera fidelity`, and how the commands show the distance between a model and its checkpoint.

use serde_json::{json, Value};
use tessera_prover::intake::checkpoint::Checkpoint;
use tessera_prover::intake::texts::{TextReader, HELD_OUT, OWN_TEXT, RANDOM_IDS};
use tessera_prover::quantise::comparison::FidelityReport;
use tessera_prover::support::progress::Progress;
use tessera_prover::tasks::loaded::Model;
use tessera_verifier::recipe::{Class, Fidelity, Figures};

use super::{given, saturated_rows, warnings};
use crate::args::FidelityArgs;
use crate::printer::{peak_rss_bytes, Failure, Report, Rows};
use crate::shown;

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
    let (texts, name) = match &args.text {
        Some(path) => (reader.read_whole(path)?, OWN_TEXT),
        None if model.tokenizer.is_none() => (reader.random_held_out(), RANDOM_IDS),
        None => (reader.held_out()?, HELD_OUT.name),
    };
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

/// The figures for machines.
fn figures_json(f: &Figures) -> Value {
    let [float, integer, bfloat16] = f.perplexities();
    json!({
        "class": f.class().name(),
        "text": f.text,
        "texts": f.windows,
        "tokens": f.tokens,
        "kl": f.kl,
        "kl_p99": f.kl_p99,
        "kl_worst": f.kl_worst,
        "top1": f.top1,
        "perplexity_float": float,
        "perplexity_integer": integer,
        "perplexity_ratio": integer / float,
        "perplexity_change": integer / float - 1.0,
        "saturated_values": f.saturated,
        "kl_bfloat16": f.kl_bfloat16,
        "top1_bfloat16": f.top1_bfloat16,
        "perplexity_bfloat16": bfloat16,
    })
}

/// The figures for people.
fn figures_rows(rows: Rows, f: &Figures) -> Rows {
    let [float, integer, bfloat16] = f.perplexities();
    let change = |perplexity: f64| 100.0 * (perplexity / float - 1.0);
    rows.row("fidelity", class_text(f))
        .row(
            "  on",
            format!("{}: {} windows, {} tokens", f.text, f.windows, f.tokens),
        )
        .row(
            "  KL",
            format!(
                "{:.2e} nats per position, 99 % up to {:.2e}, worst {:.2e}",
                f.kl, f.kl_p99, f.kl_worst
            ),
        )
        .row("  top-1", format!("{:.2} % of positions agree", 100.0 * f.top1))
        .row(
            "  perplexity",
            format!(
                "{float:.4} float, {integer:.4} integer ({:+.3} %, ratio {:.5})",
                change(integer),
                integer / float
            ),
        )
        .row("  clamped", format!("{} values", f.saturated))
        .row(
            "  bfloat16",
            format!(
                "KL {:.2e}, top-1 {:.2} %, perplexity {bfloat16:.4} ({:+.3} %)",
                f.kl_bfloat16,
                100.0 * f.top1_bfloat16,
                change(bfloat16)
            ),
        )
}

/// The class, and what it means for proofs.
fn class_text(f: &Figures) -> String {
    let differs = 100.0 * (1.0 - f.top1);
    match f.class() {
        Class::Faithful => "faithful: proofs are about the checkpoint, up to the rounding below".to_owned(),
        Class::Close => {
            format!("close: texts will differ from the checkpoint's now and then ({differs:.1} % of tokens)")
        }
        Class::Unfaithful => format!(
            "UNFAITHFUL: a proof shows what the integer model says, and that is not what the checkpoint says:\n\
             the most likely token is another one at {differs:.1} % of positions. Do not present such a proof as one\n\
             about the checkpoint."
        ),
    }
}

/// The fidelity of a key or set-up for machines: null if it was left out.
pub fn fidelity_json(fidelity: Option<&Fidelity>) -> Value {
    match fidelity {
        Some(Fidelity::Measured(figures)) => {
            let mut json = figures_json(figures);
            json["measured"] = json!(true);
            json
        }
        Some(Fidelity::NotMeasured(why)) => json!({"measured": false, "reason": why}),
        None => Value::Null,
    }
}

/// The fidelity of a key or set-up for people.
pub fn fidelity_rows(rows: Rows, fidelity: Option<&Fidelity>) -> Rows {
    match fidelity {
        Some(Fidelity::Measured(figures)) => figures_rows(rows, figures),
        Some(Fidelity::NotMeasured(why)) => rows.row("fidelity", format!("not measured: {why}")),
        None => rows.row("fidelity", "left out of the key"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody should read past it.
    #[test]
    fn an_unfaithful_model_is_announced_with_what_a_proof_then_means() {
        let figures = Figures {
            kl: 0.28,
            top1: 0.7,
            ..Figures::default()
        };
        let text = fidelity_rows(Rows::default(), Some(&Fidelity::Measured(figures))).to_string();
        for words in ["UNFAITHFUL", "not what the checkpoint says", "30.0 %"] {
            assert!(text.contains(words), "{text}");
        }
        let reason = Fidelity::NotMeasured("no memory".to_owned());
        let text = fidelity_rows(Rows::default(), Some(&reason)).to_string();
        assert!(text.contains("not measured: no memory"), "{text}");
        assert_eq!(fidelity_json(None), Value::Null);
    }
}
