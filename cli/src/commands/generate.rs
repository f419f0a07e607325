//! `tessera generate`.

use serde_json::{json, Map, Value};
use tessera::circuits::statement::{Lengths, Statement};
use tessera::plan::Task;
use tessera::quantised::forward::ForwardState;
use tessera::quantised::generate::{generate, GenerateOptions};
use tessera::support::output::Output;
use tessera::support::progress::Progress;
use tessera::{lengths, Model, PromptIds};
use tessera_verdict::rows::{seconds, Rows};

use super::claim::claim_of;
use super::planned::output;
use super::prompt::{prompt_ids, rows, tokens};
use super::report::{memory, saturated_rows, warnings};
use crate::args::GenerateArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};

pub fn run(args: &GenerateArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let logits_out = args.logits_out.as_deref().map(output).transpose()?;
    progress.phase("open model", None);
    let tokens = tokens(&args.prompt.source, &args.length)?;
    let options = GenerateOptions {
        tokens: tokens.unwrap_or(1),
        ignore_eos: args.length.ignore_eos,
    };
    let mut prompt = PromptIds::default();
    let (model, plan) = Model::open_within::<Failure>(&args.model, args.memory, |key, tokenizer| {
        prompt = prompt_ids(&args.prompt, key, tokenizer)?;
        let Lengths { rows, .. } = lengths(key, prompt.ids.len(), tokens)?;
        let logits = logits_out.is_some();
        Ok(Task::Generate { rows, logits })
    })?;
    progress.phase("generate", Some(options.tokens as u64));
    let generation = generate(&model.quantised, &prompt.ids, &options, |_| progress.advance(1))?;
    if let Some(out) = &logits_out {
        write_logits(&model, &prompt.ids, &generation.ids, out)?;
    }
    let statement = Statement {
        prompt: prompt.ids.clone(),
        output: generation.ids.clone(),
    };
    let claim = claim_of(&statement, &model.key, Ok(model.tokenizer.as_ref()));
    let speed = generation.tokens_per_second();
    let mut json = Map::new();
    json.insert("model_id".to_owned(), json!(model.id.to_string()));
    claim.add_to(&mut json);
    for (key, value) in [
        ("spelled_special_tokens", json!(prompt.spelled)),
        ("prompt_notes", json!(prompt.notes)),
        ("tokens_per_second", json!(speed)),
        ("prefill_seconds", json!(generation.prefill_seconds)),
        ("decode_seconds", json!(generation.decode_seconds)),
        ("saturated", json!(generation.saturated)),
        ("warnings", json!(warnings(&generation.saturated))),
        ("predicted_bytes", json!(plan.predicted_bytes())),
        ("peak_rss_bytes", json!(peak_rss_bytes())),
    ] {
        json.insert(key.to_owned(), value);
    }
    let text = rows(&prompt, claim.rows(Rows::default()))
        .row(
            "speed",
            format!(
                "{speed:.0} tokens/s after {} for the prompt",
                seconds(generation.prefill_seconds)
            ),
        )
        .row("peak memory", memory(plan.predicted_bytes()));
    let text = saturated_rows(text, &generation.saturated);
    Ok(Report::done(text.to_string(), Value::Object(json)))
}

/// One pass over all tokens but the last, as a proof makes it.
fn write_logits(model: &Model, prompt: &[u32], output: &[u32], out: &Output) -> Result<(), Failure> {
    let mut ids = [prompt, output].concat();
    ids.pop();
    let logits = ForwardState::new(&model.quantised).run(&ids, None)?;
    let bytes: Vec<u8> = logits.iter().flat_map(|l| l.to_le_bytes()).collect();
    Ok(out.write(&bytes)?)
}
