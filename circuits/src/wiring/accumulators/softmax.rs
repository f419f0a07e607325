//! Attention: scores, probabilities and output.

use num_traits::One;

use super::{Claims, Rounding};
use crate::air::{base, requant, scores};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::{eq_table, index_eq};
use crate::model::Limbs;
use crate::rounding::Rounded;
use crate::shape::Part;
use crate::wiring::scores::Keys;
use crate::wiring::{eq, felt, padded, Public, K};

impl Public<'_> {
    /// `eq(layer, .)` times `2^s` of every layer.
    pub(super) fn layer_powers(&self, part: Part, shift: impl Fn(usize) -> u8) -> Weight {
        let layers = self.points.layer_weights(self.layers()).into_iter().enumerate();
        padded(layers.map(|(l, w)| w * base(1 << shift(l))).collect(), self.lead(part))
    }

    pub(super) fn scores(&self, claims: &mut Claims) {
        let (points, part) = (self.points, Part::Scores);
        let tensor = |layers: Weight| {
            let front = [layers, eq(&points.head)];
            self.score_tensor(front, &points.token, Keys::At(&points.key))
        };
        let powers = self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.score));
        let rounding = Rounding {
            rounded: Rounded::SCORE,
            out: vec![(scores::S, K::one())],
            plain: vec![tensor(self.plain_layers(part))],
            powered: vec![tensor(powers)],
            factor: points.score_weight(),
        };
        self.accumulated(claims, &rounding, scores::SCORE);
        claims.own.push(self.probabilities());
    }

    /// Probabilities: the limbs of `E R` are `2^13 P + DELTA` and `REM - 2^20 - 256 DELTA`.
    fn probabilities(&self) -> LinearClaim {
        let (points, part, limb) = (self.points, Part::Scores, self.points.limb);
        let front = [self.plain_layers(part), eq(&points.head)];
        let plain = self.score_tensor(front, &points.token, Keys::At(&points.key));
        let delta = K::one() - limb * base(256);
        let columns = vec![
            (scores::P, felt(1 << 13)),
            (scores::P_HI, limb * base(256)),
            (scores::P_LO, limb),
            (scores::P_DELTA, delta),
        ];
        let total = self.total(part, &plain);
        let value = (delta * base(scores::P_OFFSET) + limb * felt(1 << 20)) * total;
        // The reciprocals of the rows of real heads; those of padded ones are 0.
        let reciprocals = self.statistics.reciprocals();
        let config = &self.shape.config;
        let (heads, tokens) = (eq_table(&points.head), eq_table(&points.token));
        let (blocks, within) = self.split(&points.key);
        let blocks = eq_table(blocks);
        let axes = self.shape.full_axes(part);
        let rest = axes.iter().skip(2).take(2).sum();
        let rows = reciprocals.chunks(tokens.len().max(1)).enumerate();
        let tensors = rows.map(|(row, reciprocals)| {
            let (l, h) = (row / config.heads.max(1), row % config.heads.max(1));
            let limbs = |r: u32| felt(i64::from(r >> 8)) + limb * base(i64::from(r & 0xff));
            let queries: Vec<K> = reciprocals.iter().zip(&tokens).map(|(r, t)| *t * limbs(*r)).collect();
            let pairs = self.shape.pairs().flat_map(|(a, b)| {
                let block = queries.chunks(1 << self.shape.block()).nth(a).unwrap_or_default();
                let key = blocks.get(b).copied().unwrap_or_default();
                block.iter().map(move |w| *w * key)
            });
            let weight = index_eq(l, &points.layer) * heads.get(h).copied().unwrap_or_default();
            vec![
                Weight::Sparse(self.lead(part), vec![(l, weight)]),
                Weight::Sparse(self.shape.padded.heads, vec![(h, K::one())]),
                padded(pairs.collect(), rest),
                eq(within),
            ]
        });
        let groups = vec![
            Group::new(part, plain, columns),
            Group::new_sum(part, tensors.collect(), vec![(scores::EXP, -K::one())]),
        ];
        let name = "probabilities of scores";
        LinearClaim { name, groups, value }
    }

    pub(super) fn attention(&self, claims: &mut Claims) {
        let (points, p, part) = (self.points, &self.shape.padded, Part::Att);
        let rest = [eq(&points.token), eq(&points.head), eq(points.out(p.head_dim()))];
        let with = |layers: Weight| vec![std::iter::once(layers).chain(rest.clone()).collect::<Tensor>()];
        let rounding = Rounding {
            rounded: Rounded::ATTENTION,
            out: vec![(requant::OUT_HI, felt(256)), (requant::OUT_LO, K::one())],
            plain: with(self.plain_layers(part)),
            powered: with(self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.att))),
            factor: points.att_weight(),
        };
        self.accumulated(claims, &rounding, requant::remainder(Limbs::Two));
    }
}
