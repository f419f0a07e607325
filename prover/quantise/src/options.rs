//! What a user may choose about the integers of a model.

use serde::{Deserialize, Serialize};
use tessera_circuits::bounds::{AccumulatorBound, LOW_LIMIT};
use tessera_circuits::model::{
    max_weight, LeadingRows, MatmulKind, ModelConfig, ModelParams, WeightBits, WeightFormat, MIN_WEIGHT_BITS,
};

use super::rotation::Rotation;
use super::QuantiseError;

/// The default of [`QuantiseOptions::headroom`].
pub const DEFAULT_HEADROOM: f64 = 1.25;
/// The most bits of weights between activations: more of them lower no error that could be measured.
const MOST_BITS: u8 = 13;

/// How many bits weights get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// Two bytes: as many bits, up to 14, as the sums of each matrix allow.
    #[default]
    Auto,
    /// Two bytes, 12 bits at most.
    W12,
    /// One byte, 8 bits at most.
    W8,
}

/// Room in the low limbs of accumulators of an encoder for the normed state that is added.
const NORMED_RESERVE: u64 = 1 << 28;

impl Strategy {
    /// How weights are stored.
    pub const fn format(self) -> WeightFormat {
        match self {
            Self::Auto | Self::W12 => WeightFormat::Int16,
            Self::W8 => WeightFormat::Int8,
        }
    }

    /// The most bits that this strategy gives a matrix, however narrow it is.
    const fn most(self, kind: MatmulKind) -> u8 {
        match (self, kind) {
            (Self::Auto, MatmulKind::Embed | MatmulKind::Head) => WeightFormat::Int16.max_bits(),
            (Self::Auto, _) => MOST_BITS,
            (Self::W12, _) => 12,
            (Self::W8, _) => WeightFormat::Int8.max_bits(),
        }
    }

    /// Bits of weights by kind: the most with which no sum of a matmul of this width can wrap the field.
    pub fn weight_bits(self, config: &ModelConfig) -> WeightBits {
        WeightBits::by_kind(|kind| {
            let fits = |bits: &u8| kind == MatmulKind::Embed || shift_limit(config, kind, max_weight(*bits)).is_some();
            let most = self.most(kind);
            // Two bits are enough for the widest matrix that a config may have.
            (MIN_WEIGHT_BITS..=most).rev().find(fits).unwrap_or(MIN_WEIGHT_BITS)
        })
    }

    /// Matrices of at most so many bits are rounded with error feedback.
    const fn feedback_bits(self) -> u8 {
        match self {
            Self::Auto => WeightFormat::Int16.max_bits(),
            Self::W12 | Self::W8 => 11,
        }
    }

    /// The strategy that weights of a model look like.
    pub fn of(params: &ModelParams) -> Self {
        let most = params.weight_bits.iter().max();
        match params.format {
            WeightFormat::Int8 => Self::W8,
            WeightFormat::Int16 if most.is_some_and(|most| most <= 12) => Self::W12,
            WeightFormat::Int16 => Self::Auto,
        }
    }

    /// The strategy of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Auto, Self::W12, Self::W8].into_iter().find(|s| s.name() == name)
    }

    /// Name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::W12 => "w12",
            Self::W8 => "w8",
        }
    }
}

/// Smallest and largest supported shift.
pub(super) const MIN_SHIFT: i32 = 1;
pub(super) const MAX_SHIFT: i32 = 13;

/// The largest shift of a matmul of weights up to `max` that fits the field, if there is one; a residual is multiplied by
/// at most this power of two, too.
pub(super) fn shift_limit(config: &ModelConfig, kind: MatmulKind, max: i32) -> Option<i32> {
    if kind == MatmulKind::Embed {
        return Some(MAX_SHIFT);
    }
    let (inputs, residual) = (config.dims(kind).0, matches!(kind, MatmulKind::O | MatmulKind::Down));
    let bound = AccumulatorBound::matmul(inputs, max)?;
    // What is added to low limbs needs room there.
    let reserve = if residual && config.sums_first() {
        NORMED_RESERVE
    } else {
        0
    };
    if 255 * inputs as u64 * u64::from(max.unsigned_abs()) + reserve >= LOW_LIMIT {
        return None;
    }
    let fits = |s: &i32| bound.fits(*s as u8, residual.then_some(*s as u8));
    (MIN_SHIFT..=MAX_SHIFT).rev().find(fits)
}

/// How a checkpoint is quantised. The defaults are what [`Default`] says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantiseOptions {
    pub strategy: Strategy,
    /// Room for values so many times as large as those of the calibration texts.
    pub headroom: f64,
    /// Rows that have units of their own.
    pub leading: LeadingRows,
    /// The most channels of the residual stream that may have an exponent; `None`: as many as pay, 8 at most.
    pub exponents: Option<usize>,
    /// Weights of at most so many bits are rounded with error feedback.
    pub feedback_bits: u8,
    /// Whether the residual stream is rotated, so that its channels are alike; `None`: with `w8`, whose 8 bits need it.
    /// Memory is planned for that, too.
    pub rotation: Option<bool>,
    /// Tokens of the vocabulary that are tried as a lone first token.
    pub first_tokens: usize,
    /// How many of them are tried with a second token after them.
    pub heads: usize,
}

impl QuantiseOptions {
    /// The most token rows that calibration has in memory at a time, with texts of `tokens` tokens.
    pub fn rows(&self, tokens: usize) -> usize {
        tokens.max(self.first_tokens + self.heads)
    }

    /// The rotation of the residual stream of a model, if there is one. It cannot be rotated where gains are between its states:
    /// where sums are normed, and where outputs are normed before they are added.
    pub(super) fn rotation_of(&self, config: &ModelConfig) -> Result<Option<Rotation>, QuantiseError> {
        let wanted = match (config.sums_first() || config.norms_outputs(), self.rotation) {
            (true, Some(true)) => return Err(QuantiseError::Rotation),
            (true, _) => false,
            (false, wanted) => wanted.unwrap_or(self.strategy == Strategy::W8),
        };
        Ok(wanted.then(|| Rotation::new(config.hidden)))
    }
}

impl Default for QuantiseOptions {
    fn default() -> Self {
        Strategy::default().into()
    }
}

impl From<Strategy> for QuantiseOptions {
    fn from(strategy: Strategy) -> Self {
        Self {
            strategy,
            headroom: DEFAULT_HEADROOM,
            leading: LeadingRows {
                first: 1,
                run: true,
                token: None,
            },
            exponents: None,
            feedback_bits: strategy.feedback_bits(),
            rotation: None,
            first_tokens: 512,
            heads: 64,
        }
    }
}
