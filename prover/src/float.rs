//! The float model: the reference for calibration and for the fidelity report. Not proved, not exact.

use rayon::prelude::*;
use tessera_circuits::model::{MatmulKind, ModelConfig};
use thiserror::Error;

use crate::checkpoint::{attn_norm_tensor, matmul_tensor, mlp_norm_tensor, Checkpoint, CheckpointError, FINAL_NORM};

/// Why the float model could not run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FloatError {
    #[error("no tokens to run")]
    Empty,
    #[error("token id {id} at position {position} is not below the vocabulary size {vocab}")]
    Token { id: u32, position: usize, vocab: usize },
    #[error("{rows} tokens are more than the context of {context}")]
    TooLong { rows: usize, context: usize },
}

/// Where in the model an observed tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// Residual stream `n` in `0..=2 * layers`: embedding, after attention, after MLP, ...; `[rows][hidden]`.
    Residual(usize),
    /// Input of attention of a layer without its gain, `[rows][hidden]`.
    NormAttn(usize),
    /// Queries and keys after RoPE, `[rows][heads * head_dim]`; queries are divided by `sqrt(head_dim)`.
    Q(usize),
    K(usize),
    V(usize),
    /// Causal scores of one head and position, `[position + 1]`.
    Scores(usize),
    /// Output of attention before the output projection.
    Attention(usize),
    NormMlp(usize),
    Gate(usize),
    Silu(usize),
    Up(usize),
    Product(usize),
    NormFinal,
    Logits,
}

/// Receives every intermediate tensor of a forward pass.
pub trait Observer {
    /// `values` is row-major; the shape is given at the site.
    fn observe(&mut self, site: Site, values: &[f32]);
}

/// Observes nothing.
struct Blind;

impl Observer for Blind {
    fn observe(&mut self, _: Site, _: &[f32]) {}
}

/// Float weights of one layer, `[out][in]`.
#[derive(Clone, Debug)]
struct FloatLayer {
    norm_attn: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    o: Vec<f32>,
    norm_mlp: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    down: Vec<f32>,
}

/// A Llama model in float32, with sums of norms and softmax in float64.
#[derive(Clone, Debug)]
pub struct FloatModel {
    config: ModelConfig,
    embed: Vec<f32>,
    layers: Vec<FloatLayer>,
    norm_final: Vec<f32>,
    /// `None` if it is the embedding.
    head: Option<Vec<f32>>,
}

impl FloatModel {
    /// Loads all weights.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, CheckpointError> {
        let config = checkpoint.config().clone();
        let matrix = |kind, layer| checkpoint.tensor(&matmul_tensor(kind, layer));
        let layers = (0..config.layers)
            .map(|l| {
                Ok(FloatLayer {
                    norm_attn: checkpoint.tensor(&attn_norm_tensor(l))?,
                    q: matrix(MatmulKind::Q, l)?,
                    k: matrix(MatmulKind::K, l)?,
                    v: matrix(MatmulKind::V, l)?,
                    o: matrix(MatmulKind::O, l)?,
                    norm_mlp: checkpoint.tensor(&mlp_norm_tensor(l))?,
                    gate: matrix(MatmulKind::Gate, l)?,
                    up: matrix(MatmulKind::Up, l)?,
                    down: matrix(MatmulKind::Down, l)?,
                })
            })
            .collect::<Result<_, CheckpointError>>()?;
        Ok(Self {
            embed: matrix(MatmulKind::Embed, 0)?,
            layers,
            norm_final: checkpoint.tensor(FINAL_NORM)?,
            head: (!checkpoint.tied()).then(|| matrix(MatmulKind::Head, 0)).transpose()?,
            config,
        })
    }

    /// The architecture.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The embedding, `[vocab][hidden]`.
    pub fn embedding(&self) -> &[f32] {
        &self.embed
    }

    /// Logits `[rows][vocab]` of token ids.
    pub fn forward(&self, ids: &[u32]) -> Result<Vec<f32>, FloatError> {
        self.forward_observed(ids, &mut Blind)
    }

    /// As [`FloatModel::forward`]; the observer receives every intermediate tensor.
    pub fn forward_observed(&self, ids: &[u32], observer: &mut impl Observer) -> Result<Vec<f32>, FloatError> {
        self.check(ids)?;
        let (c, d) = (&self.config, self.config.hidden);
        let mut x: Vec<f32> = ids
            .iter()
            .flat_map(|id| &self.embed[*id as usize * d..][..d])
            .copied()
            .collect();
        observer.observe(Site::Residual(0), &x);
        for (l, w) in self.layers.iter().enumerate() {
            let y = normalise(&x, d, c.rms_eps);
            observer.observe(Site::NormAttn(l), &y);
            let attention = self.attention(l, w, &scale(y, &w.norm_attn), observer);
            add(&mut x, &matmul(&attention, &w.o, c.heads * c.head_dim));
            observer.observe(Site::Residual(2 * l + 1), &x);
            let y = normalise(&x, d, c.rms_eps);
            observer.observe(Site::NormMlp(l), &y);
            let product = mlp(l, w, &scale(y, &w.norm_mlp), d, observer);
            add(&mut x, &matmul(&product, &w.down, c.ff));
            observer.observe(Site::Residual(2 * l + 2), &x);
        }
        let y = normalise(&x, d, c.rms_eps);
        observer.observe(Site::NormFinal, &y);
        let logits = matmul(
            &scale(y, &self.norm_final),
            self.head.as_ref().unwrap_or(&self.embed),
            d,
        );
        observer.observe(Site::Logits, &logits);
        Ok(logits)
    }

    fn check(&self, ids: &[u32]) -> Result<(), FloatError> {
        let (vocab, context) = (self.config.vocab, self.config.context);
        if ids.is_empty() {
            return Err(FloatError::Empty);
        }
        if ids.len() > context {
            return Err(FloatError::TooLong {
                rows: ids.len(),
                context,
            });
        }
        match ids.iter().enumerate().find(|(_, id)| **id as usize >= vocab) {
            Some((position, &id)) => Err(FloatError::Token { id, position, vocab }),
            None => Ok(()),
        }
    }

    /// Causal attention with grouped queries, `[rows][heads * head_dim]`.
    fn attention(&self, l: usize, w: &FloatLayer, y: &[f32], observer: &mut impl Observer) -> Vec<f32> {
        let c = &self.config;
        let (d, hd) = (c.hidden, c.head_dim);
        let (q_width, kv_width) = (c.heads * hd, c.kv_heads * hd);
        let rows = y.len() / d;
        let mut q = matmul(y, &w.q, d);
        let inverse_sqrt = (1.0 / (hd as f64).sqrt()) as f32;
        q.iter_mut().for_each(|v| *v *= inverse_sqrt);
        let mut k = matmul(y, &w.k, d);
        let v = matmul(y, &w.v, d);
        rotate(c, &mut q, q_width);
        rotate(c, &mut k, kv_width);
        observer.observe(Site::Q(l), &q);
        observer.observe(Site::K(l), &k);
        observer.observe(Site::V(l), &v);
        let mut out = vec![0.0; rows * q_width];
        for h in 0..c.heads {
            let g = c.kv_head(h) * hd;
            let weights: Vec<(Vec<f32>, Vec<f64>)> = (0..rows)
                .into_par_iter()
                .map(|i| {
                    let query = &q[i * q_width + h * hd..][..hd];
                    let scores: Vec<f32> = (0..=i).map(|j| dot(query, &k[j * kv_width + g..][..hd])).collect();
                    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let exp: Vec<f64> = scores.iter().map(|s| f64::from(s - top).exp()).collect();
                    (scores, exp)
                })
                .collect();
            for (i, (scores, exp)) in weights.iter().enumerate() {
                observer.observe(Site::Scores(l), scores);
                let sum: f64 = exp.iter().sum();
                let target = &mut out[i * q_width + h * hd..][..hd];
                for (j, e) in exp.iter().enumerate() {
                    let p = (e / sum) as f32;
                    let values = &v[j * kv_width + g..][..hd];
                    target.iter_mut().zip(values).for_each(|(t, v)| *t += p * v);
                }
            }
        }
        observer.observe(Site::Attention(l), &out);
        out
    }
}

/// `silu(gate) * up`, `[rows][ff]`.
fn mlp(l: usize, w: &FloatLayer, y: &[f32], hidden: usize, observer: &mut impl Observer) -> Vec<f32> {
    let mut gate = matmul(y, &w.gate, hidden);
    observer.observe(Site::Gate(l), &gate);
    gate.iter_mut().for_each(|g| *g /= 1.0 + (-*g).exp());
    observer.observe(Site::Silu(l), &gate);
    let up = matmul(y, &w.up, hidden);
    observer.observe(Site::Up(l), &up);
    gate.iter_mut().zip(&up).for_each(|(g, u)| *g *= u);
    observer.observe(Site::Product(l), &gate);
    gate
}

/// RMSNorm of rows without the gain.
fn normalise(x: &[f32], width: usize, eps: f64) -> Vec<f32> {
    let row = |row: &[f32]| {
        let squares: f64 = row.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
        let r = 1.0 / (squares / width as f64 + eps).sqrt();
        row.iter().map(move |v| (f64::from(*v) * r) as f32).collect::<Vec<_>>()
    };
    x.chunks_exact(width).flat_map(row).collect()
}

/// Multiplies every row by the gain.
fn scale(mut y: Vec<f32>, gain: &[f32]) -> Vec<f32> {
    y.chunks_exact_mut(gain.len())
        .for_each(|row| row.iter_mut().zip(gain).for_each(|(v, g)| *v *= g));
    y
}

fn add(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// RoPE on all heads of rows `[width]`: the pair (x, x + head_dim / 2) of position `pos` is rotated by
/// `pos * theta^(-2 x / head_dim)`.
fn rotate(c: &ModelConfig, x: &mut [f32], width: usize) {
    let half = c.head_dim / 2;
    for (pos, row) in x.chunks_exact_mut(width).enumerate() {
        let angle = |i: usize| (pos as f64 * c.rope_theta.powf(-2.0 * i as f64 / c.head_dim as f64)).sin_cos();
        let angles: Vec<(f64, f64)> = (0..half).map(angle).collect();
        for head in row.chunks_exact_mut(c.head_dim) {
            let (first, second) = head.split_at_mut(half);
            for ((a, b), (sin, cos)) in first.iter_mut().zip(second).zip(&angles) {
                let (u, v) = (f64::from(*a), f64::from(*b));
                (*a, *b) = ((u * cos - v * sin) as f32, (v * cos + u * sin) as f32);
            }
        }
    }
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

/// `[rows][in]` times `[out][in]` transposed: `[rows][out]`.
fn matmul(x: &[f32], w: &[f32], in_dim: usize) -> Vec<f32> {
    let (rows, out_dim) = (x.len() / in_dim, w.len() / in_dim);
    // Each weight row is read once for all token rows; then the result is transposed.
    let columns: Vec<f32> = w
        .par_chunks_exact(in_dim)
        .with_min_len(16)
        .flat_map_iter(|w| x.chunks_exact(in_dim).map(move |x| dot(x, w)))
        .collect();
    let mut out = vec![0.0; rows * out_dim];
    out.par_chunks_exact_mut(out_dim)
        .enumerate()
        .for_each(|(i, row)| row.iter_mut().enumerate().for_each(|(o, v)| *v = columns[o * rows + i]));
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::quantise::negative_log_likelihood;
    use crate::testing::{golden, FIXTURE};

    #[test]
    fn fixture_matches_the_golden_reference() {
        let model = FloatModel::load(&Checkpoint::open(Path::new(FIXTURE)).unwrap()).unwrap();
        let vocab = model.config.vocab;
        let (mut nll, mut predictions) = (0.0, 0);
        for sample in golden() {
            let logits = model.forward(&sample.ids).unwrap();
            for (pos, row) in logits.chunks_exact(vocab).enumerate() {
                let best = (0..vocab)
                    .max_by(|a, b| row[*a].total_cmp(&row[*b]).then(b.cmp(a)))
                    .unwrap();
                assert_eq!(best as u32, sample.argmax[pos], "position {pos} of {:?}", sample.text);
                if let Some(next) = sample.ids.get(pos + 1) {
                    let one = negative_log_likelihood(row, *next as usize);
                    assert!((one - sample.nll[pos]).abs() < 1e-3);
                    nll += one;
                    predictions += 1;
                }
            }
            let last = &logits[logits.len() - vocab..];
            let worst = last
                .iter()
                .zip(&sample.logits_last)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(worst < 1e-3, "logits are off by {worst}");
        }
        let perplexity = (nll / f64::from(predictions)).exp();
        assert_eq!((predictions, format!("{perplexity:.4}").as_str()), (1505, "12.1996"));
    }

    #[test]
    fn unusable_ids_are_named() {
        let model = FloatModel::load(&Checkpoint::open(Path::new(FIXTURE)).unwrap()).unwrap();
        assert_eq!(model.forward(&[]), Err(FloatError::Empty));
        assert_eq!(
            model.forward(&[1, 2048]),
            Err(FloatError::Token {
                id: 2048,
                position: 1,
                vocab: 2048
            })
        );
        assert_eq!(
            model.forward(&vec![1; 513]),
            Err(FloatError::TooLong {
                rows: 513,
                context: 512
            })
        );
    }
}
