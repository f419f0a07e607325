//! `tessera prove`.

use std::time::Instant;

use serde_json::{json, Map, Value};
use tessera::circuits::chunk::Chunk;
use tessera::plan::Task;
use tessera::prover::prove_in_context;
use tessera::support::progress::Progress;
use tessera::{lengths, Model, PromptIds};
use tessera_verdict::rows::{bytes, seconds, Rows};
use tessera_verdict::{add_context, shown};

use super::claim::claim_of;
use super::planned::{model_files, output_beside};
use super::prompt::{prompt_ids, rows};
use super::report::{
    choices_json, memory, phases_json, phases_text, saturated_rows, traffic_json, traffic_text, warnings,
};
use super::{security, work};
use crate::args::ProveArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};

pub fn run(args: &ProveArgs, progress: &dyn Progress, quiet: bool) -> Result<Report, Failure> {
    if let Some(dir) = &args.work {
        return work::prove(args, dir, progress, quiet);
    }
    let out = output_beside(&args.out, model_files(&args.model))?;
    progress.phase("open model", None);
    let mut prompt = PromptIds::default();
    let (model, plan) = Model::open_within::<Failure>(&args.model, args.memory, |key, tokenizer| {
        prompt = prompt_ids(&args.prompt, key, tokenizer)?;
        // Before anything is said of memory, which does not help.
        let lengths = lengths(key, prompt.ids.len(), args.length.tokens)?;
        security::check_whole(key, lengths)?;
        let chunk = Chunk::whole(key.config.layers);
        Ok(Task::Prove { lengths, chunk })
    })?;
    let clock = Instant::now();
    let options = args.length.options();
    let report = prove_in_context(&model.prover(), &prompt.ids, &options, args.context, progress)?;
    let prove_seconds = clock.elapsed().as_secs_f64();
    out.write(&report.bytes)?;

    let statement = &report.proof.statement;
    let claim = claim_of(statement, &model.key, Ok(model.tokenizer.as_ref()));
    let mut json = Map::new();
    json.insert("model_id".to_owned(), json!(model.id.to_string()));
    add_context(args.context, &mut json);
    claim.add_to(&mut json);
    for (key, value) in [
        ("spelled_special_tokens", json!(prompt.spelled)),
        ("prompt_notes", json!(prompt.notes)),
        ("prove_seconds", json!(prove_seconds)),
        ("phases", phases_json(&report.phases)),
        ("predicted_bytes", json!(plan.predicted_bytes())),
        ("peak_rss_bytes", json!(peak_rss_bytes())),
        ("memory", choices_json(&plan)),
        ("weight_passes", traffic_json(&report.weights)),
        ("proof_bytes", json!(report.bytes.len())),
        ("security_bits", json!(report.security_bits)),
        ("saturated", json!(report.saturated)),
        ("warnings", json!(warnings(&report.saturated))),
        ("proof", json!(args.out.display().to_string())),
    ] {
        json.insert(key.to_owned(), value);
    }
    let proof_bytes = bytes(report.bytes.len() as u64);
    let text = rows(&prompt, claim.rows(Rows::default()))
        .row("model", model.id)
        .maybe("context", args.context)
        .row("proof", format!("{}, {proof_bytes}", shown::path(&args.out)))
        .row("security", format!("{:.1} bits", report.security_bits))
        .row("time", seconds(prove_seconds))
        .row("", phases_text(&report.phases))
        .row("weight passes", traffic_text(&report.weights))
        .row("peak memory", memory(plan.predicted_bytes()));
    let text = saturated_rows(text, &report.saturated);
    Ok(Report::done(text.to_string(), Value::Object(json)))
}
