//! Claims that are fixed with the trace: accumulators, wires, statistics, public columns.

use num_traits::{One, Zero};

use super::{eq, felt, padded, suffix, Public, K};
use crate::air::{base, scores, stream};
use crate::chunk::Boundary;
use crate::claims::{Group, LinearClaim, Weight};
use crate::mle::{causal_eval, eq_table};
use crate::shape::Part;

impl Public<'_> {
    /// MLE of a boundary at the point of tokens and features; nothing is zero.
    pub(super) fn boundary_eval(&self, boundary: Option<&Boundary>) -> K {
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

    /// Sections 16.1 and 16.2: the residual wire, norm statistics, and the public columns of the stream.
    fn stream(&self, claims: &mut Vec<LinearClaim>) {
        let (points, n_states) = (self.points, self.shape.states());
        let lead = self.lead(Part::Stream);
        let at = points.out(self.shape.padded.hidden);
        let group = |first: Weight, last: Weight, columns: Vec<(usize, K)>| {
            Group::new(Part::Stream, vec![first, eq(&points.token), last], columns)
        };
        let states = points.state_weights(n_states);
        let plain = || padded(states.clone(), lead);
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
    }

    /// `4^k - 1` of every channel with an exponent `k`; `None` if there is none.
    fn squared_exponents(&self) -> Option<Weight> {
        let exponents = self.params.exponents.iter().enumerate().filter(|(_, k)| **k > 0);
        let entries: Vec<(usize, K)> = exponents
            .map(|(c, k)| (c, felt((1 << (2 * i64::from(*k))) - 1)))
            .collect();
        (!entries.is_empty()).then_some(Weight::Sparse(self.shape.padded.hidden, entries))
    }

    /// Softmax: parameters, mask, maximum, selection, sums and reciprocals.
    fn softmax(&self, claims: &mut Vec<LinearClaim>) {
        let points = self.points;
        let layers = points.layer_weights(self.layers());
        let total = layers.iter().fold(K::zero(), |sum, w| sum + *w);
        let group = |weights: Vec<Weight>, column: usize, k: K| Group::new(Part::Scores, weights, vec![(column, k)]);
        let at_key = || self.score_weights(eq(&points.key));
        let cover = self.cover(Part::Scores, 1, &points.head);
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
    }

    /// All claims that are fixed before the product sumcheck; `product` is its claim.
    pub fn trace_claims(&self, product: K) -> Vec<LinearClaim> {
        let mut claims = self.accumulators(product);
        self.stream(&mut claims);
        self.softmax(&mut claims);
        claims.into_iter().map(|c| c.in_lanes(self.shape)).collect()
    }
}
