//! How close the vectors of an encoder, or the logits of a reranker, are to those of the float model.

use tessera_circuits::model::{ModelConfig, ModelParams};
use tessera_recipe::{Fidelity, ScoreFigures, VectorFigures};

use super::comparison::FidelityError;
use tessera_checkpoint::Checkpoint;
use tessera_float::precision::Precision;
use tessera_float::{Blind, FloatError, FloatModel};
use tessera_model::forward::{ForwardState, Saturation, Saturations};
use tessera_model::QuantisedModel;
use tessera_support::progress::Progress;

/// Vectors of an encoder and their distance to those of the float model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorReport {
    /// One less the cosine, by text; of a reranker, the largest difference of two logits.
    pub distances: Vec<f64>,
    /// The same of the float model in bfloat16.
    pub bfloat16: Vec<f64>,
    /// Saturated values of the integer model by tensor.
    pub saturated: Saturations,
    pub tokens: usize,
}

impl VectorReport {
    /// What a key records; `text` names what it was measured on.
    pub fn figures(&self, text: &str) -> VectorFigures {
        let sorted = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            values
        };
        let (own, bf16) = (sorted(&self.distances), sorted(&self.bfloat16));
        // What this part of a hundred does not exceed.
        let part = |values: &[f64], percent: usize| {
            let at = (values.len() * percent).div_ceil(100).max(1) - 1;
            values.get(at).copied().unwrap_or(0.0)
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        VectorFigures {
            text: text.to_owned(),
            texts: own.len() as u64,
            tokens: self.tokens as u64,
            mean: mean(&own),
            median: part(&own, 50),
            p90: part(&own, 90),
            p99: part(&own, 99),
            worst: part(&own, 100),
            saturated: self.saturated.values().map(Saturation::total).sum(),
            mean_bfloat16: mean(&bf16),
            worst_bfloat16: part(&bf16, 100),
        }
    }

    /// The same, as figures of what the model makes.
    pub fn fidelity(&self, text: &str, config: &ModelConfig) -> Fidelity {
        let figures = self.figures(text);
        match config.reranker() {
            Some(_) => Fidelity::Scores(ScoreFigures(figures)),
            None => Fidelity::Vectors(figures),
        }
    }
}

/// One less the cosine of two vectors; that of a vector without a direction, of zeros or of what is no number, is 0.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    // Rounding must not make a distance negative.
    match cosine.is_finite() {
        true => (1.0 - cosine).max(0.0),
        false => 1.0,
    }
}

/// The largest difference of two logits; without bound where one is no number.
fn difference(a: &[f64], b: &[f64]) -> f64 {
    let all = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    all.fold(0.0, |most: f64, d| if d.is_finite() { most.max(d) } else { f64::MAX })
}

/// Makes the vectors of all texts, or the logits of all pairs, with a quantised encoder and with the float models of its checkpoint.
pub fn measure_vectors(
    model: &QuantisedModel,
    checkpoint: &Checkpoint,
    texts: &[Vec<u32>],
    progress: &dyn Progress,
) -> Result<VectorReport, FidelityError> {
    let tokens: usize = texts.iter().map(Vec::len).sum();
    if tokens == 0 {
        return Err(FidelityError::NoText);
    }
    progress.phase("compare models", Some(3 * tokens as u64));
    let float = float_vectors(checkpoint, Precision::Float32, texts)?;
    progress.advance(tokens as u64);
    let bfloat16 = float_vectors(checkpoint, Precision::Bfloat16, texts)?;
    progress.advance(tokens as u64);
    let mut state = ForwardState::new(model);
    let compare = if model.config.reranker().is_some() {
        difference
    } else {
        distance
    };
    let mut distances = Vec::new();
    for (ids, float) in texts.iter().zip(&float) {
        let vector = state.vector(ids)?;
        let rows = model.config.pooled_rows(ids.len());
        let own = match model.params.pair_scores(&model.config, &vector) {
            Some(scores) => scores.logits,
            None => vector_of(&model.params, &vector, rows),
        };
        distances.push(compare(&own, float));
        progress.advance(ids.len() as u64);
    }
    let both = bfloat16.iter().zip(&float);
    Ok(VectorReport {
        distances,
        bfloat16: both.map(|(a, b)| compare(a, b)).collect(),
        saturated: state.saturated(),
        tokens,
    })
}

/// The vector of integers with its gains, up to a positive factor.
fn vector_of(params: &ModelParams, vector: &[i32], rows: usize) -> Vec<f64> {
    let vector = params.embedding(vector, rows);
    vector.into_iter().map(|v| v as f64).collect()
}

fn float_vectors(
    checkpoint: &Checkpoint,
    precision: Precision,
    texts: &[Vec<u32>],
) -> Result<Vec<Vec<f64>>, FloatError> {
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let mut run = FloatModel::with_precision(checkpoint, precision).run(&texts)?;
    for l in 0..checkpoint.config().layers {
        run.layer(l, &mut Blind)?;
    }
    let vectors = match checkpoint.config().reranker() {
        Some(_) => run.logits_of_pairs()?,
        None => run.vectors()?,
    };
    let vectors = vectors.into_iter();
    Ok(vectors.map(|v| v.into_iter().map(f64::from).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::{difference, distance};

    /// What is no number is not near to anything.
    #[test]
    fn logits_differ_by_the_most_of_them() {
        assert_eq!(difference(&[1.0, -2.0], &[1.5, -2.0]), 0.5);
        assert_eq!(difference(&[1.0, f64::NAN, 2.0], &[1.0, 1.0, 2.0]), f64::MAX);
    }

    /// A model that says nothing, or something that is no number, is not near to its checkpoint.
    #[test]
    fn what_has_no_direction_is_far_from_everything() {
        let vector = [3.0, -4.0];
        assert_eq!(distance(&vector, &vector), 0.0);
        assert_eq!(distance(&vector, &[8.0, 6.0]), 1.0);
        assert_eq!(distance(&vector, &[-3.0, 4.0]), 2.0);
        for nothing in [[0.0, 0.0], [f64::NAN, 1.0], [f64::INFINITY, 1.0]] {
            assert_eq!(distance(&nothing, &vector), 1.0, "{nothing:?}");
            assert_eq!(distance(&vector, &nothing), 1.0, "{nothing:?}");
            assert_eq!(distance(&nothing, &nothing), 1.0, "{nothing:?}");
        }
    }
}
