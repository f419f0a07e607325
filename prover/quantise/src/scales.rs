//! Chooses all scales: powers of two such that every tensor fits int16 with headroom, every shift is one
//! that the claims support, and no sum wraps the field.
//!
//! A tensor with `bits` fractional bits holds `round(value * 2^bits)`. A matmul of inputs with `a` bits
//! and weights with `w` bits, requantised by `shift`, has `a + w - 8 - shift` bits. Where that shift would be
//! too large, the weights get fewer bits (by then their error is far below the output's unit); where it
//! would be too small, the output does. The residual stream has bits for each class of rows, and `k` bits less in a channel
//! with exponent `k`; so has the MLP product, but for the exponents.
//!
//! The choice goes through phases, and each phase is a type, because it knows more than the phase before it:
//!
//! 1. `Ranges` (`calibrate`) are the largest values that calibration saw. With the weights' own numbers they are [`Given`], which
//!    all phases read and none changes. The exponents of the stream's channels follow from them alone.
//! 2. [`Units`]: weights and outputs of norms have bits, as if no channel had an exponent.
//! 3. [`Exponents`]: the channels of the stream and of MLP products have their exponents, so that the bits of all activations
//!    follow ([`Bits`]).
//! 4. [`Shifts`]: norms have given up the bits that do more harm than good, and the channels of their outputs have exponents. All
//!    shifts follow, and weights give up the bits that shifts have no room for.
//! 5. [`Solved`]: the integers that a key has.

use std::collections::BTreeMap;

use tessera_circuits::model::{MatrixId, ModelParams};

use super::limbs::Squares;
use super::CalibrationReport;

mod activations;
mod bits;
mod channels;
mod gains;
mod given;
mod heads;
mod limits;
mod norms;
mod parameters;
mod queries;
mod report;
mod shifts;
mod sums;
mod units;

pub(super) use given::{Gains, Given, Readers};
#[cfg(test)]
pub(super) use limits::gate_bits;

/// Fractional bits of weights, one per output channel.
pub(super) type WeightBits = BTreeMap<MatrixId, Vec<i32>>;

/// The weights as scales see them.
pub(super) struct WeightScales {
    /// The most fractional bits of every channel, which later phases lower.
    pub bits: WeightBits,
    /// Squares of the columns of matrices that read a norm.
    pub squares: Squares,
}

/// Bits of weights and of the outputs of norms, as if no channel had an exponent.
pub(super) struct Units<'a> {
    given: &'a Given<'a>,
    weights: WeightScales,
    /// Fractional bits of the output of the norm after each state of the residual stream.
    norms: Vec<i32>,
}

/// The exponents of the channels of the stream and of MLP products, and what has bits with them.
pub(super) struct Exponents<'a> {
    given: &'a Given<'a>,
    weights: WeightScales,
    norms: Vec<i32>,
    /// Exponents of the channels of the residual stream; none if all are 0.
    stream: Vec<u8>,
    /// By layer, exponents of the channels of the MLP's product; none if all are 0.
    products: Vec<Vec<u8>>,
}

/// All bits and exponents: what is left are the shifts between them.
pub(super) struct Shifts<'a> {
    chosen: Exponents<'a>,
    /// By state, exponents of the channels of the output of its norm; none if all are 0.
    normed: Vec<Vec<u8>>,
}

/// The choice: integer parameters, bits and exponents.
pub(super) struct Solved {
    /// All integer parameters.
    pub params: ModelParams,
    /// The final fractional bits of all weights.
    pub weights: WeightBits,
    /// By layer, exponents of the inputs of Down.
    pub products: Vec<Vec<u8>>,
    /// By state, exponents of the outputs of its norm.
    pub normed: Vec<Vec<u8>>,
    pub report: CalibrationReport,
}
