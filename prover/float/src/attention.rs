//! Attention of the float model: rotation, scores, softmax and values.

use std::ops::Range;

use rayon::prelude::*;
use tessera_circuits::model::MatmulKind;

use super::{normalise, scale, FloatError, FloatRun, Observer, Site};
use crate::precision::Precision;

impl FloatRun<'_> {
    /// Attention with grouped queries, causal but in encoders, `[rows][heads * head_dim]`.
    pub(super) fn attention(
        &self,
        l: usize,
        y: &[f32],
        lengths: &[usize],
        observer: &mut impl Observer,
    ) -> Result<Vec<f32>, FloatError> {
        let c = self.checkpoint.config();
        let hd = c.head_dim;
        let (q_width, kv_width) = (c.heads * hd, c.kv_heads * hd);
        let mut q = self.matmul(y, MatmulKind::Q.at(l))?;
        let projected_q = self.norm_heads(&mut q, MatmulKind::Q, l)?;
        let factor = self.checkpoint.description().factors.attention as f32;
        // bfloat16 multiplies the scores instead, and rounds before and after.
        let later = match self.precision {
            Precision::Float32 => {
                q.iter_mut().for_each(|v| *v *= factor);
                1.0
            }
            Precision::Bfloat16 => factor,
        };
        let description = self.checkpoint.description();
        if let Some(factors) = description.rotation_factors(l) {
            for head in q.chunks_exact_mut(hd) {
                head.iter_mut().zip(&factors).for_each(|(v, f)| *v *= *f as f32);
            }
        }
        let keep = observer.wants_scores();
        let mut k = self.matmul(y, MatmulKind::K.at(l))?;
        let projected_k = self.norm_heads(&mut k, MatmulKind::K, l)?;
        let v = self.matmul(y, MatmulKind::V.at(l))?;
        let mut out = vec![0.0; q.len()];
        let mut first = 0;
        for &rows in lengths {
            let (own_q, own_kv) = (
                first * q_width..(first + rows) * q_width,
                first * kv_width..(first + rows) * kv_width,
            );
            self.rotate(l, &mut q[own_q.clone()], q_width);
            self.rotate(l, &mut k[own_kv.clone()], kv_width);
            let (q, k, v) = (&q[own_q.clone()], &k[own_kv.clone()], &v[own_kv]);
            let scores: Vec<Vec<f32>> = out[own_q]
                .par_chunks_exact_mut(q_width)
                .enumerate()
                .flat_map_iter(|(i, out)| {
                    out.chunks_exact_mut(hd).enumerate().map(move |(h, out)| {
                        let query = &q[i * q_width + h * hd..][..hd];
                        let visible = c.visible(l, i, rows);
                        let scores = self.attend(query, later, k, v, kv_width, c.kv_head(h) * hd, visible, out);
                        if keep {
                            scores
                        } else {
                            Vec::new()
                        }
                    })
                })
                .collect();
            if keep {
                scores.iter().for_each(|row| observer.observe(Site::Scores(l), row));
            }
            first += rows;
        }
        self.precision.store(&mut out);
        observer.observe(Site::Q(l), projected_q.as_deref().unwrap_or(&q));
        observer.observe(Site::K(l), projected_k.as_deref().unwrap_or(&k));
        observer.observe(Site::V(l), &v);
        observer.observe(Site::Attention(l), &out);
        Ok(out)
    }

    /// Norms the heads of queries or keys, if they are normed, and returns what they were before.
    fn norm_heads(&self, heads: &mut Vec<f32>, kind: MatmulKind, l: usize) -> Result<Option<Vec<f32>>, FloatError> {
        let config = self.checkpoint.config();
        let Some(mut gain) = self.checkpoint.head_gain(kind.at(l))? else {
            return Ok(None);
        };
        self.precision.store_here(&mut gain);
        let mut normed = normalise(heads, config.head_dim, config.rms_eps);
        self.precision.store(&mut normed);
        let mut normed = scale(normed, &gain);
        self.precision.store(&mut normed);
        Ok(Some(std::mem::replace(heads, normed)))
    }

    /// Attention of a query to the `visible` keys, which start with their values at `at` of rows of `width`: adds to `out`,
    /// and returns the scores, which are multiplied by `factor`, and capped where the model does that.
    #[allow(clippy::too_many_arguments)]
    fn attend(
        &self,
        query: &[f32],
        factor: f32,
        k: &[f32],
        v: &[f32],
        width: usize,
        at: usize,
        visible: Range<usize>,
        out: &mut [f32],
    ) -> Vec<f32> {
        let row = |j: usize| j * width + at..j * width + at + query.len();
        let stored = |v| self.precision.round(v);
        let score = |j| stored(stored(dot(query, &k[row(j)])) * factor);
        let mut scores: Vec<f32> = visible.clone().map(score).collect();
        if let Some(cap) = self.checkpoint.config().blocks.score_cap {
            let cap = cap.value() as f32;
            let capped = |s: &mut f32| *s = stored(stored(stored(*s / cap).tanh()) * cap);
            scores.iter_mut().for_each(capped);
        }
        let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exp: Vec<f64> = scores.iter().map(|s| f64::from(s - top).exp()).collect();
        let sum: f64 = exp.iter().sum();
        for (j, e) in visible.zip(&exp) {
            let p = stored((e / sum) as f32);
            out.iter_mut().zip(&v[row(j)]).for_each(|(t, v)| *t += p * v);
        }
        scores
    }

    /// RoPE on all heads of rows `[width]`: the pair (x, x + head_dim / 2) of position `pos` is rotated by `pos` times its
    /// frequency in layer `l`.
    fn rotate(&self, l: usize, x: &mut [f32], width: usize) {
        let c = self.checkpoint.config();
        let half = c.head_dim / 2;
        let rotation = &c.rotations[c.rotation(l)];
        let frequencies: Vec<f64> = (0..half).map(|i| rotation.frequency(c.head_dim, i)).collect();
        x.par_chunks_exact_mut(width).enumerate().for_each(|(pos, row)| {
            let angles = frequencies.iter().map(|f| (pos as f64 * f).sin_cos());
            let angles: Vec<(f64, f64)> = angles.collect();
            for head in row.chunks_exact_mut(c.head_dim) {
                let (first, second) = head.split_at_mut(half);
                for ((a, b), angle) in first.iter_mut().zip(second).zip(&angles) {
                    (*a, *b) = rotate_pair(self.precision, *a, *b, *angle);
                }
            }
        });
    }
}

/// The pair `(a, b)`, rotated by the angle of `(sin, cos)`.
fn rotate_pair(precision: Precision, a: f32, b: f32, (sin, cos): (f64, f64)) -> (f32, f32) {
    if precision == Precision::Float32 {
        let (u, v) = (f64::from(a), f64::from(b));
        return ((u * cos - v * sin) as f32, (v * cos + u * sin) as f32);
    }
    let stored = |v| precision.round(v);
    let (sin, cos) = (stored(sin as f32), stored(cos as f32));
    let (x, y) = (stored(a * cos) - stored(b * sin), stored(b * cos) + stored(a * sin));
    (stored(x), stored(y))
}

/// Sum of products, in 16 interleaved partial sums.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a16, a_rest) = a.as_chunks::<16>();
    let (b16, b_rest) = b.as_chunks::<16>();
    let mut sums = [0.0f32; 16];
    for (a, b) in a16.iter().zip(b16) {
        for i in 0..16 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
