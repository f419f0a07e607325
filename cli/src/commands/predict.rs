//! How a predicted cost is shown.

use serde_json::{json, Value};
use tessera::plan::Budget;
use tessera::prediction::Prediction;
use tessera_verdict::rows::{bytes, seconds, Rows};

/// For machines.
pub fn predicted_json(predicted: &Prediction) -> Value {
    json!({
        "tokens": predicted.tokens,
        "disk_bytes": predicted.disk_bytes,
        "memory_bytes": predicted.memory.predicted_bytes(),
        "memory_phases": super::report::predicted_phases(&predicted.memory),
        "smallest_memory_bytes": predicted.smallest_bytes,
        "prove_seconds": predicted.prove_seconds,
        "committed_cells": predicted.committed_cells,
    })
}

/// For people.
pub fn predicted_rows(rows: Rows, predicted: &Prediction) -> Rows {
    let most = match predicted.is_most {
        true => ", the most that the context has room for",
        false => "",
    };
    rows.row(
        "predicted",
        format!("for {} tokens, prompt included{most}", predicted.tokens),
    )
    .row(
        "  memory",
        format!(
            "{} and a tenth; the smallest --memory that works is {}",
            bytes(predicted.memory.predicted_bytes()),
            Budget(predicted.smallest_bytes)
        ),
    )
    .row("  disk", bytes(predicted.disk_bytes))
    .row("  time", seconds(predicted.prove_seconds))
}
