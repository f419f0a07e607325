//! How predicted security and cost are shown, of whatever `inspect` looks at.

use serde_json::{json, Map, Value};
use tessera::checkpoint::Survey;
use tessera::plan::{Budget, MARGIN_PERCENT};
use tessera::prediction::{typical_key, Gas, NoGas, Prediction};
use tessera::verifier::key::ModelKey;
use tessera_verdict::rows::{bytes, count, seconds, Rows};

use super::security;

/// A prediction, and the gas of such a proof.
pub struct Predicted {
    pub prediction: Prediction,
    gas: Result<Gas, NoGas>,
    /// Whether there is a key, whose shifts and biases decide the gas.
    known: bool,
}

impl Predicted {
    /// Of a key.
    pub fn of_key(key: &ModelKey, codeword_file: bool, tokens: Option<usize>) -> Self {
        let prediction = Prediction::new(key, codeword_file, tokens);
        let gas = prediction.gas(key);
        Self {
            prediction,
            gas,
            known: true,
        }
    }

    /// Of a checkpoint for which set-up is expected to make this key.
    pub fn of_checkpoint(expected: &ModelKey, survey: &Survey, tokens: Option<usize>) -> Self {
        let prediction = Prediction::new(expected, true, tokens);
        let gas = prediction.gas(&typical_key(expected, &survey.biased));
        Self {
            prediction,
            gas,
            known: false,
        }
    }

    fn gas_row(&self) -> String {
        match &self.gas {
            Ok(Gas { gas, outputs }) => format!(
                "about {:.0} million for contracts to verify a proof of {}{}",
                *gas as f64 / 1e6,
                count(*outputs, "output token"),
                match self.known {
                    true => "",
                    false => ", if its key is a typical one",
                }
            ),
            Err(reason) => format!("none: {reason}"),
        }
    }
}

/// For machines; a checkpoint that is not supported has no prediction.
pub fn predicted_json(predicted: Option<&Predicted>) -> Map<String, Value> {
    let costs = |Predicted {
                     prediction: p,
                     gas,
                     known,
                 }: &Predicted| {
        json!({
            "tokens": p.tokens,
            "asked_tokens": p.asked,
            "chunks": p.fewest_chunks.unwrap_or(1),
            "disk_bytes": p.disk_bytes,
            "memory_bytes": p.memory.predicted_bytes(),
            "memory_phases": super::report::predicted_phases(&p.memory),
            "smallest_memory_bytes": p.smallest_bytes,
            "prove_seconds": p.prove_seconds,
            "verify_seconds": p.verify_seconds,
            "proof_bytes": p.proof_bytes,
            "committed_cells": p.committed_cells,
            "gas": gas.as_ref().ok().map(|own| own.gas),
            "gas_output_tokens": gas.as_ref().ok().map(|own| own.outputs),
            "gas_follows_from_key": known,
            "gas_unavailable": gas.as_ref().err().map(ToString::to_string),
        })
    };
    let costs = predicted.map(costs);
    let predicted = predicted.map(|own| &own.prediction);
    let fields = [
        ("provable", json!(predicted.is_some_and(Prediction::is_provable))),
        ("security_bits", json!(predicted.map(|p| p.security_bits))),
        ("most_tokens_in_one_piece", json!(predicted.and_then(|p| p.most_tokens))),
        ("fewest_chunks", json!(predicted.and_then(|p| p.fewest_chunks))),
        ("predicted", json!(costs)),
    ];
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// For people; `tokenizer` says whether the smallest memory counts one.
pub fn predicted_rows(rows: Rows, of: &Predicted, tokenizer: &str) -> Rows {
    let predicted = &of.prediction;
    let most = match predicted.asked {
        Some(asked) if asked > predicted.tokens => format!(", the most that the context has room for, not {asked}"),
        Some(asked) if asked < predicted.tokens => format!(", the fewest that a statement has, not {asked}"),
        _ => String::new(),
    };
    let chunks = match predicted.fewest_chunks {
        Some(1) => String::new(),
        Some(n) => format!(", in {n} chunks of layers"),
        None => {
            return rows.row(
                "predicted",
                format!("nothing for {} tokens: they cannot be proved", predicted.tokens),
            )
        }
    };
    rows.row(
        "predicted",
        format!("for {} tokens, prompt included{most}{chunks}", predicted.tokens),
    )
    .prose(
        "  memory",
        format!(
            "{}, or up to {MARGIN_PERCENT} % more; the smallest --memory that works is {}{tokenizer}",
            bytes(predicted.memory.predicted_bytes()),
            Budget(predicted.smallest_bytes)
        ),
    )
    .row("  disk", bytes(predicted.disk_bytes))
    .row(
        "  time",
        format!(
            "{} to prove, {} to verify",
            seconds(predicted.prove_seconds),
            seconds(predicted.verify_seconds)
        ),
    )
    .row("  proof", bytes(predicted.proof_bytes))
    .prose("  gas", of.gas_row())
}

/// The row that says whether something can be proved, and with how much security.
pub fn provable_row(rows: Rows, key: &ModelKey, predicted: &Prediction, weights: bool) -> Rows {
    let rows = match (predicted.is_provable(), weights) {
        (true, true) => rows.row("provable", "yes"),
        (true, false) => rows.row("provable", "yes, as far as config.json says: there are no weights here"),
        (false, _) if predicted.is_too_long() => rows.row(
            "provable",
            format!(
                "no: not {} tokens, because the context has room for {}",
                predicted.asked.unwrap_or_default(),
                predicted.tokens
            ),
        ),
        (false, _) => rows.row("provable", format!("no: not {} tokens", predicted.tokens)),
    };
    rows.row("security", security::shown(key, predicted.tokens))
}
