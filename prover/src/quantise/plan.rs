//! Chooses all scales: powers of two such that every tensor fits int16 with headroom, every shift is one
//! that the constraints support, and no sum wraps the field.
//!
//! A tensor with `bits` fractional bits holds `round(value * 2^bits)`. A matmul of inputs with `a` bits
//! and weights with `w` bits, requantised by `shift`, has `a + w - 8 - shift` bits. Where that shift would be
//! too large, the weights get fewer bits (by then their error is far below the output's unit); where it
//! would be too small, the output does.

use std::collections::BTreeMap;

use tessera_circuits::bounds::AccumulatorBound;
use tessera_circuits::model::{
    ByClass, ChannelShift, LayerParams, LeadingRows, MatmulKind, ModelConfig, ModelParams, NormParams, StreamShift,
    KINDS,
};

use super::calibrate::{LayerRanges, Ranges};
use super::{CalibrationReport, QuantiseError, Strategy, TensorBits, WeightScale};
use crate::checkpoint::matmul_tensor;

/// Smallest and largest supported shift.
const MIN_SHIFT: i32 = 1;
const MAX_SHIFT: i32 = 13;
/// Shift that every requantisation has in addition.
const BASE: i32 = 8;
/// The reciprocal square root stays below `2^RSQRT_TARGET` on calibrated rows, a quarter of its bound.
const RSQRT_TARGET: f64 = 20.0;
/// No tensor gets more fractional bits than this, whatever its range.
const MAX_BITS: i32 = 24;
/// Outputs of norms have at most this many: then the smallest shift keeps the reciprocal square root within
/// its 22 bits for every row whose root mean square is at least one unit.
const MAX_NORM_BITS: i32 = 13;

/// Fractional bits of weights: one per tensor or one per output channel.
pub(super) type WeightBits = BTreeMap<(MatmulKind, usize), Vec<i32>>;

/// Largest number of fractional bits with which `max` fits int16.
fn fit(max: f64) -> i32 {
    ((f64::from(i16::MAX) / max).log2().floor()).min(f64::from(MAX_BITS)) as i32
}

/// The largest shift that fits the field, if there is one.
fn max_shift(bound: AccumulatorBound, residual: bool) -> Option<i32> {
    let fits = |s: &i32| bound.fits(*s as u8, residual.then_some(*s as u8));
    (MIN_SHIFT..=MAX_SHIFT).rev().find(fits)
}

/// Refuses matmuls whose accumulators cannot fit the field.
pub(super) fn check_widths(config: &ModelConfig, strategy: Strategy) -> Result<(), QuantiseError> {
    for m in config.matmuls().iter().filter(|m| m.kind != MatmulKind::Embed) {
        let bound = AccumulatorBound::matmul(m.in_dim, strategy.max_weight());
        let residual = matches!(m.kind, MatmulKind::O | MatmulKind::Down);
        if bound.and_then(|b| max_shift(b, residual)).is_none() {
            let w8 = AccumulatorBound::matmul(m.in_dim, Strategy::W8.max_weight());
            let helps = strategy == Strategy::W12 && w8.is_some_and(|b| max_shift(b, residual).is_some());
            return Err(QuantiseError::TooWide {
                tensor: matmul_tensor(m.kind, m.layer),
                in_dim: m.in_dim,
                strategy,
                hint: if helps { "; strategy W8 supports it" } else { "" },
            });
        }
    }
    Ok(())
}

/// Fractional bits of the activations of one layer.
#[derive(Clone, Copy, Debug, Default)]
struct LayerBits {
    norm_attn: i32,
    q: i32,
    k: i32,
    v: i32,
    attention: i32,
    norm_mlp: i32,
    up: i32,
    product: i32,
}

/// Fractional bits of all activations.
#[derive(Clone, Debug, Default)]
struct Bits {
    layers: Vec<LayerBits>,
    residual: Vec<i32>,
    norm_final: i32,
    score: i32,
    gate: i32,
    silu: i32,
    logit: i32,
}

/// The choice of all scales.
pub(super) struct Plan<'a> {
    config: &'a ModelConfig,
    strategy: Strategy,
    ranges: &'a Ranges,
    headroom: f64,
    weights: WeightBits,
    /// Fractional bits of the output of the norm after each state of the residual stream.
    norms: Vec<i32>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        config: &'a ModelConfig,
        strategy: Strategy,
        ranges: &'a Ranges,
        headroom: f64,
        weights: WeightBits,
    ) -> Self {
        // No output of a norm without gain can exceed sqrt(hidden).
        let bound = (config.hidden as f64).sqrt();
        let after = |max: f32| fit((f64::from(max) * headroom).min(bound)).min(MAX_NORM_BITS);
        let layers = ranges
            .layers
            .iter()
            .flat_map(|r| [after(r.norm_attn), after(r.norm_mlp)]);
        let norms = layers.chain([after(ranges.norm_final)]).collect();
        Self {
            config,
            strategy,
            ranges,
            headroom,
            weights,
            norms,
        }
    }

    /// All integer parameters, the final fractional bits of all weights, and the report.
    pub(super) fn solve(mut self) -> Result<(ModelParams, WeightBits, CalibrationReport), QuantiseError> {
        let bits = self.activations();
        let params = self.parameters(&bits)?;
        let report = self.report(&bits);
        Ok((params, self.weights, report))
    }

    fn fit(&self, max: f32) -> i32 {
        fit(f64::from(max) * self.headroom)
    }

    /// Largest scale of the reciprocal square root of a norm that keeps it below its target on calibrated
    /// rows. Rows whose root mean square is below one unit carry no information and do not count.
    fn norm_scale(&self, n: usize, residual_bits: i32) -> i32 {
        let square = self.ranges.min_square[n] + self.config.rms_eps;
        let log_rms = square.log2() / 2.0 + f64::from(residual_bits);
        (RSQRT_TARGET + log_rms.max(0.0)).floor() as i32
    }

    /// Fewest bits of a channel of a weight matrix.
    fn min_weight(&self, kind: MatmulKind, layer: usize) -> i32 {
        self.weights[&(kind, layer)].iter().copied().min().unwrap_or(0)
    }

    /// Bits of the output of a matmul: as wished, unless the shift would be too small.
    fn output(&self, kind: MatmulKind, layer: usize, input: i32, wish: i32) -> i32 {
        wish.min(input + self.min_weight(kind, layer) - BASE - MIN_SHIFT)
    }

    /// Fits of a range of all layers, the smallest.
    fn global(&self, range: impl Fn(&LayerRanges) -> f32) -> i32 {
        self.ranges.layers.iter().map(|r| self.fit(range(r))).min().unwrap_or(0)
    }

    fn activations(&self) -> Bits {
        let ranges = &self.ranges.layers;
        let mut bits = Bits {
            score: self.global(|r| r.scores),
            gate: self.global(|r| r.gate),
            silu: self.global(|r| r.silu),
            ..Bits::default()
        };
        for (l, r) in ranges.iter().enumerate() {
            let (norm_attn, norm_mlp) = (self.norms[2 * l], self.norms[2 * l + 1]);
            let q = self.output(MatmulKind::Q, l, norm_attn, self.fit(r.q));
            let k = self.output(MatmulKind::K, l, norm_attn, self.fit(r.k));
            let v = self.output(MatmulKind::V, l, norm_attn, self.fit(r.v));
            let up = self.output(MatmulKind::Up, l, norm_mlp, self.fit(r.up));
            bits.score = bits.score.min(q + k - BASE - MIN_SHIFT);
            bits.gate = self.output(MatmulKind::Gate, l, norm_mlp, bits.gate);
            bits.layers.push(LayerBits {
                norm_attn,
                q,
                k,
                v,
                norm_mlp,
                up,
                ..LayerBits::default()
            });
        }
        for (b, r) in bits.layers.iter_mut().zip(ranges) {
            // The larger of the two gives way.
            for _ in 0..(b.q + b.k - BASE - MAX_SHIFT - bits.score).max(0) {
                *(if b.q > b.k { &mut b.q } else { &mut b.k }) -= 1;
            }
            // Probabilities have 15 bits.
            let most = 15 + b.v - BASE;
            b.attention = self.fit(r.attention).clamp(most - MAX_SHIFT, most - MIN_SHIFT);
            b.product = self.fit(r.product).min(bits.silu + b.up - BASE - MIN_SHIFT);
            b.up = b.up.min(b.product + BASE + MAX_SHIFT - bits.silu);
        }
        bits.norm_final = self.norms[self.norms.len() - 1];
        bits.logit = self.output(MatmulKind::Head, 0, bits.norm_final, self.fit(self.ranges.logits));
        bits.residual = self.residual(&bits.layers);
        bits
    }

    /// Kind, layer and input bits of the matmul that leads to state `n >= 1` of the residual stream.
    fn update(&self, n: usize, layers: &[LayerBits]) -> (MatmulKind, usize, i32) {
        let layer = (n - 1) / 2;
        match n % 2 {
            1 => (MatmulKind::O, layer, layers[layer].attention),
            _ => (MatmulKind::Down, layer, layers[layer].product),
        }
    }

    /// Bits of the residual stream: never increasing, `shift >= 1` and `0 <= skip` everywhere.
    fn residual(&self, layers: &[LayerBits]) -> Vec<i32> {
        let embed = self.min_weight(MatmulKind::Embed, 0) + MAX_SHIFT - MIN_SHIFT;
        // The first state is bounded exactly: no headroom, but for the rounding of the weights.
        let mut x = vec![fit(f64::from(self.ranges.residual[0]) * 1.01).min(embed)];
        for n in 1..self.ranges.residual.len() {
            let (kind, layer, input) = self.update(n, layers);
            let accumulator = input + self.min_weight(kind, layer) - BASE;
            x[n - 1] = x[n - 1].min(accumulator);
            x.push(self.fit(self.ranges.residual[n]).min(accumulator - MIN_SHIFT));
        }
        for n in 1..x.len() {
            x[n] = x[n].min(x[n - 1]);
        }
        for n in (1..x.len()).rev() {
            let (kind, _, _) = self.update(n, layers);
            x[n - 1] = x[n - 1].min(x[n] + self.shift_limit(kind));
        }
        x
    }

    fn shift_limit(&self, kind: MatmulKind) -> i32 {
        let (in_dim, _) = self.config.dims(kind);
        let residual = matches!(kind, MatmulKind::O | MatmulKind::Down);
        // `check_widths` has made sure that there is one.
        AccumulatorBound::matmul(in_dim, self.strategy.max_weight())
            .and_then(|b| max_shift(b, residual))
            .unwrap_or(MIN_SHIFT)
    }

    /// Shifts of a matmul; lowers the bits of weights whose shift would be too large.
    fn shifts(
        &mut self,
        kind: MatmulKind,
        layer: usize,
        input: i32,
        output: i32,
    ) -> Result<ChannelShift, QuantiseError> {
        let limit = match kind {
            MatmulKind::Embed => MAX_SHIFT,
            _ => self.shift_limit(kind),
        };
        let channels = self.weights.entry((kind, layer)).or_default();
        let shift = |w: &mut i32| {
            *w = (*w).min(output + BASE + limit - input);
            small(input + *w - BASE - output, || matmul_tensor(kind, layer))
        };
        channels
            .iter_mut()
            .map(shift)
            .collect::<Result<_, _>>()
            .map(ChannelShift)
    }

    fn norm(&self, n: usize, residual_bits: i32) -> Result<NormParams, QuantiseError> {
        let name = || format!("norm {n}");
        let output = self.norms[n];
        let shift = (self.norm_scale(n, residual_bits) - BASE - output).clamp(MIN_SHIFT, MAX_SHIFT);
        let eps = self.config.rms_eps * self.config.hidden as f64 * f64::from(2 * residual_bits).exp2();
        Ok(NormParams {
            scale: small(output + BASE + shift, name)?,
            eps: ByClass::both((eps.round() as u64).max(1)),
            shift: small(shift, name)?,
        })
    }

    fn layer(&mut self, l: usize, bits: &Bits) -> Result<LayerParams, QuantiseError> {
        let b = &bits.layers[l];
        let x = &bits.residual[2 * l..2 * l + 3];
        let skip = |before: i32, after: i32| ByClass::both((after - before) as i8);
        let stream = |body| StreamShift { body, lead: 0 };
        let o = self.shifts(MatmulKind::O, l, b.attention, x[1])?;
        let down = self.shifts(MatmulKind::Down, l, b.product, x[2])?;
        Ok(LayerParams {
            norm_attn: self.norm(2 * l, x[0])?,
            q: self.shifts(MatmulKind::Q, l, b.norm_attn, b.q)?,
            k: self.shifts(MatmulKind::K, l, b.norm_attn, b.k)?,
            v: self.shifts(MatmulKind::V, l, b.norm_attn, b.v)?,
            score: small(b.q + b.k - BASE - bits.score, || format!("scores of layer {l}"))?,
            att: small(15 + b.v - BASE - b.attention, || format!("attention of layer {l}"))?,
            skip_attn: skip(x[0], x[1]),
            o: stream(o),
            norm_mlp: self.norm(2 * l + 1, x[1])?,
            gate: self.shifts(MatmulKind::Gate, l, b.norm_mlp, bits.gate)?,
            up: self.shifts(MatmulKind::Up, l, b.norm_mlp, b.up)?,
            act: ByClass::both(small(bits.silu + b.up - BASE - b.product, || {
                format!("mlp product of layer {l}")
            })?),
            skip_mlp: skip(x[1], x[2]),
            down: stream(down),
        })
    }

    fn parameters(&mut self, bits: &Bits) -> Result<ModelParams, QuantiseError> {
        let x0 = bits.residual[0];
        let exponent = (x0 - self.min_weight(MatmulKind::Embed, 0) + MIN_SHIFT).max(0);
        let last = bits.residual.len() - 1;
        Ok(ModelParams {
            format: self.strategy.format(),
            weight_bits: [self.strategy.bits(); KINDS],
            leading: LeadingRows { first: 1, run: true },
            exponents: Vec::new(),
            embed_exponent: small(exponent, || "embedding".to_string())?,
            embed: StreamShift {
                body: self.shifts(MatmulKind::Embed, 0, BASE + exponent, x0)?,
                lead: 0,
            },
            layers: (0..self.config.layers)
                .map(|l| self.layer(l, bits))
                .collect::<Result<_, _>>()?,
            norm_final: self.norm(last, bits.residual[last])?,
            head: self.shifts(MatmulKind::Head, 0, bits.norm_final, bits.logit)?,
            score_bits: bits.score,
            gate_bits: bits.gate,
            silu_bits: bits.silu,
            logit_bits: bits.logit,
        })
    }

    fn report(&self, bits: &Bits) -> CalibrationReport {
        let mut tensors = Vec::new();
        let mut add = |name: String, max: f32, bits: i32| tensors.push(TensorBits { name, max, bits });
        for (n, (max, bits)) in self.ranges.residual.iter().zip(&bits.residual).enumerate() {
            add(format!("residual {n}"), *max, *bits);
        }
        for (l, (b, r)) in bits.layers.iter().zip(&self.ranges.layers).enumerate() {
            for (name, max, bits) in [
                ("attention norm", r.norm_attn, b.norm_attn),
                ("q", r.q, b.q),
                ("k", r.k, b.k),
                ("v", r.v, b.v),
                ("scores", r.scores, bits.score),
                ("attention", r.attention, b.attention),
                ("mlp norm", r.norm_mlp, b.norm_mlp),
                ("gate", r.gate, bits.gate),
                ("silu", r.silu, bits.silu),
                ("up", r.up, b.up),
                ("mlp product", r.product, b.product),
            ] {
                add(format!("layer {l} {name}"), max, bits);
            }
        }
        add("final norm".to_string(), self.ranges.norm_final, bits.norm_final);
        add("logits".to_string(), self.ranges.logits, bits.logit);
        let weights = self.weights.iter().map(|((kind, layer), channels)| WeightScale {
            tensor: matmul_tensor(*kind, *layer),
            min_bits: channels.iter().copied().min().unwrap_or(0),
            max_bits: channels.iter().copied().max().unwrap_or(0),
        });
        CalibrationReport {
            tokens: self.ranges.tokens,
            headroom: self.headroom,
            weights: weights.collect(),
            activations: tensors,
        }
    }
}

/// A shift or scale as a byte. All have been brought into range, so an error means that a tensor has a
/// range that no choice of scales can represent.
fn small(value: i32, tensor: impl FnOnce() -> String) -> Result<u8, QuantiseError> {
    u8::try_from(value).map_err(|_| QuantiseError::Scales {
        tensor: tensor(),
        value,
    })
}
