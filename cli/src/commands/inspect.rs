//! `tessera inspect`: what a path holds, recognised by its contents.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{json, Value};
use tessera::checkpoint::{mistaken_file, mistaken_folder, Checkpoint, Survey, GGUF_MAGIC};
use tessera::circuits::model::ModelConfig;
use tessera::lengths::{fewest_chunks, most_rows};
use tessera::model::{key_tokenizer, Model};
use tessera::plan::Subject;
use tessera::quantise::Strategy;
use tessera::quantised::directory::KEY_FILE;
use tessera::recipe::{self, Recipe};
use tessera::support::files::{is_there, parent};
use tessera::support::progress::Progress;
use tessera::verifier::codec::FileKind;
use tessera::verifier::key::ModelKey;
use tessera::verifier::proof::Proof;
use tessera_verdict::describe::{dimensions, key_json, key_rows, proof_json, proof_rows};
use tessera_verdict::input;
use tessera_verdict::rows::{bytes, Rows};
use tessera_verdict::shown;

use super::key;
use super::predict::{keeps_codeword, Prediction};
use super::recipe::against;
use super::security;
use crate::args::InspectArgs;
use crate::printer::{Failure, Report};

/// How all files of this program begin, whatever their names.
const OWN: &[u8] = b"TESS";
/// The file by which a folder is known as a checkpoint in the hub layout.
const CONFIG: &str = "config.json";

pub fn run(args: &InspectArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let path = &args.path;
    if let Some(checkpoint) = &args.against {
        let key = match path.is_dir() {
            true => path.join(KEY_FILE),
            false => path.clone(),
        };
        return against(&key, checkpoint, args, progress);
    }
    let failed = |e: io::Error| Failure(format!("cannot read {}: {e}", path.display()));
    if !input::is_stdin(path) && std::fs::metadata(path).map_err(failed)?.is_dir() {
        return match (path.join(KEY_FILE).exists(), is_there(&path.join(CONFIG))) {
            (true, _) => model_dir(path, args),
            (false, true) => checkpoint(path, args),
            (false, false) => Err(Failure(mistaken_folder(path).unwrap_or_else(|| {
                format!(
                    "{} is neither a model directory (no {KEY_FILE}) nor a checkpoint (no {CONFIG})",
                    path.display()
                )
            }))),
        };
    }
    if path.file_name().is_some_and(|name| name == CONFIG) {
        return checkpoint(parent(path), args);
    }
    if !input::is_stdin(path) {
        let begin = begin(path).map_err(failed)?;
        if begin.starts_with(&GGUF_MAGIC) {
            return checkpoint(path, args);
        }
        if let (false, Some(problem)) = (begin.starts_with(OWN), mistaken_file(path)) {
            return Err(Failure(format!("{} {problem}", path.display())));
        }
    }
    let (name, content) = (input::name(path), input::read(path).map_err(Failure)?);
    if content.starts_with(&FileKind::Key.magic()) {
        key(&name, &content, args)
    } else if content.starts_with(&FileKind::Proof.magic()) {
        proof(&name, &content)
    } else {
        Err(Failure(format!(
            "{name} is neither a model key, nor a proof, nor a GGUF file"
        )))
    }
}

/// The first bytes of a file, which may be larger than memory.
fn begin(path: &Path) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(path)?.take(64).read_to_end(&mut begin)?;
    Ok(begin)
}

/// A checkpoint, supported or not: an unsupported one is described, not refused.
fn checkpoint(path: &Path, args: &InspectArgs) -> Result<Report, Failure> {
    let survey = Checkpoint::survey(path).map_err(|e| Failure(e.of(path)))?;
    let provable = survey.is_supported() && survey.tokenizer.is_ok();
    // What a proof costs follows from the dimensions: it is known before the weights are there.
    let predictable = provable || !survey.weights && survey.unsupported.is_empty();
    let checked: Option<&ModelConfig> = survey.config.as_ref().filter(|c| c.check().is_ok());
    let prediction = checked.filter(|_| predictable).map(|c| {
        let strategy = args.strategy.map_or(Strategy::Auto, Into::into);
        Prediction::new(
            &Subject::of_config(c, strategy.format(), keeps_codeword(c)),
            args.tokens,
        )
    });
    let parameters: usize = survey.tensors.iter().map(|t| t.shape.iter().product::<usize>()).sum();
    let json = json!({
        "kind": "checkpoint",
        "provable": provable,
        "architecture": survey.architecture,
        "config": survey.config,
        "tied_embeddings": survey.tied_embeddings,
        "notes": survey.notes,
        "tensors": survey.tensors,
        "weights": survey.weights,
        "parameters": parameters,
        "unsupported": survey.unsupported,
        "missing": survey.missing,
        "misshapen": survey.misshapen,
        "tokenizer": survey.tokenizer == Ok(true),
        "tokenizer_error": survey.tokenizer.as_ref().err(),
        "id_files": survey.id_files,
        "predicted": prediction.as_ref().map(Prediction::json),
    });
    let mut rows = Rows::default()
        .path("checkpoint", path)
        .row("architecture", shown::name(&survey.architecture));
    if let Some(config) = &survey.config {
        rows = rows.prose("dimensions", dimensions(config));
    }
    let mut rows = rows
        .row("tensors", tensors_row(&survey, parameters))
        .row("embeddings", if survey.tied_embeddings { "tied" } else { "not tied" })
        .row("tokenizer", tokenizer_row(&survey))
        .maybe("ids by", id_files_row(&survey))
        .row(
            "provable",
            match (provable, survey.weights) {
                (true, _) => "yes",
                (false, true) => "no",
                (false, false) => "no: there are no weights",
            },
        );
    for note in &survey.notes {
        rows = rows.row("note", shown::line(note));
    }
    for unsupported in &survey.unsupported {
        rows = rows.row("  unsupported", shown::line(&unsupported.to_string()));
    }
    for tensor in &survey.missing {
        rows = rows.row("  missing", shown::line(tensor));
    }
    for problem in &survey.misshapen {
        rows = rows.row("  wrong shape", shown::line(problem));
    }
    if let Some(prediction) = prediction {
        rows = prediction.rows(rows);
    }
    Ok(Report::done(rows.to_string(), json))
}

fn tensors_row(survey: &Survey, parameters: usize) -> String {
    match survey.weights {
        true => format!("{}, {parameters} parameters, {}", survey.tensors.len(), dtypes(survey)),
        false => "none: neither model.safetensors nor the shards of an index".to_owned(),
    }
}

fn tokenizer_row(survey: &Survey) -> String {
    match &survey.tokenizer {
        Ok(true) => "yes".to_owned(),
        Ok(false) => "none: prompts are given as ids".to_owned(),
        Err(error) => shown::line(error),
    }
}

/// The files that decide which ids a text has.
fn id_files_row(survey: &Survey) -> Option<String> {
    let used = survey.id_files.iter().filter(|file| !file.used.is_empty());
    let names: Vec<String> = used.map(|file| shown::name(&file.name)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn dtypes(survey: &Survey) -> String {
    let mut names: Vec<&str> = survey.tensors.iter().map(|t| t.dtype.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn model_dir(path: &Path, args: &InspectArgs) -> Result<Report, Failure> {
    let model = Model::open(path)?;
    let disk = model.disk_bytes()?;
    let rows = Rows::default().path("directory", path).row("disk", bytes(disk));
    let subject = Subject::of_dir(&model.key, path);
    let key = path.join(KEY_FILE);
    let recipe = Recipe::of(&model.key).map_err(|e| key::unusable_key(&input::name(&key), &e.into()))?;
    let (rows, mut json) = describe_key((&model.key, &recipe), &key, &subject, args, rows)?;
    json["kind"] = json!("model directory");
    json["disk_bytes"] = json!(disk);
    Ok(Report::done(rows.to_string(), json))
}

fn key(name: &str, content: &[u8], args: &InspectArgs) -> Result<Report, Failure> {
    let (key, recipe) = recipe::read_key(content).map_err(|e| key::unusable_key(name, &e))?;
    let subject = Subject::of_key(&key, keeps_codeword(&key.config));
    let rows = Rows::default().path("model key", name.as_ref());
    let (rows, json) = describe_key((&key, &recipe), name.as_ref(), &subject, args, rows)?;
    Ok(Report::done(rows.to_string(), json))
}

fn describe_key(
    (key, recipe): (&ModelKey, &Recipe),
    path: &Path,
    subject: &Subject,
    args: &InspectArgs,
    rows: Rows,
) -> Result<(Rows, serde_json::Value), Failure> {
    let tokenizer = key_tokenizer(key, path).map(|t| t.is_some()).map_err(|e| e.to_string());
    let tokenizer = tokenizer.as_ref().map(|has| *has).map_err(String::as_str);
    let prediction = Prediction::new(subject, args.tokens);
    let mut json = key_json((key, recipe), tokenizer == Ok(true), prediction.tokens)?;
    for (name, value) in [
        ("most_tokens_in_one_piece", json!(most_rows(key).map(|rows| rows + 1))),
        ("fewest_chunks", json!(fewest_chunks(key, prediction.tokens - 1))),
        ("predicted", prediction.json()),
    ] {
        json.insert(name.to_owned(), value);
    }
    let rows = key_rows(rows, (key, recipe), tokenizer, &security::shown(key, prediction.tokens))?;
    Ok((prediction.rows(rows), Value::Object(json)))
}

fn proof(name: &str, content: &[u8]) -> Result<Report, Failure> {
    let proof = Proof::from_bytes(content).map_err(|e| Failure(format!("{name}: {e}")))?;
    let len = content.len();
    Ok(Report::done(
        proof_rows(&proof, name, len).to_string(),
        proof_json(&proof, len),
    ))
}
