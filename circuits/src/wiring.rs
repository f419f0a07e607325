//! The list of claims of a proof (docs/protocol.md, sections 5 to 8), written once and walked by both
//! sides. Every accumulator, operand, broadcast, statistic and public column of [`crate::air`] appears
//! here; what does not appear here or in a row-local constraint is free.

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;

use crate::air::{base, ff, logits, requant, rope, scores, stream};
use crate::claims::{Group, LinearClaim, Weight};
use crate::mle::{causal_eval, eq_table, eval_dense, index_eq, less_than_eval};
use crate::model::{ChannelShift, MatmulKind, ModelConfig, ModelParams, LAYER_KINDS, TILE_LOG};
use crate::semantics::rope_angle;
use crate::shape::{Part, Shape};
use crate::statement::{norm_of, Statement, Statistics};

type K = SecureField;

/// Bound of the number of claims of a proof, which does not depend on the model.
pub const MAX_CLAIMS: usize = 64;

/// Random point of the accumulator and wire claims, drawn after the trace commitment.
#[derive(Clone, Debug)]
pub struct Points {
    pub layer: Vec<K>,
    pub state: Vec<K>,
    pub token: Vec<K>,
    pub key: Vec<K>,
    pub head: Vec<K>,
    /// Output channels; a tensor of width `2^k` uses the last `k` coordinates.
    pub out: Vec<K>,
    /// Second point of broadcast checks, along tokens or vocabulary (last coordinates).
    pub other: Vec<K>,
    /// Powers weigh the matmul kinds.
    pub kind: K,
    /// Weighs the low limb against the high limb.
    pub limb: K,
}

impl Points {
    fn lengths(shape: &Shape) -> [usize; 7] {
        let p = &shape.padded;
        let out = [p.hidden, p.q(), p.kv(), p.ff, p.vocab].into_iter().max().unwrap_or(0);
        let state = crate::model::log_ceil(shape.states(), 0);
        [
            p.layers,
            state,
            shape.token,
            shape.token,
            p.heads,
            out,
            p.vocab.max(shape.token),
        ]
        .map(|l| l as usize)
    }

    /// Number of challenges.
    pub fn count(shape: &Shape) -> usize {
        Self::lengths(shape).iter().sum::<usize>() + 2
    }

    /// From [`Points::count`] challenges, in order.
    pub fn new(shape: &Shape, challenges: Vec<K>) -> Self {
        let mut rest = challenges.into_iter();
        let [layer, state, token, key, head, out, other] =
            Self::lengths(shape).map(|n| rest.by_ref().take(n).collect::<Vec<_>>());
        let kind = rest.next().unwrap_or_default();
        let limb = rest.next().unwrap_or_default();
        Self {
            layer,
            state,
            token,
            key,
            head,
            out,
            other,
            kind,
            limb,
        }
    }

    /// Point for a width of `2^log` output channels.
    pub fn out(&self, log: u32) -> &[K] {
        suffix(&self.out, log)
    }

    /// Weight of a matmul kind among the batched accumulators.
    pub fn kind_weight(&self, kind: MatmulKind) -> K {
        power(self.kind, kind as usize)
    }

    /// Weight of the scores among the batched accumulators.
    pub fn score_weight(&self) -> K {
        power(self.kind, 9)
    }

    /// Weight of the attention output among the batched accumulators.
    pub fn att_weight(&self) -> K {
        power(self.kind, 10)
    }

    /// `eq(layer, l)` for the real layers.
    pub fn layer_weights(&self, layers: usize) -> Vec<K> {
        let mut table = eq_table(&self.layer);
        table.truncate(layers);
        table
    }

    /// `eq(state, n)` for the real states.
    pub fn state_weights(&self, states: usize) -> Vec<K> {
        let mut table = eq_table(&self.state);
        table.truncate(states);
        table
    }

    /// Weight of matmul `(kind, layer)` among the batched accumulators.
    pub fn matmul_weight(&self, kind: MatmulKind, layer: usize) -> K {
        let layered = LAYER_KINDS.contains(&kind);
        self.kind_weight(kind)
            * if layered {
                index_eq(layer, &self.layer)
            } else {
                K::one()
            }
    }
}

/// Last `log` coordinates of a point.
pub fn suffix(point: &[K], log: u32) -> &[K] {
    point.get(point.len().saturating_sub(log as usize)..).unwrap_or(point)
}

fn power(x: K, n: usize) -> K {
    (0..n).fold(K::one(), |acc, _| acc * x)
}

fn felt(v: i64) -> K {
    base(v).into()
}

/// A vector along an axis of `2^log` entries, zero beyond `values`.
fn padded(mut values: Vec<K>, log: u32) -> Weight {
    values.resize(1 << log, K::zero());
    Weight::Dense(values)
}

fn eq(point: &[K]) -> Weight {
    Weight::Eq(point.to_vec())
}

/// The operand instances of the batched matmul sumcheck (docs/protocol.md, sections 5 and 6), in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Normed states times q, k, v, gate, up and head; variables (state, feature).
    Norm,
    /// Attention output times o; variables (layer, head, index).
    Att,
    /// MLP product times down; variables (layer, feature).
    Ff,
    /// Public one-hot matrix times embedding; variables (vocabulary).
    Embed,
    /// Queries times keys; variables (layer, head, half, index).
    Score,
    /// Probabilities times values; variables (layer, head, key).
    Value,
}

/// All products, in order.
pub const PRODUCTS: [Product; 6] = [
    Product::Norm,
    Product::Att,
    Product::Ff,
    Product::Embed,
    Product::Score,
    Product::Value,
];

/// The products with weights, in order.
pub const WEIGHTED: [Product; 4] = [Product::Norm, Product::Att, Product::Ff, Product::Embed];

impl Product {
    /// Number of variables of this instance.
    pub fn variables(self, shape: &Shape) -> u32 {
        let p = &shape.padded;
        let lead = |part: Part| shape.axes(part).first().copied().unwrap_or(0);
        match self {
            Self::Norm => lead(Part::Stream) + p.hidden,
            Self::Att => lead(Part::Att) + p.q(),
            Self::Ff => lead(Part::Ff) + p.ff,
            Self::Embed => p.vocab,
            Self::Score => p.layers + p.heads + p.head_dim(),
            Self::Value => p.layers + p.heads + shape.token,
        }
    }

    /// The instance that a matmul kind belongs to, and its index on the instance's leading axis.
    pub fn of(kind: MatmulKind, layer: usize, layers: usize) -> (Self, usize) {
        match kind {
            MatmulKind::Embed => (Self::Embed, 0),
            MatmulKind::Q | MatmulKind::K | MatmulKind::V => (Self::Norm, 2 * layer),
            MatmulKind::Gate | MatmulKind::Up => (Self::Norm, 2 * layer + 1),
            MatmulKind::Head => (Self::Norm, 2 * layers),
            MatmulKind::O => (Self::Att, layer),
            MatmulKind::Down => (Self::Ff, layer),
        }
    }
}

/// Largest number of variables of a product.
pub fn product_variables(shape: &Shape) -> u32 {
    PRODUCTS.iter().map(|p| p.variables(shape)).max().unwrap_or(0)
}

/// Everything public that claims depend on.
pub struct Public<'a> {
    pub shape: &'a Shape,
    pub params: &'a ModelParams,
    pub statement: &'a Statement,
    pub statistics: &'a Statistics,
    pub points: &'a Points,
}

/// `2^shift` of every padded output channel.
pub fn pow_column(config: &ModelConfig, kind: MatmulKind, shift: &ChannelShift, log: u32) -> Vec<u32> {
    if let [one] = shift.0.as_slice() {
        return vec![1 << one; 1 << log];
    }
    let mut column = vec![2; 1 << log];
    for (out, s) in shift.0.iter().enumerate() {
        if let Some(at) = column.get_mut(config.pad_out(kind, out)) {
            *at = 1 << s;
        }
    }
    column
}

/// The parameters of a matmul's requantisation.
pub fn shift_of(params: &ModelParams, kind: MatmulKind, layer: usize) -> Option<&ChannelShift> {
    let of = params.layers.get(layer);
    match kind {
        MatmulKind::Embed => Some(&params.embed),
        MatmulKind::Head => Some(&params.head),
        MatmulKind::Q => of.map(|l| &l.q),
        MatmulKind::K => of.map(|l| &l.k),
        MatmulKind::V => of.map(|l| &l.v),
        MatmulKind::O => of.map(|l| &l.o),
        MatmulKind::Gate => of.map(|l| &l.gate),
        MatmulKind::Up => of.map(|l| &l.up),
        MatmulKind::Down => of.map(|l| &l.down),
    }
}

/// The matmul that updates a residual state.
pub fn update_of(state: usize) -> (MatmulKind, usize) {
    match state {
        0 => (MatmulKind::Embed, 0),
        n if n % 2 == 1 => (MatmulKind::O, n / 2),
        n => (MatmulKind::Down, n / 2 - 1),
    }
}

/// Exponent of the factor of the previous residual in the update of a state.
pub fn skip_of(params: &ModelParams, state: usize) -> u8 {
    match update_of(state) {
        (MatmulKind::O, l) => params.layers.get(l).map_or(0, |p| p.skip_attn),
        (MatmulKind::Down, l) => params.layers.get(l).map_or(0, |p| p.skip_mlp),
        _ => 0,
    }
}

impl Public<'_> {
    fn lead(&self, part: Part) -> u32 {
        self.shape.axes(part).first().copied().unwrap_or(0)
    }

    fn layers(&self) -> usize {
        self.shape.config.layers
    }

    /// `eq(layer, .)` on the real layers, times a factor per layer, on the leading axis of `part`.
    fn layer_axis(&self, part: Part, factor: impl Fn(usize) -> K) -> Weight {
        let weights = self.points.layer_weights(self.layers());
        padded(
            weights.iter().enumerate().map(|(l, w)| *w * factor(l)).collect(),
            self.lead(part),
        )
    }

    fn plain_layers(&self, part: Part) -> Weight {
        self.layer_axis(part, |_| K::one())
    }

    fn state_axis(&self, factor: impl Fn(usize) -> K) -> Weight {
        padded((0..self.shape.states()).map(factor).collect(), self.lead(Part::Stream))
    }

    fn pow_eval(&self, kind: MatmulKind, layer: usize, point: &[K]) -> K {
        let Some(shift) = shift_of(self.params, kind, layer) else {
            return K::zero();
        };
        if let [one] = shift.0.as_slice() {
            return felt(1 << one);
        }
        let column = pow_column(&self.shape.config, kind, shift, point.len() as u32);
        eval_dense(
            &column.into_iter().map(|v| felt(i64::from(v))).collect::<Vec<_>>(),
            point,
        )
        .unwrap_or_default()
    }

    /// Accumulators of `columns` (high, low) of one part as terms of the batched matmul claim.
    fn accumulator(&self, part: Part, weights: Vec<Weight>, columns: [usize; 2], factor: K) -> Group {
        let [hi, lo] = columns;
        Group {
            part,
            weights,
            columns: vec![(hi, factor), (lo, factor * self.points.limb)],
        }
    }

    /// Coordinates of the output point along (head, half, index) for `heads_log` heads.
    fn head_point(&self, heads_log: u32) -> (&[K], K, &[K]) {
        let half = self.shape.padded.half as usize;
        let point = self.points.out(heads_log + 1 + self.shape.padded.half);
        let (heads, rest) = point.split_at((heads_log as usize).min(point.len()));
        let index = suffix(rest, half as u32);
        (heads, rest.first().copied().unwrap_or_default(), index)
    }

    /// Section 5 and 6: all accumulators at the random point, batched; the value is the claim of the
    /// product sumcheck.
    fn accumulators(&self, value: K) -> LinearClaim {
        let (p, points) = (&self.shape.padded, self.points);
        let mut groups = Vec::new();
        let stream = self.state_axis(|n| {
            let (kind, layer) = update_of(n);
            points.matmul_weight(kind, layer)
        });
        let weights = vec![stream, eq(&points.token), eq(points.out(p.hidden))];
        groups.push(self.accumulator(Part::Stream, weights, [stream::ACC_HI, stream::ACC_LO], K::one()));

        for (part, kind, heads) in [(Part::Q, MatmulKind::Q, p.heads), (Part::K, MatmulKind::K, p.kv_heads)] {
            let (head, half, index) = self.head_point(heads);
            for (lane, coefficient) in [K::one() - half, half].into_iter().enumerate() {
                let weights = vec![self.plain_layers(part), eq(&points.token), eq(head), eq(index)];
                let columns = [rope::ACC_HI, rope::ACC_LO].map(|c| rope::before(lane, c));
                groups.push(self.accumulator(part, weights, columns, coefficient * points.kind_weight(kind)));
            }
        }
        let (head, ..) = self.head_point(p.kv_heads);
        let weights = vec![
            self.plain_layers(Part::V),
            eq(&points.token),
            eq(head),
            eq(points.out(p.head_dim())),
        ];
        let factor = points.kind_weight(MatmulKind::V);
        groups.push(self.accumulator(Part::V, weights, [requant::ACC_HI, requant::ACC_LO], factor));

        let weights = vec![self.plain_layers(Part::Ff), eq(&points.token), eq(points.out(p.ff))];
        for (kind, columns) in [
            (MatmulKind::Gate, [ff::GATE_HI, ff::GATE_LO]),
            (MatmulKind::Up, [ff::UP_HI, ff::UP_LO]),
        ] {
            groups.push(self.accumulator(Part::Ff, weights.clone(), columns, points.kind_weight(kind)));
        }
        let factor = points.kind_weight(MatmulKind::Head);
        groups.push(self.logits(points.out(p.vocab), |lane| {
            [
                (logits::ACC_HI, lane * factor),
                (logits::ACC_LO, lane * factor * points.limb),
            ]
        }));

        let weights = self.score_weights(eq(&points.key));
        groups.push(self.accumulator(
            Part::Scores,
            weights,
            [scores::ACC_HI, scores::ACC_LO],
            points.score_weight(),
        ));
        let weights = vec![
            self.plain_layers(Part::Att),
            eq(&points.token),
            eq(&points.head),
            eq(points.out(p.head_dim())),
        ];
        groups.push(self.accumulator(
            Part::Att,
            weights,
            [requant::ACC_HI, requant::ACC_LO],
            points.att_weight(),
        ));
        LinearClaim {
            name: "accumulators",
            groups,
            value,
        }
    }

    fn score_weights(&self, key: Weight) -> Vec<Weight> {
        vec![
            self.plain_layers(Part::Scores),
            eq(&self.points.head),
            eq(&self.points.token),
            key,
        ]
    }

    /// A group over all vocabulary lanes at a point of the vocabulary; `columns` gives a lane's columns
    /// and coefficients from the lane's weight.
    fn logits<const N: usize>(&self, vocab: &[K], columns: impl Fn(K) -> [(usize, K); N]) -> Group {
        let (lane_point, rest) = vocab.split_at((self.shape.lanes as usize).min(vocab.len()));
        let columns = eq_table(lane_point)
            .into_iter()
            .enumerate()
            .flat_map(|(lane, w)| columns(w).map(|(c, k)| (logits::at(lane, c), k)))
            .collect();
        Group {
            part: Part::Logits,
            weights: vec![eq(&self.points.token), eq(rest)],
            columns,
        }
    }

    /// Section 7: the residual wire, norm statistics, and the public columns of the stream.
    fn stream(&self, claims: &mut Vec<LinearClaim>) {
        let (points, n_states) = (self.points, self.shape.states());
        let lead = self.lead(Part::Stream);
        let at = points.out(self.shape.padded.hidden);
        let group = |first: Weight, last: Weight, columns: Vec<(usize, K)>| Group {
            part: Part::Stream,
            weights: vec![first, eq(&points.token), last],
            columns,
        };
        let states = points.state_weights(n_states);
        let plain = || padded(states.clone(), lead);
        // previous(n) = x(n - 1), previous(0) = 0: the state weights moved by one.
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
            value: K::zero(),
        });
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
            claims.push(LinearClaim {
                name: "norm statistics",
                groups: vec![group(
                    plain(),
                    Weight::Ones(self.shape.padded.hidden),
                    vec![(column, K::one())],
                )],
                value: over_tokens(&value),
            });
        }
        let rsqrts = self.statistics.rsqrts(&self.shape.config, self.params);
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
                value: over_tokens(&value),
            });
        }
        let sum = |value: &dyn Fn(usize) -> K| {
            states
                .iter()
                .enumerate()
                .fold(K::zero(), |sum, (n, w)| sum + *w * value(n))
        };
        let pow = |n: usize| {
            let (kind, layer) = update_of(n);
            self.pow_eval(kind, layer, at)
        };
        let publics: [(usize, K); 3] = [
            (stream::POW1, sum(&pow)),
            (stream::SKIP, sum(&|n| felt(1 << skip_of(self.params, n)))),
            (stream::POW2, sum(&|n| felt(1 << norm_of(self.params, n).shift))),
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
                groups: vec![Group {
                    part,
                    weights: weights.clone(),
                    columns,
                }],
                value: sum(&|l| self.pow_eval(kind, l, points.out(heads + 1 + p.half))),
            });
            for (column, value) in [rope::COS, rope::SIN].into_iter().zip(cos_sin) {
                claims.push(LinearClaim {
                    name: "rotation angles",
                    groups: vec![Group {
                        part,
                        weights: weights.clone(),
                        columns: vec![(column, K::one())],
                    }],
                    value: sum(&|_| value),
                });
            }
        }
        let (head, ..) = self.head_point(p.kv_heads);
        let last = |log: u32| eq(points.out(log));
        let layer = |l: usize| self.params.layers.get(l);
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
                sum(&|l| self.pow_eval(MatmulKind::V, l, points.out(p.kv()))),
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
                sum(&|l| layer(l).map_or(K::zero(), |p| felt(1 << p.att))),
            ),
            (
                Part::Ff,
                vec![self.plain_layers(Part::Ff), eq(&points.token), last(p.ff)],
                ff::GATE_POW,
                sum(&|l| self.pow_eval(MatmulKind::Gate, l, points.out(p.ff))),
            ),
            (
                Part::Ff,
                vec![self.plain_layers(Part::Ff), eq(&points.token), last(p.ff)],
                ff::UP_POW,
                sum(&|l| self.pow_eval(MatmulKind::Up, l, points.out(p.ff))),
            ),
            (
                Part::Ff,
                vec![self.plain_layers(Part::Ff), eq(&points.token), last(p.ff)],
                ff::POW,
                sum(&|l| layer(l).map_or(K::zero(), |p| felt(1 << p.act))),
            ),
        ];
        for (part, weights, column, value) in list {
            let groups = vec![Group {
                part,
                weights,
                columns: vec![(column, K::one())],
            }];
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
        let group = |weights: Vec<Weight>, column: usize, k: K| Group {
            part: Part::Scores,
            weights,
            columns: vec![(column, k)],
        };
        let at_key = || self.score_weights(eq(&points.key));
        let pow = layers
            .iter()
            .zip(&self.params.layers)
            .fold(K::zero(), |sum, (w, l)| sum + *w * felt(1 << l.score));
        claims.push(LinearClaim {
            name: "score parameters",
            groups: vec![group(at_key(), scores::POW, K::one())],
            value: pow,
        });
        claims.push(LinearClaim {
            name: "causal mask",
            groups: vec![group(at_key(), scores::MASK, K::one())],
            value: total * causal_eval(&points.token, &points.key).unwrap_or_default(),
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

    /// The head: parameters and the public columns of the arg max.
    fn arg_max(&self, claims: &mut Vec<LinearClaim>) {
        let points = self.points;
        let vocab = points.out(self.shape.padded.vocab);
        let column = |c: usize| self.logits(vocab, move |lane| [(c, lane)]);
        let value = self.pow_eval(MatmulKind::Head, 0, vocab);
        claims.push(LinearClaim {
            name: "head parameters",
            groups: vec![column(logits::POW)],
            value,
        });
        let other = suffix(&points.other, self.shape.padded.vocab);
        claims.push(LinearClaim {
            name: "top logit is constant",
            groups: vec![column(logits::TOP), self.logits(other, |lane| [(logits::TOP, -lane)])],
            value: K::zero(),
        });
        let real = less_than_eval(self.shape.config.vocab, vocab);
        let [mut below, mut chosen, mut active] = [K::zero(); 3];
        for (row, id) in self.statement.generated() {
            let token = index_eq(row, &points.token);
            below += token * less_than_eval(id as usize, vocab);
            chosen += token * index_eq(id as usize, vocab);
            active += token * real;
        }
        for (c, value) in [
            (logits::BELOW, below),
            (logits::CHOSEN, chosen),
            (logits::ACTIVE, active),
        ] {
            claims.push(LinearClaim {
                name: "arg max",
                groups: vec![column(c)],
                value,
            });
        }
    }

    /// All claims that are fixed before the product sumcheck; `product` is its claim.
    pub fn trace_claims(&self, product: K) -> Vec<LinearClaim> {
        let mut claims = vec![self.accumulators(product)];
        self.stream(&mut claims);
        self.layer_parameters(&mut claims);
        self.softmax(&mut claims);
        self.arg_max(&mut claims);
        claims
    }

    /// Claims on the trace operands that the product sumcheck ends with. `operands` are the claimed final
    /// evaluations (first, second factor) in the order of [`PRODUCTS`]; `point` is the sumcheck's.
    pub fn operand_claims(&self, point: &[K], operands: &[[K; 2]; 6]) -> Vec<LinearClaim> {
        let (p, points, shape) = (&self.shape.padded, self.points, self.shape);
        let limb = points.limb;
        let at = |product: Product| suffix(point, product.variables(shape));
        let [norm, att, ff_, _, score, value] = *operands;
        let mut claims = Vec::new();
        let mut push = |name, groups, value| claims.push(LinearClaim { name, groups, value });

        let (lead, rest) = at(Product::Norm).split_at(self.lead(Part::Stream) as usize);
        let columns = vec![(stream::Y_HI, K::one()), (stream::Y_LO, limb)];
        let weights = vec![eq(lead), eq(&points.token), eq(rest)];
        push(
            "normed state",
            vec![Group {
                part: Part::Stream,
                weights,
                columns,
            }],
            norm[0],
        );

        let (lead, rest) = at(Product::Att).split_at(self.lead(Part::Att) as usize);
        let (head, index) = rest.split_at(p.heads as usize);
        let columns = vec![(requant::OUT_HI, K::one()), (requant::OUT_LO, limb)];
        let weights = vec![eq(lead), eq(&points.token), eq(head), eq(index)];
        push(
            "attention output",
            vec![Group {
                part: Part::Att,
                weights,
                columns,
            }],
            att[0],
        );

        let (lead, rest) = at(Product::Ff).split_at(self.lead(Part::Ff) as usize);
        let columns = vec![(ff::H_HI, K::one()), (ff::H_LO, limb)];
        let weights = vec![eq(lead), eq(&points.token), eq(rest)];
        push(
            "mlp product",
            vec![Group {
                part: Part::Ff,
                weights,
                columns,
            }],
            ff_[0],
        );

        let own_layers = points.layer_weights(self.layers());
        let own_heads = eq_table(&points.head);
        let times = |a: &[K], b: &[K]| a.iter().zip(b).map(|(a, b)| *a * *b).collect::<Vec<_>>();

        // Queries and keys.
        let (layer, rest) = at(Product::Score).split_at(p.layers as usize);
        let (head, rest) = rest.split_at(p.heads as usize);
        let (half, index) = rest.split_at(1);
        let half = half.first().copied().unwrap_or_default();
        let halves = [K::one() - half, half];
        let (layer, head) = (eq_table(layer), eq_table(head));
        let both = |coefficients: [K; 2]| {
            let of = |lane: usize, k: K| {
                let [hi, lo] = coefficients;
                [
                    (rope::after(lane, rope::OUT_HI), k * hi),
                    (rope::after(lane, rope::OUT_LO), k * lo),
                ]
            };
            let [first, second] = halves;
            [of(0, first), of(1, second)].concat()
        };
        let weights = vec![
            padded(times(&own_layers, &layer), self.lead(Part::Q)),
            eq(&points.token),
            padded(times(&own_heads, &head), p.heads),
            eq(index),
        ];
        let columns = both([felt(256), K::one()]);
        push(
            "queries",
            vec![Group {
                part: Part::Q,
                weights,
                columns,
            }],
            score[0],
        );
        let real_layers: Vec<K> = layer.iter().copied().take(self.layers()).collect();
        let weights = vec![
            padded(real_layers, self.lead(Part::K)),
            eq(&points.key),
            padded(self.grouped(&head), p.kv_heads),
            eq(index),
        ];
        let weight = points.score_weight();
        push(
            "keys",
            vec![Group {
                part: Part::K,
                weights,
                columns: both([weight, weight * limb]),
            }],
            score[1],
        );

        // Probabilities and values.
        let (layer, rest) = at(Product::Value).split_at(p.layers as usize);
        let (head, key) = rest.split_at(p.heads as usize);
        let (layer, head) = (eq_table(layer), eq_table(head));
        let weights = vec![
            padded(times(&own_layers, &layer), self.lead(Part::Scores)),
            padded(times(&own_heads, &head), p.heads),
            eq(&points.token),
            eq(key),
        ];
        let columns = vec![(scores::P, K::one())];
        push(
            "probabilities",
            vec![Group {
                part: Part::Scores,
                weights,
                columns,
            }],
            value[0],
        );
        let real_layers: Vec<K> = layer.iter().copied().take(self.layers()).collect();
        let weights = vec![
            padded(real_layers, self.lead(Part::V)),
            eq(key),
            padded(self.grouped(&head), p.kv_heads),
            eq(points.out(p.head_dim())),
        ];
        let weight = points.att_weight();
        let columns = vec![(requant::OUT_HI, weight), (requant::OUT_LO, weight * limb)];
        push(
            "values",
            vec![Group {
                part: Part::V,
                weights,
                columns,
            }],
            value[1],
        );
        claims
    }

    /// Weights of the (padded) query heads summed over the query heads of each key/value head.
    fn grouped(&self, heads: &[K]) -> Vec<K> {
        let mut sums = vec![K::zero(); 1 << self.shape.padded.kv_heads];
        for (h, w) in heads.iter().enumerate() {
            if let Some(sum) = sums.get_mut(self.shape.config.kv_head(h)) {
                *sum += *w;
            }
        }
        sums
    }

    /// The public operand of the embedding: the one-hot matrix of the row tokens, times
    /// `2^embed_exponent`, at (token point, `point`).
    pub fn embed_operand(&self, point: &[K]) -> K {
        let tokens = eq_table(&self.points.token);
        let vocab = suffix(point, Product::Embed.variables(self.shape));
        let ids = self.statement.row_ids(self.shape.token);
        let sum = tokens
            .iter()
            .zip(ids)
            .fold(K::zero(), |sum, (t, id)| sum + *t * index_eq(id as usize, vocab));
        sum * felt(1 << self.params.embed_exponent)
    }

    /// Coefficient of every tile in the claim on the weights, `sum_T gamma_T T~(local point) = sum_f
    /// families[f] V_f` where `V_f` is the second final evaluation of weighted product `f`.
    pub fn tile_coefficients(&self, point: &[K], families: &[K; 4]) -> Vec<K> {
        let config = &self.shape.config;
        let mut gamma = vec![K::zero(); config.total_tiles()];
        let tables = WEIGHTED.map(|product| {
            let at = suffix(point, product.variables(self.shape));
            eq_table(at.get(..at.len().saturating_sub(TILE_LOG as usize)).unwrap_or(at))
        });
        for m in config.matmuls() {
            let (product, lead) = Product::of(m.kind, m.layer, config.layers);
            let own = WEIGHTED
                .iter()
                .zip(families)
                .zip(&tables)
                .find(|((w, _), _)| **w == product);
            let Some(((_, family), table)) = own else {
                continue;
            };
            let out = self.points.out(m.out_log);
            let out = eq_table(out.get(..out.len().saturating_sub(TILE_LOG as usize)).unwrap_or(out));
            let blocks_log = m.in_log - TILE_LOG;
            let first = lead << blocks_log;
            let factor = *family * self.points.matmul_weight(m.kind, m.layer);
            for b in 0..m.in_blocks {
                let row = factor * table.get(first + b).copied().unwrap_or_default();
                for (c, w) in out.iter().take(m.out_blocks).enumerate() {
                    if let Some(g) = gamma.get_mut(m.first_tile + b * m.out_blocks + c) {
                        *g = row * *w;
                    }
                }
            }
        }
        gamma
    }

    /// Local point of the claim on the weights: 6 in-coordinates, then 6 out-coordinates.
    pub fn local_point(&self, point: &[K]) -> Vec<K> {
        [suffix(point, TILE_LOG), suffix(&self.points.out, TILE_LOG)].concat()
    }
}
