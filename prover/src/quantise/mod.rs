//! From a float checkpoint to the integer model that is proved (docs/protocol.md, section 2).

mod calibrate;
mod fidelity;
mod plan;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tessera_circuits::model::{MatmulKind, ModelConfig, ModelError, Strategy};
use thiserror::Error;

pub use fidelity::{compare_logits, negative_log_likelihood, Fidelity};

use crate::checkpoint::{attn_norm_tensor, matmul_tensor, mlp_norm_tensor, Checkpoint, CheckpointError, FINAL_NORM};
use crate::float::{FloatError, FloatModel};
use crate::model::QuantisedModel;
use crate::weights::WeightsBuilder;
use calibrate::Ranges;
use plan::{Plan, WeightBits};

/// The default of the headroom of [`quantise`].
pub const DEFAULT_HEADROOM: f64 = 1.5;

/// No weight gets more fractional bits than this.
const MAX_WEIGHT_BITS: i32 = 30;

/// Why a checkpoint cannot be quantised.
#[derive(Debug, Error)]
pub enum QuantiseError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("calibration text: {0}")]
    Float(#[from] FloatError),
    #[error("there is no calibration text")]
    NoCalibration,
    #[error("the headroom is {0}, but must be in 1..=1000")]
    Headroom(f64),
    #[error("the float model produces a value that is not finite at {site}")]
    Activation { site: String },
    #[error("tensor {tensor}: {in_dim} input channels are too many for strategy {strategy:?}{hint}")]
    TooWide {
        tensor: String,
        in_dim: usize,
        strategy: Strategy,
        hint: &'static str,
    },
    #[error("no choice of scales represents the range of {tensor} (shift or scale {value})")]
    Scales { tensor: String, value: i32 },
    #[error("the quantised model is not one that can be proved: {0}")]
    Model(#[from] ModelError),
}

/// Fractional bits of one activation tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorBits {
    pub name: String,
    /// Largest absolute value on the calibration text.
    pub max: f32,
    /// The integer is `round(value * 2^bits)`.
    pub bits: i32,
}

/// Fractional bits of one weight matrix: the fewest and most of an output channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightScale {
    pub tensor: String,
    pub min_bits: i32,
    pub max_bits: i32,
}

/// What calibration chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationReport {
    /// Token rows of calibration text.
    pub tokens: usize,
    pub headroom: f64,
    pub activations: Vec<TensorBits>,
    pub weights: Vec<WeightScale>,
}

/// Quantises a checkpoint. Scales of activations are those of the calibration sequences (each cut to the
/// context), with room for values `headroom` times as large.
pub fn quantise(
    checkpoint: &Checkpoint,
    strategy: Strategy,
    calibration_ids: &[Vec<u32>],
    headroom: f64,
) -> Result<(QuantisedModel, CalibrationReport), QuantiseError> {
    let config = checkpoint.config();
    if !(1.0..=1000.0).contains(&headroom) {
        return Err(QuantiseError::Headroom(headroom));
    }
    plan::check_widths(config, strategy)?;
    // The float weights are released before the integer ones are made.
    let ranges = Ranges::measure(&FloatModel::load(checkpoint)?, calibration_ids)?;
    let mut bits = WeightBits::new();
    for m in config.matmuls() {
        let folded = Folded::load(checkpoint, m.kind, m.layer)?;
        bits.insert((m.kind, m.layer), folded.choose_bits(strategy));
    }
    let (params, bits, report) = Plan::new(config, strategy, &ranges, headroom, bits).solve()?;
    params.check(config)?;
    let matrix = |kind, layer| -> Result<Vec<i16>, QuantiseError> {
        Ok(Folded::load(checkpoint, kind, layer)?.quantise(strategy, &bits[&(kind, layer)]))
    };
    let mut weights = WeightsBuilder::new(config, strategy);
    for m in config.matmuls() {
        weights.push(&matrix(m.kind, m.layer)?);
    }
    let model = QuantisedModel::new(config.clone(), params, weights.finish());
    Ok((model, report))
}

/// A float matrix with the gain of the norm before it folded into its input channels, and the factor
/// `1/sqrt(head_dim)` of attention into q.
struct Folded {
    kind: MatmulKind,
    /// `[rows][width]`: `[vocab][hidden]` for the embedding, else `[out][in]`.
    values: Vec<f32>,
    width: usize,
}

impl Folded {
    fn load(checkpoint: &Checkpoint, kind: MatmulKind, layer: usize) -> Result<Self, CheckpointError> {
        let config: &ModelConfig = checkpoint.config();
        let mut values = checkpoint.tensor(&matmul_tensor(kind, layer))?;
        let gain = match kind {
            MatmulKind::Q | MatmulKind::K | MatmulKind::V => Some(attn_norm_tensor(layer)),
            MatmulKind::Gate | MatmulKind::Up => Some(mlp_norm_tensor(layer)),
            MatmulKind::Head => Some(FINAL_NORM.to_string()),
            MatmulKind::Embed | MatmulKind::O | MatmulKind::Down => None,
        };
        if let Some(name) = gain {
            let factor = if kind == MatmulKind::Q {
                1.0 / (config.head_dim as f64).sqrt()
            } else {
                1.0
            };
            let gain: Vec<f32> = checkpoint
                .tensor(&name)?
                .iter()
                .map(|g| (f64::from(*g) * factor) as f32)
                .collect();
            values
                .par_chunks_exact_mut(gain.len())
                .for_each(|row| row.iter_mut().zip(&gain).for_each(|(w, g)| *w *= g));
        }
        let (in_dim, out_dim) = config.dims(kind);
        let width = if kind == MatmulKind::Embed { out_dim } else { in_dim };
        Ok(Self { kind, values, width })
    }

    /// Fractional bits: one for the tensor, or one per output channel. Matrices that are added to the
    /// residual stream always have one, because the residual has one scale.
    fn choose_bits(&self, strategy: Strategy) -> Vec<i32> {
        let max = strategy.max_weight();
        let per_channel = strategy == Strategy::W8 && !matches!(self.kind, MatmulKind::O | MatmulKind::Down);
        match (per_channel, self.kind) {
            (false, _) => vec![best_bits(self.values.iter(), max)],
            (true, MatmulKind::Embed) => (0..self.width)
                .into_par_iter()
                .map(|out| best_bits(self.values.iter().skip(out).step_by(self.width), max))
                .collect(),
            (true, _) => self
                .values
                .par_chunks_exact(self.width)
                .map(|row| best_bits(row.iter(), max))
                .collect(),
        }
    }

    /// The integer matrix, in the same layout.
    fn quantise(&self, strategy: Strategy, bits: &[i32]) -> Vec<i16> {
        let max = f64::from(strategy.max_weight());
        let units: Vec<f64> = bits.iter().map(|b| f64::from(*b).exp2()).collect();
        let round = |w: f32, unit: f64| (f64::from(w) * unit).round().clamp(-max, max) as i16;
        let row = |(i, row): (usize, &[f32])| -> Vec<i16> {
            let unit = |x: usize| match (units.as_slice(), self.kind) {
                ([one], _) => *one,
                (many, MatmulKind::Embed) => many[x],
                (many, _) => many[i],
            };
            row.iter().enumerate().map(|(x, w)| round(*w, unit(x))).collect()
        };
        self.values
            .par_chunks_exact(self.width)
            .enumerate()
            .flat_map_iter(row)
            .collect()
    }
}

/// Fractional bits for integers up to `max`: the most with which all values fit, or (for 8-bit weights) one
/// more if that lowers the squared error in spite of the values that it clips.
fn best_bits<'a>(values: impl Iterator<Item = &'a f32> + Clone, max: i32) -> i32 {
    let limit = f64::from(max);
    let largest = f64::from(values.clone().fold(0.0f32, |m, w| m.max(w.abs())));
    // A matrix or channel of zeros has any scale.
    let fit = ((limit + 0.5) / largest).log2().ceil().min(f64::from(MAX_WEIGHT_BITS)) as i32 - 1;
    if max > i32::from(i8::MAX) || largest == 0.0 {
        return fit;
    }
    let error = |bits: i32| -> f64 {
        let unit = f64::from(bits).exp2();
        let one = |w: &f32| {
            let w = f64::from(*w);
            let rounded = (w * unit).round().clamp(-limit, limit) / unit;
            (w - rounded) * (w - rounded)
        };
        values.clone().map(one).sum()
    };
    if error(fit + 1) < error(fit) {
        fit + 1
    } else {
        fit
    }
}
