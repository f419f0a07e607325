//! Ranges of all activations on calibration text.

use rayon::prelude::*;
use tessera_circuits::model::ModelConfig;

use super::QuantiseError;
use crate::checkpoint::{CheckpointError, Tensor};
use crate::float::{Observer, Site};

/// Scores this far (in nats) below the maximum of their row have no influence: they may saturate.
const SCORE_DEPTH: f32 = 16.0;
/// Gates below this have no influence: `silu(-16)` is `-1.8e-6`.
const GATE_DEPTH: f32 = 16.0;
/// A token that calibration did not see may have a smaller embedding than those that it saw; down to this
/// part (of the mean square) the first norm is made exact for it, too.
const UNSEEN_SQUARES: f64 = 1.0 / 256.0;

/// Largest absolute values in one layer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LayerRanges {
    pub norm_attn: f32,
    /// Of queries and keys: after the worst rotation.
    pub q: f32,
    pub k: f32,
    pub v: f32,
    pub scores: f32,
    pub attention: f32,
    pub norm_mlp: f32,
    pub gate: f32,
    pub silu: f32,
    pub up: f32,
    pub product: f32,
}

/// Largest absolute values of all activations.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    pub layers: Vec<LayerRanges>,
    /// `2 * layers + 1` states of the residual stream; the first is exact for the whole vocabulary.
    pub residual: Vec<f32>,
    /// Smallest mean square of a row, per state of the residual stream.
    pub min_square: Vec<f64>,
    pub norm_final: f32,
    pub logits: f32,
    /// Number of token rows seen.
    pub tokens: usize,
    hidden: usize,
    head_dim: usize,
    broken: Option<Site>,
}

/// Values of which the maxima are found side by side.
const LANES: usize = 16;
/// Rows of the embedding that are read at once.
const EMBEDDING_ROWS: usize = 64;

impl Ranges {
    pub(super) fn new(config: &ModelConfig) -> Self {
        let states = 2 * config.layers + 1;
        Self {
            layers: vec![LayerRanges::default(); config.layers],
            residual: vec![0.0; states],
            min_square: vec![f64::INFINITY; states],
            norm_final: 0.0,
            logits: 0.0,
            tokens: 0,
            hidden: config.hidden,
            head_dim: config.head_dim,
            broken: None,
        }
    }

    /// Names an activation that was not finite.
    pub(super) fn check(&self) -> Result<(), QuantiseError> {
        match self.broken {
            Some(site) => Err(QuantiseError::Activation {
                site: format!("{site:?}"),
            }),
            None => Ok(()),
        }
    }

    /// Takes in the embeddings of all tokens, after the calibration text.
    pub(super) fn whole_vocabulary(&mut self, embedding: &Tensor<'_>) -> Result<(), CheckpointError> {
        let least = self.min_square[0] * UNSEEN_SQUARES;
        let width = self.hidden;
        let piece = |rows: &mut Vec<f32>, first: usize| {
            rows.resize(width * EMBEDDING_ROWS.min(embedding.len() / width - first), 0.0);
            embedding.read(first * width, rows)?;
            Ok((abs_max(rows), smallest_square(rows, width, least)))
        };
        let (max, smallest) = (0..embedding.len() / width)
            .into_par_iter()
            .step_by(EMBEDDING_ROWS)
            .map_init(Vec::new, piece)
            .try_reduce(
                || (0.0, f64::INFINITY),
                |(max, least), (m, l)| Ok::<_, CheckpointError>((f32::max(max, m), f64::min(least, l))),
            )?;
        self.residual[0] = max;
        self.min_square[0] = self.min_square[0].min(smallest);
        Ok(())
    }
}

/// Values that are worth a thread.
const SMALL: usize = 1 << 14;

/// The largest result of `f`, at least 0. Maxima do not depend on the order.
fn largest(values: &[f32], f: impl Fn(f32) -> f32 + Sync) -> f32 {
    let of = |values: &[f32]| {
        let (vectors, rest) = values.as_chunks::<LANES>();
        let mut max = [0.0f32; LANES];
        for vector in vectors {
            max.iter_mut().zip(vector).for_each(|(max, v)| *max = max.max(f(*v)));
        }
        let rest = rest.iter().map(|v| f(*v));
        rest.chain(max).fold(0.0, f32::max)
    };
    values.par_chunks(SMALL).map(of).reduce(|| 0.0, f32::max)
}

fn abs_max(values: &[f32]) -> f32 {
    largest(values, f32::abs)
}

/// Smallest mean square of a row that is at least `least`.
fn smallest_square(values: &[f32], width: usize, least: f64) -> f64 {
    let square = |row: &[f32]| row.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>() / width as f64;
    values
        .par_chunks_exact(width)
        .map(square)
        .filter(|s| *s >= least)
        .reduce(|| f64::INFINITY, f64::min)
}

/// Largest length of a RoPE pair, which no rotation can exceed.
fn pair_max(values: &[f32], head_dim: usize) -> f32 {
    let head = |head: &[f32]| {
        let (a, b) = head.split_at(head_dim / 2);
        a.iter().zip(b).map(|(a, b)| a.hypot(*b)).fold(0.0, f32::max)
    };
    values.par_chunks_exact(head_dim).map(head).reduce(|| 0.0, f32::max)
}

/// Largest absolute value, of the scores that are not far below the maximum of the row.
fn score_max(row: &[f32]) -> f32 {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter()
        .filter(|s| **s >= top - SCORE_DEPTH)
        .fold(0.0, |m, s| m.max(s.abs()))
}

fn gate_max(values: &[f32]) -> f32 {
    largest(values, |v| v.max(-GATE_DEPTH).abs())
}

impl Observer for Ranges {
    fn observe(&mut self, site: Site, values: &[f32]) {
        // Absolute values up to the largest finite one, which NaN is not.
        let finite = |values: &[f32]| values.iter().fold(true, |all, v| all & (v.abs() <= f32::MAX));
        if self.broken.is_none() && !values.par_chunks(SMALL).all(finite) {
            self.broken = Some(site);
        }
        let grow = |range: &mut f32, max: f32| *range = range.max(max);
        match site {
            Site::Residual(n) => {
                grow(&mut self.residual[n], abs_max(values));
                let least = smallest_square(values, self.hidden, 0.0);
                self.min_square[n] = self.min_square[n].min(least);
            }
            Site::NormAttn(l) => grow(&mut self.layers[l].norm_attn, abs_max(values)),
            Site::Q(l) => grow(&mut self.layers[l].q, pair_max(values, self.head_dim)),
            Site::K(l) => grow(&mut self.layers[l].k, pair_max(values, self.head_dim)),
            Site::V(l) => grow(&mut self.layers[l].v, abs_max(values)),
            Site::Scores(l) => grow(&mut self.layers[l].scores, score_max(values)),
            Site::Attention(l) => grow(&mut self.layers[l].attention, abs_max(values)),
            Site::NormMlp(l) => grow(&mut self.layers[l].norm_mlp, abs_max(values)),
            Site::Gate(l) => grow(&mut self.layers[l].gate, gate_max(values)),
            Site::Silu(l) => grow(&mut self.layers[l].silu, abs_max(values)),
            Site::Up(l) => grow(&mut self.layers[l].up, abs_max(values)),
            Site::Product(l) => grow(&mut self.layers[l].product, abs_max(values)),
            Site::NormFinal => grow(&mut self.norm_final, abs_max(values)),
            Site::Logits => grow(&mut self.logits, abs_max(values)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_out_what_has_no_influence() {
        assert_eq!(gate_max(&[-100.0, 3.0]), 16.0);
        assert_eq!(gate_max(&[-2.0, 30.0]), 30.0);
        assert_eq!(gate_max(&[-2.0, 1.0]), 2.0);
        assert_eq!(score_max(&[5.0, -10.0, -60.0]), 10.0);
        assert_eq!(score_max(&[-40.0, -41.0, -90.0]), 41.0);
        assert_eq!(pair_max(&[3.0, 0.0, 4.0, 1.0], 4), 5.0);
        assert_eq!(smallest_square(&[0.0, 0.0, 1.0, 1.0, 2.0, 2.0], 2, 0.5), 1.0);
    }
}
