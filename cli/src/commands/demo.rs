//! `tessera demo`: the whole way with the bundled checkpoint.

use std::path::Path;
use std::time::Instant;

use serde_json::{json, Value};
use tessera::circuits::chunk::Chunk;
use tessera::circuits::statement::Lengths;
use tessera::model::read_key;
use tessera::plan::Task;
use tessera::prover::prove;
use tessera::quantise::Strategy;
use tessera::quantised::directory::KEY_FILE;
use tessera::quantised::generate::GenerateOptions;
use tessera::setup::{setup, SetupOptions, SetupReport};
use tessera::support::files::{self, AtomicDir};
use tessera::support::progress::Progress;
use tessera::text::tokenizer::Tokenizer;
use tessera::verifier::key::ModelKey;
use tessera::verifier::verify::{verify_bytes, Verified};
use tessera::{Model, PromptError};
use tessera_verdict::rows::{bytes, seconds, width, Rows};
use tessera_verdict::shown;

use super::claim::claim_of;
use super::planned::token_rows;
use super::report::phases_json;
use super::setup::refusal;
use crate::args::DemoArgs;
use crate::printer::{peak_rss_bytes, Failure, Report};
use tessera::Allowance;

/// The files of a bundled checkpoint.
macro_rules! bundled {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../../../fixtures/tinystories-656k/", $name)).as_slice())),*]
    };
}

/// Bytes of mapped files, of the bundled checkpoint and what is made of it: more than there are.
const MAPPED: u64 = 20_000_000;

const CHECKPOINT: [(&str, &[u8]); 4] = bundled![
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json"
];

pub fn run(args: &DemoArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    match &args.keep {
        Some(target) => {
            let dir = AtomicDir::create(target)?;
            let report = demo(args, dir.path(), progress)?;
            dir.commit()?;
            Ok(report)
        }
        None => {
            let dir = tempfile::Builder::new().prefix("tessera-demo-").tempdir();
            let dir = dir.map_err(|e| Failure(format!("cannot create a temporary directory: {e}")))?;
            demo(args, dir.path(), progress)
        }
    }
}

fn demo(args: &DemoArgs, dir: &Path, progress: &dyn Progress) -> Result<Report, Failure> {
    let (checkpoint, model_dir, proof_file) = (dir.join("checkpoint"), dir.join("model"), dir.join("story.proof"));
    let unpacked = AtomicDir::create(&checkpoint)?;
    for (name, contents) in CHECKPOINT {
        files::write(&unpacked.path().join(name), contents)?;
    }
    unpacked.commit()?;
    let clock = Instant::now();
    let allowance = Allowance::new(None, MAPPED);
    let options = SetupOptions {
        quantise: Strategy::from(args.strategy).into(),
        memory: allowance.budget,
        ..SetupOptions::default()
    };
    let set_up = setup(&checkpoint, &model_dir, &options, progress).map_err(|e| refusal(e, &allowance))?;
    let setup_seconds = clock.elapsed().as_secs_f64();

    let (model, _) = Model::open_within::<Failure>(&model_dir, None, |key, tokenizer| {
        let prompt = tokenizer.map_or_else(|| Ok(Vec::new()), |tokenizer| tokenizer.encode(&args.prompt))?;
        let lengths = Lengths::new(token_rows(key, prompt.len(), args.tokens)?, args.tokens);
        let chunk = Chunk::whole(key.config.layers);
        Ok(Task::prove(lengths, chunk))
    })?;
    let tokenizer = model.tokenizer.clone();
    let tokenizer = tokenizer.as_ref().ok_or(PromptError::NoTokenizer)?;
    let prompt = tokenizer.encode(&args.prompt)?;
    let clock = Instant::now();
    let report = prove(
        &model.prover(),
        &prompt,
        &GenerateOptions::at_most(args.tokens),
        progress,
    )?;
    let prove_seconds = clock.elapsed().as_secs_f64();
    files::write(&proof_file, &report.bytes)?;
    drop(model);

    // From here on only what a verifier has: the key file and the proof file.
    let key_file = model_dir.join(KEY_FILE);
    let (key, proof) = (read_key(&key_file)?, files::read(&proof_file)?);
    let clock = Instant::now();
    let verified = verify_bytes(&key, &proof)?;
    let verify_seconds = clock.elapsed().as_secs_f64();

    let key_bytes = files::read(&key_file)?.len() as u64;
    let done = Done {
        set_up,
        phases: report.phases,
        verified,
        key_bytes,
        proof_bytes: proof.len(),
        seconds: [setup_seconds, prove_seconds, verify_seconds],
    };
    Ok(done.report(args, &key, tokenizer))
}

/// What the demo has done.
struct Done {
    set_up: SetupReport,
    /// Seconds of each phase of the proof.
    phases: Vec<(String, f64)>,
    verified: Verified,
    key_bytes: u64,
    proof_bytes: usize,
    /// Of set-up, proof and verification.
    seconds: [f64; 3],
}

impl Done {
    fn report(&self, args: &DemoArgs, key: &ModelKey, tokenizer: &Tokenizer) -> Report {
        let Self { set_up, verified, .. } = self;
        let [setup_seconds, prove_seconds, verify_seconds] = self.seconds;
        let statement = &verified.statement;
        let claim = claim_of(statement, key, Ok(Some(tokenizer)));
        let mut json = json!({
            "verdict": "accept",
            "model_id": verified.model.to_string(),
            "setup_seconds": setup_seconds,
            "prove_seconds": prove_seconds,
            "verify_seconds": verify_seconds,
            "phases": phases_json(&self.phases),
            "weights": set_up.weights,
            "disk_bytes": set_up.disk_bytes,
            "key_bytes": self.key_bytes,
            "proof_bytes": self.proof_bytes,
            "peak_rss_bytes": peak_rss_bytes(),
            "security_bits": verified.security_bits,
        });
        if let Value::Object(json) = &mut json {
            claim.add_to(json);
        }
        let rows = Rows::default()
            .row(
                "set-up",
                format!(
                    "{}, {} weights, {} on disk",
                    seconds(setup_seconds),
                    set_up.weights,
                    bytes(set_up.disk_bytes)
                ),
            )
            .row(
                "proof",
                format!("{}, {}", seconds(prove_seconds), bytes(self.proof_bytes as u64)),
            )
            .row(
                "verification",
                format!(
                    "{}, with a key of {}: accepted",
                    seconds(verify_seconds),
                    bytes(self.key_bytes)
                ),
            )
            .row("peak memory", bytes(peak_rss_bytes()))
            .row(
                "security",
                format!("{:.1} bits, proven (unique decoding)", verified.security_bits),
            )
            .row("model", verified.model)
            .ids("prompt", &statement.prompt)
            .ids("output", &statement.output)
            .row("end", claim.finish_text())
            .maybe("kept in", args.keep.as_ref().map(|k| shown::path(k)));
        let story = match claim.texts() {
            Ok(texts) => shown::story(&texts.whole(), width()),
            Err(reason) => format!("(no text: {})", shown::line(reason)),
        };
        let text = format!(
            "{story}\n\n{rows}\n{}",
            proved(statement.prompt.len(), statement.output.len(), width())
        );
        Report::done(text, json)
    }
}

/// What exactly an accepted proof says.
fn proved(prompt: usize, output: usize, columns: usize) -> String {
    let these = |n, what| match n {
        1 => format!("this 1 {what} id"),
        n => format!("these {n} {what} ids"),
    };
    let text = format!(
        "What was proved: the model with this id, run in exact integer arithmetic on {}, generates exactly \
         {}, each the arg max over the whole vocabulary (lowest id on a tie). Every matrix \
         product, norm, rotation, mask, softmax, activation, rounding and arg max of the forward pass is covered. The proof \
         does not hide the text, and says nothing about whether the text is true.",
        these(prompt, "prompt"),
        these(output, "output")
    );
    let lines = shown::wrapped(&text, columns.saturating_sub(1), "");
    lines.iter().map(|l| l.trim_end()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_proved_fits_into_the_terminal() {
        for columns in [40, 80, 200] {
            let text = proved(6, 59, columns);
            assert!(text.lines().all(|l| l.len() < columns), "{text}");
            assert!(text.split_whitespace().any(|word| word == "59"), "{text}");
        }
    }
}
