//! The model of a checkpoint in floating point. Set-up calibrates the integer model on it and measures how far the two are apart; no
//! proof is about it, because floating point gives every machine another result.

#![feature(portable_simd)]

mod attention;
mod gemm;
pub mod precision;
mod reranker;

use std::ops::Range;

use rayon::prelude::*;
use tessera_circuits::model::{Activation, MatmulKind, MatrixId};
use thiserror::Error;

use crate::precision::Precision;
use tessera_checkpoint::families::{Norm, Parameter};
use tessera_checkpoint::{Checkpoint, CheckpointError};

/// Why the float model could not run.
#[derive(Debug, Error)]
pub enum FloatError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
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
    /// State `n` of the residual stream: embedding, after attention, after MLP, ...; `[rows][hidden]`. In models with LayerNorm
    /// without its mean. Where outputs are normed before they are added, they are states, too.
    Residual(usize),
    /// Input of attention of a layer without its gain, `[rows][hidden]`.
    NormAttn(usize),
    /// Queries and keys after RoPE, `[rows][heads * head_dim]`; queries are multiplied by the
    /// factor of scores, `1 / sqrt(head_dim)` in most models. Where heads are normed, both as they are before their norms.
    Q(usize),
    K(usize),
    V(usize),
    /// Scores of one head and position, of the keys that it sees; where scores are capped, capped ones.
    Scores(usize),
    /// Output of attention before the output projection.
    Attention(usize),
    NormMlp(usize),
    /// What the activation is applied to: gates, or without gates the up projection.
    Gate(usize),
    Silu(usize),
    Up(usize),
    Product(usize),
    NormFinal,
    Logits,
}

/// Receives every intermediate tensor of a forward pass.
pub trait Observer {
    /// The sequences, by their index in [`FloatModel::run`], whose rows all tensors have that come until the next call.
    fn sequences(&mut self, _: Range<usize>) {}

    /// `values` is row-major; the shape is given at the site. Rows of several sequences may come together, and logits
    /// in pieces of the vocabulary.
    fn observe(&mut self, site: Site, values: &[f32]);

    /// Whether it wants [`Site::Scores`], whose memory grows with the square of a text's length.
    fn wants_scores(&self) -> bool {
        true
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Blind;

impl Observer for Blind {
    fn observe(&mut self, _: Site, _: &[f32]) {}

    fn wants_scores(&self) -> bool {
        false
    }
}

/// A model in float32 or bfloat16, with sums of norms and softmax in float64. Weights stay in the files of the
/// checkpoint and are converted where they are used.
#[derive(Clone, Copy, Debug)]
pub struct FloatModel<'a> {
    checkpoint: &'a Checkpoint,
    precision: Precision,
}

/// Token rows that go through a matrix together.
pub const GROUP_ROWS: usize = 1024;
/// Logits of so many vocabulary entries are observed at once.
pub const LOGITS: usize = 1 << 12;

impl<'a> FloatModel<'a> {
    /// The model of a checkpoint, in float32.
    pub fn new(checkpoint: &'a Checkpoint) -> Self {
        Self::with_precision(checkpoint, Precision::Float32)
    }

    /// The model of a checkpoint, stored in this precision.
    pub fn with_precision(checkpoint: &'a Checkpoint, precision: Precision) -> Self {
        Self { checkpoint, precision }
    }

    /// Logits `[rows][vocab]` of token ids.
    pub fn forward(&self, ids: &[u32]) -> Result<Vec<f32>, FloatError> {
        let mut run = self.run(&[ids])?;
        for l in 0..self.checkpoint.config().layers {
            run.layer(l, &mut Blind)?;
        }
        run.output(&mut Blind)
    }

    /// Starts to run token sequences, layer by layer.
    pub fn run(&self, sequences: &[&[u32]]) -> Result<FloatRun<'a>, FloatError> {
        let embed = self.checkpoint.matrix(MatrixId::EMBED)?;
        let factor = self.checkpoint.description().factors.embedding as f32;
        let config = self.checkpoint.config();
        let d = embed.width();
        let mut groups: Vec<Group> = Vec::new();
        for (i, ids) in sequences.iter().enumerate() {
            self.check(ids)?;
            if groups.last().is_none_or(|g| g.x.len() / d + ids.len() > GROUP_ROWS) {
                groups.push(Group {
                    first: i,
                    ..Group::default()
                });
            }
            let Some(group) = groups.last_mut() else { continue };
            for (i, (id, token_type)) in ids.iter().zip(config.types_of(ids)).enumerate() {
                let at = group.x.len();
                group.x.resize(at + d, 0.0);
                embed.read(*id as usize * d, &mut group.x[at..])?;
                self.precision.store_here(&mut group.x[at..]);
                if let Some(row) = config.position_row(i, token_type) {
                    let mut position = vec![0.0; d];
                    embed.read(row * d, &mut position)?;
                    self.precision.store_here(&mut position);
                    group.x[at..].iter_mut().zip(&position).for_each(|(x, p)| *x += p);
                    self.precision.store_here(&mut group.x[at..]);
                }
                if factor != 1.0 {
                    group.x[at..].iter_mut().for_each(|v| *v *= factor);
                    self.precision.store_here(&mut group.x[at..]);
                }
            }
            group.lengths.push(ids.len());
        }
        Ok(FloatRun {
            checkpoint: self.checkpoint,
            precision: self.precision,
            groups,
        })
    }

    fn check(&self, ids: &[u32]) -> Result<(), FloatError> {
        let config = self.checkpoint.config();
        let (vocab, context) = (config.vocab, config.context);
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
}

/// Sequences that go through the matrices together.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Index of the first sequence.
    first: usize,
    lengths: Vec<usize>,
    /// The residual stream, `[rows][hidden]`.
    x: Vec<f32>,
}

impl Group {
    fn sequences(&self) -> Range<usize> {
        self.first..self.first + self.lengths.len()
    }
}

/// Sequences on their way through the model.
#[derive(Clone, Debug)]
pub struct FloatRun<'a> {
    checkpoint: &'a Checkpoint,
    precision: Precision,
    groups: Vec<Group>,
}

/// Sequences that have left the last layer and its norm.
#[derive(Clone, Debug)]
pub struct FloatOutput<'a> {
    run: FloatRun<'a>,
    /// `[rows][hidden]`, the rows of all sequences.
    y: Vec<f32>,
}

impl FloatOutput<'_> {
    /// Logits `[rows][vocab]` of some rows, counted through all sequences.
    ///
    /// # Panics
    /// If there are not so many rows.
    pub fn logits(&self, rows: Range<usize>) -> Result<Vec<f32>, FloatError> {
        let c = self.run.checkpoint.config();
        self.run
            .outputs(&self.y[rows.start * c.hidden..rows.end * c.hidden], 0..c.vocab)
    }
}

impl<'a> FloatRun<'a> {
    /// Takes all sequences through layer `l`, the next one; the observer receives every intermediate tensor.
    pub fn layer(&mut self, l: usize, observer: &mut impl Observer) -> Result<(), FloatError> {
        let mut groups = std::mem::take(&mut self.groups);
        let done = groups.iter_mut().try_for_each(|group| self.group(l, group, observer));
        self.groups = groups;
        done
    }

    fn group(&self, l: usize, group: &mut Group, observer: &mut impl Observer) -> Result<(), FloatError> {
        observer.sequences(group.sequences());
        let x = &mut group.x;
        if l == 0 {
            self.observe_state(0, x, observer);
        }
        let before = self.normalise(x);
        observer.observe(Site::NormAttn(l), &before);
        let y = self.scale(before.clone(), Parameter::AttentionNorm(l), MatmulKind::Q.at(l))?;
        let (attends, reads) = (
            self.checkpoint.config().attention_state(l),
            self.checkpoint.config().states_per_layer(),
        );
        let attention = self.attention(l, &y, &group.lengths, observer)?;
        self.keep_normed(x, y);
        let output = self.output_of(MatmulKind::O.at(l), &attention, attends + 1, observer)?;
        self.add(x, &output);
        self.observe_state(attends + reads / 2, x, observer);
        let y = match self.checkpoint.config().is_parallel() {
            true => before,
            false => self.normalise(x),
        };
        observer.observe(Site::NormMlp(l), &y);
        let y = self.scale(y, Parameter::MlpNorm(l), MatmulKind::Up.at(l))?;
        let product = self.mlp(l, &y, observer)?;
        self.keep_normed(x, y);
        let output = self.output_of(MatmulKind::Down.at(l), &product, attends + 3, observer)?;
        self.add(x, &output);
        self.observe_state(attends + reads, x, observer);
        Ok(())
    }

    /// What attention or MLP adds: the output of O or Down. Where that is normed before, it is shown as state `n`.
    fn output_of(
        &self,
        id: MatrixId,
        values: &[f32],
        n: usize,
        observer: &mut impl Observer,
    ) -> Result<Vec<f32>, FloatError> {
        let output = self.matmul(values, id)?;
        if !self.checkpoint.config().norms_outputs() {
            return Ok(output);
        }
        observer.observe(Site::Residual(n), &output);
        self.scale(self.normalise(&output), Parameter::PostNorm(id.kind(), id.layer()), id)
    }

    /// Shows a state of the residual stream, of models with LayerNorm without its mean, which nothing reads.
    fn observe_state(&self, n: usize, x: &[f32], observer: &mut impl Observer) {
        match self.checkpoint.description().norm {
            Norm::Rms => observer.observe(Site::Residual(n), x),
            Norm::Centred | Norm::Layer => {
                let mut x = x.to_vec();
                centre(&mut x, self.checkpoint.config().hidden);
                observer.observe(Site::Residual(n), &x);
            }
        }
    }

    /// After the last layer: logits `[rows][vocab]` of all sequences.
    pub fn output(&self, observer: &mut impl Observer) -> Result<Vec<f32>, FloatError> {
        let mut logits = Vec::new();
        for group in &self.groups {
            let y = self.last_norm(group, observer)?;
            let all = self.outputs(&y, 0..self.checkpoint.config().vocab)?;
            observer.observe(Site::Logits, &all);
            logits.extend(all);
        }
        Ok(logits)
    }

    /// After the last layer: the vectors that an encoder makes of all sequences.
    pub fn vectors(&self) -> Result<Vec<Vec<f32>>, FloatError> {
        let config = self.checkpoint.config();
        let mut vectors = Vec::new();
        for group in &self.groups {
            let y = self.last_norm(group, &mut Blind)?;
            let mut rows = y.chunks_exact(config.hidden);
            for length in &group.lengths {
                let mut vector = vec![0.0; config.hidden];
                let add = |(i, row): (usize, &[f32])| {
                    if i < config.pooled_rows(*length) {
                        vector.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
                    }
                };
                rows.by_ref().take(*length).enumerate().for_each(add);
                vectors.push(vector);
            }
        }
        Ok(vectors)
    }

    /// After the last layer: logits of any rows, when they are asked for.
    pub fn into_output(self) -> Result<FloatOutput<'a>, FloatError> {
        let mut y = Vec::new();
        for group in &self.groups {
            y.extend(self.last_norm(group, &mut Blind)?);
        }
        Ok(FloatOutput { run: self, y })
    }

    /// As [`FloatRun::output`], but the logits are only observed, a piece of the vocabulary at a time.
    pub fn observe_output(&self, observer: &mut impl Observer) -> Result<(), FloatError> {
        let vocab = self.checkpoint.config().vocab;
        for group in &self.groups {
            let y = self.last_norm(group, observer)?;
            for first in (0..vocab).step_by(LOGITS) {
                observer.observe(Site::Logits, &self.outputs(&y, first..vocab.min(first + LOGITS))?);
            }
        }
        Ok(())
    }

    /// After the last layer: the last norm is observed, nothing else.
    pub fn observe_last_norm(&self, observer: &mut impl Observer) -> Result<(), FloatError> {
        let mut groups = self.groups.iter();
        groups.try_for_each(|group| self.last_norm(group, observer).map(|_| ()))
    }

    fn last_norm(&self, group: &Group, observer: &mut impl Observer) -> Result<Vec<f32>, FloatError> {
        observer.sequences(group.sequences());
        let y = self.normalise(&group.x);
        observer.observe(Site::NormFinal, &y);
        self.scale(y, Parameter::FinalNorm, MatrixId::HEAD)
    }

    /// A norm without gain and bias.
    fn normalise(&self, x: &[f32]) -> Vec<f32> {
        let c = self.checkpoint.config();
        let mut y = match self.checkpoint.description().norm {
            Norm::Rms => normalise(x, c.hidden, c.rms_eps),
            Norm::Centred | Norm::Layer => {
                let mut x = x.to_vec();
                centre(&mut x, c.hidden);
                normalise(&x, c.hidden, c.rms_eps)
            }
        };
        self.precision.store(&mut y);
        y
    }

    /// Multiplies every row by a gain, and adds the bias of the norm that a matrix reads.
    fn scale(&self, y: Vec<f32>, norm: Parameter, reader: MatrixId) -> Result<Vec<f32>, FloatError> {
        let mut gain = self.checkpoint.gain(norm)?;
        self.precision.store_here(&mut gain);
        let mut y = scale(y, &gain);
        if let Some(mut bias) = self.checkpoint.norm_bias(reader)? {
            self.precision.store_here(&mut bias);
            let rows = y.chunks_exact_mut(bias.len());
            rows.for_each(|row| row.iter_mut().zip(&bias).for_each(|(v, b)| *v += b));
        }
        self.precision.store(&mut y);
        Ok(y)
    }

    /// Where sums are normed, the normed state is what is added to.
    fn keep_normed(&self, x: &mut Vec<f32>, y: Vec<f32>) {
        if self.checkpoint.config().sums_first() {
            *x = y;
        }
    }

    fn add(&self, x: &mut [f32], y: &[f32]) {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
        self.precision.store(x);
    }

    fn outputs(&self, y: &[f32], outputs: Range<usize>) -> Result<Vec<f32>, FloatError> {
        self.product(y, MatrixId::HEAD, outputs)
    }

    fn matmul(&self, x: &[f32], id: MatrixId) -> Result<Vec<f32>, FloatError> {
        let (_, out_dim) = self.checkpoint.config().dims(id.kind());
        self.product(x, id, 0..out_dim)
    }

    fn product(&self, x: &[f32], id: MatrixId, outputs: Range<usize>) -> Result<Vec<f32>, FloatError> {
        let (in_dim, _) = self.checkpoint.config().dims(id.kind());
        let weights = self.checkpoint.matrix(id)?;
        let orientation = self.checkpoint.orientation(id.kind());
        let mut product = gemm::matmul(x, in_dim, &weights, orientation, outputs.clone(), self.precision)?;
        if let Some(bias) = self.checkpoint.bias(id)? {
            let mut bias = bias[outputs.clone()].to_vec();
            self.precision.store_here(&mut bias);
            let rows = product.par_chunks_exact_mut(bias.len());
            rows.for_each(|row| row.iter_mut().zip(&bias).for_each(|(v, b)| *v += b));
            self.precision.store(&mut product);
        }
        let factors = &self.checkpoint.description().factors;
        let factor = match id.kind() {
            MatmulKind::O | MatmulKind::Down => factors.residual as f32,
            MatmulKind::Head => factors.logits as f32,
            _ => 1.0,
        };
        if factor != 1.0 {
            product.iter_mut().for_each(|v| *v *= factor);
            self.precision.store(&mut product);
        }
        // Whoever reads them next finds them in the cache of the system.
        weights.release();
        Ok(product)
    }

    /// What Down reads, `[rows][ff]`: `act(gate) * up`, or without gates `act(up)`.
    fn mlp(&self, l: usize, y: &[f32], observer: &mut impl Observer) -> Result<Vec<f32>, FloatError> {
        let gated = self.checkpoint.config().gated;
        let kind = if gated { MatmulKind::Gate } else { MatmulKind::Up };
        let mut gate = self.matmul(y, kind.at(l))?;
        observer.observe(Site::Gate(l), &gate);
        let activation = self.checkpoint.description().activation;
        let values = gate.par_iter_mut().with_min_len(SMALL);
        match activation {
            Activation::Silu => values.for_each(|g| *g /= 1.0 + (-*g).exp()),
            other => values.for_each(|g| *g = other.of((*g).into()) as f32),
        }
        self.precision.store(&mut gate);
        observer.observe(Site::Silu(l), &gate);
        if !gated {
            observer.observe(Site::Product(l), &gate);
            return Ok(gate);
        }
        let up = self.matmul(y, MatmulKind::Up.at(l))?;
        observer.observe(Site::Up(l), &up);
        gate.iter_mut().zip(&up).for_each(|(g, u)| *g *= u);
        self.precision.store(&mut gate);
        observer.observe(Site::Product(l), &gate);
        Ok(gate)
    }
}

/// Values that are worth a thread.
const SMALL: usize = 1 << 14;

/// Subtracts the mean of every row.
fn centre(x: &mut [f32], width: usize) {
    x.par_chunks_exact_mut(width).for_each(|row| {
        let mean = row.iter().map(|v| f64::from(*v)).sum::<f64>() / width as f64;
        row.iter_mut().for_each(|v| *v = (f64::from(*v) - mean) as f32);
    });
}

/// RMSNorm of rows without the gain.
fn normalise(x: &[f32], width: usize, eps: f64) -> Vec<f32> {
    let mut y = x.to_vec();
    y.par_chunks_exact_mut(width).for_each(|row| {
        let squares: f64 = row.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
        let r = 1.0 / (squares / width as f64 + eps).sqrt();
        row.iter_mut().for_each(|v| *v = (f64::from(*v) * r) as f32);
    });
    y
}

/// Multiplies every row by the gain.
fn scale(mut y: Vec<f32>, gain: &[f32]) -> Vec<f32> {
    y.chunks_exact_mut(gain.len())
        .for_each(|row| row.iter_mut().zip(gain).for_each(|(v, g)| *v *= g));
    y
}

#[cfg(test)]
mod tests;
