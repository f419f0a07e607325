//! `tessera inspect`: what a path holds, recognised by its contents.

use std::path::Path;

use serde_json::{json, Value};
use tessera::checkpoint::Survey;
use tessera::model::{key_tokenizer, Model};
use tessera::quantise::Strategy;
use tessera::quantised::directory::{CODEWORD_FILE, KEY_FILE};
use tessera::recipe::Recipe;
use tessera::support::progress::Progress;
use tessera::verifier::key::ModelKey;
use tessera::verifier::suite::Suite;
use tessera::{expected_key_of, given, inspect, inspect_bytes, Inspected};
use tessera_verdict::describe::{dimensions, key_json, key_rows, proof_json, proof_rows};
use tessera_verdict::input;
use tessera_verdict::rows::{bytes, Rows};
use tessera_verdict::shown;

use super::predict::{predicted_json, predicted_rows, provable_row, Predicted};
use super::recipe::against;
use super::security;
use crate::args::InspectArgs;
use crate::printer::{Failure, Report};

pub fn run(args: &InspectArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let path = &args.path;
    if let Some(checkpoint) = &args.against {
        let key = match path.is_dir() {
            true => {
                given::model_dir(path)?;
                path.join(KEY_FILE)
            }
            false => path.clone(),
        };
        return against(&key, checkpoint, args, progress);
    }
    let name = input::name(path);
    let inspected = match input::is_stdin(path) {
        true => inspect_bytes(&name, &input::read(path).map_err(Failure)?)?,
        false => inspect(path)?,
    };
    match &inspected {
        Inspected::Checkpoint { path, survey } => Ok(checkpoint(path, survey, args)),
        Inspected::Directory { model, recipe } => model_dir(model, recipe, args),
        Inspected::Key { key, recipe } => model_key(&name, key, recipe, args),
        Inspected::Proof { proof, bytes } => Ok(Report::done(
            proof_rows(proof, &name, *bytes).to_string(),
            proof_json(proof, *bytes),
        )),
        _ => Err(Failure(format!(
            "{name} is of a kind that this command does not describe"
        ))),
    }
}

/// A checkpoint, supported or not: an unsupported one is described, not refused.
fn checkpoint(path: &Path, survey: &Survey, args: &InspectArgs) -> Report {
    let strategy = args.strategy.map_or(Strategy::Auto, Into::into);
    let suite = args.hash.map_or_else(Suite::default, Into::into);
    let tables = args.tables.map_or_else(|| suite.default_tables(), Into::into);
    let key = expected_key_of(survey, strategy.format(), (suite, tables));
    let predicted = key
        .as_ref()
        .map(|key| Predicted::of_checkpoint(key, survey, args.tokens));
    let parameters: usize = survey.tensors.iter().map(|t| t.shape.iter().product::<usize>()).sum();
    let mut json = json!({
        "kind": "checkpoint",
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
    });
    if let Value::Object(fields) = &mut json {
        fields.extend(predicted_json(predicted.as_ref()));
    }
    let mut rows = Rows::default()
        .path("checkpoint", path)
        .row("architecture", shown::name(&survey.architecture));
    if let Some(config) = &survey.config {
        rows = rows.prose("dimensions", dimensions(config));
    }
    let mut rows = rows
        .row("tensors", tensors_row(survey, parameters))
        .row("embeddings", if survey.tied_embeddings { "tied" } else { "not tied" })
        .row("tokenizer", tokenizer_row(survey))
        .maybe("ids by", id_files_row(survey));
    rows = match key.as_ref().zip(predicted.as_ref()) {
        Some((key, predicted)) => provable_row(rows, key, &predicted.prediction, survey.weights),
        None => rows.row("provable", "no"),
    };
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
    if let Some(predicted) = &predicted {
        let tokenizer = match survey.tokenizer {
            Ok(true) => ", and more for the tokenizer",
            _ => "",
        };
        rows = predicted_rows(rows, predicted, tokenizer);
    }
    Report::done(rows.to_string(), json)
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

fn model_dir(model: &Model, recipe: &Recipe, args: &InspectArgs) -> Result<Report, Failure> {
    let disk = model.disk_bytes()?;
    let rows = Rows::default().path("directory", &model.dir).row("disk", bytes(disk));
    let tokenizer = Ok(model.tokenizer.is_some());
    let predicted = Predicted::of_key(&model.key, model.dir.join(CODEWORD_FILE).exists(), args.tokens);
    let (rows, mut json) = describe_key((&model.key, recipe), tokenizer, &predicted, rows)?;
    json["kind"] = json!("model directory");
    json["disk_bytes"] = json!(disk);
    Ok(Report::done(rows.to_string(), json))
}

fn model_key(name: &str, key: &ModelKey, recipe: &Recipe, args: &InspectArgs) -> Result<Report, Failure> {
    let rows = Rows::default().path("model key", name.as_ref());
    let tokenizer = key_tokenizer(key, name.as_ref())
        .map(|t| t.is_some())
        .map_err(|e| e.to_string());
    let predicted = Predicted::of_key(key, true, args.tokens);
    let tokenizer = tokenizer.as_ref().map(|has| *has).map_err(String::as_str);
    let (rows, json) = describe_key((key, recipe), tokenizer, &predicted, rows)?;
    Ok(Report::done(rows.to_string(), json))
}

fn describe_key(
    (key, recipe): (&ModelKey, &Recipe),
    tokenizer: Result<bool, &str>,
    predicted: &Predicted,
    rows: Rows,
) -> Result<(Rows, Value), Failure> {
    let mut json = key_json((key, recipe), tokenizer == Ok(true), predicted.prediction.tokens)?;
    json.extend(predicted_json(Some(predicted)));
    let rows = key_rows(
        rows,
        (key, recipe),
        tokenizer,
        &security::shown(key, predicted.prediction.tokens),
    )?;
    let counted = match key.tokenizer.is_empty() {
        true => "",
        false => ", with the tokenizer",
    };
    Ok((predicted_rows(rows, predicted, counted), Value::Object(json)))
}
