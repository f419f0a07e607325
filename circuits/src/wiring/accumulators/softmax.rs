//! Attention: scores, probabilities and output.

use crate::scalar::Scalar;

use super::{Claims, Rounding};
use crate::air::{base, requant, scores, softmax};
use crate::claims::{Group, Tensor, Weight};
use crate::model::Limbs;
use crate::rounding::Rounded;
use crate::shape::Part;
use crate::wiring::scores::Keys;
use crate::wiring::{eq, felt, padded, Public};

impl<K: Scalar> Public<'_, K> {
    /// `eq(layer, .)` times `2^s` of every layer.
    pub(super) fn layer_powers(&self, part: Part, shift: impl Fn(usize) -> u8) -> Weight<K> {
        let layers = self.points.layer_weights(self.layers()).into_iter().enumerate();
        padded(layers.map(|(l, w)| w * base(1 << shift(l))).collect(), self.lead(part))
    }

    pub(super) fn scores(&self, claims: &mut Claims<K>) {
        let (points, part) = (self.points, Part::Scores);
        let tensor = |layers: Weight<K>| {
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
        self.reciprocals(claims);
        self.probabilities(claims);
    }

    /// Probabilities: the limbs of `E R` are `2^8 P + DELTA` and `REM - 2^20 - 2^13 DELTA`.
    fn probabilities(&self, claims: &mut Claims<K>) {
        let (part, points) = (Part::Scores, self.points);
        let (limb, weight) = (points.limb, points.probability_weight());
        let front = [self.plain_layers(part), eq(&points.head)];
        let plain = self.score_tensor(front, &points.token, Keys::At(&points.key));
        let (low, delta) = (weight * limb, weight - weight * limb * base(1 << softmax::LIMB_BITS));
        let columns = vec![
            (scores::P, weight * base(1 << 8)),
            (scores::P_DELTA, delta),
            (scores::P_HI, low * base(256)),
            (scores::P_LO, low),
        ];
        let sides = &mut claims.accumulators;
        sides.value += (delta * base(scores::P_OFFSET) + low * base(1 << 20)) * self.total(part, &plain);
        sides.groups.push(Group::new(part, plain, columns));
    }

    /// Reciprocals: the limbs of `Z R`, of which there are three, are those of the dividend less what is left.
    fn reciprocals(&self, claims: &mut Claims<K>) {
        let (part, limb, weight) = (Part::Softmax, self.points.limb, self.points.reciprocal_weight());
        let plain = self.rows_of_heads(eq(&self.points.token));
        let (middle, low) = (weight * limb, weight * limb * limb);
        let radix = base(1 << softmax::LIMB_BITS);
        let columns = vec![
            (softmax::HIGH, weight - middle * radix),
            (softmax::CARRY, low * radix - middle),
            (softmax::LEFT_HI, -middle),
            (softmax::LEFT_LO, -low),
        ];
        let [dividend_hi, dividend_lo] = softmax::dividend().map(base);
        let sides = &mut claims.accumulators;
        sides.value -= (middle * dividend_hi + low * dividend_lo) * self.total(part, &plain);
        sides.groups.push(Group::new(part, plain, columns));
    }

    pub(super) fn attention(&self, claims: &mut Claims<K>) {
        let (points, p, part) = (self.points, &self.shape.padded, Part::Att);
        let rest = [eq(&points.token), eq(&points.head), eq(points.out(p.head_dim()))];
        let with = |layers: Weight<K>| vec![std::iter::once(layers).chain(rest.clone()).collect::<Tensor<K>>()];
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
