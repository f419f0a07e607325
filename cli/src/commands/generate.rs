//! `tessera generate`.

use serde_json::json;
use tessera_prover::forward::ForwardState;
use tessera_prover::generate::{generate, GenerateOptions};
use tessera_prover::library::Model;
use tessera_prover::output::Output;
use tessera_prover::plan::Task;
use tessera_prover::progress::Progress;

use super::{memory, open_planned, output, prompt_ids, saturated_text, shown, token_rows, Texts};
use crate::args::GenerateArgs;
use crate::printer::{ids, peak_rss_bytes, seconds, Failure, Report, Rows};

pub fn run(args: &GenerateArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let logits_out = args.logits_out.as_deref().map(output).transpose()?;
    progress.phase("open model", None);
    let mut prompt = Vec::new();
    let (model, plan) = open_planned(&args.model, args.memory, |key, tokenizer| {
        prompt = prompt_ids(&args.prompt, tokenizer)?;
        let rows = token_rows(key, prompt.len(), args.tokens)?;
        let logits = logits_out.is_some();
        Ok(Task::Generate { rows, logits })
    })?;
    let options = GenerateOptions {
        tokens: args.tokens,
        stop_at_eos: args.stop_at_eos,
    };
    progress.phase("generate", Some(args.tokens as u64));
    let generation = generate(&model.quantised, &prompt, &options, |_| progress.advance(1))?;
    if let Some(out) = &logits_out {
        write_logits(&model, &prompt, &generation.ids, out)?;
    }
    let texts = Texts::of(&prompt, &generation.ids, model.tokenizer.as_ref())?;
    let speed = generation.tokens_per_second();
    let json = json!({
        "model_id": model.id.to_string(),
        "prompt_ids": prompt,
        "prompt_text": texts.as_ref().map(|t| &t.prompt),
        "output_ids": generation.ids,
        "output_text": texts.as_ref().map(|t| &t.output),
        "tokens_per_second": speed,
        "prefill_seconds": generation.prefill_seconds,
        "decode_seconds": generation.decode_seconds,
        "saturated": generation.saturated,
        "predicted_bytes": plan.predicted_bytes(),
        "peak_rss_bytes": peak_rss_bytes(),
    });
    let text = Rows::default()
        .row("text", shown(texts.as_ref().map(Texts::whole).as_deref()))
        .row("prompt", ids(&prompt))
        .row("output", ids(&generation.ids))
        .row(
            "speed",
            format!(
                "{speed:.0} tokens/s after {} for the prompt",
                seconds(generation.prefill_seconds)
            ),
        )
        .row("saturated", saturated_text(&generation.saturated))
        .row("peak memory", memory(plan.predicted_bytes()));
    Ok(Report::done(text.to_string(), json))
}

/// One pass over all tokens but the last, as a proof makes it.
fn write_logits(model: &Model, prompt: &[u32], output: &[u32], out: &Output) -> Result<(), Failure> {
    let mut ids = [prompt, output].concat();
    ids.pop();
    let logits = ForwardState::new(&model.quantised).run(&ids, None)?;
    let bytes: Vec<u8> = logits.iter().flat_map(|l| l.to_le_bytes()).collect();
    Ok(out.write(&bytes)?)
}
