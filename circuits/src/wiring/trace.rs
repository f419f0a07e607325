//! Claims that are fixed with the trace: accumulators, wires, statistics, public columns.

use num_traits::{One, Zero};

use super::{eq, felt, padded, pow_column, shift_of, suffix, Public, Update, K, PADDED_EXPONENT};
use crate::air::{base, ff, logits, requant, rope, scores, stream};
use crate::chunk::Boundary;
use crate::claims::{Group, LinearClaim, Weight};
use crate::mle::{causal_eval, eq_table, eval_dense, less_than_eval};
use crate::model::{MatmulKind, RowClass};
use crate::semantics::rope_angle;
use crate::shape::Part;
use crate::statement::norm_of;

impl Public<'_> {
    pub(super) fn state_axis(&self, factor: impl Fn(usize) -> K) -> Weight {
        padded((0..self.shape.states()).map(factor).collect(), self.lead(Part::Stream))
    }

    /// MLE of the powers of a matmul's shifts over its first `extent` output channels.
    fn pow_eval(&self, kind: MatmulKind, layer: usize, point: &[K], extent: usize) -> K {
        let Some(shift) = shift_of(self.params, kind, layer) else {
            return K::zero();
        };
        if let [one] = shift.0.as_slice() {
            return felt(1 << one) * less_than_eval(extent, point);
        }
        let column = pow_column(&self.shape.config, kind, shift, point.len() as u32);
        let mut values: Vec<K> = column.into_iter().map(|v| felt(i64::from(v))).collect();
        values.iter_mut().skip(extent).for_each(|v| *v = K::zero());
        eval_dense(&values, point).unwrap_or_default()
    }

    pub(super) fn score_weights(&self, key: Weight) -> Vec<Weight> {
        vec![
            self.plain_layers(Part::Scores),
            eq(&self.points.head),
            eq(&self.points.token),
            key,
        ]
    }

    /// MLE of a boundary at the point of tokens and features; nothing is zero.
    fn boundary_eval(&self, boundary: Option<&Boundary>) -> K {
        let features = eq_table(self.points.out(self.shape.padded.hidden));
        let rows = boundary
            .map_or([].as_slice(), |b| &b.0)
            .chunks(self.shape.config.hidden.max(1));
        let row = |row: &[i16]| {
            let values = row.iter().zip(&features);
            values.fold(K::zero(), |sum, (v, w)| sum + *w * base(i64::from(*v)))
        };
        let tokens = eq_table(&self.points.token);
        rows.zip(tokens)
            .fold(K::zero(), |sum, (values, w)| sum + w * row(values))
    }

    /// Section 7: the residual wire, norm statistics, and the public columns of the stream.
    fn stream(&self, claims: &mut Vec<LinearClaim>) {
        let (points, n_states) = (self.points, self.shape.states());
        let lead = self.lead(Part::Stream);
        let at = points.out(self.shape.padded.hidden);
        let group = |first: Weight, last: Weight, columns: Vec<(usize, K)>| {
            Group::new(Part::Stream, vec![first, eq(&points.token), last], columns)
        };
        let states = points.state_weights(n_states);
        let plain = || padded(states.clone(), lead);
        // previous(n) = x(n - 1), previous(0) = what enters: the state weights moved by one.
        let shifted = padded(states.iter().skip(1).map(|w| -*w).collect(), lead);
        claims.push(LinearClaim {
            name: "residual wire",
            groups: vec![
                group(plain(), eq(at), vec![(stream::PREV, K::one())]),
                group(
                    shifted,
                    eq(at),
                    vec![(stream::X_HI, felt(256)), (stream::X_LO, K::one())],
                ),
            ],
            value: self.boundary_eval(self.ends.input) * states.first().copied().unwrap_or_default(),
        });
        if !self.shape.chunk.is_last() {
            let mut last = vec![K::zero(); n_states];
            last.iter_mut().next_back().into_iter().for_each(|w| *w = K::one());
            let columns = vec![(stream::X_HI, felt(256)), (stream::X_LO, K::one())];
            claims.push(LinearClaim {
                name: "what leaves the chunk",
                groups: vec![group(padded(last, lead), eq(at), columns)],
                value: self.boundary_eval(self.ends.output),
            });
        }
        let tokens = eq_table(&points.token);
        let over_tokens = |value: &dyn Fn(usize) -> K| {
            let rows = states.iter().enumerate();
            rows.flat_map(|(n, w)| tokens.iter().enumerate().map(move |(i, t)| (n, i, *w * *t)))
                .fold(K::zero(), |sum, (n, i, w)| sum + w * value(n * tokens.len() + i))
        };
        for (limb, column) in [stream::HH, stream::HL, stream::LL].into_iter().enumerate() {
            let norms = &self.statistics.norms;
            let value = |at: usize| {
                norms
                    .get(at)
                    .and_then(|s| s.get(limb))
                    .map_or(K::zero(), |v| felt(i64::from(*v)))
            };
            // Every channel counts 4^k times: once, and 4^k - 1 times where it has an exponent k.
            let ones = Weight::Ones(self.shape.padded.hidden);
            let mut groups = vec![group(plain(), ones, vec![(column, K::one())])];
            if let Some(more) = self.squared_exponents() {
                groups.push(group(plain(), more, vec![(column, K::one())]));
            }
            claims.push(LinearClaim {
                name: "norm statistics",
                groups,
                value: over_tokens(&value),
            });
        }
        // Broadcast along the features that are committed.
        let cover = self.cover(Part::Stream, 2, at);
        let rsqrts = self.statistics.rsqrts(&self.shape.config, self.params, self.leading());
        for (column, limb) in [(stream::R_HI, 8), (stream::R_LO, 0)] {
            let mask = if limb == 0 { 0xff } else { u32::MAX };
            let value = |at: usize| {
                rsqrts
                    .get(at)
                    .map_or(K::zero(), |r| felt(i64::from((r >> limb) & mask)))
            };
            claims.push(LinearClaim {
                name: "reciprocal square root",
                groups: vec![group(plain(), eq(at), vec![(column, K::one())])],
                value: cover * over_tokens(&value),
            });
        }
        let publics = [
            (stream::POW1, self.update_eval(0)),
            (stream::SKIP, self.update_eval(1)),
            (stream::POW2, self.norm_shift_eval()),
        ];
        for (column, value) in publics {
            let groups = vec![group(plain(), eq(at), vec![(column, K::one())])];
            claims.push(LinearClaim {
                name: "stream parameters",
                groups,
                value,
            });
        }
    }

    /// `4^k - 1` of every channel with an exponent `k`; `None` if there is none.
    fn squared_exponents(&self) -> Option<Weight> {
        let exponents = self.params.exponents.iter().enumerate().filter(|(_, k)| **k > 0);
        let entries: Vec<(usize, K)> = exponents
            .map(|(c, k)| (c, felt((1 << (2 * i64::from(*k))) - 1)))
            .collect();
        (!entries.is_empty()).then_some(Weight::Sparse(self.shape.padded.hidden, entries))
    }

    /// Sum over the committed features of `eq(point, .)` times a power of two: that of its channel, and that of
    /// [`PADDED_EXPONENT`] for padding. `channels` is the number of channels with an exponent of their own: if it is one, all
    /// have it.
    fn feature_powers(&self, features: &[K], channels: usize, exponent: &dyn Fn(usize) -> u32) -> K {
        let at = self.points.out(self.shape.padded.hidden);
        let hidden = self.shape.config.hidden;
        let real = less_than_eval(hidden, at);
        let padding = less_than_eval(self.shape.extent(Part::Stream, 2), at) - real;
        let power = |e: u32| base(1 << e.min(30));
        let own = match channels {
            1 => real * power(exponent(0)),
            _ => {
                let terms = features.iter().take(hidden).enumerate();
                terms.fold(K::zero(), |sum, (c, w)| sum + *w * power(exponent(c)))
            }
        };
        own + padding * power(PADDED_EXPONENT.into())
    }

    /// MLE of `POW1` (`which` 0) or `SKIP` (1), committed states and features: the rows of each class have exponents of
    /// their own.
    fn update_eval(&self, which: usize) -> K {
        let points = self.points;
        let features = eq_table(points.out(self.shape.padded.hidden));
        let leading = less_than_eval(self.leading(), &points.token);
        let classes = [(RowClass::Body, K::one() - leading), (RowClass::Lead, leading)];
        let states = points.state_weights(self.shape.states());
        states.iter().enumerate().fold(K::zero(), |sum, (n, state)| {
            let of = |(class, rows): (RowClass, K)| {
                let update = Update::of(self.params, n, class)?;
                let exponent = |c: usize| {
                    let [divisor, factor] = update.exponents(c);
                    u32::from(if which == 0 { divisor } else { factor })
                };
                let channels = update.channels.0.len();
                Some(rows * self.feature_powers(&features, channels, &exponent))
            };
            let classes = classes.into_iter().filter_map(of);
            sum + *state * classes.fold(K::zero(), |sum, v| sum + v)
        })
    }

    /// MLE of `POW2`: the shift of a channel is less by its exponent.
    fn norm_shift_eval(&self) -> K {
        let features = eq_table(self.points.out(self.shape.padded.hidden));
        let states = self.points.state_weights(self.shape.states());
        states.iter().enumerate().fold(K::zero(), |sum, (n, state)| {
            let shift = u32::from(norm_of(self.params, n).shift);
            let exponent = |c: usize| shift.saturating_sub(self.params.exponent(c).into());
            let channels = self.params.exponents.len().max(1);
            sum + *state * self.feature_powers(&features, channels, &exponent)
        })
    }

    /// Public columns of queries, keys, values, attention output and MLP.
    fn layer_parameters(&self, claims: &mut Vec<LinearClaim>) {
        let (p, points) = (&self.shape.padded, self.points);
        let layer_weights = points.layer_weights(self.layers());
        let sum = |value: &dyn Fn(usize) -> K| {
            layer_weights
                .iter()
                .enumerate()
                .fold(K::zero(), |sum, (l, w)| sum + *w * value(l))
        };
        let channels = |part: Part| self.shape.extent(part, 2) << p.head_dim();
        let cos_sin = self.rope_eval();
        for (part, kind, heads) in [(Part::Q, MatmulKind::Q, p.heads), (Part::K, MatmulKind::K, p.kv_heads)] {
            let (head, half, index) = self.head_point(heads);
            let weights = vec![self.plain_layers(part), eq(&points.token), eq(head), eq(index)];
            let columns = vec![
                (rope::before(0, rope::POW), K::one() - half),
                (rope::before(1, rope::POW), half),
            ];
            claims.push(LinearClaim {
                name: "query and key parameters",
                groups: vec![Group::new(part, weights.clone(), columns)],
                value: sum(&|l| self.pow_eval(kind, l, points.out(heads + 1 + p.half), channels(part))),
            });
            let cover = self.cover(part, 2, head);
            for (column, value) in [rope::COS, rope::SIN].into_iter().zip(cos_sin) {
                claims.push(LinearClaim {
                    name: "rotation angles",
                    groups: vec![Group::new(part, weights.clone(), vec![(column, K::one())])],
                    value: cover * sum(&|_| value),
                });
            }
        }
        let (head, ..) = self.head_point(p.kv_heads);
        let last = |log: u32| eq(points.out(log));
        let layer = |l: usize| self.params.layers.get(l);
        let leading = less_than_eval(self.leading(), &points.token);
        let list: [(Part, Vec<Weight>, usize, K); 5] = [
            (
                Part::V,
                vec![
                    self.plain_layers(Part::V),
                    eq(&points.token),
                    eq(head),
                    last(p.head_dim()),
                ],
                requant::POW,
                sum(&|l| self.pow_eval(MatmulKind::V, l, points.out(p.kv()), channels(Part::V))),
            ),
            (
                Part::Att,
                vec![
                    self.plain_layers(Part::Att),
                    eq(&points.token),
                    eq(&points.head),
                    last(p.head_dim()),
                ],
                requant::POW,
                self.cover(Part::Att, 2, &points.head) * sum(&|l| layer(l).map_or(K::zero(), |p| felt(1 << p.att))),
            ),
            (
                Part::Ff,
                vec![self.plain_layers(Part::Ff), eq(&points.token), last(p.ff)],
                ff::GATE_POW,
                sum(&|l| self.pow_eval(MatmulKind::Gate, l, points.out(p.ff), self.shape.extent(Part::Ff, 2))),
            ),
            (
                Part::Ff,
                vec![self.plain_layers(Part::Ff), eq(&points.token), last(p.ff)],
                ff::UP_POW,
                sum(&|l| self.pow_eval(MatmulKind::Up, l, points.out(p.ff), self.shape.extent(Part::Ff, 2))),
            ),
            (
                Part::Ff,
                vec![self.plain_layers(Part::Ff), eq(&points.token), last(p.ff)],
                ff::POW,
                self.cover(Part::Ff, 2, points.out(p.ff))
                    * sum(&|l| {
                        let power = |shift: u8| felt(1 << shift);
                        layer(l).map_or(K::zero(), |p| {
                            power(p.act.body) + leading * (power(p.act.lead) - power(p.act.body))
                        })
                    }),
            ),
        ];
        for (part, weights, column, value) in list {
            let groups = vec![Group::new(part, weights, vec![(column, K::one())])];
            claims.push(LinearClaim {
                name: "layer parameters",
                groups,
                value,
            });
        }
    }

    /// MLEs of the RoPE tables at (token, index in half).
    fn rope_eval(&self) -> [K; 2] {
        let config = &self.shape.config;
        let tokens = eq_table(&self.points.token);
        let index = eq_table(self.points.out(self.shape.padded.half));
        let mut sums = [K::zero(); 2];
        for (i, t) in tokens.iter().enumerate() {
            let mut row = [K::zero(); 2];
            for (x, w) in index.iter().enumerate().take(config.head_dim / 2) {
                let (cos, sin) = rope_angle(config, i, x);
                row[0] += *w * base(i64::from(cos));
                row[1] += *w * base(i64::from(sin));
            }
            sums[0] += *t * row[0];
            sums[1] += *t * row[1];
        }
        sums
    }

    /// Softmax: parameters, mask, maximum, selection, sums and reciprocals.
    fn softmax(&self, claims: &mut Vec<LinearClaim>) {
        let points = self.points;
        let layers = points.layer_weights(self.layers());
        let total = layers.iter().fold(K::zero(), |sum, w| sum + *w);
        let group = |weights: Vec<Weight>, column: usize, k: K| Group::new(Part::Scores, weights, vec![(column, k)]);
        let at_key = || self.score_weights(eq(&points.key));
        let cover = self.cover(Part::Scores, 1, &points.head);
        let pow = layers
            .iter()
            .zip(&self.params.layers)
            .fold(K::zero(), |sum, (w, l)| sum + *w * felt(1 << l.score));
        claims.push(LinearClaim {
            name: "score parameters",
            groups: vec![group(at_key(), scores::POW, K::one())],
            value: cover * pow,
        });
        claims.push(LinearClaim {
            name: "causal mask",
            groups: vec![group(at_key(), scores::MASK, K::one())],
            value: cover * total * causal_eval(&points.token, &points.key).unwrap_or_default(),
        });
        let other = self.score_weights(eq(suffix(&points.other, self.shape.token)));
        claims.push(LinearClaim {
            name: "row maximum is constant",
            groups: vec![
                group(at_key(), scores::MAX, K::one()),
                group(other, scores::MAX, -K::one()),
            ],
            value: K::zero(),
        });
        // Real heads only: padded heads have no statistics.
        let heads: Vec<K> = eq_table(&points.head)
            .into_iter()
            .take(self.shape.config.heads)
            .collect();
        let real = |key: Weight| {
            let weights = vec![
                self.plain_layers(Part::Scores),
                padded(heads.clone(), self.shape.padded.heads),
            ];
            weights.into_iter().chain([eq(&points.token), key]).collect::<Vec<_>>()
        };
        let ones = || Weight::Ones(self.shape.token);
        let selected = heads.iter().fold(K::zero(), |sum, w| sum + *w) * total;
        claims.push(LinearClaim {
            name: "one maximum is selected",
            groups: vec![group(real(ones()), scores::SELECT, K::one())],
            value: selected,
        });
        let tokens = eq_table(&points.token);
        let over_rows = |values: &[u32]| {
            let mut rows = values.chunks(tokens.len().max(1));
            let mut sum = K::zero();
            for l in &layers {
                for h in &heads {
                    let row = rows.next().unwrap_or_default();
                    let dot = row
                        .iter()
                        .zip(&tokens)
                        .fold(K::zero(), |s, (v, t)| s + *t * base(i64::from(*v)));
                    sum += *l * *h * dot;
                }
            }
            sum
        };
        claims.push(LinearClaim {
            name: "softmax sums",
            groups: vec![group(real(ones()), scores::EXP, K::one())],
            value: over_rows(&self.statistics.sums),
        });
        let reciprocals = self.statistics.reciprocals();
        let hi: Vec<u32> = reciprocals.iter().map(|r| r >> 8).collect();
        let lo: Vec<u32> = reciprocals.iter().map(|r| r & 0xff).collect();
        for (column, values) in [(scores::R_HI, hi), (scores::R_LO, lo)] {
            claims.push(LinearClaim {
                name: "softmax reciprocals",
                groups: vec![group(real(eq(&points.key)), column, K::one())],
                value: over_rows(&values),
            });
        }
    }

    /// The public column of the logits, on the committed entries.
    fn logit_powers(&self) -> LinearClaim {
        let points = self.points;
        let vocab = points.out(self.shape.padded.vocab);
        let weights = vec![eq(&points.output), eq(vocab)];
        let columns = vec![(logits::REMAINDER.pow(), K::one())];
        let powers = self.pow_eval(MatmulKind::Head, 0, vocab, self.shape.extent(Part::Logits, 1));
        LinearClaim {
            name: "head parameters",
            groups: vec![Group::new(Part::Logits, weights, columns)],
            value: self.cover(Part::Logits, 0, &points.output) * powers,
        }
    }

    /// All claims that are fixed before the product sumcheck; `product` is its claim.
    pub fn trace_claims(&self, product: K) -> Vec<LinearClaim> {
        let mut claims = self.accumulators(product);
        self.stream(&mut claims);
        self.layer_parameters(&mut claims);
        self.softmax(&mut claims);
        if self.shape.chunk.is_last() {
            claims.push(self.logit_powers());
        }
        claims.into_iter().map(|c| c.in_lanes(self.shape)).collect()
    }
}
