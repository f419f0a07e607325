//! Biases, as they are added to accumulators.

use std::collections::BTreeMap;

use rayon::prelude::*;
use tessera_circuits::bounds::MAX_BIAS;
use tessera_circuits::model::{MatmulKind, MatrixId, ModelConfig};

use super::rotation::Rotation;
use tessera_checkpoint::families::{Norm, Parameter};
use tessera_checkpoint::{Checkpoint, CheckpointError, Orientation};

/// Float biases of matrices that have some, with the factors that their weights have.
pub(super) type Biases = BTreeMap<MatrixId, Vec<f64>>;

/// What is added to the outputs of a matrix, if something is: turned with the residual stream, if that is rotated.
pub(super) fn folded(
    checkpoint: &Checkpoint,
    id: MatrixId,
    rotation: Option<&Rotation>,
) -> Result<Option<Vec<f64>>, CheckpointError> {
    let (kind, layer) = (id.kind(), id.layer());
    let stored = checkpoint.bias(id)?;
    let of_norm = match added(checkpoint, id)? {
        Some(bias) => Some(bias.into_iter().map(f64::from).collect()),
        None => read(checkpoint, id)?,
    };
    if stored.is_none() && of_norm.is_none() {
        return Ok(None);
    }
    let description = checkpoint.description();
    let factor = description.factor(kind);
    let mut bias = vec![0.0; checkpoint.config().dims(kind).1];
    let stored = stored.unwrap_or_default();
    bias.iter_mut().zip(&stored).for_each(|(b, own)| *b += f64::from(*own));
    let of_norm = of_norm.unwrap_or_default();
    bias.iter_mut().zip(&of_norm).for_each(|(b, own)| *b += own);
    let writes = matches!(kind, MatmulKind::O | MatmulKind::Down);
    if writes && description.norm != Norm::Rms {
        let mean = bias.iter().sum::<f64>() / bias.len() as f64;
        bias.iter_mut().for_each(|b| *b -= mean);
    }
    bias.iter_mut().for_each(|b| *b *= factor);
    if let Some(factors) = description.of_queries(layer).filter(|_| kind == MatmulKind::Q) {
        bias.iter_mut().zip(factors.iter().cycle()).for_each(|(b, f)| *b *= f);
    }
    if let Some(rotation) = rotation.filter(|_| writes) {
        let mut turned: Vec<f32> = bias.iter().map(|b| *b as f32).collect();
        rotation.turn(&mut turned);
        bias = turned.into_iter().map(f64::from).collect();
    }
    Ok(Some(bias))
}

/// What a matrix makes of the bias of the norm that it reads, if that has one.
fn read(checkpoint: &Checkpoint, id: MatrixId) -> Result<Option<Vec<f64>>, CheckpointError> {
    let bias = checkpoint.norm_bias(id)?;
    bias.map(|bias| product(checkpoint, id, &bias)).transpose()
}

/// Where sums are normed, the bias of the normed state to which a matrix adds.
fn added(checkpoint: &Checkpoint, id: MatrixId) -> Result<Option<Vec<f32>>, CheckpointError> {
    let (kind, layer) = (id.kind(), id.layer());
    match kind {
        MatmulKind::O if checkpoint.config().sums_first() => checkpoint.norm_bias(MatmulKind::Q.at(layer)),
        MatmulKind::Down if checkpoint.config().sums_first() => checkpoint.norm_bias(MatmulKind::Up.at(layer)),
        _ => Ok(None),
    }
}

/// The gains of the norms of all states of an encoder, and the bias of the last one; nothing of other models.
pub(super) fn norms(checkpoint: &Checkpoint) -> Result<(Vec<Vec<f64>>, Vec<f64>), CheckpointError> {
    let config = checkpoint.config();
    if !config.sums_first() {
        return Ok(Default::default());
    }
    let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<_>>();
    let layers = (0..config.layers).flat_map(|l| [Parameter::AttentionNorm(l), Parameter::MlpNorm(l)]);
    let norms = layers.chain([Parameter::FinalNorm]);
    let gains = norms
        .map(|norm| checkpoint.gain(norm).map(wide))
        .collect::<Result<_, _>>()?;
    let last = checkpoint.norm_bias(MatrixId::HEAD)?;
    Ok((gains, last.map_or_else(|| vec![0.0; config.hidden], wide)))
}

/// What a matrix makes of the bias of a norm.
fn product(checkpoint: &Checkpoint, id: MatrixId, bias: &[f32]) -> Result<Vec<f64>, CheckpointError> {
    let kind = id.kind();
    let matrix = checkpoint.matrix(id)?;
    let width = matrix.width();
    let read = |row: usize| {
        let mut values = vec![0.0; width];
        matrix.read(row * width, &mut values)?;
        Ok::<_, CheckpointError>(values)
    };
    let out = match checkpoint.orientation(kind) {
        Orientation::OutputsFirst => {
            let rows = (0..matrix.len() / width).into_par_iter();
            let sum = |row: usize| {
                let values = read(row)?;
                let terms = values.iter().zip(bias).map(|(w, b)| f64::from(*w) * f64::from(*b));
                Ok(terms.sum::<f64>())
            };
            rows.map(sum).collect::<Result<Vec<f64>, CheckpointError>>()?
        }
        Orientation::InputsFirst => {
            let mut out = vec![0.0; width];
            for (row, b) in bias.iter().enumerate() {
                let values = read(row)?;
                out.iter_mut()
                    .zip(&values)
                    .for_each(|(sum, w)| *sum += f64::from(*w) * f64::from(*b));
            }
            out
        }
    };
    matrix.release();
    Ok(out)
}

/// The most fractional bits of an accumulator whose channel has this bias.
pub(super) fn most_bits(bias: f64) -> i32 {
    // What is that small fits whatever the unit is.
    let most = (f64::from(MAX_BIAS) / bias.abs().max(f64::MIN_POSITIVE)).log2().floor();
    most.min(1024.0) as i32
}

/// The biases in units of accumulators, of which `bits` gives the fractional bits: in the order of the key.
pub(super) fn integers(config: &ModelConfig, biases: &Biases, bits: impl Fn(MatrixId, usize) -> i32) -> Vec<Vec<i32>> {
    if biases.is_empty() {
        return Vec::new();
    }
    let of = |id: MatrixId| {
        let channels = biases.get(&id).into_iter().flatten().enumerate();
        let integer = |(out, bias): (usize, &f64)| {
            let unit = f64::from(bits(id, out)).exp2();
            (bias * unit).round() as i32
        };
        channels.map(integer).collect()
    };
    config.listed_matrices().map(of).collect()
}
