//! `tessera prove`.

use std::path::Path;
use std::time::Instant;

use serde_json::{json, Value};
use tessera::support::files::{self, AtomicFile};
use tessera::support::output::Output;
use tessera::support::progress::Progress;
use tessera::{Error, Model, Timetable};
use tessera_verdict::shown;

use super::planned::{model_files, output_beside};
use super::prompt::{rows, Asked};
use super::proved::{differs, shown_as, Proved};
use super::report::{choices_json, memory, phases_json, phases_text, traffic_json, traffic_text};
use super::{batch, security, work};
use crate::args::{GlobalArgs, ProveArgs};
use crate::bars::Display;
use crate::printer::{peak_rss_bytes, Failure, Report};

/// Fails early where the secret could not be written in the end, or where the proof would replace it.
fn check_secret(secret: &Path, out: &Output) -> Result<(), Failure> {
    AtomicFile::create_private(secret).map(drop)?;
    let place = |path: &Path| Some((files::parent(path).canonicalize().ok()?, path.file_name()?.to_owned()));
    match out {
        Output::File(target) if place(target) == place(secret) => {
            let problem = "is where the proof goes, too: name another file for the secret";
            Err(Failure(format!("--secret {}: {problem}", shown::path(secret))))
        }
        _ => Ok(()),
    }
}

pub fn run(args: &ProveArgs, display: &Display, global: &GlobalArgs) -> Result<Report, Failure> {
    let path = match (&args.batch, &args.out_dir, &args.out) {
        (Some(requests), Some(dir), _) => return batch::run(args, requests, dir, display, global),
        (_, _, Some(path)) => path,
        _ => return Err(Failure("say where the proof goes, with --out FILE".to_owned())),
    };
    if let Some(dir) = &args.work {
        return work::prove(args, dir, path, display, global.quiet);
    }
    let out = output_beside(path, model_files(&args.model))?;
    let secret = args.hidden.secret.as_deref();
    if let Some(secret) = secret {
        check_secret(secret, &out)?;
    }
    let asked = Asked::read(args)?;
    display.phase("open model", None);
    let mut request = None;
    let (model, plan) = Model::open_within::<Failure>(&args.model, args.memory, |key, tokenizer| {
        let read = asked.request(key, tokenizer)?;
        // Before anything is said of memory, which does not help.
        match read.hide_activations {
            // Proofs in chunks, which help otherwise, hide nothing.
            true => read.check_whole(key).map_err(Error::from)?,
            false => security::check_whole(key, read.lengths)?,
        }
        let task = read.task(key);
        request = Some(read);
        Ok(task)
    })?;
    let request = request.ok_or_else(|| Failure("no request was read".to_owned()))?;
    display.expect(Timetable::new(&model, &request));
    let clock = Instant::now();
    let proof = match model.prove_request(&request, display) {
        Err(Error::Differs(difference)) => return Ok(differs(&difference)),
        other => other?,
    };
    let prove_seconds = clock.elapsed().as_secs_f64();
    // First what cannot be made again.
    if let Some(secret) = secret {
        proof.write_secret(secret)?;
    }
    let written = out.write(proof.bytes());
    if let (Err(_), Some(secret)) = (&written, secret) {
        // Without its proof it is of no use, and still a secret.
        files::remove(secret)?;
    }
    written?;

    let report = &proof.report;
    let proved = Proved::new(&model, &proof, path, prove_seconds, request.expects_answer()).with_secret(secret);
    let mut json = proved.json();
    for (key, value) in [
        ("phases", phases_json(&report.phases)),
        ("predicted_bytes", json!(plan.predicted_bytes())),
        ("peak_rss_bytes", json!(peak_rss_bytes())),
        ("memory", choices_json(&plan)),
        ("weight_passes", traffic_json(&report.weights)),
    ] {
        json.insert(key.to_owned(), value);
    }
    let text = shown_as(global.quiet, args.brief, &proved, |columns| {
        let notes = |own| rows(&proof.prompt, own);
        proved.text(columns, notes, |own| {
            own.row("", phases_text(&report.phases))
                .row("weight passes", traffic_text(&report.weights))
                .row("peak memory", memory(plan.predicted_bytes()))
        })
    });
    Ok(Report::done(text, Value::Object(json)))
}
