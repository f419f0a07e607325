//! How close the integer model is to the float model that it was made from (docs/architecture.md): measured
//! on a text, never assumed.

use std::path::PathBuf;

use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::float::{FloatError, FloatModel};
use crate::forward::{ForwardError, ForwardState, Saturations};
use crate::library::Model;
use crate::progress::Progress;
use crate::quantise::{compare_logits, Fidelity};

/// Agreement of the two models on a set of texts.
#[derive(Clone, Debug)]
pub struct FidelityReport {
    /// Perplexities, KL divergence (float to integer, nats per position), top-1 agreement.
    pub fidelity: Fidelity,
    /// Saturated values of the integer model by tensor.
    pub saturated: Saturations,
    /// Token rows of all texts.
    pub tokens: usize,
    pub texts: usize,
}

/// Why the models cannot be compared.
#[derive(Debug, Error)]
pub enum FidelityError {
    #[error("the checkpoint has other dimensions than the model in {}", model.display())]
    OtherModel { model: PathBuf },
    #[error(transparent)]
    Float(#[from] FloatError),
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

/// Runs both models on every text and compares their logits at every position.
pub fn fidelity(
    model: &Model,
    checkpoint: &Checkpoint,
    texts: &[Vec<u32>],
    progress: &dyn Progress,
) -> Result<FidelityReport, FidelityError> {
    let config = &model.key.config;
    if checkpoint.config() != config {
        return Err(FidelityError::OtherModel {
            model: model.dir.clone(),
        });
    }
    let float = FloatModel::new(checkpoint);
    let tokens = texts.iter().map(Vec::len).sum();
    progress.phase("compare models", Some(tokens as u64));
    let mut total = Fidelity::default();
    let mut saturated = Saturations::new();
    for ids in texts {
        let expected = float.forward(ids)?;
        let mut state = ForwardState::new(&model.quantised);
        let logits = state.run(ids, None)?;
        total += compare_logits(&expected, &logits, model.key.params.logit_bits, config.vocab, ids);
        for (tensor, count) in state.saturated() {
            *saturated.entry(tensor).or_default() += count;
        }
        progress.advance(ids.len() as u64);
    }
    progress.done();
    Ok(FidelityReport {
        fidelity: total,
        saturated,
        tokens,
        texts: texts.len(),
    })
}
