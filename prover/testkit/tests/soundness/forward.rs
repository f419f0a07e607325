//! A forward pass that deviates where an attack wants it to, and is consistent everywhere else: plain loops, so
//! that a deviation is one line, and everything downstream of it follows.

use std::ops::Range;

use tessera_circuits::model::{MatmulKind, MatrixId, RowClass};
use tessera_circuits::ops::stream::Update;
use tessera_circuits::rounding::shift_of;
use tessera_circuits::semantics::{
    cap_table, direction, exp_table, limbs, mlp_table, norm_element, norm_rsqrt, norm_sums, probability, reciprocal,
    requantise, requantise_residual, requantise_value, turn, turn_pair,
};
use tessera_circuits::statement::{class_of, norm_of};
use tessera_model::forward::{LayerWitness, NormedHeads, Stream, Witness};
use tessera_model::QuantisedModel;

/// One row of softmax: the scores of all keys (capped, where they are), the number of unmasked ones, and what is made of them.
#[derive(Debug)]
pub struct Softmax {
    pub layer: usize,
    pub query: usize,
    pub scores: Vec<i16>,
    pub max: i16,
    pub arg: usize,
    pub exp: Vec<u32>,
    pub sum: u32,
    pub recip: u32,
}

/// A head of queries or keys of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadAt {
    pub layer: usize,
    pub kind: MatmulKind,
    pub token: usize,
    pub head: usize,
}

/// Where a forward pass may deviate; the defaults are honest.
pub trait Deviation {
    /// After the softmax of a row is computed, before the probabilities are.
    fn softmax(&self, _row: &mut Softmax) {}
    /// The sums of squares of a token in a state, before they are used.
    fn norm(&self, _token: usize, _sums: &mut [i64; 3]) {}
    /// The reciprocal square root of a token in a state, before it is used.
    fn rsqrt(&self, _token: usize, _rsqrt: &mut u32) {}
    /// The sums of squares of a token in an output that is normed before it is added.
    fn output_norm(&self, _state: usize, _token: usize, _sums: &mut [i64; 3]) {}
    /// The reciprocal square root of a token in such an output.
    fn output_root(&self, _state: usize, _token: usize, _rsqrt: &mut u32) {}
    /// What a normed output and the state before it, times their factors, add to a state.
    fn sum(&self, _state: usize, _token: usize, _added: &mut [i64; 2]) {}
    /// The position that a row is rotated for.
    fn position(&self, row: usize) -> usize {
        row
    }
    /// The row whose key stands for that of a position.
    fn key_row(&self, _query: usize, position: usize) -> usize {
        position
    }
    /// The keys that a query of a layer sees.
    fn visible(&self, _layer: usize, _query: usize, honest: Range<usize>) -> Range<usize> {
        honest
    }
    /// The key head of a query head.
    fn key_head(&self, _head: usize, honest: usize) -> usize {
        honest
    }
    /// The class of a row.
    fn class(&self, _row: usize, honest: RowClass) -> RowClass {
        honest
    }
    /// The sums of squares of a head of queries or keys of a token, before they are used.
    fn head_norm(&self, _at: HeadAt, _sums: &mut [i64; 3]) {}
    /// The reciprocal square root of a head of queries or keys of a token, before it is used.
    fn head_root(&self, _at: HeadAt, _rsqrt: &mut u32) {}
    /// Whether a layer's MLP is added to the residual.
    fn keeps_residual(&self, _layer: usize) -> bool {
        true
    }
}

/// No deviation.
pub struct Honest;
impl Deviation for Honest {}

type Acc = (Vec<i32>, Vec<i32>);

fn dot(a: impl Iterator<Item = i16>, b: impl Iterator<Item = i16>) -> [i32; 2] {
    a.zip(b).fold([0; 2], |[hi, lo], (a, b)| {
        let (h, l) = limbs(a);
        [hi + h * i32::from(b), lo + l * i32::from(b)]
    })
}

struct Pass<'a> {
    model: &'a QuantisedModel,
    deviation: &'a dyn Deviation,
    rows: usize,
    leading: usize,
}

impl Pass<'_> {
    fn matmul(&self, id: MatrixId, a: &[i16]) -> Acc {
        let (inputs, outputs) = self.model.config.dims(id.kind());
        let mut acc = Acc::default();
        for row in a.chunks_exact(inputs) {
            for out in 0..outputs {
                let weights = (0..inputs).map(|x| self.model.weight(id, x, out));
                let [hi, lo] = dot(row.iter().copied(), weights);
                let bias = self.model.params.bias(id).get(out).copied().unwrap_or(0);
                acc.0.push(hi + bias.div_euclid(256));
                acc.1.push(lo + bias.rem_euclid(256));
            }
        }
        acc
    }

    fn project(&self, id: MatrixId, a: &[i16]) -> (Acc, Vec<i16>) {
        let acc = self.matmul(id, a);
        let shift = shift_of(&self.model.params, id).expect("a layer");
        let outputs = self.model.config.dims(id.kind()).1;
        let values = acc.0.iter().zip(&acc.1).enumerate();
        let round = match id.kind() {
            MatmulKind::V => requantise_value,
            _ => requantise,
        };
        let out = values.map(|(i, (hi, lo))| round(total(*hi, *lo), shift.at(i % outputs)));
        let out = out.collect();
        (acc, out)
    }

    fn class(&self, row: usize) -> RowClass {
        self.deviation.class(row, class_of(row, self.leading))
    }

    fn stream(&self, acc: Acc, x: Vec<i16>, n: usize) -> Stream {
        let hidden = self.model.config.hidden;
        let (params, norm) = (&self.model.params, norm_of(&self.model.params, n));
        let (exponents, output) = (params.exponents_of(n), params.is_output(n));
        let rows = x.chunks_exact(hidden);
        let mut sums: Vec<[i64; 3]> = rows.map(|row| norm_sums(row, exponents)).collect();
        sums.iter_mut().enumerate().for_each(|(i, s)| match output {
            true => self.deviation.output_norm(n, i, s),
            false => self.deviation.norm(i, s),
        });
        let mut rsqrt: Vec<u32> = sums
            .iter()
            .enumerate()
            .map(|(i, s)| norm_rsqrt(*s, hidden, norm, self.class(i)))
            .collect();
        rsqrt.iter_mut().enumerate().for_each(|(i, r)| match output {
            true => self.deviation.output_root(n, i, r),
            false => self.deviation.rsqrt(i, r),
        });
        let y = x.iter().enumerate();
        let y = y
            .map(|(i, v)| norm_element(*v, rsqrt[i / hidden], norm.shift.at(i % hidden)))
            .collect();
        Stream {
            acc_hi: acc.0,
            acc_lo: acc.1,
            x,
            sums,
            rsqrt,
            y,
        }
    }

    /// The update of a residual stream by a matmul of `a`: the states that follow.
    fn update(&self, id: MatrixId, a: &[i16], before: &[i16]) -> Vec<Stream> {
        let acc = self.matmul(id, a);
        let per_layer = self.model.config.states_per_layer();
        let state = per_layer * id.layer() + 1 + if id.kind() == MatmulKind::O { 0 } else { per_layer / 2 };
        if self.model.config.norms_outputs() {
            return self.post_normed(state, acc, before);
        }
        let x = (0..before.len())
            .map(|i| {
                let [shift, skip] = self.exponents(state, i);
                requantise_residual(total(acc.0[i], acc.1[i]), before[i], skip, shift)
            })
            .collect();
        vec![self.stream(acc, x, state)]
    }

    /// An output, and the sum of the state before and the normed output times its gains.
    fn post_normed(&self, n: usize, acc: Acc, before: &[i16]) -> Vec<Stream> {
        let hidden = self.model.config.hidden;
        let values = acc.0.iter().zip(&acc.1).enumerate();
        let x = values.map(|(i, (hi, lo))| requantise(total(*hi, *lo), self.exponents(n, i)[0]));
        let x = x.collect();
        let output = self.stream(acc, x, n);
        let gains = self.model.params.gain(n);
        let x = (0..before.len()).map(|i| {
            let [shift, skip] = self.exponents(n + 1, i);
            let own = i64::from(gains[i % hidden]) * i64::from(output.y[i]);
            let mut added = [own, i64::from(before[i]) << (8 + skip)];
            self.deviation.sum(n + 1, i / hidden, &mut added);
            requantise(added.iter().sum(), shift)
        });
        let (x, nothing) = (x.collect(), vec![0; before.len()]);
        let sum = self.stream((nothing.clone(), nothing), x, n + 1);
        vec![output, sum]
    }

    /// Exponents of shift and skip of value `i` of a state.
    fn exponents(&self, state: usize, i: usize) -> [u8; 2] {
        let (params, hidden) = (&self.model.params, self.model.config.hidden);
        let update = Update::of(params, state, self.class(i / hidden)).expect("a state");
        update.exponents(i % hidden)
    }

    /// The norms of heads, if they are normed.
    fn norm_heads(&self, l: usize, kind: MatmulKind, rows: &[i16]) -> NormedHeads {
        let config = &self.model.config;
        let heads = config.dims(kind).1 / config.head_dim;
        let mut out = NormedHeads::default();
        let Some(norm) = self.model.params.head_norm(kind.at(l)) else {
            return out;
        };
        for (i, values) in rows.chunks_exact(config.head_dim).enumerate() {
            let at = HeadAt {
                layer: l,
                kind,
                token: i / heads,
                head: i % heads,
            };
            let mut sums = norm_sums(values, &[]);
            self.deviation.head_norm(at, &mut sums);
            let mut root = norm_rsqrt(sums, config.head_dim, &norm.norm(), RowClass::Body);
            self.deviation.head_root(at, &mut root);
            out.sums.push(sums);
            out.rsqrt.push(root);
            out.y.extend(values.iter().map(|v| norm_element(*v, root, norm.shift)));
        }
        out
    }

    fn rotate(&self, l: usize, kind: MatmulKind, rows: &[i16]) -> Vec<i16> {
        let config = &self.model.config;
        let (dim, half, heads) = (
            config.head_dim,
            config.head_dim / 2,
            config.dims(kind).1 / config.head_dim,
        );
        let gains = self
            .model
            .params
            .head_norm(kind.at(l))
            .map_or(&[][..], |norm| &norm.gains);
        let mut out = rows.to_vec();
        for (at, head) in out.chunks_exact_mut(dim).enumerate() {
            for x in 0..half {
                let direction = direction(config, config.rotation(l), self.deviation.position(at / heads), x);
                (head[x], head[x + half]) = turn_pair(head[x], head[x + half], turn(direction, gains, x, half));
            }
        }
        out
    }

    fn attend(&self, l: usize, w: &mut LayerWitness, exps: &[u32], cap: Option<&[i16]>) {
        let (config, params) = (&self.model.config, &self.model.params.layers[l]);
        let dim = config.head_dim;
        let width = config.heads * dim;
        w.att_acc = vec![0; self.rows * width];
        for h in 0..config.heads {
            let kv = |j: usize| (j * config.kv_heads + config.kv_head(h)) * dim;
            for i in 0..self.rows {
                let query = &w.q_rot[(i * config.heads + h) * dim..][..dim];
                let mut scores = Vec::new();
                for j in 0..self.rows {
                    let own = self.deviation.key_head(h, config.kv_head(h));
                    let key = (self.deviation.key_row(i, j) * config.kv_heads + own) * dim;
                    let [hi, lo] = dot(w.k_rot[key..][..dim].iter().copied(), query.iter().copied());
                    w.score_acc_hi.push(hi);
                    w.score_acc_lo.push(lo);
                    scores.push(requantise(total(hi, lo), params.attention.score));
                }
                if let Some(cap) = cap {
                    let capped = scores.iter().map(|s| cap[(i32::from(*s) + (1 << 15)) as usize]);
                    scores = capped.collect();
                }
                let visible = self.deviation.visible(l, i, config.visible(l, i, self.rows));
                let max = *scores[visible.clone()].iter().max().expect("a key");
                let mut seen = visible.clone();
                let arg = seen.find(|j| scores[*j] == max).expect("a maximum");
                let exp = |(j, s): (usize, &i16)| match visible.contains(&j) {
                    true => exps[(i32::from(max) - i32::from(*s)) as usize],
                    false => 0,
                };
                let exp: Vec<u32> = scores.iter().enumerate().map(exp).collect();
                let sum = exp.iter().sum();
                let mut row = Softmax {
                    layer: l,
                    query: i,
                    max,
                    arg,
                    sum,
                    recip: reciprocal(sum),
                    scores,
                    exp,
                };
                self.deviation.softmax(&mut row);
                let probabilities: Vec<i16> = row.exp.iter().map(|e| probability(*e, row.recip)).collect();
                for x in 0..dim {
                    let values = (0..self.rows).map(|j| w.v[kv(j) + x]);
                    let products = values.zip(&probabilities).map(|(v, p)| i32::from(v) * i32::from(*p));
                    w.att_acc[i * width + h * dim + x] = products.sum();
                }
                w.score.extend(row.scores);
                w.max.push(row.max);
                w.arg.push(row.arg as u32);
                w.exp.extend(row.exp);
                w.sum.push(row.sum);
                w.recip.push(row.recip);
                w.prob.extend(probabilities);
            }
        }
        let sums = w.att_acc.iter().map(|acc| i64::from(*acc));
        w.att = sums.map(|acc| requantise(acc, params.attention.att)).collect();
    }
}

fn total(hi: i32, lo: i32) -> i64 {
    256 * i64::from(hi) + i64::from(lo)
}

/// Runs the model on `ids` with the deviation.
pub fn forward(model: &QuantisedModel, ids: &[u32], deviation: &dyn Deviation) -> Witness {
    let pass = Pass {
        model,
        deviation,
        rows: ids.len(),
        leading: model.params.leading.count(ids),
    };
    let (config, params) = (&model.config, &model.params);
    let exps = exp_table(params.score_bits);
    let silus = mlp_table(params);
    let cap = config.blocks.score_cap.map(|cap| cap_table(cap, params.score_bits));
    let weight = |id: &u32, y| model.weight(MatrixId::EMBED, *id as usize, y);
    let weights = ids.iter().flat_map(|id| (0..config.hidden).map(move |y| weight(id, y)));
    let hi: Vec<i32> = weights.map(|w| i32::from(w) << params.embed_exponent).collect();
    let x = hi.iter().enumerate();
    let x = x.map(|(i, v)| requantise(total(*v, 0), pass.exponents(0, i)[0]));
    let x = x.collect();
    let lo = vec![0; hi.len()];
    let mut streams = vec![pass.stream((hi, lo), x, 0)];
    let mut layers = Vec::new();
    for (l, p) in params.layers.iter().enumerate() {
        let mut w = LayerWitness::default();
        let first = config.attention_state(l);
        let y = &streams[first].y;
        ((w.q_acc_hi, w.q_acc_lo), w.q) = pass.project(MatmulKind::Q.at(l), y);
        ((w.k_acc_hi, w.k_acc_lo), w.k) = pass.project(MatmulKind::K.at(l), y);
        ((w.v_acc_hi, w.v_acc_lo), w.v) = pass.project(MatmulKind::V.at(l), y);
        w.q_norm = pass.norm_heads(l, MatmulKind::Q, &w.q);
        w.k_norm = pass.norm_heads(l, MatmulKind::K, &w.k);
        let [q, k] = match config.head_norms {
            true => [&w.q_norm.y, &w.k_norm.y],
            false => [&w.q, &w.k],
        };
        w.q_rot = pass.rotate(l, MatmulKind::Q, q);
        w.k_rot = pass.rotate(l, MatmulKind::K, k);
        pass.attend(l, &mut w, &exps, cap.as_deref());
        let added = pass.update(MatmulKind::O.at(l), &w.att, &streams[first].x);
        streams.extend(added);

        let y = &streams[config.mlp_state(l)].y;
        ((w.gate_acc_hi, w.gate_acc_lo), w.gate) = pass.project(MatmulKind::Gate.at(l), y);
        ((w.up_acc_hi, w.up_acc_lo), w.up) = pass.project(MatmulKind::Up.at(l), y);
        w.silu = w
            .gate
            .iter()
            .map(|g| silus[(i32::from(*g) + (1 << 15)) as usize])
            .collect();
        let products = w.silu.iter().zip(&w.up);
        w.h = products
            .enumerate()
            .map(|(i, (s, u))| requantise(i64::from(*s) * i64::from(*u), p.mlp.act.of(pass.class(i / config.ff))))
            .collect();
        let mut before = streams[config.mlp_state(l)].x.clone();
        if !deviation.keeps_residual(l) {
            before.fill(0);
        }
        streams.extend(pass.update(MatmulKind::Down.at(l), &w.h, &before));
        layers.push(w);
    }
    let ((logits_acc_hi, logits_acc_lo), logits) = pass.project(MatrixId::HEAD, &streams[config.states() - 1].y);
    Witness {
        ids: ids.to_vec(),
        streams,
        layers,
        first_logits: 0,
        logits_acc_hi,
        logits_acc_lo,
        logits,
    }
}
