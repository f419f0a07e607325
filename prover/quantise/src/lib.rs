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
mod saturation;
mod scales;
#[cfg(test)]
mod tests;
pub mod texts;
pub mod vectors;
mod writer;

use serde::{Deserialize, Serialize};
use tessera_circuits::model::{max_weight, MatmulKind, ModelConfig, ModelParams, WeightFormat};

pub use logits::{compare_logits, negative_log_likelihood, Fidelity};

use biases::Biases;
use calibrate::{Ranges, Set};
pub use feedback::feedback_bytes;
use folded::Folded;
use limbs::Squares;
use normed::{NormReader, NormReaders, Units};
use options::bits_of;
pub use options::{QuantiseOptions, Strategy, DEFAULT_HEADROOM};
use products::DownWeights;
pub use report::{CalibrationReport, ChannelExponent, FirstTokens, QuantiseError, TensorBits, WeightScale};
use rotation::{Rotation, Turned};
pub use saturation::{explain, Explanation};
use scales::{Model, Scales, Solved, WeightBits};
use tessera_checkpoint::families::Parameter;
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

/// What is quantised, and how.
#[derive(Clone, Copy)]
struct Source<'a> {
    checkpoint: &'a Checkpoint,
    options: &'a QuantiseOptions,
    rotation: Option<&'a Rotation>,
    progress: &'a dyn Progress,
}

/// What the weights say, matrix by matrix as they are read.
struct Weights {
    bits: WeightBits,
    squares: Squares,
    biases: Biases,
    /// Of the norms of all states of an encoder.
    gains: Vec<Vec<f64>>,
    /// By layer.
    down: Vec<Option<DownWeights>>,
    /// Of every state, what reads its channels.
    readers: Vec<Vec<f64>>,
}

impl Weights {
    fn new(config: &ModelConfig) -> Self {
        Self {
            bits: WeightBits::new(),
            squares: Squares::new(),
            biases: Biases::new(),
            gains: Vec::new(),
            down: Vec::new(),
            readers: vec![vec![0.0; config.hidden]; config.states()],
        }
    }

    /// Reads a matrix, whose inputs have these ranges.
    fn read(
        &mut self,
        source: Source<'_>,
        kind: MatmulKind,
        layer: usize,
        ranges: &Ranges,
    ) -> Result<(), QuantiseError> {
        let Source {
            checkpoint, rotation, ..
        } = source;
        let (config, strategy) = (checkpoint.config(), source.options.strategy);
        let folded = Folded::new(checkpoint, kind, layer, rotation)?;
        let max = max_weight(bits_of(&strategy.weight_bits(config), kind));
        self.bits.insert((kind, layer), folded.choose_bits(max)?);
        if let Some(own) = biases::folded(checkpoint, kind, layer, rotation)? {
            self.biases.insert((kind, layer), own);
        }
        if let Some(state) = read_state(config, kind, layer) {
            add_reader(&mut self.readers[state], folded.input_squares(|_| 1.0)?);
            self.squares.insert((kind, layer), folded.output_squares(|_| 1.0)?);
        }
        if kind == MatmulKind::Down {
            // Weights of a byte have no bit to spare for a channel that is larger than others; without gates, channels share a table.
            let own = match strategy.format() {
                WeightFormat::Int16 if config.gated => DownWeights::new(&folded, &ranges.layers[layer].product, max)?,
                _ => None,
            };
            self.down.push(own);
        }
        folded.release();
        source.progress.advance(1);
        Ok(())
    }
}

/// Chooses all scales. Those of activations are those of the calibration sequences (each cut to the context), with room
/// for values `headroom` times as large. One layer after the other is read, for calibration and its own scales.
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
    let (ranges, weights) = calibrated(source, &texts)?;
    let model = Model {
        activation: checkpoint.description().activation,
        weights: weights.bits,
        squares: weights.squares,
        biases: weights.biases,
        gains: weights.gains,
        head_gains: head_gains(checkpoint)?,
        post_gains: post_gains(checkpoint)?,
        down: weights.down,
    };
    let mut scales = Scales::new(config, options, &ranges, model, &weights.readers);
    let norm_readers = norm_readers(source, &ranges, scales.exponents())?;
    scales.take_norm_readers(norm_readers);
    let Solved {
        mut params,
        weights: mut bits,
        products,
        normed,
        mut report,
    } = scales.solve()?;
    params.biases.extend(reranker::head(checkpoint)?);
    params.check(config)?;
    report.tokens = texts.iter().map(|ids| ids.len()).sum();
    let order = config.matmuls();
    let bits = order
        .iter()
        .map(|m| bits.remove(&(m.kind, m.layer)).unwrap_or_default());
    Ok(Quantisation {
        options: *options,
        params,
        report,
        bits: bits.collect(),
        products,
        normed,
    })
}

/// What exponents of the outputs of norms follow from, where the channels of the residual stream have these.
fn norm_readers(source: Source<'_>, ranges: &Ranges, exponents: &[u8]) -> Result<NormReaders, QuantiseError> {
    let Source {
        checkpoint, options, ..
    } = source;
    let (config, strategy) = (checkpoint.config(), options.strategy);
    let mut readers = NormReaders::new();
    // Weights of a byte have no bit to spare for a channel that is larger than others; vectors are in one unit.
    if strategy.format() != WeightFormat::Int16 || config.is_encoder() || source.rotation.is_some() {
        return Ok(readers);
    }
    for m in config.matmuls() {
        if read_state(config, m.kind, m.layer).is_none() {
            continue;
        }
        let bits = bits_of(&strategy.weight_bits(config), m.kind);
        let units = Units {
            range: ranges.normed(m.kind, m.layer),
            stream: exponents,
            headroom: options.headroom,
        };
        let read = || Folded::new(checkpoint, m.kind, m.layer, None);
        let own = NormReader::new(read, units, (max_weight(bits), bits <= options.feedback_bits))?;
        readers.extend(own.map(|own| ((m.kind, m.layer), own)));
    }
    Ok(readers)
}

/// By layer, the gains of the norms of the heads of queries and of keys, those of queries times all factors of scores; none where
/// heads are not normed.
fn head_gains(checkpoint: &Checkpoint) -> Result<Vec<[Vec<f64>; 2]>, QuantiseError> {
    let config = checkpoint.config();
    let of = |kind, layer| {
        let gains = checkpoint.head_gain(kind, layer)?.unwrap_or_default();
        Ok::<Vec<f64>, QuantiseError>(gains.into_iter().map(f64::from).collect())
    };
    let layers = (0..config.layers).filter(|_| config.head_norms);
    let gains = layers.map(|layer| {
        let factors = checkpoint.description().of_gains(layer);
        let queries = of(MatmulKind::Q, layer)?.into_iter().zip(factors);
        Ok([queries.map(|(gain, f)| gain * f).collect(), of(MatmulKind::K, layer)?])
    });
    gains.collect()
}

/// By layer, the gains of the norms of what attention and MLP add; none where that is not normed.
fn post_gains(checkpoint: &Checkpoint) -> Result<Vec<[Vec<f32>; 2]>, QuantiseError> {
    let config = checkpoint.config();
    let of = |kind, layer| checkpoint.gain(Parameter::PostNorm(kind, layer));
    let layers = (0..config.layers).filter(|_| config.is_post_normed());
    let gains = layers.map(|layer| Ok([of(MatmulKind::O, layer)?, of(MatmulKind::Down, layer)?]));
    gains.collect()
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
    let (mut ranges, mut weights) = (Ranges::new(config, options.leading), Weights::new(config));
    for layer in 0..config.layers {
        ranges.expect(Set::Texts, texts);
        let run = |run: &mut FloatRun<'_>, observer: &mut Ranges| {
            run.layer(layer, &mut Turned { rotation, observer })
                .map_err(QuantiseError::of)
        };
        run(&mut text_run, &mut ranges)?;
        ranges.expect(Set::Heads, &heads);
        run(&mut head_run, &mut ranges)?;
        let mut kinds = config.layer_kinds();
        kinds.try_for_each(|kind| weights.read(source, kind, layer, &ranges))?;
    }
    ranges.expect(Set::Texts, texts);
    let mut observer = Turned {
        rotation,
        observer: &mut ranges,
    };
    let observed = match config.is_encoder() {
        true => text_run.observe_last_norm(&mut observer),
        false => text_run.observe_output(&mut observer),
    };
    observed.map_err(QuantiseError::of)?;
    if config.is_encoder() {
        let (gains, last) = biases::norms(checkpoint)?;
        weights.gains = gains;
        weights.biases.insert((MatmulKind::Head, 0), last);
    } else {
        weights.read(source, MatmulKind::Head, 0, &ranges)?;
    }
    weights.read(source, MatmulKind::Embed, 0, &ranges)?;
    let first = texts.first().and_then(|ids| ids.first().copied());
    let first = first.filter(|token| texts.iter().all(|ids| ids.first() == Some(token)));
    ranges.finish(&Folded::new(checkpoint, MatmulKind::Embed, 0, rotation)?, config, first)?;
    ranges.check()?;
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

/// The state of the residual stream that a matmul reads, through a norm.
pub(crate) fn read_state(config: &ModelConfig, kind: MatmulKind, layer: usize) -> Option<usize> {
    match kind {
        MatmulKind::Q | MatmulKind::K | MatmulKind::V => Some(config.attention_state(layer)),
        MatmulKind::Gate | MatmulKind::Up => Some(config.mlp_state(layer)),
        MatmulKind::Head => Some(config.states() - 1),
        MatmulKind::Embed | MatmulKind::O | MatmulKind::Down => None,
    }
}

/// Adds the squares of a matmul's weights by input channel, relative to their mean.
fn add_reader(readers: &mut [f64], squares: Vec<f64>) {
    let mean = squares.iter().sum::<f64>() / squares.len() as f64;
    let mean = mean.max(f64::MIN_POSITIVE);
    readers.iter_mut().zip(squares).for_each(|(r, s)| *r += s / mean);
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
