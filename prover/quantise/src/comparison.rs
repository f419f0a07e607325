//! How close the integer model is to the float model that it was made from (docs/architecture.md): measured
//! on a text, never assumed. Beside it stands the float model in bfloat16, as most programs run it.

use std::ops::Range;
use std::path::PathBuf;

use rayon::prelude::*;
use tessera_circuits::model::ModelConfig;
use tessera_recipe::Figures;
use thiserror::Error;

use super::logits::{arg_max, log_softmax};
use tessera_checkpoint::Checkpoint;
use tessera_float::precision::Precision;
use tessera_float::{Blind, FloatError, FloatModel, FloatOutput};
use tessera_model::forward::{ForwardError, ForwardState, Saturation, Saturations};
use tessera_model::QuantisedModel;
use tessera_support::progress::Progress;

/// Rows that the integer model takes at once: its memory grows with them times the length of the text.
const BLOCK: usize = 256;
/// Logits of a float model that are in memory at once.
const LOGITS: usize = 1 << 23;

/// A position of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the window, from 0 on.
    pub text: usize,
    /// Position in the window, from 0 on.
    pub position: usize,
    /// The token there; what follows it is what the models disagree about.
    pub token: u32,
}

/// How far a model is from the float model: divergences of its distributions from the float model's, in nats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// Mean over all positions.
    pub kl: f64,
    /// What 99 % of the positions do not exceed.
    pub kl_p99: f64,
    pub kl_worst: f64,
    /// Where the worst is.
    pub worst: Position,
    /// Part of the positions with the same most likely token (the lowest id on a tie).
    pub top1: f64,
    /// Mean negative log-likelihood of the following token, in nats.
    pub nll: f64,
}

impl Distance {
    /// Perplexity of the model.
    pub fn perplexity(&self) -> f64 {
        self.nll.exp()
    }
}

/// Agreement of the models on a set of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FidelityReport {
    pub integer: Distance,
    pub bfloat16: Distance,
    /// Mean negative log-likelihood of the following token under the float model, in nats.
    pub nll_float: f64,
    /// Saturated values of the integer model by tensor.
    pub saturated: Saturations,
    /// Positions of all windows.
    pub tokens: usize,
    /// Windows, each of which is a text of its own.
    pub windows: usize,
}

impl FidelityReport {
    /// Perplexity of the float model.
    pub fn perplexity_float(&self) -> f64 {
        self.nll_float.exp()
    }

    /// What a key records; `text` names what it was measured on.
    pub fn figures(&self, text: &str) -> Figures {
        let (int, bf16) = (&self.integer, &self.bfloat16);
        Figures {
            text: text.to_owned(),
            windows: self.windows as u64,
            tokens: self.tokens as u64,
            kl: int.kl,
            kl_p99: int.kl_p99,
            kl_worst: int.kl_worst,
            top1: int.top1,
            nll_float: self.nll_float,
            nll_integer: int.nll,
            saturated: self.saturated.values().map(Saturation::total).sum(),
            kl_bfloat16: bf16.kl,
            top1_bfloat16: bf16.top1,
            nll_bfloat16: bf16.nll,
        }
    }
}

/// Why the models cannot be compared.
#[derive(Debug, Error)]
pub enum FidelityError {
    #[error("the checkpoint has other dimensions than the model in {}", model.display())]
    OtherModel { model: PathBuf },
    #[error("there is no text to compare the models on")]
    NoText,
    #[error(transparent)]
    Float(#[from] FloatError),
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

/// Logits of a float model that are in memory at once, as rows of a vocabulary.
fn float_rows(config: &ModelConfig) -> usize {
    (LOGITS / config.vocab).clamp(1, BLOCK)
}

/// Bytes of what a comparison on texts of `tokens` tokens in windows of up to `window` holds beside the models.
pub fn comparison_bytes(config: &ModelConfig, tokens: usize, window: usize) -> u64 {
    let threads = rayon::current_num_threads();
    let vocab = config.vocab;
    let float = 2 * 2 * 4 * float_rows(config) * vocab;
    let integer = 18 * window.min(BLOCK) * vocab;
    let distributions = threads * 4 * 8 * vocab;
    (3 * 4 * tokens * config.hidden + float + integer + distributions) as u64
}

/// Runs a quantised model of the checkpoint and the float models on every window, and compares their distributions at every
/// position.
pub fn measure(
    model: &QuantisedModel,
    checkpoint: &Checkpoint,
    texts: &[Vec<u32>],
    progress: &dyn Progress,
) -> Result<FidelityReport, FidelityError> {
    let tokens: usize = texts.iter().map(Vec::len).sum();
    if tokens == 0 {
        return Err(FidelityError::NoText);
    }
    progress.phase("compare models", Some(3 * tokens as u64));
    let float = run(checkpoint, Precision::Float32, texts, progress)?;
    let bfloat16 = run(checkpoint, Precision::Bfloat16, texts, progress)?;
    let mut rows = Rows::default();
    let mut state = ForwardState::new(model);
    let mut first = 0;
    for ids in texts {
        state.restart();
        for start in (0..ids.len()).step_by(BLOCK) {
            let block = start..ids.len().min(start + BLOCK);
            let integer = state.run(&ids[block.clone()], None)?;
            let block = Block {
                model,
                ids,
                rows: block,
                first,
                integer: &integer,
            };
            rows.compare(&block, &float, &bfloat16)?;
        }
        first += ids.len();
        progress.advance(ids.len() as u64);
    }
    let [nll_float, integer, bfloat16] = rows.predictions();
    Ok(FidelityReport {
        integer: rows.integer.distance(integer, texts),
        bfloat16: rows.bfloat16.distance(bfloat16, texts),
        nll_float,
        saturated: state.saturated(),
        tokens,
        windows: texts.len(),
    })
}

/// Takes all texts through the layers of a float model.
fn run<'a>(
    checkpoint: &'a Checkpoint,
    precision: Precision,
    texts: &[Vec<u32>],
    progress: &dyn Progress,
) -> Result<FloatOutput<'a>, FloatError> {
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let tokens: u64 = texts.iter().map(|ids| ids.len() as u64).sum();
    let layers = checkpoint.config().layers as u64;
    let mut run = FloatModel::with_precision(checkpoint, precision).run(&texts)?;
    for l in 0..checkpoint.config().layers {
        run.layer(l, &mut Blind)?;
        let l = l as u64;
        progress.advance((l + 1) * tokens / layers - l * tokens / layers);
    }
    run.into_output()
}

/// Rows of one text with their integer logits.
struct Block<'a> {
    model: &'a QuantisedModel,
    ids: &'a [u32],
    rows: Range<usize>,
    /// Number of the first row of the text, counted through all texts.
    first: usize,
    integer: &'a [i16],
}

/// What is known of every row compared, in order.
#[derive(Default)]
struct Rows {
    integer: Distances,
    bfloat16: Distances,
    /// Rows that are followed by a known token, and their negative log-likelihoods: float, integer, bfloat16.
    known: u64,
    nll: [f64; 3],
}

#[derive(Default)]
struct Distances {
    kl: Vec<f64>,
    same: u64,
}

/// One row: divergence and agreement of both models, and the log-likelihoods of the next token.
struct Row {
    kl: [f64; 2],
    same: [bool; 2],
    next: Option<[f64; 3]>,
}

impl Rows {
    fn compare(
        &mut self,
        block: &Block<'_>,
        float: &FloatOutput<'_>,
        bf16: &FloatOutput<'_>,
    ) -> Result<(), FloatError> {
        let config = &block.model.config;
        let vocab = config.vocab;
        let step = float_rows(config);
        for start in block.rows.clone().step_by(step) {
            let rows = start..block.rows.end.min(start + step);
            let all = block.first + rows.start..block.first + rows.end;
            let (float, bf16) = (float.logits(all.clone())?, bf16.logits(all)?);
            let integer = &block.integer[(rows.start - block.rows.start) * vocab..][..rows.len() * vocab];
            let compared: Vec<Row> = float
                .par_chunks_exact(vocab)
                .zip(bf16.par_chunks_exact(vocab))
                .zip(integer.par_chunks_exact(vocab))
                .zip(rows)
                .map(|(((float, bf16), integer), row)| {
                    let unit = f64::from(-block.model.params.logit_bits).exp2();
                    let p = log_softmax(float.iter().map(|l| f64::from(*l)));
                    let others = [
                        log_softmax(integer.iter().map(|l| f64::from(*l) * unit)),
                        log_softmax(bf16.iter().map(|l| f64::from(*l))),
                    ];
                    Row::of(&p, &others, block.ids.get(row + 1))
                })
                .collect();
            compared.iter().for_each(|row| self.add(row));
        }
        Ok(())
    }

    fn add(&mut self, row: &Row) {
        for (i, distances) in [&mut self.integer, &mut self.bfloat16].into_iter().enumerate() {
            distances.kl.push(row.kl[i]);
            distances.same += u64::from(row.same[i]);
        }
        if let Some(next) = row.next {
            self.known += 1;
            self.nll.iter_mut().zip(next).for_each(|(sum, p)| *sum -= p);
        }
    }

    /// Mean negative log-likelihoods.
    fn predictions(&self) -> [f64; 3] {
        self.nll.map(|sum| sum.max(0.0) / self.known.max(1) as f64)
    }
}

impl Row {
    /// `p`: log-probabilities of the float model.
    fn of(p: &[f64], others: &[Vec<f64>; 2], next: Option<&u32>) -> Self {
        let best = arg_max(p);
        // Rounding must not make a divergence negative.
        let kl = |q: &Vec<f64>| p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>().max(0.0);
        let at = |id: &u32| *id as usize;
        Self {
            kl: others.each_ref().map(kl),
            same: others.each_ref().map(|q| arg_max(q) == best),
            next: next.map(|id| [p[at(id)], others[0][at(id)], others[1][at(id)]]),
        }
    }
}

impl Distances {
    fn distance(&self, nll: f64, texts: &[Vec<u32>]) -> Distance {
        let rows = self.kl.len().max(1);
        let worst = (0..self.kl.len()).fold(0, |worst, i| if self.kl[i] > self.kl[worst] { i } else { worst });
        let mut sorted = self.kl.clone();
        sorted.sort_by(f64::total_cmp);
        Distance {
            kl: self.kl.iter().sum::<f64>() / rows as f64,
            kl_p99: sorted.get((rows * 99).div_ceil(100) - 1).copied().unwrap_or(0.0),
            kl_worst: self.kl.get(worst).copied().unwrap_or(0.0),
            worst: place(worst, texts),
            top1: self.same as f64 / rows as f64,
            nll,
        }
    }
}

/// Where a row is, counted through all texts.
fn place(row: usize, texts: &[Vec<u32>]) -> Position {
    let mut position = row;
    for (text, ids) in texts.iter().enumerate() {
        if let Some(&token) = ids.get(position) {
            return Position { text, position, token };
        }
        position -= ids.len();
    }
    Position::default()
}

#[cfg(test)]
mod tests;
