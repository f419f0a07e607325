//! How many limbs an accumulator needs (docs/protocol.md, section 2.6). The norms of the columns in a key bound it; where the
//! bound is low enough, one field element says all of it.
//!
//! A rounding by a total shift `S` (8 and the shift of the key) is the equation `acc + c = 2^S OUT + REM` modulo `p`: `c` the
//! residual and the half, `OUT` of 16 bits, `REM` below `2^S`. Let `|acc + c| <= B`. *Lemma*: if `B + 2^(15+S) + 2^S < p`, both
//! sides differ by less than `p`, so the equation holds over the integers. *Saturation*: where an output is clipped, the one that is
//! not takes its place, which is at most `B / 2^S + 1` in absolute value; with `2 B + 2^(S+1) < p` that does not wrap either.

use stwo::core::fields::m31::P;

use crate::model::{
    ByClass, ColumnNorms, LayerParams, LimbSet, Limbs, MatmulKind, MatrixId, ModelConfig, ModelError, ModelParams,
    NormParams, RowClass, StreamShift, LAYER_KINDS,
};
use crate::reranker::HEAD_LISTS;

/// Shift that every requantisation has in addition to that of the key.
const BASE: i32 = 8;
/// Largest total shift of a rounding in one limb, because one lookup holds its remainder. Norms reach it.
pub const ONE_LIMB_SHIFT: i32 = 15;
/// log2 of the largest `hidden 2^(2 scale)` of a norm in one limb: `|x r|` is at most the root of it.
pub const ONE_LIMB_NORM: u32 = 58;
/// Values that a logit, which is not clipped below, may have: 16 bits, and a distance of 16 bits to the largest.
const LOGITS: u128 = 3 << 15;

/// The largest total shift of a matmul in one limb. With it no two values that a proof may claim are the same modulo `p`, whatever
/// the weights are: `2^T |V| < 2^30` but for `V = -2^15` where `T` is 15, and for logits, which reach to -98,304, where `T` is 14.
pub const fn most_shift(kind: MatmulKind) -> i32 {
    match kind {
        MatmulKind::Head => ONE_LIMB_SHIFT - 2,
        MatmulKind::Q | MatmulKind::K | MatmulKind::V | MatmulKind::Gate | MatmulKind::Up => ONE_LIMB_SHIFT - 1,
        // No claim has these in one limb.
        MatmulKind::Embed | MatmulKind::O | MatmulKind::Down => ONE_LIMB_SHIFT,
    }
}

const fn one_if(fits: bool) -> Limbs {
    match fits {
        true => Limbs::One,
        false => Limbs::Two,
    }
}

/// The smallest `B` with `hidden (2^(bits + 1) + 1)^2 square <= 4 B^2`: no sum over a norm's output is larger in absolute value.
/// `bits` are those of [`ModelParams::normed_bits`], `square` is the largest sum of squares of a column.
///
/// An output of the norm is at most `2^bits + 1/2` in the quadratic mean: `r` sees to it that `x r` is at most `2^scale`, and
/// rounding adds at most a half. Clipping only lowers it, to `2^15` at most. The rest is the inequality of Cauchy and Schwarz.
pub fn normed_bound(hidden: usize, bits: i32, square: u64) -> u128 {
    // Scales so small that outputs are the half of rounding count as a little larger.
    let power = bits.clamp(-20, 15) + 1;
    let (up, down) = (power.max(0).unsigned_abs(), power.min(0).unsigned_abs());
    let twice = (1u128 << up) + (1 << down);
    let squares = (twice * twice * u128::from(square)).saturating_mul(hidden as u128);
    let quarter = squares.div_ceil(4 << (2 * down));
    let root = quarter.isqrt();
    root + u128::from(root * root < quarter)
}

/// What an accumulator of columns of this sum of absolute values cannot exceed: operands of 16 bits.
fn plain_bound(l1: u64) -> u128 {
    u128::from(l1) << 15
}

/// Whether an accumulator up to `bound`, the residual included, can be rounded by the total shift `total` in one limb.
pub fn fits_one_limb(kind: MatmulKind, bound: u128, total: i32) -> bool {
    if !(1..=most_shift(kind)).contains(&total) {
        return false;
    }
    // The maximum of the logits takes the place of the output.
    let outputs = if kind == MatmulKind::Head { LOGITS } else { 1 << 15 };
    has_one_rounding(bound, outputs, total as u32)
}

/// Whether an accumulator up to `bound` has one rounding by the total shift `total`, at least 1, in one limb, where an output that is not
/// clipped is at most `outputs` in absolute value (docs/protocol.md, lemma 1).
pub(super) const fn has_one_rounding(bound: u128, outputs: u128, total: u32) -> bool {
    let bound = bound.saturating_add(1 << (total - 1));
    let lemma = bound.saturating_add((outputs + 1) << total);
    let saturation = bound.saturating_add(1 << total).saturating_mul(2);
    lemma < P as u128 && saturation < P as u128
}

/// Why the norms of a key are none of a model: every matrix has one of its own, and it is one that integers of these bits have.
pub(super) fn check_norms(params: &ModelParams, config: &ModelConfig) -> Result<(), ModelError> {
    let expected = config.layers * LAYER_KINDS.len() + 1;
    if params.columns.len() != expected {
        return Err(ModelError::Length {
            what: "norms of columns",
            got: params.columns.len(),
            expected,
        });
    }
    let states = match config.sums_first() || config.norms_outputs() {
        true => config.states(),
        false => 0,
    };
    let gains = states + config.reranker().map_or(0, |_| HEAD_LISTS);
    if (gains > 0 || !params.biases.is_empty()) && params.biases.len() != expected + gains {
        return Err(ModelError::Length {
            what: if gains > 0 { "biases, gains and head" } else { "biases" },
            got: params.biases.len(),
            expected: expected + gains,
        });
    }
    // No list where there is no bias: a model has one key.
    if !params.biases.is_empty() && params.biases.iter().all(Vec::is_empty) {
        return Err(ModelError::Length {
            what: "biases of a model without any",
            got: expected,
            expected: 0,
        });
    }
    for (id, norms) in config.listed_matrices().zip(&params.columns) {
        let (kind, layer) = (id.kind(), id.layer());
        let (inputs, _) = config.dims(kind);
        let most = params.max_weight(kind);
        let (l1, square) = (u128::from(norms.l1), u128::from(norms.square));
        let (width, weight) = (inputs as u128, u128::from(most.unsigned_abs()));
        // Each also holds of the largest l1 and the largest square of different columns.
        let absent = match kind {
            MatmulKind::Gate => !config.gated,
            MatmulKind::Head => !config.generates(),
            _ => false,
        };
        let there = !absent || *norms == ColumnNorms::default();
        let possible =
            there && l1 <= width * weight && l1 <= square && square <= weight * l1 && l1 * l1 <= width * square;
        if !possible {
            return Err(ModelError::Norms {
                what: name(kind),
                layer,
                l1: norms.l1,
                square: norms.square,
                inputs,
                most,
            });
        }
    }
    // The claim on norms is in one limb.
    match params.norm_limbs(config) {
        Limbs::One => Ok(()),
        Limbs::Two => Err(ModelError::OutOfRange {
            what: "log2 of hidden 2^(2 scale) of a norm",
            value: u64::from(ONE_LIMB_NORM) + 1,
            min: 0,
            max: ONE_LIMB_NORM.into(),
        }),
    }
}

const fn name(kind: MatmulKind) -> &'static str {
    match kind {
        MatmulKind::Embed => "embedding",
        MatmulKind::Q => "q",
        MatmulKind::K => "k",
        MatmulKind::V => "v",
        MatmulKind::O => "o",
        MatmulKind::Gate => "gate",
        MatmulKind::Up => "up",
        MatmulKind::Down => "down",
        MatmulKind::Head => "head",
    }
}

impl ModelParams {
    /// The limbs of all matmuls of normed states, of the whole model.
    pub fn limb_set(&self, config: &ModelConfig) -> LimbSet {
        let of = |kind| self.limbs(config, kind);
        LimbSet {
            q: of(MatmulKind::Q),
            k: of(MatmulKind::K),
            v: of(MatmulKind::V),
            // Where there are no gates, or no head, nothing depends on it.
            gate: of(if config.gated { MatmulKind::Gate } else { MatmulKind::Up }),
            up: of(MatmulKind::Up),
            head: of(if config.generates() {
                MatmulKind::Head
            } else {
                MatmulKind::Up
            }),
        }
    }

    /// In how many limbs the matmuls of a kind are, of all layers: in one if every channel of every layer fits. The parameters
    /// must be checked ones of `config`: a model, or a chunk (of which only the last one has the norm of the head).
    pub fn limbs(&self, config: &ModelConfig, kind: MatmulKind) -> Limbs {
        let layers = match kind {
            MatmulKind::Embed | MatmulKind::Head => 0..1,
            _ => 0..self.layers.len(),
        };
        one_if(layers.into_iter().all(|layer| self.fits(config, kind.at(layer))))
    }

    /// In how many limbs the products of all norms are.
    pub fn norm_limbs(&self, config: &ModelConfig) -> Limbs {
        let layers = self.layers.iter().flat_map(LayerParams::norms);
        let outputs = self
            .layers
            .iter()
            .flat_map(LayerParams::post_norms)
            .map(|post| &post.norm);
        let fits = |norm: &NormParams| {
            let scale = u32::from(norm.scale);
            let shifts = || norm.shift.0.iter().map(|shift| i32::from(*shift) + BASE);
            2 * scale <= ONE_LIMB_NORM
                && (config.hidden as u128) << (2 * scale) <= 1 << ONE_LIMB_NORM
                && shifts().all(|total| total <= ONE_LIMB_SHIFT)
        };
        one_if(layers.chain(outputs).chain([&self.norm_final]).all(fits))
    }

    /// Whether the matmul of a layer fits one limb.
    fn fits(&self, config: &ModelConfig, id: MatrixId) -> bool {
        let (kind, layer) = (id.kind(), id.layer());
        if kind == MatmulKind::Embed {
            // One product of a weight and `2^(8 + e)`: shifts are taken off by 8, as `floor(floor(x / 2^8) / 2^s)` is one floor.
            let rows = 1 + u128::from(config.positions);
            let bound = rows * (u128::from(self.max_weight(kind).unsigned_abs()) << self.embed_exponent.min(32));
            return self.updates(kind, &self.embed, |_, own| (bound, own));
        }
        let (Some(norms), Some(at)) = (self.norms(id), self.layers.get(layer)) else {
            return false;
        };
        let largest = self.bias(id).iter().map(|b| b.unsigned_abs()).max();
        let largest = u128::from(largest.unwrap_or(0));
        let update = |skip: ByClass<i8>| {
            move |class, own| {
                // The residual is scaled as the accumulator is.
                let skip = u32::try_from(own + i32::from(skip.of(class)) + BASE)
                    .unwrap_or(64)
                    .min(64);
                (plain_bound(norms.l1) + largest + (1u128 << (15 + skip)), own + BASE)
            }
        };
        let of_mlp = if config.is_parallel() {
            &at.attention.norm
        } else {
            &at.mlp.norm
        };
        let (norm, shift) = match kind {
            MatmulKind::O | MatmulKind::Down => {
                let writer = at.writer(kind);
                return self.updates(kind, writer.shift, update(writer.skip));
            }
            MatmulKind::Q => (&at.attention.norm, &at.attention.q),
            MatmulKind::K => (&at.attention.norm, &at.attention.k),
            MatmulKind::V => (&at.attention.norm, &at.attention.v),
            MatmulKind::Gate => (of_mlp, &at.mlp.gate),
            MatmulKind::Up => (of_mlp, &at.mlp.up),
            MatmulKind::Embed | MatmulKind::Head => (&self.norm_final, &self.head),
        };
        let bound = normed_bound(config.hidden, self.normed_bits(norm), norms.square);
        let mut channels = self.rounded_channels(id, shift);
        channels.all(|(out, bias)| {
            let bound = bound + u128::from(bias.unsigned_abs());
            fits_one_limb(kind, bound, i32::from(shift.at(out)) + BASE)
        })
    }

    /// Whether every channel of an update of the residual stream fits in both classes of rows; `of` gives the bound and the
    /// total shift of a class and a shift.
    fn updates(&self, kind: MatmulKind, shift: &StreamShift, of: impl Fn(RowClass, i32) -> (u128, i32)) -> bool {
        [RowClass::Body, RowClass::Lead].into_iter().all(|class| {
            (0..shift.body.0.len()).all(|out| {
                let (bound, total) = of(class, shift.at(out, class));
                fits_one_limb(kind, bound, total)
            })
        })
    }
}

#[cfg(test)]
mod tests;
