//! Claims that are fixed with the trace: accumulators, wires, statistics.

use crate::scalar::Scalar;

use super::scores::{Keys, Pairs};
use super::{eq, felt, padded, Public};
use crate::air::{base, scores, softmax, stream};
use crate::chunk::Boundary;
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::{eq_table, less_than_eval};
use crate::model::Limbs;
use crate::shape::Part;

impl<K: Scalar> Public<'_, K> {
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

    /// Section 16.1: what leaves the chunk.
    fn stream(&self, claims: &mut Vec<LinearClaim<K>>) {
        let (points, n_states) = (self.points, self.shape.states());
        let lead = self.lead(Part::Stream);
        let at = points.out(self.shape.padded.hidden);
        let group = |first: Weight<K>, last: Weight<K>, columns: Vec<(usize, K)>| {
            Group::new(Part::Stream, vec![first, eq(&points.token), last], columns)
        };
        let mut last = vec![K::zero(); n_states];
        last.iter_mut().next_back().into_iter().for_each(|w| *w = K::one());
        if self.shape.chunk.is_last() {
            claims.extend(self.vector(padded(last, lead)));
        } else {
            let columns = vec![(stream::X_HI, felt(256)), (stream::X_LO, K::one())];
            claims.push(LinearClaim {
                name: "what leaves the chunk",
                groups: vec![group(padded(last, lead), eq(at), columns)],
                value: self.boundary_eval(self.ends.output),
            });
        }
    }

    /// Section 16.10: the vector of an encoder is the sum of rows of the last normed state.
    fn vector(&self, last: Weight<K>) -> Option<LinearClaim<K>> {
        let vector = self.statement.vector().filter(|_| self.shape.config.is_encoder())?;
        let rows = self.shape.config.pooled_rows(self.statement.rows());
        let rows = (0..1 << self.shape.token).map(|i| if i < rows { K::one() } else { K::zero() });
        let at = self.points.out(self.shape.padded.hidden);
        let weights = vec![last, Weight::dense(rows.collect()), eq(at)];
        let values = vector.iter().zip(eq_table(at));
        Some(LinearClaim {
            name: "vector",
            groups: vec![Group::new(Part::Stream, weights, self.normed_columns(Limbs::One))],
            value: values.fold(K::zero(), |sum, (v, w)| sum + w * base(i64::from(*v))),
        })
    }

    /// `eq(head, .)` on the real heads. Rows of padded ones say nothing.
    pub fn head_weights(&self) -> Vec<K> {
        let mut table = eq_table(&self.points.head);
        table.truncate(self.shape.config.heads);
        table
    }

    /// Weights of rows of softmax: real layers, real heads, and what is along the tokens.
    pub(super) fn rows_of_heads(&self, tokens: Weight<K>) -> Tensor<K> {
        let heads = padded(self.head_weights(), self.shape.padded.heads);
        vec![self.plain_layers(Part::Softmax), heads, tokens]
    }

    /// Softmax: differences to the maximum, which is attained, masked pairs, sums.
    fn softmax(&self, claims: &mut Vec<LinearClaim<K>>) {
        let points = self.points;
        let layers = points.layer_weights(self.layers());
        let front = |part: Part| {
            [
                self.plain_layers(part),
                padded(self.head_weights(), self.shape.padded.heads),
            ]
        };
        let ones = |columns: &[usize]| columns.iter().map(|column| (*column, K::one())).collect::<Vec<_>>();
        let pairs = |keys: Keys<K>, column: usize| {
            let weights = self.score_tensor(front(Part::Scores), &points.token, keys);
            Group::new(Part::Scores, weights, ones(&[column]))
        };
        let causal = |of: Pairs, columns: &[usize]| {
            let weights = self.masked_tensors(front(Part::Scores), &points.token, &points.key, of);
            Group::new_sum(Part::Scores, weights, ones(columns))
        };
        let minus = |columns: &[(usize, i64)]| columns.iter().map(|(column, k)| (*column, -felt::<K>(*k))).collect();
        let rows = |rest: Weight<K>, columns: &[(usize, i64)]| {
            Group::new(Part::Softmax, self.rows_of_heads(rest), minus(columns))
        };
        let claim = |name, groups, value| LinearClaim { name, groups, value };
        // Of every query the keys that it may look at.
        let tokens = eq_table(&points.token);
        let mut seen = K::zero();
        let keys = eq_table(&points.key).into_iter().zip(&tokens);
        let queries = keys.map(|(key, token)| {
            seen += key;
            *token * seen
        });
        let queries: Vec<K> = match self.shape.config.is_encoder() {
            false => queries.collect(),
            true => {
                let seen = less_than_eval(self.statement.rows(), &points.key);
                tokens.iter().map(|token| seen * *token).collect()
            }
        };
        let queries = Weight::dense(queries);
        claims.push(claim(
            "differences",
            vec![
                causal(Pairs::Open, &[self.shape.scores().compared(), scores::D]),
                rows(queries, &[(softmax::MAX, 1)]),
            ],
            K::zero(),
        ));
        let masked = causal(Pairs::Masked, &[scores::EXP]);
        claims.push(claim("masked pairs", vec![masked], K::zero()));
        let sum = |values: &[K]| values.iter().fold(K::zero(), |sum, w| sum + *w);
        claims.push(claim(
            "a maximum is attained",
            vec![
                pairs(Keys::All, scores::ZERO),
                rows(eq(&points.token), &[(softmax::TIES, 1)]),
            ],
            sum(&layers) * sum(&self.head_weights()),
        ));
        let limbs = [(softmax::SUM_HI, 1 << softmax::LIMB_BITS), (softmax::SUM_LO, 1)];
        claims.push(claim(
            "softmax sums",
            vec![pairs(Keys::All, scores::EXP), rows(eq(&points.token), &limbs)],
            K::zero(),
        ));
    }

    /// All claims that are fixed before the product sumcheck; `product` is its claim.
    pub fn trace_claims(&self, product: K) -> Vec<LinearClaim<K>> {
        let mut claims = self.accumulators(product);
        self.stream(&mut claims);
        self.softmax(&mut claims);
        claims.into_iter().map(|c| c.in_lanes(self.shape)).collect()
    }
}
