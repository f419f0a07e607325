//! Norms: squares, reciprocal roots and normed states (docs/protocol.md, section 16.2).

use crate::scalar::Scalar;

use super::{alike, Claims, Rounding};
use crate::air::norms::{
    bound_limbs, epsilon, CARRIES, CARRY, CROSS_HI, CROSS_LO, GAP, HIGH_LO, LEFT, LIMBS, LIMB_BITS, QUOTIENT, REST,
    ROOT_CARRIES, SUM, SUM_BITS,
};
use crate::air::{base, stream};
use crate::claims::{Group, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::{Limbs, RowClass};
use crate::rounding::Rounded;
use crate::shape::Part;
use crate::statement::norm_of;
use crate::wiring::terms::power;
use crate::wiring::{eq, felt, padded, Public};

/// Of squares of limbs `hi + limb lo`: what the sum of squares is made of, with these weights.
pub(super) fn square_columns<K: Scalar>(limb: K, weight: K) -> Vec<(usize, K)> {
    let [high, cross, low] = [weight, weight * limb, weight * limb * limb];
    let (radix, byte) = (base(1 << LIMB_BITS), base(1 << 8));
    let half = radix * radix;
    vec![
        (SUM, low),
        (SUM + 1, low * radix),
        (SUM + 2, high * byte),
        (SUM + 3, high * byte * radix),
        (CROSS_HI, cross * base(2 << SUM_BITS[0]) - high * byte),
        (CROSS_LO, cross * base(2) - low * base(1 << 9)),
        (HIGH_LO, high - low * base(1 << 16)),
        (CARRY, low * half - high * byte),
    ]
}

/// What an epsilon adds to the value of the claim on squares.
pub(super) fn epsilon_value<K: Scalar>(eps: u64, limb: K, weight: K) -> K {
    let [eps_hi, eps_lo] = epsilon(eps).map(base);
    weight * (limb * limb * eps_lo + base(1 << 8) * eps_hi)
}

/// Of quotients times sums of squares: the limbs of the product are those of the bound less what the division leaves.
pub(super) fn quotient_columns<K: Scalar>(limb: K, weight: K) -> Vec<(usize, K)> {
    let radix = base(1 << LIMB_BITS);
    let at = |k: usize| weight * power(limb, k);
    let left = (0..LIMBS).map(|k| (LEFT + k, -at(k)));
    let carries = (0..GAP - CARRIES).map(|k| (CARRIES + k, at(k) * radix - at(k + 1)));
    left.chain(carries).collect()
}

/// The limbs of the bound of a norm of rows of so many values, weighed.
pub(super) fn bound_value<K: Scalar>(width: usize, scale: u8, limb: K, weight: K) -> K {
    let limbs = bound_limbs(width, scale).into_iter().enumerate();
    limbs.fold(K::zero(), |sum, (k, own)| sum + weight * power(limb, k) * base(own))
}

/// Of squares of reciprocal roots: the quotients less the rest.
pub(super) fn root_columns<K: Scalar>(limb: K, weight: K) -> Vec<(usize, K)> {
    let radix = base(1 << LIMB_BITS);
    let at = |k: usize| weight * power(limb, k);
    vec![
        (QUOTIENT, at(0)),
        (QUOTIENT + 1, at(1)),
        (QUOTIENT + 2, at(2)),
        (QUOTIENT + 3, at(2) * radix),
        (REST, -at(0)),
        (REST + 1, -at(1)),
        (ROOT_CARRIES, at(0) * radix - at(1)),
        (ROOT_CARRIES + 1, at(1) * radix - at(2)),
    ]
}

impl<K: Scalar> Public<'_, K> {
    /// Everything that norms round or divide, as accumulators of products.
    pub(super) fn norms(&self, claims: &mut Claims<K>) {
        self.squares(claims);
        self.quotients(claims);
        self.roots(claims);
        self.normed(claims);
    }

    /// Weights of the rows of norms.
    fn norm_rows(&self) -> Tensor<K> {
        let states = self.points.state_weights(self.shape.states());
        vec![padded(states, self.lead(Part::Norms)), eq(&self.points.token)]
    }

    /// Squares of the stream's rows, of limbs `hi + limb lo`: the columns say what the sum of squares is made of.
    fn squares(&self, claims: &mut Claims<K>) {
        let (limb, weight) = (self.points.limb, self.points.norms(Part::Norms).square);
        let states = self.points.state_weights(self.shape.states());
        let mut epsilons = K::zero();
        for (class, rows) in self.class_weights() {
            for (n, state) in states.iter().enumerate() {
                epsilons += *state * rows * epsilon_value(norm_of(self.params, n).eps.of(class), limb, weight);
            }
        }
        let columns = square_columns(limb, weight);
        let sides = &mut claims.accumulators;
        sides.value += epsilons;
        sides.groups.push(Group::new(Part::Norms, self.norm_rows(), columns));
    }

    /// Sum of the weights of the token rows of each class.
    fn class_weights(&self) -> [(RowClass, K); 2] {
        let rows = eq_table(&self.points.token);
        let lead = K::sum_below(&rows, self.leading_rows());
        [(RowClass::Lead, lead), (RowClass::Body, K::one() - lead)]
    }

    /// Quotients times sums of squares: the limbs of the product are those of the bound less what the division leaves.
    fn quotients(&self, claims: &mut Claims<K>) {
        let (limb, weight) = (self.points.limb, self.points.norms(Part::Norms).quotient);
        let states = self.points.state_weights(self.shape.states());
        let hidden = self.shape.config.hidden;
        let bounds = states.iter().enumerate().fold(K::zero(), |sum, (n, state)| {
            sum + *state * bound_value(hidden, norm_of(self.params, n).scale, limb, weight)
        });
        let columns = quotient_columns(limb, weight);
        let sides = &mut claims.accumulators;
        sides.value -= bounds;
        sides.groups.push(Group::new(Part::Norms, self.norm_rows(), columns));
    }

    /// Squares of reciprocal roots: the quotients less the rest.
    fn roots(&self, claims: &mut Claims<K>) {
        let columns = root_columns(self.points.limb, self.points.norms(Part::Norms).root);
        let group = Group::new(Part::Norms, self.norm_rows(), columns);
        claims.accumulators.groups.push(group);
    }

    /// The normed states: values times the reciprocal root of their row.
    fn normed(&self, claims: &mut Claims<K>) {
        let (points, part) = (self.points, Part::Stream);
        let at = points.out(self.shape.padded.hidden);
        let weights = eq_table(at);
        let states = points.state_weights(self.shape.states());
        let shifts = states.iter().enumerate();
        let shifts = shifts.map(|(n, weight)| (&norm_of(self.params, n).shift, (n, *weight)));
        let powered = alike(shifts).into_iter().map(|(shift, states)| {
            let features = Weight::dense(self.feature_powers(&weights, &|c| u32::from(shift.at(c))));
            vec![Weight::Sparse(self.lead(part), states), eq(&points.token), features]
        });
        let out = match self.shape.normed() {
            Limbs::One => vec![(stream::Y, K::one())],
            Limbs::Two => vec![(stream::Y, felt(256)), (stream::Y + 1, K::one())],
        };
        let rounding = Rounding {
            rounded: Rounded::NORM,
            out,
            powered: powered.collect(),
            plain: vec![vec![padded(states, self.lead(part)), eq(&points.token), eq(at)]],
            factor: points.norms(Part::Norms).normed,
        };
        self.accumulated(claims, &rounding, stream::NORM);
    }
}
