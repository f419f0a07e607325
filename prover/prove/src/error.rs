//! Why no proof was made.

use tessera_circuits::statement::StatementError;
use tessera_circuits::statistics::StatisticsError;
use tessera_verifier::codec::CodecError;
use tessera_verifier::verify::VerifyError;
use thiserror::Error;

use super::device::DeviceError;
use super::gkr::LookupError;
use super::hiding::NoRandomness;
use super::opening::OpeningProverError;
use super::stark::ProveStarkError;
use tessera_model::forward::ForwardError;
use tessera_model::generate::GenerateError;

/// Why no proof was made.
#[derive(Debug, Error)]
pub enum ProveError {
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// More values are clipped than a proof may list, of inner chunks, too.
    #[error("{0}; the model is far from its calibration text on this prompt")]
    Clipped(#[from] StatisticsError),
    /// A list of clipped values would show what a proof is asked to hide. The message does not say how many there are, because that would show more.
    #[error("a value is clipped on this prompt, and a proof that hides activations cannot say so; ask for a proof that hides nothing, or set up the model with a calibration text that is more like the prompt")]
    HiddenClips { got: usize },
    /// Clipped values, where the proof is to list none.
    #[error("{got} values are clipped on this prompt, and the proof was to have none; another prompt, or a model that is set up with a calibration text more like it, may clip none")]
    Clips { got: usize },
    /// The statement is one that was not to be proved.
    #[error("{0}")]
    NotAdmitted(String),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error("{0}")]
    Hiding(#[source] VerifyError),
    /// All logits of a position are clipped to the smallest int16, so that no largest one can be proved.
    #[error("all logits of output token {output} (the first one is 0) are the smallest that there are; the model is far from its calibration text on this prompt")]
    SmallestLogit { output: usize },
    #[error(transparent)]
    Generate(GenerateError),
    #[error(transparent)]
    Forward(ForwardError),
    /// The device could not do its part; another one may.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A challenge hit 0 or 1 (probability below 2^-110).
    #[error("a challenge is degenerate; try again with another statement")]
    DegeneratePoint,
    #[error(transparent)]
    Opening(OpeningProverError),
    #[error(transparent)]
    Stark(#[from] ProveStarkError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("internal error: the proof does not verify: {0}")]
    Check(#[source] VerifyError),
    #[error(
        "a statement of {rows} token rows has {:.1} bits of security at most, below the minimum of {min:.1}",
        (got * 10.0).floor() / 10.0
    )]
    Security { rows: usize, got: f64, min: f64 },
}

impl From<LookupError> for ProveError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::DegeneratePoint => Self::DegeneratePoint,
            LookupError::Device(error) => Self::Device(error),
        }
    }
}

impl From<ForwardError> for ProveError {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Device(error) => Self::Device(error),
            other => Self::Forward(other),
        }
    }
}

impl From<GenerateError> for ProveError {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::Forward(ForwardError::Device(error)) => Self::Device(error),
            other => Self::Generate(other),
        }
    }
}

impl From<OpeningProverError> for ProveError {
    fn from(error: OpeningProverError) -> Self {
        match error {
            OpeningProverError::Device(error) => Self::Device(error),
            other => Self::Opening(other),
        }
    }
}
