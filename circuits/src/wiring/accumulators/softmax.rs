//! Attention: scores, probabilities and output.

use num_traits::One;

use super::{Claims, Rounding};
use crate::air::{base, requant, scores};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::Limbs;
use crate::rounding::Rounded;
use crate::shape::Part;
use crate::wiring::{eq, felt, padded, Public, K};

impl Public<'_> {
    /// `eq(layer, .)` times `2^s` of every layer.
    pub(super) fn layer_powers(&self, part: Part, shift: impl Fn(usize) -> u8) -> Weight {
        let layers = self.points.layer_weights(self.layers()).into_iter().enumerate();
        padded(layers.map(|(l, w)| w * base(1 << shift(l))).collect(), self.lead(part))
    }

    pub(in crate::wiring) fn score_weights(&self, key: Weight) -> Tensor {
        self.score_tensor(self.plain_layers(Part::Scores), key)
    }

    fn score_tensor(&self, layers: Weight, key: Weight) -> Tensor {
        vec![layers, eq(&self.points.head), eq(&self.points.token), key]
    }

    pub(super) fn scores(&self, claims: &mut Claims) {
        let (points, part) = (self.points, Part::Scores);
        let key = || eq(&points.key);
        let powers = self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.score));
        let rounding = Rounding {
            rounded: Rounded::SCORE,
            out: vec![(scores::S, K::one())],
            plain: vec![self.score_weights(key())],
            powered: vec![self.score_tensor(powers, key())],
            factor: points.score_weight(),
        };
        self.accumulated(claims, &rounding, scores::SCORE);
        claims.own.push(self.probabilities());
    }

    /// Probabilities: the limbs of `E R` are `2^13 P + DELTA` and `REM - 2^20 - 256 DELTA`.
    fn probabilities(&self) -> LinearClaim {
        let (points, part, limb) = (self.points, Part::Scores, self.points.limb);
        let p = &self.shape.padded;
        let plain = self.score_weights(eq(&points.key));
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
        let (heads, tokens) = (eq_table(&points.head), eq_table(&points.token));
        let config = &self.shape.config;
        let block = (config.heads * tokens.len()).max(1);
        let layers = points.layer_weights(self.layers());
        let tensors = layers.iter().zip(reciprocals.chunks(block)).enumerate();
        let tensors = tensors.map(|(l, (weight, rows))| {
            let rows = rows.chunks(tokens.len().max(1)).zip(&heads);
            let values = rows.flat_map(|(row, h)| {
                let limbs = |r: u32| felt(i64::from(r >> 8)) + limb * base(i64::from(r & 0xff));
                row.iter().zip(&tokens).map(move |(r, t)| *h * *t * limbs(*r))
            });
            vec![
                Weight::Sparse(self.lead(part), vec![(l, *weight)]),
                padded(values.collect(), p.heads + self.shape.token),
                eq(&points.key),
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
