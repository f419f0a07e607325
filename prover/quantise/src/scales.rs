//! Chooses all scales: powers of two such that every tensor fits int16 with headroom, every shift is one
//! that the claims support, and no sum wraps the field.
//!
//! A tensor with `bits` fractional bits holds `round(value * 2^bits)`. A matmul of inputs with `a` bits
//! and weights with `w` bits, requantised by `shift`, has `a + w - 8 - shift` bits. Where that shift would be
//! too large, the weights get fewer bits (by then their error is far below the output's unit); where it
//! would be too small, the output does. The residual stream has bits for each class of rows, and `k` bits less in a channel
//! with exponent `k`; so has the MLP product, but for the exponents.

use std::collections::BTreeMap;
use std::iter::repeat;

use tessera_circuits::bounds::MAX_SILU_BITS;
use tessera_circuits::model::{
    max_weight, Activation, ByClass, ChannelShift, LayerParams, MatmulKind, ModelConfig, ModelParams, RowClass,
    StreamShift, KINDS, LAYER_KINDS,
};

use super::biases::{self, Biases};
use super::calibrate::{Classes, LayerRanges, NormRange, Ranges};
use super::limbs::{Reader, Squares, BASE};
use super::normed::NormReaders;
use super::options::{shift_limit, MAX_SHIFT, MIN_SHIFT};
use super::products::{DownWeights, Room};
use super::{CalibrationReport, QuantiseError, QuantiseOptions};
use tessera_checkpoint::matmul_tensor;

mod bits;
mod channels;
mod gains;
mod heads;
mod limits;
mod norms;
mod queries;
mod report;
mod sums;

use bits::{Bits, LayerBits};
use limits::{lower, signed, small, CLASSES};

/// Room of the channels of Up's output and of the product where some have exponents: another text may make a channel large that
/// was not, and then the units of the largest ones are not its own.
const CHANNEL_HEADROOM: f64 = 2.0;
/// No tensor gets more fractional bits than this, whatever its range.
const MAX_BITS: i32 = 24;
/// Outputs of norms have at most this many: with the smallest shift, the reciprocal square root of a row whose root mean square
/// is one unit is then `2^22`, a quarter of its bound.
const MAX_NORM_BITS: i32 = 13;
/// Room of the first state of the residual stream, which is bounded exactly, for the rounding of its weights.
const EMBEDDING_HEADROOM: f64 = 1.01;
/// Room of gates in leading rows, which have units with all other rows: what massive values they make is seen by other rows
/// through norms, so that one that is clipped a little does no harm, and a bit less for all gates does.
const LEADING_GATE_HEADROOM: f64 = 1.1;

/// Fractional bits of weights, one per output channel.
pub(super) type WeightBits = BTreeMap<(MatmulKind, usize), Vec<i32>>;
/// By state of the residual stream and channel: squares of the weights that read it, relative to their mean.
pub(super) type Readers = Vec<Vec<f64>>;

/// Largest number of fractional bits with which `max` fits int16.
fn fit(max: f64) -> i32 {
    ((f64::from(i16::MAX) / max).log2().floor()).min(f64::from(MAX_BITS)) as i32
}

/// Largest number of fractional bits with which gates, or their SiLU, fit in both classes of rows.
pub(super) fn gate_bits(range: Classes<f32>, headroom: f64) -> i32 {
    let leading = headroom.min(LEADING_GATE_HEADROOM);
    fit(f64::from(range.body) * headroom).min(fit(f64::from(range.lead) * leading))
}

/// What was chosen.
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

/// What is known of the model beside what it was seen to compute.
pub(super) struct Model {
    pub activation: Activation,
    /// The most fractional bits of all weights.
    pub weights: WeightBits,
    /// Squares of the columns of matrices that read a norm.
    pub squares: Squares,
    pub biases: Biases,
    /// Of the norms of all states of an encoder.
    pub gains: Vec<Vec<f64>>,
    /// By layer, the gains of the norms of the heads of queries and of keys, with all factors of scores; none where heads are not normed.
    pub head_gains: Vec<[Vec<f64>; 2]>,
    /// By layer, the gains of the norms of what attention and MLP add; none where that is not normed.
    pub post_gains: Vec<[Vec<f32>; 2]>,
    /// By layer, the weights of Down as far as exponents of its inputs follow from them.
    pub down: Vec<Option<DownWeights>>,
}

/// The choice of all scales.
pub(super) struct Scales<'a> {
    config: &'a ModelConfig,
    options: &'a QuantiseOptions,
    weight_bits: [u8; KINDS],
    ranges: &'a Ranges,
    weights: WeightBits,
    squares: Squares,
    biases: Biases,
    gains: Vec<Vec<f64>>,
    head_gains: Vec<[Vec<f64>; 2]>,
    post_gains: Vec<[Vec<f32>; 2]>,
    activation: Activation,
    /// Exponents of the channels of the residual stream; none if all are 0.
    exponents: Vec<u8>,
    /// By layer, the weights of Down as far as exponents of its inputs follow from them, and those exponents; none if all are 0.
    down: Vec<Option<DownWeights>>,
    products: Vec<Vec<u8>>,
    /// Fractional bits of the output of the norm after each state of the residual stream.
    norms: Vec<i32>,
    /// By state, exponents of the channels of that output; none if all are 0. And what they follow from.
    normed: Vec<Vec<u8>>,
    norm_readers: NormReaders,
}

impl<'a> Scales<'a> {
    pub(super) fn new(
        config: &'a ModelConfig,
        options: &'a QuantiseOptions,
        ranges: &'a Ranges,
        model: Model,
        readers: &Readers,
    ) -> Self {
        // No output of a norm without gain can exceed sqrt(hidden).
        let bound = (config.hidden as f64).sqrt();
        let after =
            |range: &NormRange| fit((f64::from(range.largest()) * options.headroom).min(bound)).min(MAX_NORM_BITS);
        // Outputs that are normed are states, too.
        let output = config.is_post_normed().then(|| fit(bound).min(MAX_NORM_BITS));
        let layers = ranges.layers.iter().flat_map(|r| {
            let own = [Some(after(&r.norm_attn)), output, Some(after(&r.norm_mlp)), output];
            own.into_iter().flatten()
        });
        let norms = layers.chain([after(&ranges.norm_final)]).collect();
        let mut scales = Self {
            config,
            options,
            weight_bits: options.strategy.weight_bits(config),
            ranges,
            weights: model.weights,
            squares: model.squares,
            biases: model.biases,
            gains: model.gains,
            head_gains: model.head_gains,
            post_gains: model.post_gains,
            activation: model.activation,
            exponents: Vec::new(),
            down: model.down,
            products: vec![Vec::new(); config.layers],
            norms,
            normed: vec![Vec::new(); config.states()],
            norm_readers: NormReaders::new(),
        };
        scales.exponents = scales.stream(readers).exponents(options.exponents);
        scales
    }

    /// Exponents of the channels of the residual stream; none if all are 0.
    pub(super) fn exponents(&self) -> &[u8] {
        &self.exponents
    }

    /// Takes what exponents of the outputs of norms follow from; there are none without.
    pub(super) fn take_norm_readers(&mut self, readers: NormReaders) {
        self.norm_readers = readers;
    }

    pub(super) fn solve(mut self) -> Result<Solved, QuantiseError> {
        self.choose_products();
        let bits = self.activations();
        self.lower_norms(&bits);
        self.make_room_for_gains(&bits);
        let bits = self.activations();
        let params = self.parameters(&bits)?;
        Ok(Solved {
            params,
            report: self.report(&bits),
            weights: self.weights,
            products: self.products,
            normed: self.normed,
        })
    }

    fn fit(&self, max: f32) -> i32 {
        fit(f64::from(max) * self.options.headroom)
    }

    /// Room of a state of the residual stream.
    fn headroom(&self, n: usize) -> f64 {
        match n {
            0 => EMBEDDING_HEADROOM,
            _ => self.options.headroom,
        }
    }

    /// Bits of the output of a matmul: as wished, unless the shift would be too small.
    fn output(&self, kind: MatmulKind, layer: usize, input: i32, wish: i32) -> i32 {
        wish.min(input + self.min_weight(kind, layer) - BASE - MIN_SHIFT)
    }

    /// Fits of all layers, the smallest.
    fn global(&self, fit: impl Fn(&LayerRanges) -> i32) -> i32 {
        self.ranges.layers.iter().map(fit).min().unwrap_or(0)
    }

    /// Bits of the SiLU of gates.
    fn silu(&self) -> i32 {
        let headroom = self.options.headroom;
        self.global(|r| gate_bits(r.silu, headroom)).min(MAX_SILU_BITS.into())
    }

    /// What Up's output and the products of a layer have room for, with exponents of their channels or without. The norm before
    /// has `input` bits.
    fn room(&self, layer: usize, input: i32, silu: i32, exponents: bool) -> Room {
        let range = &self.ranges.layers[layer].product;
        let fits = |max: &[f32], headroom: f64| max.iter().map(|max| fit(f64::from(*max) * headroom)).collect();
        let own = self.options.headroom;
        let by_channel = if exponents { own.max(CHANNEL_HEADROOM) } else { own };
        let up: Vec<i32> = fits(&range.up, by_channel);
        let up = up.into_iter().zip(&self.weights[&(MatmulKind::Up, layer)]);
        Room {
            up: up
                .map(|(up, weight)| up.min(input + weight - BASE - MIN_SHIFT))
                .collect(),
            body: fits(&range.max.body, by_channel),
            lead: fits(&range.max.lead, own),
            silu,
            seen: self.ranges.leading.token.is_some(),
        }
    }

    /// Chooses the exponents of the products' channels, and with them the bits of the weights that read these.
    fn choose_products(&mut self) {
        let silu = self.silu();
        for (l, down) in self.down.iter().enumerate() {
            let Some(down) = down else { continue };
            let room = |exponents| {
                self.room(
                    l,
                    self.norms[self.config.attention_state(l) + self.config.states_per_layer() / 2],
                    silu,
                    exponents,
                )
            };
            let exponents = down.exponents(&room(false), &room(true));
            if !exponents.is_empty() {
                self.weights.insert((MatmulKind::Down, l), down.weight_bits(&exponents));
            }
            self.products[l] = exponents;
        }
    }

    fn activations(&self) -> Bits {
        let ranges = &self.ranges.layers;
        let mut score = self.global(|r| self.fit(r.scores));
        let mut gate = self.global(|r| gate_bits(r.gate, self.options.headroom));
        let silu = self.silu();
        let mut layers = Vec::new();
        for (l, r) in ranges.iter().enumerate() {
            let (norm_attn, norm_mlp) = (
                self.norms[self.config.attention_state(l)],
                self.norms[self.config.mlp_state(l)],
            );
            let q = self.output(MatmulKind::Q, l, norm_attn, self.fit(r.q));
            let q = self.query_bits(l, norm_attn, q);
            let k = self.output(MatmulKind::K, l, norm_attn, self.fit(r.k));
            let (turned_q, turned_k) = self.turned_bits(l).unwrap_or((q, k));
            score = score.min(turned_q + turned_k - BASE - MIN_SHIFT);
            gate = self.output(self.table_kind(), l, norm_mlp, gate);
            let exponents = &self.products[l];
            let [up, body, lead] = match self.config.gated {
                // Those of the table, which are not known before the last layer.
                false => [gate, silu, silu],
                true => self.room(l, norm_mlp, silu, !exponents.is_empty()).bits(exponents),
            };
            let (body, lead) = match self.is_biased(MatmulKind::Down, l) {
                true => (lead, lead),
                false => (body, lead),
            };
            layers.push(LayerBits {
                norm_attn,
                q,
                k,
                turned_q,
                turned_k,
                v: self.output(MatmulKind::V, l, norm_attn, self.fit(r.v)),
                attention: self.fit(r.attention),
                norm_mlp,
                up,
                product: ByClass { body, lead },
            });
        }
        for b in &mut layers {
            if !self.config.gated {
                b.up = gate;
            }
            // The larger of the two gives way.
            let (q, k) = (&mut b.turned_q, &mut b.turned_k);
            for _ in 0..(*q + *k - BASE - MAX_SHIFT - score).max(0) {
                *(if *q > *k { &mut *q } else { &mut *k }) -= 1;
            }
            if !self.config.head_norms {
                (b.q, b.k) = (b.turned_q, b.turned_k);
            }
            // Probabilities have 15 bits.
            let most = 15 + b.v - BASE;
            b.attention = b.attention.clamp(most - MAX_SHIFT, most - MIN_SHIFT);
        }
        let norm_final = self.norms[self.norms.len() - 1];
        Bits {
            residual: self.residual(&layers),
            layers,
            norm_final,
            score,
            gate,
            silu,
            logit: match self.config.is_encoder() {
                true => self.vector_bits(norm_final),
                false => self.output(MatmulKind::Head, 0, norm_final, self.fit(self.ranges.logits)),
            },
        }
    }

    /// The matmul whose outputs are looked up in the table.
    const fn table_kind(&self) -> MatmulKind {
        match self.config.gated {
            true => MatmulKind::Gate,
            false => MatmulKind::Up,
        }
    }

    fn reader(&self, kind: MatmulKind, layer: usize, output: i32) -> Reader<'_> {
        Reader {
            kind,
            hidden: self.config.hidden,
            output,
            exponents: match kind {
                MatmulKind::Up => &self.products[layer],
                _ => &[],
            },
            weights: &self.weights[&(kind, layer)],
            squares: &self.squares[&(kind, layer)],
            biases: self.biases.get(&(kind, layer)).map_or(&[], Vec::as_slice),
        }
    }

    /// The most bits of the weights of every channel with which biases fit, where the input has `input` bits.
    fn bias_bits(&self, kind: MatmulKind, layer: usize, input: i32) -> impl Iterator<Item = i32> {
        let own: Vec<i32> = match self.biases.get(&(kind, layer)) {
            Some(biases) => biases.iter().map(|b| biases::most_bits(*b) - input).collect(),
            None => Vec::new(),
        };
        own.into_iter().chain(repeat(i32::MAX))
    }

    /// Whether a matrix has biases: then rows of both classes need accumulators of the same units.
    fn is_biased(&self, kind: MatmulKind, layer: usize) -> bool {
        self.biases.contains_key(&(kind, layer))
    }

    /// Kind, layer and input bits of the matmul that leads to state `n >= 1` of the residual stream.
    fn update(&self, n: usize, layers: &[LayerBits]) -> (MatmulKind, usize, ByClass<i32>) {
        let layer = (n - 1) / 2;
        match n % 2 {
            1 => (MatmulKind::O, layer, ByClass::both(layers[layer].attention)),
            _ => (MatmulKind::Down, layer, layers[layer].product),
        }
    }

    /// Bits of the residual stream: as many as fit, lowered until every channel of every update has a shift in both classes
    /// of rows.
    fn residual(&self, layers: &[LayerBits]) -> Vec<ByClass<i32>> {
        let states = self.ranges.residual.iter().enumerate();
        let mut x: Vec<ByClass<i32>> = states
            .map(|(n, state)| {
                let of = |class: RowClass| {
                    let channels = state.of(class).max.iter().enumerate();
                    let exponent = |c| if self.is_output(n) { 0 } else { self.exponent(c) };
                    let needs = channels.map(|(c, max)| f64::from(*max) * f64::from(-exponent(c)).exp2());
                    fit(needs.fold(0.0, f64::max) * self.headroom(n))
                };
                let body = of(RowClass::Body);
                // Leading rows that were not seen are no smaller than others, unless there are none but those of one token.
                let lead = match self.ranges.leading.token {
                    Some(_) => of(RowClass::Lead),
                    None => of(RowClass::Lead).min(body),
                };
                ByClass { body, lead }
            })
            .collect();
        let embed = self.min_writer(MatmulKind::Embed, 0) + MAX_SHIFT - MIN_SHIFT;
        loop {
            let before = x.clone();
            let spread = MAX_SHIFT - MIN_SHIFT;
            let least = x[0].body.min(x[0].lead);
            x[0] = ByClass {
                body: x[0].body.min(embed).min(least + spread),
                lead: x[0].lead.min(embed).min(least + spread),
            };
            for n in (1..x.len()).rev() {
                if self.config.is_post_normed() {
                    self.lower_state(n, &mut x, |kind, layer| match kind {
                        MatmulKind::O => ByClass::both(layers[layer].attention),
                        _ => layers[layer].product,
                    });
                    continue;
                }
                let (kind, layer, input) = self.update(n, layers);
                let accumulator = input.body - BASE + self.min_writer(kind, layer);
                let (before, after) = x.split_at_mut(n);
                let mut normed = self.added(n, before[n - 1]);
                let added = if self.config.is_encoder() {
                    &mut normed
                } else {
                    &mut before[n - 1]
                };
                let states = [added, &mut after[0]];
                lower(states, accumulator, input.lead - input.body, self.limit(kind));
            }
            if x == before {
                return x;
            }
        }
    }

    /// Largest shift of a matmul, and largest exponent of the residual's factor.
    fn limit(&self, kind: MatmulKind) -> i32 {
        let bits = super::options::bits_of(&self.weight_bits, kind);
        // `Strategy::weight_bits` has seen to it that there is one.
        shift_limit(self.config, kind, max_weight(bits)).unwrap_or(MIN_SHIFT)
    }

    /// Shifts of a matmul that reads a norm; lowers the bits of weights whose shift would be too large, or whose accumulators
    /// would not fit one limb.
    fn shifts(
        &mut self,
        kind: MatmulKind,
        layer: usize,
        input: i32,
        output: i32,
    ) -> Result<ChannelShift, QuantiseError> {
        let bits = self.channel_bits(kind, layer, input, output);
        let outputs: Vec<i32> = self.reader(kind, layer, output).outputs().take(bits.len()).collect();
        let channels = self.weights.entry((kind, layer)).or_default();
        let shift = |(w, (bits, output)): (&mut i32, (i32, i32))| {
            *w = bits;
            small(input + *w - BASE - output, || matmul_tensor(kind, layer))
        };
        channels
            .iter_mut()
            .zip(bits.into_iter().zip(outputs))
            .map(shift)
            .collect::<Result<_, _>>()
            .map(ChannelShift)
    }

    /// Shifts into a state of the residual stream; lowers the bits of weights where a shift or the residual's factor would
    /// be too large in a class of rows. `before` is the state that is added, if there is one.
    fn writer(
        &mut self,
        kind: MatmulKind,
        layer: usize,
        input: ByClass<i32>,
        before: Option<ByClass<i32>>,
        after: ByClass<i32>,
    ) -> Result<StreamShift, QuantiseError> {
        let limit = self.limit(kind);
        let most = CLASSES.map(|class| {
            let before = before.map_or(i32::MAX, |before| before.of(class));
            before.min(after.of(class)) + limit - (input.of(class) - BASE)
        });
        let most = most[0].min(most[1]);
        let name = || matmul_tensor(kind, layer);
        let channels = 0..self.config.hidden;
        let exponents: Vec<i32> = channels.map(|c| self.written_exponent(kind, c)).collect();
        let exponents = exponents.into_iter().zip(self.bias_bits(kind, layer, input.body));
        let channels = self.weights.entry((kind, layer)).or_default();
        let shift = |(w, (k, biased)): (&mut i32, (i32, i32))| {
            *w = (*w).min(most - k).min(biased);
            small(input.body + *w - BASE - (after.body - k), name)
        };
        let lead = (input.lead - input.body) - (after.lead - after.body);
        Ok(StreamShift {
            body: ChannelShift(
                channels
                    .iter_mut()
                    .zip(exponents)
                    .map(shift)
                    .collect::<Result<_, _>>()?,
            ),
            lead: signed(lead, name)?,
        })
    }

    fn layer(&mut self, l: usize, bits: &Bits) -> Result<LayerParams, QuantiseError> {
        let b = &bits.layers[l];
        let (first, per_layer) = (self.config.attention_state(l), self.config.states_per_layer());
        let x = &bits.residual[first..=first + per_layer];
        let [middle, last] = [x[per_layer / 2], x[per_layer]];
        if self.config.is_encoder() {
            self.level_writers(l);
        }
        let o = self.writer(
            MatmulKind::O,
            l,
            ByClass::both(b.attention),
            self.added_to_output(2 * l + 1, x[0]),
            x[1],
        )?;
        let written = x[per_layer / 2 + 1];
        let down = self.writer(
            MatmulKind::Down,
            l,
            b.product,
            self.added_to_output(2 * l + 2, middle),
            written,
        )?;
        let skip = |n: usize, before: ByClass<i32>, after: ByClass<i32>| {
            if let Some(gain) = self.gain_bits(n, &bits.layers) {
                return self.normed_skip(n, after, gain);
            }
            let name = || format!("residual of layer {l}");
            Ok::<_, QuantiseError>(ByClass {
                body: signed(after.body - before.body, name)?,
                lead: signed(after.lead - before.lead, name)?,
            })
        };
        let skip_attn = skip(2 * l + 1, x[0], middle)?;
        let skip_mlp = skip(2 * l + 2, middle, last)?;
        let act = |class| {
            if !self.config.gated {
                return Ok(0);
            }
            let shift = bits.silu + b.up - BASE - b.product.of(class);
            small(shift, || format!("mlp product of layer {l}"))
        };
        Ok(LayerParams {
            norm_attn: self.norm(first, x[0])?,
            q: self.shifts(MatmulKind::Q, l, b.norm_attn, b.q)?,
            k: self.shifts(MatmulKind::K, l, b.norm_attn, b.k)?,
            v: self.shifts(MatmulKind::V, l, b.norm_attn, b.v)?,
            score: small(b.turned_q + b.turned_k - BASE - bits.score, || {
                format!("scores of layer {l}")
            })?,
            att: small(15 + b.v - BASE - b.attention, || format!("attention of layer {l}"))?,
            skip_attn,
            o,
            norm_mlp: self.norm(first + per_layer / 2, middle)?,
            gate: match self.config.gated {
                true => self.shifts(MatmulKind::Gate, l, b.norm_mlp, bits.gate)?,
                false => ChannelShift(Vec::new()),
            },
            up: self.shifts(MatmulKind::Up, l, b.norm_mlp, b.up)?,
            act: ByClass {
                body: act(RowClass::Body)?,
                lead: act(RowClass::Lead)?,
            },
            skip_mlp,
            head_norms: self.head_norms(l, b)?,
            post_norms: self.post_norms(l, x)?,
            down,
        })
    }

    fn parameters(&mut self, bits: &Bits) -> Result<ModelParams, QuantiseError> {
        let x0 = bits.residual[0];
        let exponent = x0.body.max(x0.lead) - self.min_writer(MatmulKind::Embed, 0) + MIN_SHIFT;
        let exponent = exponent.max(0);
        let last = bits.residual.len() - 1;
        let embed = self.writer(MatmulKind::Embed, 0, ByClass::both(BASE + exponent), None, x0)?;
        let layers = (0..self.config.layers)
            .map(|l| self.layer(l, bits))
            .collect::<Result<_, _>>()?;
        let head = match self.config.is_encoder() {
            true => ChannelShift(Vec::new()),
            false => self.shifts(MatmulKind::Head, 0, bits.norm_final, bits.logit)?,
        };
        // Shifts have decided how many bits weights, and so accumulators, have.
        let accumulator = |kind, layer, out: usize| match self.weights.get(&(kind, layer)) {
            Some(weights) => bits.input(kind, layer) + weights[out],
            None => bits.logit,
        };
        let mut biases = biases::integers(self.config, &self.biases, accumulator);
        biases.extend(self.gain_integers(bits));
        let sums = self.sum_integers(bits);
        if !sums.is_empty() && biases.is_empty() {
            // Gains follow the lists of all matrices.
            biases = vec![Vec::new(); self.config.layers * LAYER_KINDS.len() + 1];
        }
        biases.extend(sums);
        let mut params = ModelParams {
            format: self.options.strategy.format(),
            weight_bits: self.weight_bits,
            leading: self.ranges.leading,
            exponents: self.exponents.clone(),
            embed_exponent: small(exponent, || "embedding".to_string())?,
            embed,
            layers,
            norm_final: self.norm(last, bits.residual[last])?,
            head,
            score_bits: bits.score,
            activation: self.activation,
            gate_bits: bits.gate,
            silu_bits: bits.silu,
            logit_bits: bits.logit,
            columns: Vec::new(),
            biases,
        }
        .with_largest_norms(self.config);
        self.expect_queries(&mut params);
        Ok(params)
    }
}
