//! Fractional bits of activations.

use tessera_circuits::bounds::MAX_ATT_SHIFT;
use tessera_circuits::model::{ByClass, MatmulKind, MatrixId, RowClass};

use super::bits::{Bits, LayerBits};
use super::given::update;
use super::limits::{fit, gate_bits, lower};
use super::Exponents;
use crate::limbs::{Reader, BASE};
use crate::options::{MAX_SHIFT, MIN_SHIFT};

impl Exponents<'_> {
    /// Bits of the output of a matmul: as wished, unless the shift would be too small.
    fn output(&self, id: MatrixId, input: i32, wish: i32) -> i32 {
        wish.min(input + self.weights.fewest(id) - BASE - MIN_SHIFT)
    }

    /// A matmul that reads a norm and has an output of `output` bits.
    pub(super) fn reader(&self, id: MatrixId, output: i32) -> Reader<'_> {
        let (kind, layer) = (id.kind(), id.layer());
        Reader {
            id,
            hidden: self.given.config.hidden,
            output,
            exponents: match kind {
                MatmulKind::Up => &self.products[layer],
                _ => &[],
            },
            weights: &self.weights.bits[&id],
            squares: &self.weights.squares[&id],
            biases: self.given.biases(id),
        }
    }

    /// The bits of all activations.
    pub(super) fn activations(&self) -> Bits {
        let (given, config) = (self.given, self.given.config);
        let (gate, silu) = (self.gate(), given.silu());
        let layers = 0..config.layers;
        let mut layers: Vec<LayerBits> = layers.map(|l| self.layer_bits(l, gate, silu)).collect();
        let products = layers.iter().map(|b| b.turned_q + b.turned_k - BASE - MIN_SHIFT);
        let score = products.fold(given.global(|r| given.fit(r.scores)), i32::min);
        for b in &mut layers {
            b.lower_scores(score);
            if !config.head_norms {
                (b.q, b.k) = (b.turned_q, b.turned_k);
            }
        }
        let norm_final = self.norms[self.norms.len() - 1];
        Bits {
            residual: self.residual(&layers),
            layers,
            norm_final,
            score,
            gate,
            silu,
            logit: match config.generates() {
                true => self.output(MatrixId::HEAD, norm_final, given.fit(given.ranges.logits)),
                false => given.vector_bits(norm_final),
            },
        }
    }

    /// Bits of what is looked up in the table, in all layers.
    fn gate(&self) -> i32 {
        let (config, headroom) = (self.given.config, self.given.options.headroom);
        let wish = self.given.global(|r| gate_bits(r.gate, headroom));
        let lowered = |wish, l| self.output(self.given.table_kind().at(l), self.norms[config.mlp_state(l)], wish);
        (0..config.layers).fold(wish, lowered)
    }

    /// The bits of a layer, where tables are looked up at `gate` bits and have `silu`.
    fn layer_bits(&self, l: usize, gate: i32, silu: i32) -> LayerBits {
        let (given, config) = (self.given, self.given.config);
        let r = &given.ranges.layers[l];
        let norm_attn = self.norms[config.attention_state(l)];
        let norm_mlp = self.norms[config.mlp_state(l)];
        let q = self.output(MatmulKind::Q.at(l), norm_attn, given.fit(r.q));
        let q = self.query_bits(l, norm_attn, q);
        let k = self.output(MatmulKind::K.at(l), norm_attn, given.fit(r.k));
        let (turned_q, turned_k) = given.turned_bits(l).unwrap_or((q, k));
        // Values have a bit less than other activations.
        let v = self.output(MatmulKind::V.at(l), norm_attn, given.fit(r.v) - 1);
        // Probabilities have 15 bits.
        let most = 15 + v - BASE;
        let [up, body, lead] = match config.gated {
            false => [gate, silu, silu],
            true => self.product_bits(l, norm_mlp, silu),
        };
        LayerBits {
            norm_attn,
            q,
            k,
            turned_q,
            turned_k,
            v,
            attention: given
                .fit(r.attention)
                .clamp(most - i32::from(MAX_ATT_SHIFT), most - MIN_SHIFT),
            norm_mlp,
            up,
            product: match given.is_biased(MatmulKind::Down.at(l)) {
                true => ByClass::both(lead),
                false => ByClass { body, lead },
            },
        }
    }

    /// Bits of the output of a layer's Up, and of its product in the body and in leading rows.
    fn product_bits(&self, l: usize, norm: i32, silu: i32) -> [i32; 3] {
        let (up, exponents) = (&self.weights.bits[&MatmulKind::Up.at(l)], &self.products[l]);
        let room = self.given.room(l, (norm, up), silu, !exponents.is_empty());
        room.bits(exponents)
    }

    /// Bits of the residual stream: as many as fit, lowered until every channel of every update has a shift in both classes
    /// of rows.
    fn residual(&self, layers: &[LayerBits]) -> Vec<ByClass<i32>> {
        let states = 0..self.given.ranges.residual.len();
        let mut x: Vec<ByClass<i32>> = states.map(|n| self.fitting_state(n)).collect();
        loop {
            let before = x.clone();
            self.lower_residual(&mut x, layers);
            if x == before {
                return x;
            }
        }
    }

    /// The most bits with which a state of the residual stream fits.
    fn fitting_state(&self, n: usize) -> ByClass<i32> {
        let state = &self.given.ranges.residual[n];
        let of = |class: RowClass| {
            let channels = state.of(class).max.iter().enumerate();
            let needs = channels.map(|(c, max)| f64::from(*max) * f64::from(-self.state_exponent(n, c)).exp2());
            fit(needs.fold(0.0, f64::max) * self.given.headroom(n))
        };
        let body = of(RowClass::Body);
        // Leading rows that were not seen are no smaller than others, unless there are none but those of one token.
        let lead = match self.given.ranges.leading.token {
            Some(_) => of(RowClass::Lead),
            None => of(RowClass::Lead).min(body),
        };
        ByClass { body, lead }
    }

    /// Lowers the bits of states, from the last to the first, as far as the updates between them ask for it.
    fn lower_residual(&self, x: &mut [ByClass<i32>], layers: &[LayerBits]) {
        let config = self.given.config;
        let spread = MAX_SHIFT - MIN_SHIFT;
        let embed = self.fewest_written(MatrixId::EMBED) + spread;
        let least = x[0].body.min(x[0].lead);
        x[0] = ByClass {
            body: x[0].body.min(embed).min(least + spread),
            lead: x[0].lead.min(embed).min(least + spread),
        };
        for n in (1..x.len()).rev() {
            if config.norms_outputs() {
                self.lower_state(n, x, |id| match id.kind() {
                    MatmulKind::O => ByClass::both(layers[id.layer()].attention),
                    _ => layers[id.layer()].product,
                });
                continue;
            }
            let (id, input) = update(n, layers);
            let accumulator = input.body - BASE + self.fewest_written(id);
            let (before, after) = x.split_at_mut(n);
            let mut normed = self.added(n, before[n - 1]);
            let added = if config.sums_first() {
                &mut normed
            } else {
                &mut before[n - 1]
            };
            let states = [added, &mut after[0]];
            lower(
                states,
                accumulator,
                input.lead - input.body,
                self.given.limit(id.kind()),
            );
        }
    }
}

impl LayerBits {
    /// Lowers the bits of queries and keys until their scores, at `score` bits, have a shift: the larger of the two gives way.
    fn lower_scores(&mut self, score: i32) {
        let (q, k) = (&mut self.turned_q, &mut self.turned_k);
        for _ in 0..(*q + *k - BASE - MAX_SHIFT - score).max(0) {
            *(if *q > *k { &mut *q } else { &mut *k }) -= 1;
        }
    }
}
