//! `tessera inspect`: what a path holds, recognised by its contents.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::json;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::ModelConfig;
use tessera_prover::intake::checkpoint::{Checkpoint, Survey, GGUF_MAGIC};
use tessera_prover::model::directory::KEY_FILE;
use tessera_prover::quantise::Strategy;
use tessera_prover::support::files;
use tessera_prover::support::progress::Progress;
use tessera_prover::tasks::lengths::{fewest_chunks, most_rows};
use tessera_prover::tasks::loaded::{key_id, key_tokenizer, read_key, Model};
use tessera_prover::tasks::plan::Subject;
use tessera_verifier::codec::FileKind;
use tessera_verifier::key::ModelKey;
use tessera_verifier::ledger::security_bits;
use tessera_verifier::proof::Proof;

use super::predict::{dimensions, keeps_codeword, Prediction};
use super::recipe::{against, recipe_json, recipe_rows};
use super::security;
use crate::args::InspectArgs;
use crate::printer::{bytes, Failure, Report, Rows};
use crate::shown;

pub fn run(args: &InspectArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let path = &args.path;
    if let Some(checkpoint) = &args.against {
        let key = match path.is_dir() {
            true => path.join(KEY_FILE),
            false => path.clone(),
        };
        return against(&key, checkpoint, args, progress);
    }
    let metadata = std::fs::metadata(path).map_err(|e| Failure(format!("cannot read {}: {e}", path.display())))?;
    if metadata.is_dir() {
        return match (path.join(KEY_FILE).exists(), path.join("config.json").exists()) {
            (true, _) => model_dir(path, args),
            (false, true) => checkpoint(path, args),
            (false, false) => Err(Failure(format!(
                "{} is neither a model directory (no {KEY_FILE}) nor a checkpoint (no config.json)",
                path.display()
            ))),
        };
    }
    let mut magic = [0; 8];
    let mut file = File::open(path).map_err(|e| Failure(format!("cannot read {}: {e}", path.display())))?;
    // A file shorter than a magic number has none.
    let _ = file.read_exact(&mut magic);
    if magic == FileKind::Key.magic() {
        key(path, args)
    } else if magic == FileKind::Proof.magic() {
        proof(path)
    } else if magic.starts_with(&GGUF_MAGIC) {
        checkpoint(path, args)
    } else {
        Err(Failure(format!(
            "{} is neither a model key, nor a proof, nor a GGUF file",
            path.display()
        )))
    }
}

/// A checkpoint, supported or not: an unsupported one is described, not refused.
fn checkpoint(path: &Path, args: &InspectArgs) -> Result<Report, Failure> {
    let survey = Checkpoint::survey(path).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    let provable = survey.is_supported();
    let checked: Option<&ModelConfig> = survey.config.as_ref().filter(|c| c.check().is_ok());
    let prediction = checked.filter(|_| provable).map(|c| {
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
        "parameters": parameters,
        "unsupported": survey.unsupported,
        "missing": survey.missing,
        "misshapen": survey.misshapen,
        "predicted": prediction.as_ref().map(Prediction::json),
    });
    let mut rows = Rows::default()
        .path("checkpoint", path)
        .row("architecture", shown::name(&survey.architecture))
        .maybe("dimensions", survey.config.as_ref().map(dimensions))
        .row(
            "tensors",
            format!("{}, {parameters} parameters, {}", survey.tensors.len(), dtypes(&survey)),
        )
        .row("embeddings", if survey.tied_embeddings { "tied" } else { "not tied" })
        .row("provable", if provable { "yes" } else { "no" });
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

fn dtypes(survey: &Survey) -> String {
    let mut names: Vec<&str> = survey.tensors.iter().map(|t| t.dtype.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn model_dir(path: &Path, args: &InspectArgs) -> Result<Report, Failure> {
    let model = Model::open(path)?;
    let disk = model.disk_bytes()?;
    let rows = Rows::default().path("model directory", path).row("disk", bytes(disk));
    let subject = Subject::of_dir(&model.key, path);
    let (rows, mut json) = describe_key(&model.key, &path.join(KEY_FILE), &subject, args, rows)?;
    json["kind"] = json!("model directory");
    json["disk_bytes"] = json!(disk);
    Ok(Report::done(rows.to_string(), json))
}

fn key(path: &Path, args: &InspectArgs) -> Result<Report, Failure> {
    let key = read_key(path)?;
    let subject = Subject::of_key(&key, keeps_codeword(&key.config));
    let rows = Rows::default().path("model key", path);
    let (rows, json) = describe_key(&key, path, &subject, args, rows)?;
    Ok(Report::done(rows.to_string(), json))
}

fn describe_key(
    key: &ModelKey,
    path: &Path,
    subject: &Subject,
    args: &InspectArgs,
    rows: Rows,
) -> Result<(Rows, serde_json::Value), Failure> {
    let id = key_id(key, path)?;
    let tokenizer = key_tokenizer(key, path).map(|t| t.is_some());
    let has_tokenizer = *tokenizer.as_ref().unwrap_or(&false);
    let prediction = Prediction::new(subject, args.tokens);
    let rows_predicted = prediction.tokens - 1;
    let whole = [Chunk::whole(key.config.layers)];
    let (bits, least) = (
        security_bits(key, &whole, rows_predicted),
        security_bits(key, &whole, key.config.context),
    );
    let w = &key.weights;
    let json = json!({
        "kind": "model key",
        "model_id": id.to_string(),
        "format_version": FileKind::Key.version(),
        "config": key.config,
        "strategy": Strategy::of(&key.params).name(),
        "tiles": w.tiles,
        "columns": w.columns(),
        "log_message": w.log_message,
        "log_blowup": w.log_blowup,
        "weights_root": hex::encode(key.weights_root),
        "tables_roots": key.tables_roots.map(hex::encode),
        "tokenizer": has_tokenizer,
        "computation_digest": hex::encode(key.computation_digest()?),
        "tokenizer_digest": hex::encode(key.tokenizer_digest()?),
        "recipe": recipe_json(key)?,
        "security_bits": bits,
        "security_bits_at_full_context": least,
        "most_tokens_in_one_piece": most_rows(key).map(|rows| rows + 1),
        "fewest_chunks": fewest_chunks(key, rows_predicted),
        "predicted": prediction.json(),
    });
    let rows = rows
        .row("model", id)
        .row("dimensions", dimensions(&key.config))
        .row("strategy", Strategy::of(&key.params).name())
        .row(
            "weights",
            format!(
                "{} tiles of 64 x 64 in {} columns of 2^{}, rate 2^-{}",
                w.tiles,
                w.columns(),
                w.log_message,
                w.log_blowup
            ),
        )
        .row("weights root", hex::encode(key.weights_root))
        .row("tables roots", key.tables_roots.map(hex::encode).join(", "))
        .row(
            "tokenizer",
            match tokenizer {
                Ok(true) => "yes".to_owned(),
                Ok(false) => "none: texts are shown as ids".to_owned(),
                Err(error) => error.to_string(),
            },
        )
        .row("security", security::shown(key, prediction.tokens));
    Ok((prediction.rows(recipe_rows(rows, key)?), json))
}

fn proof(path: &Path) -> Result<Report, Failure> {
    let content = files::read(path)?;
    let proof = Proof::from_bytes(&content).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    let statement = &proof.statement;
    let json = json!({
        "kind": "proof",
        "format_version": FileKind::Proof.version(),
        "model_id": proof.model.to_string(),
        "prompt_ids": statement.prompt,
        "output_ids": statement.output,
        "chunks": proof.chunks.len(),
        "proof_bytes": content.len(),
        "verified": false,
    });
    let rows = Rows::default()
        .row(
            "proof",
            format!("{}, {}, not verified", shown::path(path), bytes(content.len() as u64)),
        )
        .row("model", proof.model)
        .ids("prompt", &statement.prompt)
        .ids("output", &statement.output)
        .row("chunks", proof.chunks.len());
    Ok(Report::done(rows.to_string(), json))
}
