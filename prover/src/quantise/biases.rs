//! Biases, as they are added to accumulators.

use std::collections::BTreeMap;

use tessera_circuits::bounds::MAX_BIAS;
use tessera_circuits::model::{MatmulKind, ModelConfig, LAYER_KINDS};

use super::rotation::Rotation;
use crate::intake::checkpoint::{Checkpoint, CheckpointError};

/// Float biases of matrices that have some, with the factors that their weights have.
pub(super) type Biases = BTreeMap<(MatmulKind, usize), Vec<f64>>;

/// What is added to the outputs of a matrix, if something is: turned with the residual stream, if that is rotated.
pub(super) fn folded(
    checkpoint: &Checkpoint,
    kind: MatmulKind,
    layer: usize,
    rotation: Option<&Rotation>,
) -> Result<Option<Vec<f64>>, CheckpointError> {
    let Some(stored) = checkpoint.bias(kind, layer)? else {
        return Ok(None);
    };
    let description = checkpoint.description();
    let factor = description.factors.of(kind);
    let mut bias: Vec<f64> = stored.iter().map(|b| f64::from(*b) * factor).collect();
    if let Some(factors) = description.of_queries(layer).filter(|_| kind == MatmulKind::Q) {
        bias.iter_mut().zip(factors.iter().cycle()).for_each(|(b, f)| *b *= f);
    }
    if let Some(rotation) = rotation.filter(|_| matches!(kind, MatmulKind::O | MatmulKind::Down)) {
        let mut turned: Vec<f32> = bias.iter().map(|b| *b as f32).collect();
        rotation.turn(&mut turned);
        bias = turned.into_iter().map(f64::from).collect();
    }
    Ok(Some(bias))
}

/// The most fractional bits of an accumulator whose channel has this bias.
pub(super) fn most_bits(bias: f64) -> i32 {
    // What is that small fits whatever the unit is.
    let most = (f64::from(MAX_BIAS) / bias.abs().max(f64::MIN_POSITIVE)).log2().floor();
    most.min(1024.0) as i32
}

/// The biases in units of accumulators, of which `bits` gives the fractional bits: in the order of the key.
pub(super) fn integers(
    config: &ModelConfig,
    biases: &Biases,
    bits: impl Fn(MatmulKind, usize, usize) -> i32,
) -> Vec<Vec<i32>> {
    if biases.is_empty() {
        return Vec::new();
    }
    let layers = (0..config.layers).flat_map(|layer| LAYER_KINDS.map(|kind| (kind, layer)));
    let of = |(kind, layer): (MatmulKind, usize)| {
        let channels = biases.get(&(kind, layer)).into_iter().flatten().enumerate();
        let integer = |(out, bias): (usize, &f64)| {
            let unit = f64::from(bits(kind, layer, out)).exp2();
            (bias * unit).round() as i32
        };
        channels.map(integer).collect()
    };
    layers.chain([(MatmulKind::Head, 0)]).map(of).collect()
}
