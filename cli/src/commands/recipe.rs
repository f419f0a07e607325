//! How the recipe of a key is shown, and `tessera inspect --against`: whether a key is that of a checkpoint.

use std::path::Path;

use serde_json::json;
use tessera::setup::{recompute, Agreement};
use tessera::support::progress::Progress;
use tessera_verdict::rows::Rows;

use super::key::read_key;
use super::setup::refusal;
use crate::args::InspectArgs;
use crate::printer::{Failure, Report, Status};
use tessera::{given, mapped, Allowance};

/// Makes the model of a key again from a checkpoint, and says what agrees. Exit status 1 if the model is another one.
pub fn against(
    key_path: &Path,
    checkpoint: &Path,
    args: &InspectArgs,
    progress: &dyn Progress,
) -> Result<Report, Failure> {
    given::checkpoint(checkpoint)?;
    let key = read_key(key_path)?;
    let allowance = Allowance::new(args.memory, 2 * mapped(checkpoint));
    let found = recompute(&key, checkpoint, args.calibration.as_ref(), allowance.budget, progress)
        .map_err(|e| refusal(e, &allowance))?;
    let parts = parts(&found);
    // The figures are not in the id; a key that flatters itself is not the key of this checkpoint either.
    let agrees = found.id && found.fidelity != Some(false);
    let json = json!({
        "kind": "comparison of a model key with a checkpoint",
        "model_id": key.id()?.to_string(),
        "recomputed_model_id": found.model_id.to_string(),
        "agrees": agrees,
        "parts": parts.iter().map(|(name, agrees)| (name.replace(' ', "_"), json!(agrees))).collect::<serde_json::Map<_, _>>(),
        "fidelity": found.fidelity,
        "other_files": found.other_files,
        "notes": found.notes,
    });
    let mut rows = Rows::default()
        .path("model key", key_path)
        .path("checkpoint", checkpoint)
        .row("model", key.id()?)
        .row("made again", found.model_id);
    for (name, agrees) in parts {
        // Short names, so that an id fits into a line of 80 columns.
        let name = name.trim_end_matches(" root");
        rows = rows.row(format!("  {name}"), if agrees { "agree" } else { "DIFFER" });
    }
    let fidelity = match found.fidelity {
        None => "the key says none",
        Some(true) => "measured again: as the key says, up to 1 %",
        Some(false) => "measured again: NOT what the key says",
    };
    rows = rows.row("  fidelity", fidelity);
    rows = rows.row("  files", files_text(found.other_files.as_deref()));
    for note in &found.notes {
        rows = rows.row("note", note);
    }
    let verdict = match (found.id, agrees) {
        (true, true) => "this key is the one of this checkpoint",
        (true, false) => "this key has the model of this checkpoint, but what it says of its fidelity is NOT true",
        (false, _) => "this key is NOT the one of this checkpoint",
    };
    Ok(Report {
        status: if agrees { Status::Done } else { Status::Rejected },
        text: rows.row("result", verdict).to_string(),
        json,
    })
}

fn parts(found: &Agreement) -> [(&'static str, bool); 6] {
    [
        ("dimensions", found.dimensions),
        ("parameters", found.parameters),
        ("commitment", found.commitment),
        ("weights root", found.weights_root),
        ("tables root", found.tables_root),
        ("tokenizer", found.tokenizer),
    ]
}

fn files_text(other: Option<&[String]>) -> String {
    match other {
        None => "the key lists none".to_owned(),
        Some([]) => "all as the key lists them".to_owned(),
        Some(names) => format!("other than the key lists: {}", names.join(", ")),
    }
}
