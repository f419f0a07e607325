//! What calibration chose, or why it cannot choose.

use serde::{Deserialize, Serialize};
use tessera_circuits::model::ModelError;
use thiserror::Error;

use tessera_checkpoint::CheckpointError;
use tessera_float::FloatError;
use tessera_support::files::FileError;

/// Why a checkpoint cannot be quantised.
#[derive(Debug, Error)]
pub enum QuantiseError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("calibration text: {0}")]
    Float(FloatError),
    #[error("the states of an encoder cannot be rotated: gains are between them")]
    Rotation,
    #[error("there is no calibration text")]
    NoCalibration,
    #[error("the headroom is {0}, but must be in 1..=1000")]
    Headroom(f64),
    #[error("a weight of the head is {0}, but must be below 128 in absolute value")]
    Head(f32),
    #[error("the float model produces a value that is not finite at {site}")]
    Activation { site: String },
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

/// A channel of the residual stream, or of an MLP's product, with an exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelExponent {
    pub channel: usize,
    pub exponent: u8,
}

/// First tokens that were tried with a second one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstTokens {
    pub tried: usize,
    /// How many of them have a second row with values as large as leading rows have, which do not fit the units of other rows.
    pub saturated: usize,
}

/// What calibration chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationReport {
    /// Token rows of calibration text.
    pub tokens: usize,
    /// The channels of the residual stream that have an exponent.
    pub exponents: Vec<ChannelExponent>,
    /// The channels of the MLP's product that have an exponent, by layer.
    pub products: Vec<Vec<ChannelExponent>>,
    pub heads: FirstTokens,
    pub activations: Vec<TensorBits>,
    pub weights: Vec<WeightScale>,
}

impl CalibrationReport {
    /// What a user should know.
    pub fn notes(&self) -> Vec<String> {
        let FirstTokens { tried, saturated } = self.heads;
        match saturated {
            0 => Vec::new(),
            _ => vec![format!(
                "{saturated} of {tried} random first tokens make the second row as large as the first one, which does not \
                 fit its units; proofs of such prompts will be reported as saturated; --leading 2 makes room for them"
            )],
        }
    }
}
