//! How well the integer model agrees with the float model.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Sums over token rows; add the results of several texts with `+=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    /// Rows compared.
    pub rows: u64,
    /// Rows that are followed by a known token.
    pub predictions: u64,
    /// Negative log-likelihood (nats) of the following tokens.
    pub nll_float: f64,
    pub nll_integer: f64,
    /// Kullback-Leibler divergence (nats) of the integer model's distribution from the float model's.
    pub kl_sum: f64,
    /// Rows with the same arg max (lowest index on a tie).
    pub top1_count: u64,
}

impl Fidelity {
    /// Perplexity of the float model.
    pub fn perplexity_float(&self) -> f64 {
        (self.nll_float / self.predictions as f64).exp()
    }

    /// Perplexity of the integer model.
    pub fn perplexity_integer(&self) -> f64 {
        (self.nll_integer / self.predictions as f64).exp()
    }

    /// Mean divergence per row, in nats.
    pub fn kl(&self) -> f64 {
        self.kl_sum / self.rows as f64
    }

    /// Part of the rows with the same arg max, in `0..=1`.
    pub fn top1(&self) -> f64 {
        self.top1_count as f64 / self.rows as f64
    }
}

impl AddAssign for Fidelity {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.predictions += other.predictions;
        self.nll_float += other.nll_float;
        self.nll_integer += other.nll_integer;
        self.kl_sum += other.kl_sum;
        self.top1_count += other.top1_count;
    }
}

/// Logarithms of the probabilities of logits.
pub(crate) fn log_softmax(logits: impl Iterator<Item = f64>) -> Vec<f64> {
    let logits: Vec<f64> = logits.collect();
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = top + logits.iter().map(|l| (l - top).exp()).sum::<f64>().ln();
    logits.into_iter().map(|l| l - log_sum).collect()
}

/// Negative log-likelihood (nats) of a token under float logits.
///
/// # Panics
/// If `target` is not an index of `logits`.
pub fn negative_log_likelihood(logits: &[f32], target: usize) -> f64 {
    -log_softmax(logits.iter().map(|l| f64::from(*l)))[target]
}

pub(crate) fn arg_max(values: &[f64]) -> usize {
    values
        .iter()
        .enumerate()
        .fold(0, |best, (i, v)| if *v > values[best] { i } else { best })
}

/// Compares float logits with integer logits of `logit_bits` fractional bits, both `[rows][vocab]`; `ids`
/// are the tokens of the rows (row `i` predicts `ids[i + 1]`).
pub fn compare_logits(float: &[f32], int: &[i16], logit_bits: i32, vocab: usize, ids: &[u32]) -> Fidelity {
    let unit = f64::from(-logit_bits).exp2();
    let mut fidelity = Fidelity::default();
    for (i, (float, int)) in float.chunks_exact(vocab).zip(int.chunks_exact(vocab)).enumerate() {
        let p = log_softmax(float.iter().map(|l| f64::from(*l)));
        let q = log_softmax(int.iter().map(|l| f64::from(*l) * unit));
        fidelity.rows += 1;
        fidelity.kl_sum += p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
        fidelity.top1_count += u64::from(arg_max(&p) == arg_max(&q));
        let next = ids.get(i + 1).map(|id| *id as usize);
        if let Some((p, q)) = next.and_then(|id| Some((p.get(id)?, q.get(id)?))) {
            fidelity.predictions += 1;
            fidelity.nll_float -= p;
            fidelity.nll_integer -= q;
        }
    }
    fidelity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_agree() {
        let mut total = Fidelity::default();
        total += compare_logits(&[0.0, 1.0, -1.0, 2.0], &[0, 8, -8, 16], 3, 2, &[0, 1]);
        total += compare_logits(&[1.0, 0.0], &[0, 8], 3, 2, &[0]);
        assert_eq!((total.rows, total.predictions, total.top1_count), (3, 1, 2));
        // The second text: p = (e, 1) / (e + 1), q the reverse, so KL = (e - 1) / (e + 1) nats.
        let e = 1f64.exp();
        assert!((total.kl() - (e - 1.0) / (e + 1.0) / 3.0).abs() < 1e-12);
        assert!((total.perplexity_float() - (1.0 + (-1f64).exp())).abs() < 1e-12);
        assert_eq!(total.perplexity_float(), total.perplexity_integer());
    }
}
