//! Norms of heads: squares, reciprocal roots and normed queries and keys (docs/protocol.md, section 16.11).

use crate::scalar::Scalar;

use super::norms::{bound_value, epsilon_value, quotient_columns, root_columns, square_columns};
use super::{Claims, Rounding};
use crate::air::base;
use crate::claims::Group;
use crate::model::{HeadNorm, NormParams};
use crate::rounding::{Rounded, PADDED_EXPONENT};
use crate::shape::Part;
use crate::wiring::heads::NormedHeads;
use crate::wiring::{eq, padded, Public};

impl<K: Scalar> Public<'_, K> {
    /// Everything that the norms of queries or keys round or divide, as accumulators of products.
    pub(super) fn head_norms(&self, claims: &mut Claims<K>, part: Part) {
        let own = self.normed_heads(part);
        let (limb, weights) = (self.points.limb, &own.weights);
        let width = self.shape.config.head_dim;
        let norms = |value: &dyn Fn(&NormParams) -> K| self.sum_of_norms(&own, value);
        let epsilons = norms(&|norm| epsilon_value(norm.eps.body, limb, weights.square));
        let bounds = norms(&|norm| bound_value(width, norm.scale, limb, weights.quotient));
        let rows = vec![
            self.plain_layers(own.norms),
            eq(&self.points.token),
            padded(own.real(), own.heads_log),
        ];
        let sides = &mut claims.accumulators;
        sides.value += epsilons - bounds;
        let columns = [
            square_columns(limb, weights.square),
            quotient_columns(limb, weights.quotient),
            root_columns(limb, weights.root),
        ];
        sides.groups.push(Group::new(own.norms, rows, columns.concat()));
        self.normed_values(claims, &own);
    }

    /// The sum of a value of the norm of every layer over all rows, weighed: weights of tokens add up to one.
    fn sum_of_norms(&self, own: &NormedHeads<'_, K>, value: &dyn Fn(&NormParams) -> K) -> K {
        let layers = self.points.layer_weights(self.layers()).into_iter().enumerate();
        let sum = layers.fold(K::zero(), |sum, (l, weight)| {
            let norm = self.params.head_norm(own.kind, l).map(HeadNorm::norm);
            sum + weight * norm.map_or(K::zero(), |norm| value(&norm))
        });
        sum * own.real().into_iter().fold(K::zero(), |sum, weight| sum + weight)
    }

    /// Values times the reciprocal root of their head, rounded.
    fn normed_values(&self, claims: &mut Claims<K>, own: &NormedHeads<'_, K>) {
        let (part, rope) = (own.part, self.shape.rope(own.part));
        let layers = self.points.layer_weights(self.layers());
        let power = |(l, weight): (usize, &K)| {
            let norm = self.params.head_norm(own.kind, l);
            *weight * base(1 << norm.map_or(PADDED_EXPONENT, |norm| norm.shift).min(30))
        };
        let powers = padded(layers.iter().enumerate().map(power).collect(), self.lead(part));
        let (token, head, index) = (eq(&self.points.token), eq(own.head), eq(own.index));
        for (side, half) in own.halves.into_iter().enumerate() {
            let rounding = Rounding {
                rounded: Rounded::normed(part, side),
                out: vec![(rope.source(side), num_traits::One::one())],
                plain: vec![vec![
                    self.plain_layers(part),
                    token.clone(),
                    head.clone(),
                    index.clone(),
                ]],
                powered: vec![vec![powers.clone(), token.clone(), head.clone(), index.clone()]],
                factor: half * own.weights.normed,
            };
            self.accumulated(claims, &rounding, rope.norm(side));
        }
    }
}
