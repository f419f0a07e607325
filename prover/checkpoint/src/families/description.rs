//! What a family is, and what it says of a model.

use tessera_circuits::model::{Activation, Mask, MatmulKind, ModelConfig, LAYER_KINDS};

use super::place::{Pairs, Parameter, Place};
use super::reader::Reader;
use crate::CheckpointError;

/// Models that are described in the same way.
#[derive(Debug)]
pub struct Family {
    /// What these models are called.
    pub models: &'static str,
    /// What `architectures` and `model_type` of `config.json` call them.
    pub architecture: &'static str,
    pub model_type: &'static str,
    /// Reads a config. What is not supported is refused through the reader; errors are fields that cannot be read.
    pub describe: fn(&mut Reader<'_>) -> Result<Description, CheckpointError>,
    /// Where the checkpoint has a parameter.
    pub place: fn(&ModelConfig, Parameter) -> Place,
    /// Whether the matrices of layers are stored with a row per input (`Conv1D`), not per output.
    pub inputs_first: bool,
}

/// What a family says of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The architecture as it is proved.
    pub config: ModelConfig,
    /// Whether the output head is the embedding.
    pub tied: bool,
    /// How many types of tokens there are, the first of which all tokens have, but in rerankers the second texts; `None` of models that have no types.
    pub types: Option<usize>,
    /// How many scores the head of a reranker makes; `None` of models without such a head.
    pub labels: Option<usize>,
    /// Which channels of a head are rotated together.
    pub pairs: Pairs,
    pub factors: Factors,
    pub norm: Norm,
    /// Whether the checkpoint has the gains of norms less one.
    pub gains_less_one: bool,
    /// The function of the MLP.
    pub activation: Activation,
    /// Kinds of matrices that have biases.
    pub biases: Vec<MatmulKind>,
    /// What makes the context shorter than that of the checkpoint.
    pub notes: Vec<String>,
}

impl Description {
    /// Kinds of matrices whose outputs a proof adds biases to: their own, or those of the norms that they read.
    pub fn biased(&self) -> Vec<MatmulKind> {
        let normed = |kind| !matches!(kind, MatmulKind::Embed | MatmulKind::O | MatmulKind::Down);
        let kinds = LAYER_KINDS.into_iter().chain([MatmulKind::Head]);
        kinds
            .filter(|kind| self.biases.contains(kind) || self.norm == Norm::Layer && normed(*kind))
            .collect()
    }
}

/// What the norms of a model do beside multiplying by a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Divide by the root of the mean square.
    Rms,
    /// Subtract the mean first. It is subtracted from what writes to the residual stream instead.
    Centred,
    /// The same, and add a bias last, which goes into the biases of what reads the norm.
    Layer,
}

/// Numbers that multiply what matrices give. They are folded into the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    pub embedding: f64,
    /// Of scores.
    pub attention: f64,
    /// Of what attention and MLP add to the residual stream.
    pub residual: f64,
    pub logits: f64,
    /// Of cos and sin, where a pair is rotated.
    pub rotation: f64,
}

impl Factors {
    /// All are 1.
    pub const ONE: Self = Self {
        embedding: 1.0,
        attention: 1.0,
        residual: 1.0,
        logits: 1.0,
        rotation: 1.0,
    };

    /// Of the outputs of a matrix, where heads are not normed.
    const fn of(&self, kind: MatmulKind) -> f64 {
        match kind {
            MatmulKind::Embed => self.embedding,
            MatmulKind::Q => self.attention,
            MatmulKind::O | MatmulKind::Down => self.residual,
            MatmulKind::Head => self.logits,
            MatmulKind::K | MatmulKind::V | MatmulKind::Gate | MatmulKind::Up => 1.0,
        }
    }
}

impl Description {
    /// What multiplies the outputs of a matrix. Queries that are normed have no factor: the gains of their norms have it.
    pub const fn factor(&self, kind: MatmulKind) -> f64 {
        match kind {
            MatmulKind::Q if self.config.head_norms => 1.0,
            _ => self.factors.of(kind),
        }
    }

    /// What multiplies the channels of a head of Q in a layer, beside the factor of scores: the factor of cos and sin, of
    /// queries and keys at once; `None` if that is 1.
    pub fn of_queries(&self, layer: usize) -> Option<Vec<f64>> {
        let config = &self.config;
        // What is normed has no factor; its gains have them.
        if config.head_norms {
            return None;
        }
        self.rotation_factors(layer)
    }

    /// What multiplies the gains of the norms of queries: the factor of scores, and that of cos and sin of queries and keys at once.
    pub fn of_gains(&self, layer: usize) -> Vec<f64> {
        let rotation = self.rotation_factors(layer);
        let factors = rotation.unwrap_or_else(|| vec![1.0; self.config.head_dim]);
        factors.into_iter().map(|f| f * self.factors.attention).collect()
    }

    /// What multiplies the channels of a head of queries for the factor of cos and sin; `None` if that is 1.
    pub fn rotation_factors(&self, layer: usize) -> Option<Vec<f64>> {
        let config = &self.config;
        let (half, factor) = (config.head_dim / 2, self.factors.rotation);
        let rotation = config.rotations.get(config.rotation(layer)).filter(|_| factor != 1.0)?;
        let of = |x: usize| match rotation.frequency(config.head_dim, x % half) {
            0.0 => 1.0,
            _ => factor * factor,
        };
        Some((0..config.head_dim).map(of).collect())
    }

    /// Leaves out a window that no text is longer than, and one that no layer has: the model is the same without it.
    pub fn drop_idle_windows(&mut self) {
        let config = &mut self.config;
        let own = config.windows().filter(|own| (own.keys as usize) < config.context);
        let own = own.and_then(|own| own.within(0..config.layers));
        if !matches!(config.blocks.mask, Mask::Full) {
            config.blocks.mask = own.map_or(Mask::Causal, Mask::Windows);
        }
    }

    /// Statements have at most `rows` token rows, for this reason.
    pub fn limit_context(&mut self, rows: usize, reason: &str) {
        if rows < self.config.context {
            self.config.context = rows;
            self.notes.push(format!("at most {rows} token rows: {reason}"));
        }
    }
}
