//! From a float checkpoint to the integer model that is proved (docs/protocol.md, section 2).

mod calibrate;
mod fidelity;
mod folded;
mod plan;
mod stream;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use tessera_circuits::model::{
    max_weight, MatmulKind, ModelConfig, ModelError, ModelParams, WeightFormat, LAYER_KINDS,
};
use thiserror::Error;

pub use fidelity::{compare_logits, negative_log_likelihood, Fidelity};

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::files::FileError;
use crate::float::{FloatError, FloatModel};
use crate::progress::Progress;
use calibrate::Ranges;
use folded::Folded;
use plan::{Plan, WeightBits};

/// How weights are quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// int8, one power-of-two scale per output channel.
    W8,
    /// int12, one power-of-two scale per tensor.
    W12,
}

impl Strategy {
    /// How weights are stored.
    pub const fn format(self) -> WeightFormat {
        match self {
            Self::W8 => WeightFormat::Int8,
            Self::W12 => WeightFormat::Int16,
        }
    }

    /// Bits of a weight.
    pub const fn bits(self) -> u8 {
        match self {
            Self::W8 => 8,
            Self::W12 => 12,
        }
    }

    /// Largest absolute value of a weight.
    pub const fn max_weight(self) -> i32 {
        max_weight(self.bits())
    }
}

/// The default of the headroom of [`quantise`].
pub const DEFAULT_HEADROOM: f64 = 1.5;

/// Why a checkpoint cannot be quantised.
#[derive(Debug, Error)]
pub enum QuantiseError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("calibration text: {0}")]
    Float(FloatError),
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

/// How a checkpoint is quantised: all that set-up decides before it writes weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantisation {
    pub strategy: Strategy,
    pub params: ModelParams,
    pub report: CalibrationReport,
    /// Fractional bits of the weights, one list per matrix in the order of `ModelConfig::matmuls`: one entry for the
    /// matrix, or one per output channel.
    bits: Vec<Vec<i32>>,
}

/// The strategy for a model where nobody chooses: `W12` where its matrices are narrow enough, else `W8`.
pub fn default_strategy(config: &ModelConfig) -> Strategy {
    match plan::check_widths(config, Strategy::W12) {
        Ok(()) => Strategy::W12,
        Err(_) => Strategy::W8,
    }
}

/// Chooses all scales. Those of activations are those of the calibration sequences (each cut to the context), with room
/// for values `headroom` times as large. One layer after the other is read, for calibration and its own scales.
pub fn quantise(
    checkpoint: &Checkpoint,
    strategy: Strategy,
    calibration_ids: &[Vec<u32>],
    headroom: f64,
    progress: &dyn Progress,
) -> Result<Quantisation, QuantiseError> {
    let config = checkpoint.config();
    if !(1.0..=1000.0).contains(&headroom) {
        return Err(QuantiseError::Headroom(headroom));
    }
    plan::check_widths(config, strategy)?;
    let sequences = calibration_ids.iter().map(|ids| &ids[..ids.len().min(config.context)]);
    let sequences: Vec<&[u32]> = sequences.filter(|ids| !ids.is_empty()).collect();
    let mut ranges = Ranges::new(config);
    ranges.tokens = sequences.iter().map(|ids| ids.len()).sum();
    if ranges.tokens == 0 {
        return Err(QuantiseError::NoCalibration);
    }
    let mut run = FloatModel::new(checkpoint).run(&sequences).map_err(QuantiseError::of)?;
    let mut bits = WeightBits::new();
    let mut choose = |kind, layer| -> Result<(), QuantiseError> {
        let folded = Folded::new(checkpoint, kind, layer)?;
        bits.insert((kind, layer), folded.choose_bits(strategy)?);
        folded.weights.release();
        progress.advance(1);
        Ok(())
    };
    for layer in 0..config.layers {
        run.layer(layer, &mut ranges).map_err(QuantiseError::of)?;
        LAYER_KINDS.iter().try_for_each(|kind| choose(*kind, layer))?;
    }
    run.observe_output(&mut ranges).map_err(QuantiseError::of)?;
    choose(MatmulKind::Head, 0)?;
    ranges.whole_vocabulary(&checkpoint.matrix(MatmulKind::Embed, 0)?)?;
    choose(MatmulKind::Embed, 0)?;
    ranges.check()?;
    let (params, mut bits, report) = Plan::new(config, strategy, &ranges, headroom, bits).solve()?;
    params.check(config)?;
    let order = config.matmuls();
    let bits = order
        .iter()
        .map(|m| bits.remove(&(m.kind, m.layer)).unwrap_or_default());
    Ok(Quantisation {
        strategy,
        params,
        report,
        bits: bits.collect(),
    })
}

impl QuantiseError {
    fn of(error: FloatError) -> Self {
        match error {
            FloatError::Checkpoint(error) => Self::Checkpoint(error),
            other => Self::Float(other),
        }
    }
}
