//! A stored weight matrix as it is quantised: with the gain of the norm before it folded into its input channels, and the
//! factors of its family, as that of scores into q; then turned with the residual stream, if that is rotated. `matrix` reads
//! it, `tally` takes it through its rows once for everything that set-up wants to know of it, and `sums` and `bits` are such
//! things.

mod bits;
mod matrix;
mod sums;
mod tally;

use tessera_circuits::model::{MatmulKind, MatrixId};

use super::rotation::Rotation;
use tessera_checkpoint::families::{Norm, Parameter};
use tessera_checkpoint::{Checkpoint, CheckpointError, Orientation};

pub(super) use bits::BestBits;
use matrix::Operation;
pub(super) use matrix::{Axis, Folded};
use sums::plain;
pub(super) use sums::{squares, Largest, Maxima, Noise, NoiseGains};
pub(super) use tally::{InUnits, Tally};

impl<'a> Folded<'a> {
    /// The matrix of a kind in a layer, as it is quantised in a stream with this rotation. Means are read off the stored
    /// matrix here, once for each axis that has some.
    pub fn new(
        checkpoint: &'a Checkpoint,
        id: MatrixId,
        rotation: Option<&'a Rotation>,
    ) -> Result<Self, CheckpointError> {
        let kind = id.kind();
        let rows = match checkpoint.orientation(kind) {
            Orientation::InputsFirst => Axis::Inputs,
            Orientation::OutputsFirst => Axis::Outputs,
        };
        let norm = norm_before(id);
        let writes = norm.is_none();
        let mut folded = Self::stored(checkpoint.matrix(id)?, rows);
        // A norm that takes the mean off the stream does not see a mean in what is written to the stream.
        if writes && checkpoint.description().norm != Norm::Rms {
            let means = folded.means(Axis::Inputs)?;
            folded.fold(Axis::Inputs, Operation::Subtract(means));
        }
        if let Some(gain) = input_factors(checkpoint, kind, norm)? {
            folded.fold(Axis::Inputs, Operation::Multiply(gain));
        }
        // What reads the norm of a sum does not see a mean that rounding has left in a state.
        if !writes && checkpoint.config().sums_first() {
            let means = folded.means(Axis::Outputs)?;
            folded.fold(Axis::Outputs, Operation::Subtract(means));
        }
        if let Some(factors) = output_factors(checkpoint, id) {
            folded.fold(Axis::Outputs, Operation::Multiply(factors));
        }
        if let Some(rotation) = rotation {
            let stream = if writes { Axis::Outputs } else { Axis::Inputs };
            folded.turn(stream, rotation)?;
        }
        Ok(folded)
    }

    /// The mean of the weights of every channel of an axis.
    fn means(&self, axis: Axis) -> Result<Vec<f32>, CheckpointError> {
        let of = self.channels(axis.other()) as f64;
        let sums = self.tally(plain(axis))?;
        Ok(sums.into_iter().map(|sum| (sum / of) as f32).collect())
    }
}

/// The gain of the norm that a matrix reads; `None` of matrices that read no norm, which write to the residual stream.
fn norm_before(id: MatrixId) -> Option<Parameter> {
    let (kind, layer) = (id.kind(), id.layer());
    match kind {
        MatmulKind::Q | MatmulKind::K | MatmulKind::V => Some(Parameter::AttentionNorm(layer)),
        MatmulKind::Gate | MatmulKind::Up => Some(Parameter::MlpNorm(layer)),
        MatmulKind::Head => Some(Parameter::FinalNorm),
        MatmulKind::Embed | MatmulKind::O | MatmulKind::Down => None,
    }
}

/// The factors of the input channels: the gain of the norm before them, times the factor of the matrix; `None` if all are 1.
fn input_factors(
    checkpoint: &Checkpoint,
    kind: MatmulKind,
    norm: Option<Parameter>,
) -> Result<Option<Vec<f32>>, CheckpointError> {
    let factor = checkpoint.description().factor(kind);
    let Some(norm) = norm else {
        return Ok((factor != 1.0).then(|| vec![factor as f32; checkpoint.config().dims(kind).0]));
    };
    let gain = checkpoint.gain(norm)?;
    Ok(Some(gain.iter().map(|g| (f64::from(*g) * factor) as f32).collect()))
}

/// The factors of the output channels of Q, where the rotation of pairs has a factor; `None` elsewhere.
fn output_factors(checkpoint: &Checkpoint, id: MatrixId) -> Option<Vec<f32>> {
    let (kind, layer) = (id.kind(), id.layer());
    let head = match kind {
        MatmulKind::Q => checkpoint.description().of_queries(layer)?,
        _ => return None,
    };
    let all = head.iter().map(|f| *f as f32).cycle();
    Some(all.take(checkpoint.config().dims(kind).1).collect())
}
