//! What set-up reads of a checkpoint before it chooses scales.

use tessera_circuits::model::{max_weight, MatmulKind, MatrixId, ModelConfig, WeightFormat};

use super::biases::{self, Biases};
use super::calibrate::Ranges;
use super::folded::{squares, Axis, BestBits, Folded};
use super::limbs::Squares;
use super::normed::{ChannelUnits, NormReader, NormReaders};
use super::options::QuantiseOptions;
use super::products::{DownWeights, Products};
use super::rotation::Rotation;
use super::scales::{Gains, Readers, WeightBits, WeightScales};
use super::QuantiseError;
use tessera_checkpoint::families::Parameter;
use tessera_checkpoint::Checkpoint;
use tessera_support::progress::Progress;

/// What is quantised, and how.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub checkpoint: &'a Checkpoint,
    pub options: &'a QuantiseOptions,
    pub rotation: Option<&'a Rotation>,
    pub progress: &'a dyn Progress,
}

impl<'a> Source<'a> {
    /// A matrix with what is folded into it.
    pub fn matrix(&self, id: MatrixId) -> Result<Folded<'a>, QuantiseError> {
        Ok(Folded::new(self.checkpoint, id, self.rotation)?)
    }

    /// Bits of the integers of a kind's weights.
    fn bits(&self, kind: MatmulKind) -> u8 {
        self.options.strategy.weight_bits(self.checkpoint.config()).of(kind)
    }

    /// Whether weights are wide enough for exponents of what they read: weights of a byte have no bit to spare for a channel that is
    /// larger than others.
    fn has_spare_bits(&self) -> bool {
        self.options.strategy.format() == WeightFormat::Int16
    }

    /// What exponents of the outputs of norms follow from, where the channels of the residual stream have these. Matrices that read
    /// norms with a massive channel are read once more for it, because the stream's exponents are known after the last layer only.
    pub fn norm_readers(&self, ranges: &Ranges, exponents: &[u8]) -> Result<NormReaders, QuantiseError> {
        let (config, options) = (self.checkpoint.config(), self.options);
        let mut readers = NormReaders::new();
        // Vectors and normed states that are added are in one unit, and a rotated stream has no massive channel.
        if !self.has_spare_bits() || config.sums_first() || !config.generates() || self.rotation.is_some() {
            return Ok(readers);
        }
        let matmuls = config.matmuls().into_iter();
        for m in matmuls.filter(|m| read_state(config, m.id).is_some()) {
            let units = ChannelUnits {
                range: ranges.normed(m.id),
                stream: exponents,
                headroom: options.headroom,
            };
            if !units.may_differ() {
                continue;
            }
            let (bits, matrix) = (self.bits(m.id.kind()), self.matrix(m.id)?);
            let own = NormReader::new(&matrix, units, (max_weight(bits), bits <= options.feedback_bits))?;
            readers.insert(m.id, own);
        }
        Ok(readers)
    }
}

/// What the weights say, matrix by matrix as they are read.
pub(super) struct Weights {
    pub scales: WeightScales,
    pub biases: Biases,
    pub gains: Gains,
    /// By layer, what exponents of the inputs of Down follow from; `None` where there are none.
    pub down: Vec<Option<DownWeights>>,
    /// What reads the channels of every state.
    pub readers: Readers,
}

impl Weights {
    /// Before a matrix is read.
    pub fn new(config: &ModelConfig) -> Self {
        Self {
            scales: WeightScales {
                bits: WeightBits::new(),
                squares: Squares::new(),
            },
            biases: Biases::new(),
            gains: Gains::default(),
            down: Vec::new(),
            readers: vec![vec![0.0; config.hidden]; config.states()],
        }
    }

    /// Takes in a matrix, whose inputs have these ranges, in one traversal.
    pub fn read(
        &mut self,
        source: Source<'_>,
        id: MatrixId,
        matrix: &Folded<'_>,
        ranges: &Ranges,
    ) -> Result<(), QuantiseError> {
        let (kind, layer) = (id.kind(), id.layer());
        let config = source.checkpoint.config();
        let max = max_weight(source.bits(kind));
        let state = read_state(config, id);
        let of_reader = state.map(|_| (squares(Axis::Inputs, |_| 1.0), squares(Axis::Outputs, |_| 1.0)));
        // Without gates, channels share a table.
        let has_exponents = kind == MatmulKind::Down && source.has_spare_bits() && config.gated;
        let products = has_exponents
            .then(|| Products::new(&ranges.layers[layer].product))
            .flatten();
        let of_down = products.as_ref().map(Products::tally);
        let (bits, (squares, down)) = matrix.tally((BestBits { max }, (of_reader, of_down)))?;
        self.scales.bits.insert(id, bits);
        if let (Some(state), Some((inputs, outputs))) = (state, squares) {
            add_reader(&mut self.readers[state], inputs);
            self.scales.squares.insert(id, outputs);
        }
        if kind == MatmulKind::Down {
            let down = products.zip(down);
            self.down
                .push(down.map(|(products, own)| DownWeights::new(products, own, max)));
        }
        if let Some(own) = biases::folded(source.checkpoint, id, source.rotation)? {
            self.biases.insert(id, own);
        }
        matrix.release();
        source.progress.advance(1);
        Ok(())
    }

    /// Takes in the gains that are not folded into weights, and the bias of the vector of an encoder.
    pub fn read_gains(&mut self, checkpoint: &Checkpoint) -> Result<(), QuantiseError> {
        let (states, last) = biases::norms(checkpoint)?;
        if !checkpoint.config().generates() {
            self.biases.insert(MatrixId::HEAD, last);
        }
        self.gains = Gains {
            states,
            heads: head_gains(checkpoint)?,
            outputs: post_gains(checkpoint)?,
        };
        Ok(())
    }
}

/// By layer, the gains of the norms of the heads of queries and of keys, those of queries times all factors of scores; none where
/// heads are not normed.
fn head_gains(checkpoint: &Checkpoint) -> Result<Vec<[Vec<f64>; 2]>, QuantiseError> {
    let config = checkpoint.config();
    let of = |id| {
        let gains = checkpoint.head_gain(id)?.unwrap_or_default();
        Ok::<Vec<f64>, QuantiseError>(gains.into_iter().map(f64::from).collect())
    };
    let layers = (0..config.layers).filter(|_| config.head_norms);
    let gains = layers.map(|layer| {
        let factors = checkpoint.description().of_gains(layer);
        let queries = of(MatmulKind::Q.at(layer))?.into_iter().zip(factors);
        Ok([
            queries.map(|(gain, f)| gain * f).collect(),
            of(MatmulKind::K.at(layer))?,
        ])
    });
    gains.collect()
}

/// By layer, the gains of the norms of what attention and MLP add; none where that is not normed.
fn post_gains(checkpoint: &Checkpoint) -> Result<Vec<[Vec<f32>; 2]>, QuantiseError> {
    let config = checkpoint.config();
    let of = |kind, layer| checkpoint.gain(Parameter::PostNorm(kind, layer));
    let layers = (0..config.layers).filter(|_| config.norms_outputs());
    let gains = layers.map(|layer| Ok([of(MatmulKind::O, layer)?, of(MatmulKind::Down, layer)?]));
    gains.collect()
}

/// The state of the residual stream that a matmul reads, through a norm.
pub(super) fn read_state(config: &ModelConfig, id: MatrixId) -> Option<usize> {
    let (kind, layer) = (id.kind(), id.layer());
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
