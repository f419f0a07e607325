//! No sum may wrap the field (docs/protocol.md, section 2.5): every requantisation of a key is checked
//! before anything is proved or verified with it.

mod limbs;
mod residual;
mod scores;

use std::ops::RangeInclusive;

use stwo::core::fields::m31::P;

use crate::gains::Gains;
use crate::model::{
    range, ByClass, ChannelShift, LayerParams, MatmulKind, MatrixId, ModelConfig, ModelError, ModelParams, NormParams,
    PostNorm, RowClass, StreamShift, Writer, MAX_CONTEXT, MAX_ENTRIES, MIN_WEIGHT_BITS,
};
use crate::reranker;
use crate::semantics::{norm_bound, INT15, ROPE_BITS, RSQRT_BITS};
use crate::statement::norm_of;

use limbs::has_one_rounding;
pub use limbs::{fits_one_limb, most_shift, normed_bound, ONE_LIMB_NORM, ONE_LIMB_SHIFT};
use residual::ResidualBounds;
pub use scores::{rotated_sum, rounded_bound};

/// Bound of the high remainder of a saturated rounding, plus slack for its low limb and rounding terms.
const EXCESS: u64 = (1 << 30) + (1 << 17);
/// What a low accumulator stays below: its difference is below `2^22` and, times `2^8`, does not wrap with it.
pub const LOW_LIMIT: u64 = (1 << 30) - (1 << 21);
/// Contribution of the low accumulator after division by 2^8.
const LOW: u64 = 1 << 23;

/// Largest shift (minus 8) of the attention output, whose claim is in one limb.
pub const MAX_ATT_SHIFT: u8 = ONE_LIMB_SHIFT as u8 - 8;
/// The largest absolute value that a sum of probabilities times values can have under any key. The probabilities of a row add up to at most
/// `2^15` and half a unit for every key that the row sees, because each of them is rounded. Values have 15 bits ([`INT15`]).
pub const MAX_OUTPUT: u64 = INT15[0].unsigned_abs() * ((1 << 15) + MAX_CONTEXT as u64 / 2);
/// So such a sum fits one limb for every shift that a key may have, and the list has room for each that is clipped.
const _: () = {
    let total = ONE_LIMB_SHIFT as u32;
    assert!(has_one_rounding(MAX_OUTPUT as u128, 1 << 15, total));
    assert!(MAX_OUTPUT + (1 << (total - 1)) <= 1 << 30);
};
/// Largest shift (minus 8) of the products of the MLP, whose claim is in one limb: `2^30 + 2^(15 + 14) + 2^14 < p`.
pub const MAX_ACT_SHIFT: u8 = 6;
/// Largest number of fractional bits of the SiLU table: then no entry is below `-0.279 2^16`, and none is `-2^15`.
pub const MAX_SILU_BITS: u8 = 16;

/// Most that the absolute values of a query may add up to: the low limb of a score then stays below [`LOW_LIMIT`].
pub const MAX_QUERY_SUM: u64 = (LOW_LIMIT - 1) / 255;

/// Largest exponent of a channel of the residual stream.
pub const MAX_EXPONENT: u8 = 6;
/// Largest sum of `4^k` over the channels of the residual stream, `k` their exponents: `255^2 2^14 < 2^30`.
pub const MAX_SQUARES: u64 = 1 << 14;

/// Most that the high limb of what is added to an accumulator may be.
const MAX_RESIDUAL: u128 = 1 << 28;

/// Largest absolute value of a gain of what is normed before it is added: its high limb is at most `2^13`.
const MAX_SUM_GAIN: u64 = (1 << 21) - (1 << 8);

/// Largest absolute value of a gain of a norm of heads: with it cos and sin are those of a rotation.
const MAX_GAIN: u64 = 1 << ROPE_BITS;
/// Largest shift (minus 8) of a norm, whose claim is in one limb.
const MAX_NORM_SHIFT: u64 = ONE_LIMB_SHIFT as u64 - 8;

/// Largest epsilon of a norm.
pub const MAX_EPSILON: u64 = (1 << 44) - (1 << 40);

/// Largest absolute value of a bias: its high limb is at most `2^22`.
pub const MAX_BIAS: u32 = 1 << 30;

/// Bound on `|acc_hi + floor(acc_lo / 2^8)|` of a requantisation: the type of an accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccumulatorBound(u64);

impl AccumulatorBound {
    /// A matmul over `in_dim` channels of limbed int16 activations and weights up to `max_weight`; `None`
    /// if a limb accumulator can reach 2^30 - 2^21 ([`LOW_LIMIT`]).
    pub fn matmul(in_dim: usize, max_weight: i32) -> Option<Self> {
        let product = (in_dim as u64).checked_mul(max_weight.unsigned_abs().into())?;
        let low = product.checked_mul(255)?;
        (low < LOW_LIMIT).then_some(Self(128 * product + LOW))
    }

    /// With a bias added.
    pub const fn with_bias(self, bias: i32) -> Self {
        Self(self.0 + (bias.unsigned_abs() as u64).div_ceil(1 << 8))
    }

    /// Whether rounding by `shift` with a residual scaled by `2^skip` stays below p.
    pub const fn fits(self, shift: u8, skip: Option<u8>) -> bool {
        let mut sum = self.0 + (1 << (15 + shift as u64)) + EXCESS;
        if let Some(skip) = skip {
            sum += 1 << (15 + skip as u64);
        }
        sum < P as u64
    }

    /// The bound.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The epsilons that a norm may have: the quotient of its bound by a sum of squares with epsilon is below `2^48`, and the sum
/// below `2^45`, as one without epsilon is at most `2^44 + 2^38 + 2^30`.
pub fn epsilons(hidden: usize, scale: u8) -> RangeInclusive<u64> {
    // What is beyond the limit of a bound is refused for that.
    let bound = norm_bound(hidden, scale).min(1 << ONE_LIMB_NORM) as u64;
    (bound >> (2 * RSQRT_BITS)) + 1..=MAX_EPSILON
}

fn shift_in_range(what: &'static str, shift: u8) -> Result<(), ModelError> {
    if !(1..=13).contains(&shift) {
        return Err(ModelError::OutOfRange {
            what,
            value: shift.into(),
            min: 1,
            max: 13,
        });
    }
    Ok(())
}

/// An exponent of a shift or skip, which hostile parameters may put anywhere.
fn small(what: &'static str, value: i32, min: u8, max: u8) -> Result<u8, ModelError> {
    u8::try_from(value)
        .ok()
        .filter(|v| (min..=max).contains(v))
        .ok_or(ModelError::OutOfRange {
            what,
            value: value.unsigned_abs().into(),
            min: min.into(),
            max: max.into(),
        })
}

/// Scale and epsilon of a norm of rows of so many values.
fn root_in_range(width: usize, norm: &NormParams) -> Result<(), ModelError> {
    if norm.scale > 48 {
        return Err(ModelError::OutOfRange {
            what: "norm scale",
            value: norm.scale.into(),
            min: 0,
            max: 48,
        });
    }
    let range = epsilons(width, norm.scale);
    let outside = [norm.eps.body, norm.eps.lead]
        .into_iter()
        .find(|eps| !range.contains(eps));
    outside.map_or(Ok(()), |value| {
        Err(ModelError::OutOfRange {
            what: "norm eps",
            value,
            min: *range.start(),
            max: *range.end(),
        })
    })
}

struct Check<'a> {
    config: &'a ModelConfig,
    params: &'a ModelParams,
}

impl Check<'_> {
    fn bound(&self, what: &'static str, id: MatrixId) -> Result<AccumulatorBound, ModelError> {
        let (kind, layer) = (id.kind(), id.layer());
        let (in_dim, _) = self.config.dims(kind);
        let max_weight = self.params.max_weight(kind);
        match kind {
            // One-hot: a single product in the high accumulator, and that of the position.
            MatmulKind::Embed => {
                let rows = 1 + u64::from(self.config.positions);
                let product = (max_weight as u64) << self.params.embed_exponent.min(13);
                Ok(AccumulatorBound(rows * product + LOW))
            }
            _ => AccumulatorBound::matmul(in_dim, max_weight).ok_or(ModelError::Accumulator {
                what,
                layer,
                bound: 255 * in_dim as u64 * max_weight as u64,
                shift: 0,
            }),
        }
    }

    fn channels(&self, what: &'static str, kind: MatmulKind, shift: &ChannelShift) -> Result<(), ModelError> {
        let (_, out_dim) = self.config.dims(kind);
        match shift.0.len() == 1 || shift.0.len() == out_dim {
            true => Ok(()),
            false => Err(ModelError::Length {
                what,
                got: shift.0.len(),
                expected: out_dim,
            }),
        }
    }

    fn matmul(&self, what: &'static str, id: MatrixId, shift: &ChannelShift) -> Result<(), ModelError> {
        let (kind, layer) = (id.kind(), id.layer());
        self.channels(what, kind, shift)?;
        self.bias(what, id)?;
        let bound = self.bound(what, id)?;
        let mut channels = self.params.rounded_channels(id, shift);
        channels.try_for_each(|(out, bias)| self.round(what, layer, bound.with_bias(bias), shift.at(out), None))
    }

    /// A bias has a number for every channel, if there is one.
    fn bias(&self, what: &'static str, id: MatrixId) -> Result<(), ModelError> {
        let (kind, layer) = (id.kind(), id.layer());
        let bias = self.params.bias(id);
        let (_, out_dim) = self.config.dims(kind);
        if !bias.is_empty() && bias.len() != out_dim {
            return Err(ModelError::Length {
                what: "biases of a matrix",
                got: bias.len(),
                expected: out_dim,
            });
        }
        match bias.iter().find(|b| b.unsigned_abs() > MAX_BIAS) {
            Some(bias) => Err(ModelError::Bias {
                what,
                layer,
                bias: *bias,
            }),
            None => Ok(()),
        }
    }

    /// Scores of a layer: products with keys, whose low limbs are below `2^8` and high ones at most `2^7`.
    fn scores(&self, layer: usize, shift: u8) -> Result<(), ModelError> {
        let sum = scores::query_sum(self.params, self.config, layer);
        if sum > MAX_QUERY_SUM {
            return Err(ModelError::Accumulator {
                what: "scores",
                layer,
                bound: 255 * sum,
                shift: 0,
            });
        }
        self.round("scores", layer, AccumulatorBound(128 * sum + LOW), shift, None)
    }

    /// Shifts into the residual stream, with the residual multiplied by `2^(shift + skip)`; none enters the embedding.
    fn stream(
        &self,
        what: &'static str,
        id: MatrixId,
        shift: &StreamShift,
        skip: Option<ByClass<i8>>,
    ) -> Result<(), ModelError> {
        let (kind, layer) = (id.kind(), id.layer());
        self.channels(what, kind, &shift.body)?;
        self.bias(what, id)?;
        let bound = self.bound(what, id)?;
        for class in [RowClass::Body, RowClass::Lead] {
            for (out, bias) in self.params.rounded_channels(id, &shift.body) {
                let bound = bound.with_bias(bias);
                let own = small(what, shift.at(out, class), 1, 13)?;
                let skip = match skip {
                    Some(skip) => small("residual skip", i32::from(own) + i32::from(skip.of(class)), 0, 13)?,
                    None => 0,
                };
                self.round(what, layer, bound, own, Some(skip))?;
            }
        }
        Ok(())
    }

    /// Shifts into a state that a layer makes. In an encoder the normed state before is added, times its gains.
    fn update(
        &self,
        what: &'static str,
        id: MatrixId,
        Writer { shift, skip, post_norm }: Writer<'_>,
    ) -> Result<(), ModelError> {
        let (kind, layer) = (id.kind(), id.layer());
        let (config, params) = (self.config, self.params);
        if let Some(post) = post_norm {
            self.stream(what, id, shift, None)?;
            return self.sum(what, layer, (kind, post), skip);
        }
        if !config.sums_first() {
            return self.stream(what, id, shift, Some(skip));
        }
        let before = 2 * layer + usize::from(kind == MatmulKind::Down);
        self.channels(what, kind, &shift.body)?;
        self.bias(what, id)?;
        let gains = Gains::of(params, before).filter(|gains| gains.own.len() == config.hidden);
        let gains = gains.ok_or(ModelError::Length {
            what: "gains of a norm",
            got: params.gain(before).len(),
            expected: config.hidden,
        })?;
        let low = u128::from(255 * config.dims(kind).0 as u64) * u128::from(params.max_weight(kind).unsigned_abs());
        let bound = self.bound(what, id)?;
        let mut residual = ResidualBounds::new(&gains, params.normed_bits(norm_of(params, before)));
        for class in [RowClass::Body, RowClass::Lead] {
            for out in 0..gains.own.len() {
                let bias = params.bias(id).get(out).copied().unwrap_or(0);
                let bound = bound.with_bias(bias);
                let own = small(what, shift.at(out, class), 1, 13)?;
                let skip = i32::from(own) + i32::from(skip.of(class)) - i32::from(params.exponent(out));
                let skip = small("residual skip", skip, 0, 13)?;
                let [high, below] = residual.of(out, skip);
                // The high limb is added to the accumulator's, as a residual is.
                let fits = high <= MAX_RESIDUAL && low + below < u128::from(LOW_LIMIT);
                let bound = AccumulatorBound(bound.0.saturating_add(high.min(MAX_RESIDUAL) as u64));
                if !fits || !bound.fits(own, None) {
                    let [high, low] = [high, low + below].map(|v| u64::try_from(v).unwrap_or(u64::MAX));
                    return Err(ModelError::Residual { what, layer, high, low });
                }
            }
        }
        Ok(())
    }

    /// What is normed before it is added, with its gains and shifts; the state before is multiplied by `2^(shift + skip)`. Nothing has a
    /// gain but that.
    fn sum(
        &self,
        what: &'static str,
        layer: usize,
        (kind, post): (MatmulKind, &PostNorm),
        skip: ByClass<i8>,
    ) -> Result<(), ModelError> {
        let (config, params) = (self.config, self.params);
        let output = config.attention_state(layer) + if kind == MatmulKind::O { 1 } else { 3 };
        let gains = params.gain(output);
        for (state, expected) in [(output - 1, 0), (output, config.hidden), (output + 1, 0)] {
            let got = params.gain(state).len();
            if got != expected {
                let what = "gains of a norm";
                return Err(ModelError::Length { what, got, expected });
            }
        }
        let largest = gains.iter().map(|gain| gain.unsigned_abs()).max().unwrap_or(0);
        range("gain of what is added", largest.into(), 0, MAX_SUM_GAIN)?;
        self.norm(&post.norm)?;
        self.channels(what, kind, &post.sum.body)?;
        for class in [RowClass::Body, RowClass::Lead] {
            for out in 0..post.sum.body.0.len() {
                let own = small(what, post.sum.at(out, class), 1, 13)?;
                small("residual skip", i32::from(own) + i32::from(skip.of(class)), 0, 13)?;
            }
        }
        Ok(())
    }

    /// The last norm of an encoder: a gain and a bias for every channel, and no matrix.
    fn vector(&self) -> Result<(), ModelError> {
        let (params, hidden) = (self.params, self.config.hidden);
        let gains = params.gain(2 * self.config.layers);
        let lists = [
            ("logits of an encoder", params.head.0.len(), 0),
            ("biases of the last norm", params.bias(MatrixId::HEAD).len(), hidden),
            ("gains of the last norm", gains.len(), hidden),
        ];
        if let Some((what, got, expected)) = lists.into_iter().find(|(_, got, expected)| got != expected) {
            return Err(ModelError::Length { what, got, expected });
        }
        self.bias("last norm", MatrixId::HEAD)?;
        reranker::check(params, self.config)
    }

    /// Gates and products; a model without them has no parameters of them, so that it has one key.
    fn gates(&self, layer: usize, p: &LayerParams) -> Result<(), ModelError> {
        let acts = [p.mlp.act.body, p.mlp.act.lead];
        if self.config.gated {
            self.matmul("gate", MatmulKind::Gate.at(layer), &p.mlp.gate)?;
            let mut acts = acts.into_iter();
            return acts.try_for_each(|act| small("mlp product", act.into(), 1, MAX_ACT_SHIFT).map(|_| ()));
        }
        let lists = [p.mlp.gate.0.len(), self.params.bias(MatmulKind::Gate.at(layer)).len()];
        if let Some(got) = lists.into_iter().find(|len| *len > 0) {
            return Err(ModelError::Length {
                what: "gates of a model without any",
                got,
                expected: 0,
            });
        }
        let mut acts = acts.into_iter();
        acts.try_for_each(|act| small("mlp product of a model without gates", act.into(), 0, 0).map(|_| ()))
    }

    fn round(
        &self,
        what: &'static str,
        layer: usize,
        bound: AccumulatorBound,
        shift: u8,
        skip: Option<u8>,
    ) -> Result<(), ModelError> {
        shift_in_range(what, shift)?;
        if !bound.fits(shift, skip) {
            return Err(ModelError::Accumulator {
                what,
                layer,
                bound: bound.get(),
                shift,
            });
        }
        Ok(())
    }

    /// A norm of a state: shifts of its channels, with which its outputs are claimed in one limb, scale and epsilon.
    fn norm(&self, norm: &NormParams) -> Result<(), ModelError> {
        let (got, expected) = (norm.shift.0.len(), self.config.hidden);
        if got != 1 && got != expected {
            let what = "shifts of a norm";
            return Err(ModelError::Length { what, got, expected });
        }
        for shift in &norm.shift.0 {
            range("shift of a norm", (*shift).into(), 1, MAX_NORM_SHIFT)?;
        }
        root_in_range(self.config.hidden, norm)
    }

    /// The norms of heads of a layer, where the model has them.
    fn head_norms(&self, p: &LayerParams) -> Result<(), ModelError> {
        let config = self.config;
        let [got, expected] = [p.attention.head_norms.is_some(), config.head_norms].map(usize::from);
        let length = |what, got, expected| match got == expected {
            true => Ok(()),
            false => Err(ModelError::Length { what, got, expected }),
        };
        length("norms of heads of a layer", got, expected)?;
        for norm in p.attention.head_norms.iter().flat_map(|norms| [&norms.q, &norms.k]) {
            length("gains of a norm of heads", norm.gains.len(), config.head_dim)?;
            let largest = norm.gains.iter().map(|gain| gain.unsigned_abs()).max().unwrap_or(0);
            range("gain of a norm of heads", largest.into(), 0, MAX_GAIN)?;
            range("shift of a norm of heads", norm.shift.into(), 1, MAX_NORM_SHIFT)?;
            root_in_range(config.head_dim, &norm.norm())?;
            // The claim on norms is in one limb.
            let bound = norm_bound(config.head_dim, norm.scale).next_power_of_two().ilog2();
            range(
                "log2 of head_dim 2^(2 scale) of a norm of heads",
                bound.into(),
                0,
                ONE_LIMB_NORM.into(),
            )?;
        }
        Ok(())
    }

    /// Exponents of channels, and that the statistics of norms do not wrap: sums of `4^k` times a product of two limbs, which
    /// is at most `255^2`, stay below `2^30`.
    fn exponents(&self) -> Result<(), ModelError> {
        let exponents = &self.params.exponents;
        if !exponents.is_empty() && exponents.len() != self.config.hidden {
            return Err(ModelError::Length {
                what: "channel exponents",
                got: exponents.len(),
                expected: self.config.hidden,
            });
        }
        for k in exponents {
            small("channel exponent", i32::from(*k), 0, MAX_EXPONENT)?;
        }
        let squares: u64 = (0..self.config.hidden)
            .map(|c| 1 << (2 * self.params.exponent(c)))
            .sum();
        match squares <= MAX_SQUARES {
            true => Ok(()),
            false => Err(ModelError::OutOfRange {
                what: "sum of 4^k over the channel exponents k",
                value: squares,
                min: 0,
                max: MAX_SQUARES,
            }),
        }
    }

    fn weight_bits(&self) -> Result<(), ModelError> {
        let most = self.params.format.max_bits();
        let mut bits = self.params.weight_bits.iter();
        bits.try_for_each(|b| small("weight bits", i32::from(b), MIN_WEIGHT_BITS, most).map(|_| ()))
    }
}

impl ModelParams {
    /// Checks all parameters against the config: lengths, shift ranges, and that no sum wraps the field.
    pub fn check(&self, config: &ModelConfig) -> Result<(), ModelError> {
        config.check()?;
        if self.layers.len() != config.layers {
            return Err(ModelError::Length {
                what: "layers",
                got: self.layers.len(),
                expected: config.layers,
            });
        }
        let entries = self.entries() as u64;
        range(
            "entries of all lists of shifts, gains and biases",
            entries,
            0,
            MAX_ENTRIES as u64,
        )?;
        small("embed exponent", i32::from(self.embed_exponent), 0, 13)?;
        if let Some(token) = self.leading.token {
            range("token of leading rows", token.into(), 0, config.vocab as u64 - 1)?;
        }
        for (what, bits) in [
            ("score bits", self.score_bits),
            ("gate bits", self.gate_bits),
            ("silu bits", self.silu_bits),
            ("logit bits", self.logit_bits),
        ] {
            if !(-64..=64).contains(&bits) {
                return Err(ModelError::OutOfRange {
                    what,
                    value: bits.unsigned_abs().into(),
                    min: 0,
                    max: 64,
                });
            }
        }
        if self.silu_bits > MAX_SILU_BITS.into() {
            return Err(ModelError::OutOfRange {
                what: "silu bits",
                value: self.silu_bits.unsigned_abs().into(),
                min: 0,
                max: MAX_SILU_BITS.into(),
            });
        }
        for p in self
            .layers
            .iter()
            .flat_map(|l| [&l.attention.post_norm, &l.mlp.post_norm])
        {
            let [got, expected] = [p.is_some(), config.norms_outputs()].map(usize::from);
            if got != expected {
                let what = "norms of what a layer adds";
                return Err(ModelError::Length { what, got, expected });
            }
        }
        let check = Check { config, params: self };
        check.weight_bits()?;
        check.exponents()?;
        check.stream("embedding", MatrixId::EMBED, &self.embed, None)?;
        for (l, p) in self.layers.iter().enumerate() {
            check.norm(&p.attention.norm)?;
            check.matmul("q", MatmulKind::Q.at(l), &p.attention.q)?;
            check.matmul("k", MatmulKind::K.at(l), &p.attention.k)?;
            check.matmul("v", MatmulKind::V.at(l), &p.attention.v)?;
            check.head_norms(p)?;
            check.scores(l, p.attention.score)?;
            small("attention output", p.attention.att.into(), 1, MAX_ATT_SHIFT)?;
            check.update("o", MatmulKind::O.at(l), p.writer(MatmulKind::O))?;
            check.norm(&p.mlp.norm)?;
            check.gates(l, p)?;
            check.matmul("up", MatmulKind::Up.at(l), &p.mlp.up)?;
            check.update("down", MatmulKind::Down.at(l), p.writer(MatmulKind::Down))?;
        }
        check.norm(&self.norm_final)?;
        match config.generates() {
            true => check.matmul("head", MatrixId::HEAD, &self.head)?,
            false => check.vector()?,
        }
        limbs::check_norms(self, config)
    }
}

#[cfg(test)]
mod tests;
