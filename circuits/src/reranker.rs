//! Scores of a reranker, made in clear of the vector that is proved and of the head in the key (docs/protocol.md, section 16.14). Whoever
//! knows key and statement makes the same: integers up to the arguments of tanh, then numbers of 64 bits in one order.

use crate::model::{ModelConfig, ModelError, ModelParams};

/// Fractional bits of the weights and biases of a head.
pub const HEAD_BITS: i32 = 24;
/// Most scores of a pair of texts.
pub const MAX_LABELS: usize = 1 << 10;
/// Lists of a head.
pub const HEAD_LISTS: usize = 4;

/// The head of a reranker: a dense layer of the first row, tanh, and a row of weights for every score. Integers are in units of
/// `2^-HEAD_BITS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RerankerHead<'a> {
    /// Weights of the dense layer, output by output.
    pub dense: &'a [i32],
    /// What is added to its outputs.
    pub dense_bias: &'a [i32],
    /// Weights of the scores, score by score.
    pub out: &'a [i32],
    /// What is added to the scores.
    pub out_bias: &'a [i32],
}

/// What a reranker says of a pair of texts.
#[derive(Clone, Debug, PartialEq)]
pub struct PairScores {
    /// What the head makes.
    pub logits: Vec<f64>,
    /// The same, or their sigmoids, as the key says.
    pub scores: Vec<f64>,
}

impl ModelParams {
    /// The head of a reranker, which follows the gains; `None` of models without one.
    pub fn reranker_head(&self) -> Option<RerankerHead<'_>> {
        match self.biases.get(self.gain_list(2 * self.layers.len()) + 1..)? {
            [dense, dense_bias, out, out_bias] => Some(RerankerHead {
                dense,
                dense_bias,
                out,
                out_bias,
            }),
            _ => None,
        }
    }

    /// What the vector of a pair says; `None` of a model that is no reranker.
    pub fn pair_scores(&self, config: &ModelConfig, vector: &[i32]) -> Option<PairScores> {
        let (own, head) = (config.reranker()?, self.reranker_head()?);
        let state = self.embedding(vector, 1);
        // A unit of the state is that of the vector over the number of its channels.
        let unit = libm::exp2(f64::from(-self.logit_bits - HEAD_BITS)) / vector.len().max(1) as f64;
        let one = libm::exp2(f64::from(-HEAD_BITS));
        let rows = head.dense.chunks_exact(vector.len().max(1)).zip(head.dense_bias);
        let pooled = rows.map(|(row, bias)| {
            let sum: i128 = row.iter().zip(&state).map(|(w, v)| i128::from(*w) * v).sum();
            libm::tanh(sum as f64 * unit + f64::from(*bias) * one)
        });
        let pooled: Vec<f64> = pooled.collect();
        let rows = head.out.chunks_exact(pooled.len().max(1)).zip(head.out_bias);
        let logit = |(row, bias): (&[i32], &i32)| {
            let terms = row.iter().zip(&pooled).map(|(w, v)| f64::from(*w) * v);
            (terms.sum::<f64>() + f64::from(*bias)) * one
        };
        let logits: Vec<f64> = rows.map(logit).collect();
        let scores = match own.sigmoid {
            true => logits.iter().map(|logit| 1.0 / (1.0 + libm::exp(-logit))).collect(),
            false => logits.clone(),
        };
        Some(PairScores { logits, scores })
    }
}

/// Why the lists after the gains are no head of a reranker.
pub(crate) fn check(params: &ModelParams, config: &ModelConfig) -> Result<(), ModelError> {
    let Some(head) = config.reranker().and(params.reranker_head()) else {
        return Ok(());
    };
    let (hidden, labels) = (config.hidden, head.out_bias.len());
    crate::model::range("scores", labels as u64, 1, MAX_LABELS as u64)?;
    for (what, got, expected) in [
        (
            "weights of the dense layer of a head",
            head.dense.len(),
            hidden * hidden,
        ),
        ("biases of the dense layer of a head", head.dense_bias.len(), hidden),
        ("weights of scores", head.out.len(), labels * hidden),
    ] {
        if got != expected {
            return Err(ModelError::Length { what, got, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
