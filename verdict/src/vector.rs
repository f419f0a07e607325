//! What the vector of an encoder says, computed in clear from its integers and the key: an embedding, or the scores of a reranker.

use serde_json::{json, Map, Value};
use tessera_circuits::reranker::PairScores;
use tessera_circuits::statement::Statement;
use tessera_verifier::key::ModelKey;

use crate::rows::Rows;

/// Numbers that are shown of a vector.
const SHOWN: usize = 6;

/// A vector, as it is proved and as it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    /// What is proved: sums of normed integers, channel by channel.
    pub integers: Vec<i32>,
    /// The length of what they stand for: of the mean of the last states, or of the first one.
    pub norm: f64,
    /// Divided by its length.
    pub embedding: Vec<f64>,
    /// Of a reranker, what its head makes of the vector.
    pub scores: Option<PairScores>,
}

impl Vector {
    /// Of a statement about an encoder; `None` of one about generated tokens.
    pub fn of(statement: &Statement, key: &ModelKey) -> Option<Self> {
        let integers = statement.vector().filter(|_| !key.config.generates())?;
        let rows = key.config.pooled_rows(statement.rows());
        let scores = key.params.pair_scores(&key.config, &integers);
        let values = key.params.embedding(&integers, rows);
        let values: Vec<f64> = values.into_iter().map(|v| v as f64).collect();
        let length = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let unit = f64::from(-key.params.logit_bits).exp2() / (rows * values.len()).max(1) as f64;
        // A vector of zeros has no direction.
        let divisor = if length > 0.0 { length } else { 1.0 };
        Some(Self {
            integers,
            norm: length * unit,
            embedding: values.into_iter().map(|v| v / divisor).collect(),
            scores,
        })
    }

    /// The cosine of the angle between two vectors: how near two texts are.
    pub fn cosine(&self, other: &Self) -> f64 {
        let both = self.embedding.iter().zip(&other.embedding);
        both.map(|(a, b)| a * b).sum()
    }

    /// A summary for people.
    pub fn rows(&self, rows: Rows) -> Rows {
        let first = |values: Vec<String>| {
            let rest = if self.integers.len() > SHOWN { " .." } else { "" };
            format!("{}{rest}", values.join(" "))
        };
        let integers = self.integers.iter().take(SHOWN).map(i32::to_string).collect();
        let embedding = self.embedding.iter().take(SHOWN).map(|v| format!("{v:.5}")).collect();
        let rows = rows.row(
            "vector",
            format!("{} integers: {}", self.integers.len(), first(integers)),
        );
        if let Some(own) = &self.scores {
            let text = |values: &[f64]| {
                let shown = values.iter().take(SHOWN).map(|v| format!("{v:.6}")).collect::<Vec<_>>();
                let rest = if values.len() > SHOWN { " .." } else { "" };
                format!("{}{rest}", shown.join(" "))
            };
            let names = if own.logits.len() == 1 {
                ["logit", "score"]
            } else {
                ["logits", "scores"]
            };
            return rows.row(names[0], text(&own.logits)).row(names[1], text(&own.scores));
        }
        rows.row("norm", format!("{:.6}", self.norm))
            .row("embedding", first(embedding))
    }

    /// All of it for programs.
    pub fn add_to(&self, json: &mut Map<String, Value>) {
        json.insert("integers".to_owned(), json!(self.integers));
        if let Some(own) = &self.scores {
            json.insert("logits".to_owned(), json!(own.logits));
            json.insert("scores".to_owned(), json!(own.scores));
            return;
        }
        json.insert("norm".to_owned(), json!(self.norm));
        json.insert("embedding".to_owned(), json!(self.embedding));
    }
}
