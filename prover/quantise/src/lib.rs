//! Makes the integer model that is proved (docs/protocol.md, section 2) from the float model of a checkpoint, and measures how far
//! the two are apart ([`comparison`], [`vectors`]).
#![feature(portable_simd)]

mod biases;
mod calibrate;
pub mod comparison;
mod exponents;
mod feedback;
mod folded;
mod limbs;
mod logits;
mod normed;
mod options;
mod products;
mod report;
mod reranker;
mod rotation;
mod rounding;
mod saturation;
mod scales;
mod source;
#[cfg(test)]
mod tests;
pub mod texts;
pub mod vectors;
mod writer;

use serde::{Deserialize, Serialize};
use tessera_circuits::model::{MatrixId, ModelConfig, ModelParams};

pub use logits::{compare_logits, negative_log_likelihood, Fidelity};

use calibrate::{Calibration, Ranges, Set};
pub use feedback::feedback_bytes;
pub use options::{QuantiseOptions, Strategy, DEFAULT_HEADROOM};
pub use report::{CalibrationReport, ChannelExponent, FirstTokens, QuantiseError, TensorBits, WeightScale};
use rotation::Turned;
pub use saturation::{explain, Explanation};
use scales::{Given, Solved, Units};
use source::{Source, Weights};
use tessera_checkpoint::Checkpoint;
use tessera_float::{FloatError, FloatModel, FloatRun};
use tessera_model::weights::PackedWeights;
use tessera_model::QuantisedModel;
use tessera_support::files::{self, AtomicDir, AtomicFile};
use tessera_support::progress::{Progress, Silent};

/// How a checkpoint is quantised: all that set-up decides before it writes weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantisation {
    pub options: QuantiseOptions,
    pub params: ModelParams,
    pub report: CalibrationReport,
    /// Fractional bits of the weights by output channel, one list per matrix in the order of `ModelConfig::matmuls`.
    bits: Vec<Vec<i32>>,
    /// Exponents of the inputs of Down by layer, none where all are 0.
    products: Vec<Vec<u8>>,
    /// Exponents of the outputs of norms by state, none where all are 0.
    normed: Vec<Vec<u8>>,
}

/// Chooses all scales. The scales of activations follow from the calibration sequences (each cut to the context), with room
/// for values `headroom` times as large. The float model runs one layer after the other, and the weights of a layer are read for
/// their scales before the next layer runs.
pub fn quantise(
    checkpoint: &Checkpoint,
    options: &QuantiseOptions,
    calibration_ids: &[Vec<u32>],
    progress: &dyn Progress,
) -> Result<Quantisation, QuantiseError> {
    let config = checkpoint.config();
    if !(1.0..=1000.0).contains(&options.headroom) {
        return Err(QuantiseError::Headroom(options.headroom));
    }
    let texts = texts(config, calibration_ids)?;
    let rotation = options.rotation_of(config)?;
    let source = Source {
        checkpoint,
        options,
        rotation: rotation.as_ref(),
        progress,
    };
    let (ranges, read) = calibrated(source, &texts)?;
    let given = Given {
        config,
        options,
        ranges: &ranges,
        weight_bits: options.strategy.weight_bits(config),
        activation: checkpoint.description().activation,
        biases: read.biases,
        gains: read.gains,
    };
    let stream = given.stream_exponents(&read.readers);
    let norm_readers = source.norm_readers(&ranges, &stream)?;
    let units = Units::new(&given, read.scales);
    let exponents = units.with_exponents(stream, &read.down);
    let Solved {
        mut params,
        weights: mut bits,
        products,
        normed,
        mut report,
    } = exponents.with_norms(norm_readers).solve()?;
    params.biases.extend(reranker::head(checkpoint)?);
    params.check(config)?;
    report.tokens = texts.iter().map(|ids| ids.len()).sum();
    let order = config.matmuls();
    let bits = order.iter().map(|m| bits.remove(&m.id).unwrap_or_default());
    Ok(Quantisation {
        options: *options,
        params,
        report,
        bits: bits.collect(),
        products,
        normed,
    })
}

/// Runs the calibration sequences and reads all weights, layer by layer.
fn calibrated(source: Source<'_>, texts: &[&[u32]]) -> Result<(Ranges, Weights), QuantiseError> {
    let Source {
        checkpoint,
        options,
        rotation,
        ..
    } = source;
    let config = checkpoint.config();
    let heads = first_tokens(config, options, texts);
    let heads: Vec<&[u32]> = heads.iter().map(Vec::as_slice).collect();
    let float = FloatModel::new(checkpoint);
    let mut text_run = float.run(texts).map_err(QuantiseError::of)?;
    let mut head_run = float.run(&heads).map_err(QuantiseError::of)?;
    let (mut calibration, mut weights) = (Calibration::new(config, options.leading), Weights::new(config));
    for layer in 0..config.layers {
        calibration.expect(Set::Texts, texts);
        let run = |run: &mut FloatRun<'_>, observer: &mut Calibration| {
            run.layer(layer, &mut Turned { rotation, observer })
                .map_err(QuantiseError::of)
        };
        run(&mut text_run, &mut calibration)?;
        calibration.expect(Set::Heads, &heads);
        run(&mut head_run, &mut calibration)?;
        for id in config.layer_kinds().map(|kind| kind.at(layer)) {
            let matrix = source.matrix(id)?;
            weights.read(source, id, &matrix, calibration.ranges())?;
        }
    }
    calibration.expect(Set::Texts, texts);
    let mut observer = Turned {
        rotation,
        observer: &mut calibration,
    };
    let observed = match config.generates() {
        true => text_run.observe_output(&mut observer),
        false => text_run.observe_last_norm(&mut observer),
    };
    observed.map_err(QuantiseError::of)?;
    if config.generates() {
        let head = source.matrix(MatrixId::HEAD)?;
        weights.read(source, MatrixId::HEAD, &head, calibration.ranges())?;
    }
    weights.read_gains(checkpoint)?;
    let embedding = source.matrix(MatrixId::EMBED)?;
    weights.read(source, MatrixId::EMBED, &embedding, calibration.ranges())?;
    let first = texts.first().and_then(|ids| ids.first().copied());
    let first = first.filter(|token| texts.iter().all(|ids| ids.first() == Some(token)));
    let ranges = calibration.finish(&embedding, config, first)?;
    embedding.release();
    Ok((ranges, weights))
}

/// Calibration sequences, cut to the context.
fn texts<'a>(config: &ModelConfig, ids: &'a [Vec<u32>]) -> Result<Vec<&'a [u32]>, QuantiseError> {
    let sequences = ids.iter().map(|ids| &ids[..ids.len().min(config.context)]);
    let sequences: Vec<&[u32]> = sequences.filter(|ids| !ids.is_empty()).collect();
    match sequences.is_empty() {
        true => Err(QuantiseError::NoCalibration),
        false => Ok(sequences),
    }
}

/// Tokens of the whole vocabulary, as lone first tokens: the first row attends to itself only, so that its values depend on
/// its id alone. Some are followed by a token of the texts, which shows whether the second row becomes like the first.
fn first_tokens(config: &ModelConfig, options: &QuantiseOptions, texts: &[&[u32]]) -> Vec<Vec<u32>> {
    let tried = options.first_tokens.min(config.vocab);
    let tokens: Vec<u32> = texts.iter().flat_map(|ids| *ids).copied().collect();
    let with_second = |i: usize| {
        // As many, and evenly spread.
        (i + 1) * options.heads / tried > i * options.heads / tried && config.context > 1
    };
    let head = |i: usize| {
        let mut ids = vec![(i * config.vocab / tried) as u32];
        if with_second(i) {
            ids.extend(tokens.get(i * tokens.len() / tried));
        }
        ids
    };
    (0..tried).map(head).collect()
}

impl QuantiseError {
    fn of(error: FloatError) -> Self {
        match error {
            FloatError::Checkpoint(error) => Self::Checkpoint(error),
            other => Self::Float(other),
        }
    }
}

/// Quantises a small checkpoint and keeps the model in memory: the model that set-up would write.
///
/// # Errors
/// As [`quantise`] and [`Quantisation::write_weights`]; the weights pass through a temporary file.
pub fn in_memory(
    checkpoint: &Checkpoint,
    options: impl Into<QuantiseOptions>,
    calibration_ids: &[Vec<u32>],
) -> Result<(QuantisedModel, CalibrationReport), QuantiseError> {
    let mut made = quantise(checkpoint, &options.into(), calibration_ids, &Silent)?;
    let dir = AtomicDir::create(&std::env::temp_dir().join("tessera-in-memory"))?;
    let path = dir.path().join("weights");
    let mut file = AtomicFile::create(&path)?;
    (_, made.params.columns) = made.write_weights(checkpoint, calibration_ids, &mut file, &Silent)?;
    file.commit()?;
    let weights = PackedWeights::in_memory(made.params.format, files::read(&path)?);
    let model = QuantisedModel::new(checkpoint.config().clone(), made.params, weights);
    Ok((model, made.report))
}
