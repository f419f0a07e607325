//! What the products of normed heads end in (docs/protocol.md, section 16.11): claims on queries or keys, and on the rows of their
//! norms.

use crate::scalar::Scalar;
use stwo::core::fields::qm31::SecureField;

use super::operands::{claim, times, RootFactors};
use super::{eq, felt, padded, NormWeights, Public};
use crate::claims::{Group, LinearClaim, Weight};
use crate::mle::eq_table;
use crate::model::MatmulKind;
use crate::shape::Part;

/// Queries or keys whose heads are normed, and the random point of their channels.
pub struct NormedHeads<'a, K = SecureField> {
    /// The heads.
    pub part: Part,
    /// Their norms.
    pub norms: Part,
    /// What makes them.
    pub kind: MatmulKind,
    /// Real heads.
    pub heads: usize,
    /// log2 of the padded number of heads.
    pub heads_log: u32,
    /// The point of the heads.
    pub head: &'a [K],
    /// Weights of both halves.
    pub halves: [K; 2],
    /// The point of the index in a half.
    pub index: &'a [K],
    /// What weighs the products.
    pub weights: NormWeights<K>,
}

impl<K: Scalar> NormedHeads<'_, K> {
    /// `eq(head, .)` on the real heads.
    pub fn real(&self) -> Vec<K> {
        let mut table = eq_table(self.head);
        table.truncate(self.heads);
        table
    }
}

impl<K: Scalar> Public<'_, K> {
    /// Queries or keys.
    pub fn normed_heads(&self, part: Part) -> NormedHeads<'_, K> {
        let (config, p) = (&self.shape.config, &self.shape.padded);
        let (norms, kind, heads, heads_log) = match part {
            Part::Q => (Part::QNorms, MatmulKind::Q, config.heads, p.heads),
            _ => (Part::KNorms, MatmulKind::K, config.kv_heads, p.kv_heads),
        };
        let (head, half, index) = self.head_point(heads_log);
        NormedHeads {
            part,
            norms,
            kind,
            heads,
            heads_log,
            head,
            halves: [K::one() - half, half],
            index,
            weights: self.points.norms(norms),
        }
    }

    /// The limbs of both halves of projected heads, high and low ones with these factors.
    fn head_limbs(&self, part: Part, halves: [K; 2], [high, low]: [K; 2]) -> Vec<(usize, K)> {
        let rope = self.shape.rope(part);
        let of = |(side, half): (usize, K)| {
            let at = rope.before(side);
            [(at, half * high), (at + 1, half * low)]
        };
        halves.into_iter().enumerate().flat_map(of).collect()
    }

    /// Heads times themselves: the first factor is a table of products, entry by entry.
    pub(super) fn head_squares(
        &self,
        own: &NormedHeads<'_, K>,
        at: &[K],
        [first, second]: [K; 2],
    ) -> [LinearClaim<K>; 2] {
        let (points, part) = (self.points, own.part);
        let (layer, rest) = at.split_at(self.lead(part) as usize);
        let (token, rest) = rest.split_at(self.shape.token as usize);
        let (head, rest) = rest.split_at(own.heads_log as usize);
        let (half, index) = rest.split_at(1);
        let half = half.first().copied().unwrap_or_default();
        let halves = [K::one() - half, half];
        let weighted = vec![
            padded(
                times(&points.layer_weights(self.layers()), &eq_table(layer)),
                self.lead(part),
            ),
            Weight::dense(times(&eq_table(&points.token), &eq_table(token))),
            padded(times(&own.real(), &eq_table(head)), own.heads_log),
            eq(index),
        ];
        let plain = vec![eq(layer), eq(token), eq(head), eq(index)];
        let weight = own.weights.square;
        let limbs = |weight: K| self.head_limbs(part, halves, [weight, weight * points.limb]);
        [
            claim("weighted heads", part, weighted, limbs(weight), first),
            claim("heads", part, plain, limbs(K::one()), second),
        ]
    }

    /// What the rows of norms of heads multiply, as those of states: the first factor is a table of products, entry by entry.
    pub(super) fn head_roots(
        &self,
        own: &NormedHeads<'_, K>,
        at: &[K],
        [first, second]: [K; 2],
    ) -> [LinearClaim<K>; 2] {
        let (points, part) = (self.points, own.norms);
        let (layer, rest) = at.split_at(self.lead(part) as usize);
        let (token, rest) = rest.split_at(self.shape.token as usize);
        let (head, factor) = rest.split_at(own.heads_log as usize);
        let layers = eq_table(layer);
        let mut real = eq_table(head);
        real.truncate(own.heads);
        let real = padded(real, own.heads_log);
        let weighted = vec![
            padded(times(&points.layer_weights(self.layers()), &layers), self.lead(part)),
            Weight::dense(times(&eq_table(&points.token), &eq_table(token))),
            padded(times(&own.real(), &eq_table(head)), own.heads_log),
        ];
        let factors = RootFactors::new(factor, points.limb, own.weights);
        let rows = vec![self.real_layers(part, &layers), eq(token), real.clone()];
        let heads = vec![self.real_layers(own.part, &layers), eq(token), real, eq(own.index)];
        let values = self.head_limbs(own.part, own.halves, [factors.values * felt::<K>(256), factors.values]);
        [
            claim("reciprocal roots of heads", part, weighted, factors.first, first),
            LinearClaim {
                name: "heads, sums of squares and roots",
                groups: vec![
                    Group::new(part, rows, factors.second),
                    Group::new(own.part, heads, values),
                ],
                value: second,
            },
        ]
    }
}
