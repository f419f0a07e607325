//! All shifts, and the integers of a key.

use tessera_circuits::model::{
    AttentionParams, ByClass, ChannelShift, LayerParams, MatmulKind, MatrixId, MlpParams, ModelParams, RowClass,
    StreamShift, LAYER_KINDS,
};

use super::bits::{Bits, LayerBits};
use super::limits::{signed, small};
use super::{Shifts, Solved};
use crate::biases;
use crate::limbs::BASE;
use crate::options::MIN_SHIFT;
use crate::QuantiseError;

/// What a layer adds to the stream.
struct Writers {
    o: StreamShift,
    down: StreamShift,
    skip_attn: ByClass<i8>,
    skip_mlp: ByClass<i8>,
}

impl Shifts<'_> {
    /// The integers of a key.
    ///
    /// # Errors
    /// Names a tensor whose range no choice of scales can represent.
    pub(crate) fn solve(mut self) -> Result<Solved, QuantiseError> {
        let bits = self.chosen.activations();
        let params = self.parameters(&bits)?;
        Ok(Solved {
            params,
            report: self.report(&bits),
            weights: self.chosen.weights.bits,
            products: self.chosen.products,
            normed: self.normed,
        })
    }

    fn parameters(&mut self, bits: &Bits) -> Result<ModelParams, QuantiseError> {
        let given = self.chosen.given;
        let x0 = bits.residual[0];
        let exponent = x0.body.max(x0.lead) - self.chosen.fewest_written(MatrixId::EMBED) + MIN_SHIFT;
        let exponent = exponent.max(0);
        let last = bits.residual.len() - 1;
        let embed = self.writing(MatrixId::EMBED, ByClass::both(BASE + exponent), None, x0)?;
        let layers = (0..given.config.layers)
            .map(|l| self.layer(l, bits))
            .collect::<Result<_, _>>()?;
        let head = match given.config.generates() {
            true => self.reading(MatrixId::HEAD, bits.norm_final, bits.logit)?,
            false => ChannelShift(Vec::new()),
        };
        let mut params = ModelParams {
            format: given.options.strategy.format(),
            weight_bits: given.weight_bits,
            leading: given.ranges.leading,
            exponents: self.chosen.stream.clone(),
            embed_exponent: small(exponent, || "embedding".to_string())?,
            embed,
            layers,
            norm_final: self.norm(last, bits.residual[last])?,
            head,
            score_bits: bits.score,
            activation: given.activation,
            gate_bits: bits.gate,
            silu_bits: bits.silu,
            logit_bits: bits.logit,
            columns: Vec::new(),
            biases: self.added_integers(bits),
        }
        .with_largest_norms(given.config);
        self.chosen.expect_queries(&mut params);
        Ok(params)
    }

    /// Biases and gains, in the order of the key. Shifts must have decided how many bits weights, and so accumulators, have.
    fn added_integers(&self, bits: &Bits) -> Vec<Vec<i32>> {
        let (given, chosen) = (self.chosen.given, &self.chosen);
        let accumulator = |id: MatrixId, out: usize| match chosen.weights.bits.get(&id) {
            Some(weights) => bits.input(id) + weights[out],
            None => bits.logit,
        };
        let mut all = biases::integers(given.config, &given.biases, accumulator);
        all.extend(chosen.gain_integers(bits));
        let sums = chosen.sum_integers(bits);
        if !sums.is_empty() && all.is_empty() {
            // Gains follow the lists of all matrices.
            all = vec![Vec::new(); given.config.layers * LAYER_KINDS.len() + 1];
        }
        all.extend(sums);
        all
    }

    fn layer(&mut self, l: usize, bits: &Bits) -> Result<LayerParams, QuantiseError> {
        let given = self.chosen.given;
        let b = &bits.layers[l];
        let (first, per_layer) = (given.config.attention_state(l), given.config.states_per_layer());
        let x = &bits.residual[first..=first + per_layer];
        let writers = self.writers(l, bits, x)?;
        let attention = AttentionParams {
            norm: self.norm(first, x[0])?,
            q: self.reading(MatmulKind::Q.at(l), b.norm_attn, b.q)?,
            k: self.reading(MatmulKind::K.at(l), b.norm_attn, b.k)?,
            v: self.reading(MatmulKind::V.at(l), b.norm_attn, b.v)?,
            head_norms: given.head_norms(l, b)?,
            score: small(b.turned_q + b.turned_k - BASE - bits.score, || {
                format!("scores of layer {l}")
            })?,
            att: small(15 + b.v - BASE - b.attention, || format!("attention of layer {l}"))?,
            o: writers.o,
            skip: writers.skip_attn,
            post_norm: self.post_norm(MatmulKind::O.at(l), x)?,
        };
        let mlp = MlpParams {
            norm: self.norm(first + per_layer / 2, x[per_layer / 2])?,
            gate: match given.config.gated {
                true => self.reading(MatmulKind::Gate.at(l), b.norm_mlp, bits.gate)?,
                false => ChannelShift(Vec::new()),
            },
            up: self.reading(MatmulKind::Up.at(l), b.norm_mlp, b.up)?,
            act: ByClass {
                body: self.product_shift(l, RowClass::Body, bits)?,
                lead: self.product_shift(l, RowClass::Lead, bits)?,
            },
            down: writers.down,
            skip: writers.skip_mlp,
            post_norm: self.post_norm(MatmulKind::Down.at(l), x)?,
        };
        Ok(LayerParams { attention, mlp })
    }

    /// Shifts of the matmuls of a layer that write to the stream, whose states are `x` from that which attention reads on.
    fn writers(&mut self, l: usize, bits: &Bits, x: &[ByClass<i32>]) -> Result<Writers, QuantiseError> {
        let b = &bits.layers[l];
        let half = x.len() / 2;
        if self.chosen.given.config.sums_first() {
            self.chosen.weights.level_writers(l);
        }
        let added = self.chosen.added_to_output(2 * l + 1, x[0]);
        let o = self.writing(MatmulKind::O.at(l), ByClass::both(b.attention), added, x[1])?;
        let added = self.chosen.added_to_output(2 * l + 2, x[half]);
        let down = self.writing(MatmulKind::Down.at(l), b.product, added, x[half + 1])?;
        Ok(Writers {
            o,
            down,
            skip_attn: self.skip(2 * l + 1, &bits.layers, [x[0], x[half]])?,
            skip_mlp: self.skip(2 * l + 2, &bits.layers, [x[half], x[2 * half]])?,
        })
    }

    /// The exponent of the factor with which a state is added to state `n` of a layer, less that of the shift.
    fn skip(
        &self,
        n: usize,
        layers: &[LayerBits],
        [before, after]: [ByClass<i32>; 2],
    ) -> Result<ByClass<i8>, QuantiseError> {
        if let Some(gain) = self.chosen.gain_bits(n, layers) {
            return self.chosen.normed_skip(n, after, gain);
        }
        let name = || format!("residual of layer {}", (n - 1) / 2);
        Ok(ByClass {
            body: signed(after.body - before.body, name)?,
            lead: signed(after.lead - before.lead, name)?,
        })
    }

    /// The shift of the MLP's product in a class of rows; none without gates.
    fn product_shift(&self, l: usize, class: RowClass, bits: &Bits) -> Result<u8, QuantiseError> {
        if !self.chosen.given.config.gated {
            return Ok(0);
        }
        let b = &bits.layers[l];
        let shift = bits.silu + b.up - BASE - b.product.of(class);
        small(shift, || format!("mlp product of layer {l}"))
    }
}
