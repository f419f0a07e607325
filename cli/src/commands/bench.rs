//! `tessera bench`: what set-up, proof and verification cost for models of public dimensions. Every command runs in a
//! process of its own, so that each has its own peak of memory; the passes over the weights are measured here, beside
//! a plain read of the same bytes.

mod passes;
mod plot;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{json, Map, Value};
use tessera::support::files;
use tessera::support::progress::Progress;
use tessera::synthetic::PublicShape;

use super::planned::output;
use crate::args::{BenchArgs, ShapeArg};
use crate::printer::{Failure, Report};

pub fn run(args: &BenchArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let out = args.out.as_deref().map(output).transpose()?;
    let plot = args.plot.as_deref().map(output).transpose()?;
    // Of the directory nothing is left behind unless it is wanted.
    let temporary = match &args.work {
        Some(dir) => {
            files::create_dir(dir)?;
            None
        }
        None => Some(tempfile::tempdir()?),
    };
    let work = match (&args.work, &temporary) {
        (Some(dir), _) => dir.as_path(),
        (None, Some(dir)) => dir.path(),
        (None, None) => Path::new("."),
    };
    let steps = args.shape.len() * args.layers.len().max(1) * (2 + args.tokens.len());
    progress.phase("bench", Some(steps as u64));
    let mut models = Vec::new();
    for shape in &args.shape {
        let all = [None];
        let some: Vec<Option<u16>> = args.layers.iter().copied().map(Some).collect();
        for layers in if some.is_empty() { &all[..] } else { &some } {
            models.push(model(args, *shape, *layers, work, progress)?);
        }
    }
    let json = json!({
        "threads": rayon::current_num_threads(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "load_average": load_average(),
        "models": models,
    });
    if let Some(out) = &out {
        out.write(format!("{json:#}\n").as_bytes())?;
    }
    if let Some(plot) = &plot {
        plot.write(plot::svg(&json).as_bytes())?;
    }
    Ok(Report::done(table::text(&json), json))
}

/// Everything about one model.
fn model(
    args: &BenchArgs,
    shape: ShapeArg,
    layers: Option<u16>,
    work: &Path,
    progress: &dyn Progress,
) -> Result<Value, Failure> {
    let public = PublicShape::from(shape);
    let layers = match layers {
        Some(layers) => layers.into(),
        None => public.description()?.config.layers,
    };
    let name = format!("{}-{layers}", shape.name());
    let place = |kind: &str| work.join(format!("{name}.{kind}"));
    let (checkpoint, dir, record) = (place("checkpoint"), place("model"), place("setup.json"));
    if !checkpoint.exists() && !dir.exists() {
        let layers = layers.to_string();
        tessera(
            args,
            &[
                "synth",
                "--shape",
                &shape.name(),
                "--layers",
                &layers,
                "--out",
                text(&checkpoint)?,
            ],
        )?;
    }
    progress.advance(1);
    if !dir.exists() {
        // The comparison with the checkpoint is not part of what set-ups are compared by.
        let mut command = vec!["setup", text(&checkpoint)?, "--out", text(&dir)?, "--no-fidelity"];
        let memory = args.memory.map(|b| b.0.to_string());
        command.extend(memory.iter().flat_map(|memory| ["--memory", memory.as_str()]));
        let report = tessera(args, &command)?;
        files::write(&record, report.to_string().as_bytes())?;
    }
    progress.advance(1);
    let setup = match record.exists() {
        true => serde_json::from_slice(&files::read(&record)?)?,
        false => Value::Null,
    };
    let mut statements = Vec::new();
    for &tokens in &args.tokens {
        statements.push(statement(args, &dir, &place("proof"), tokens)?);
        progress.advance(1);
    }
    let passes = passes::measure(&dir, args.memory)?;
    let threads = rayon::current_num_threads() as f64;
    let per_weight = || Some(setup["setup_seconds"].as_f64()? * threads * 1e9 / setup["weights"].as_f64()?);
    Ok(json!({
        "shape": shape.name(),
        "layers": layers,
        "setup": setup,
        "setup_ns_per_weight_and_core": per_weight(),
        "passes": passes,
        "statements": statements,
    }))
}

/// One statement of `tokens` token rows, half of them prompt: generated, proved and verified.
fn statement(args: &BenchArgs, dir: &Path, proof: &Path, tokens: usize) -> Result<Value, Failure> {
    let prompt = (tokens / 2).max(1);
    let ids: Vec<String> = (0..prompt).map(|i| (3 + i * 7919 % 29_989).to_string()).collect();
    // The last token is not run.
    let (ids, generated) = (ids.join(","), (tokens - prompt + 1).to_string());
    let memory = args.memory.map(|b| b.0.to_string());
    let memory: Vec<&str> = memory.iter().flat_map(|memory| ["--memory", memory.as_str()]).collect();
    let common = [
        "--model",
        text(dir)?,
        "--prompt-ids",
        &ids,
        "--tokens",
        &generated,
        "--ignore-eos",
    ];
    let inference = tessera(args, &[&["generate"], &common[..], &memory].concat())?;
    let proved = tessera(
        args,
        &[&["prove"], &common[..], &["--out", text(proof)?], &memory].concat(),
    )?;
    let key = dir.join(tessera::quantised::directory::KEY_FILE);
    let verified = tessera(args, &["verify", "--key", text(&key)?, text(proof)?])?;
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or(f64::NAN);
    let decode = number(&inference, "decode_seconds");
    let inferred = number(&inference, "prefill_seconds") + decode;
    // Proving begins with inference, which is not counted twice.
    let total = number(&proved, "prove_seconds");
    let proof_only = total - number(&proved["phases"], "generate");
    let mut json = Map::new();
    let mut add = |name: &str, value: Value| json.insert(name.to_owned(), value);
    add("tokens", json!(tokens));
    add("prompt_tokens", json!(prompt));
    add("prefill_seconds", inference["prefill_seconds"].clone());
    add(
        "seconds_per_token",
        json!((tokens > prompt).then(|| decode / (tokens - prompt) as f64)),
    );
    add("phases", proved["phases"].clone());
    add("weight_passes", proved["weight_passes"].clone());
    add("prove_seconds", json!(total));
    add("proof_to_inference", json!(proof_only / inferred));
    add("verify_seconds", verified["verify_seconds"].clone());
    for name in [
        "proof_bytes",
        "peak_rss_bytes",
        "predicted_bytes",
        "security_bits",
        "memory",
    ] {
        add(name, proved[name].clone());
    }
    Ok(Value::Object(json))
}

/// Runs a command of this program in a process of its own; returns what it reports.
fn tessera(args: &BenchArgs, command: &[&str]) -> Result<Value, Failure> {
    let threads = rayon::current_num_threads().to_string();
    let output = Command::new(std::env::current_exe()?)
        .args(command)
        .args(["--json", "--quiet", "--threads", &threads])
        .output()?;
    let name = command.first().copied().unwrap_or_default();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let value: Value = serde_json::from_str(stdout.trim()).map_err(|e| {
        Failure(format!(
            "{name} ended with {} and printed no report: {e}",
            output.status
        ))
    })?;
    match output.status.success() {
        true => Ok(value),
        false => {
            let message = value["error"]
                .as_str()
                .or(value["reason"].as_str())
                .unwrap_or("no reason given");
            let memory = args.memory.map_or(String::new(), |b| format!(" within {b}"));
            Err(Failure(format!("{name}{memory}: {message}")))
        }
    }
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str()
        .ok_or_else(|| Failure(format!("{} is not UTF-8", path.display())))
}

/// One-minute load average; `None` where the system does not tell.
fn load_average() -> Option<f64> {
    let text = std::fs::read_to_string(PathBuf::from("/proc/loadavg")).ok()?;
    text.split(' ').next()?.parse().ok()
}
