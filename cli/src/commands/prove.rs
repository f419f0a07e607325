//! `tessera prove`.

use std::time::Instant;

use serde_json::json;
use tessera_circuits::chunk::Chunk;
use tessera_prover::library::Model;
use tessera_prover::plan::Task;
use tessera_prover::progress::Progress;
use tessera_prover::prove::{prove, ProveReport};

use super::{
    choices_json, memory, open_planned, output, phases_json, phases_text, prompt_ids, saturated_text, security, shown,
    token_rows, traffic_json, traffic_text, work, Texts,
};
use crate::args::ProveArgs;
use crate::printer::{bytes, ids, peak_rss_bytes, seconds, Failure, Report, Rows};

pub fn run(args: &ProveArgs, progress: &dyn Progress, quiet: bool) -> Result<Report, Failure> {
    if let Some(dir) = &args.work {
        return work::prove(args, dir, progress, quiet);
    }
    let out = output(&args.out)?;
    progress.phase("open model", None);
    let mut prompt = Vec::new();
    let (model, plan) = open_planned(&args.model, args.memory, |key, tokenizer| {
        prompt = prompt_ids(&args.prompt, tokenizer)?;
        let rows = token_rows(key, prompt.len(), args.tokens)?;
        // Before anything is said of memory, which does not help.
        security::check_whole(key, rows)?;
        let chunk = Chunk::whole(key.config.layers);
        Ok(Task::Prove { rows, chunk })
    })?;
    let clock = Instant::now();
    let report = prove_checked(&model, &prompt, args.tokens, progress)?;
    let prove_seconds = clock.elapsed().as_secs_f64();
    out.write(&report.bytes)?;

    let statement = &report.proof.statement;
    let texts = Texts::of(&statement.prompt, &statement.output, model.tokenizer.as_ref())?;
    let json = json!({
        "model_id": model.id.to_string(),
        "prompt_ids": statement.prompt,
        "prompt_text": texts.as_ref().map(|t| &t.prompt),
        "output_ids": statement.output,
        "output_text": texts.as_ref().map(|t| &t.output),
        "prove_seconds": prove_seconds,
        "phases": phases_json(&report.phases),
        "predicted_bytes": plan.predicted_bytes(),
        "peak_rss_bytes": peak_rss_bytes(),
        "memory": choices_json(&plan),
        "weight_passes": traffic_json(&report.weights),
        "proof_bytes": report.bytes.len(),
        "security_bits": report.security_bits,
        "saturated": report.saturated,
        "proof": args.out.display().to_string(),
    });
    let text = Rows::default()
        .row("text", shown(texts.as_ref().map(Texts::whole).as_deref()))
        .row("prompt", ids(&statement.prompt))
        .row("output", ids(&statement.output))
        .row("model", model.id)
        .row(
            "proof",
            format!("{}, {}", args.out.display(), bytes(report.bytes.len() as u64)),
        )
        .row("security", format!("{:.1} bits", report.security_bits))
        .row("time", seconds(prove_seconds))
        .row("", phases_text(&report.phases))
        .row("saturated", saturated_text(&report.saturated))
        .row("weight passes", traffic_text(&report.weights))
        .row("peak memory", memory(plan.predicted_bytes()));
    Ok(Report::done(text.to_string(), json))
}

/// Proves.
pub fn prove_checked(
    model: &Model,
    prompt: &[u32],
    tokens: usize,
    progress: &dyn Progress,
) -> Result<ProveReport, Failure> {
    Ok(prove(&model.prover(), prompt, tokens, progress)?)
}
