//! What updates the residual stream.

use std::collections::BTreeMap;

use crate::scalar::Scalar;

use super::{alike, Claims, Rounding};
use crate::air::{base, stream};
use crate::claims::{Group, Weight};
use crate::gains::{factor_limbs, Gains};
use crate::mle::eq_table;
use crate::model::{Limbs, RowClass};
use crate::rounding::Rounded;
use crate::rounding::{Update, PADDED_EXPONENT};
use crate::shape::Part;
use crate::wiring::{eq, felt, padded, Public};

impl<K: Scalar> Public<'_, K> {
    /// What updates the residual stream: embedding, O and Down, with the state before, or sums of a state and a normed output.
    pub(super) fn updates(&self, claims: &mut Claims<K>) {
        let (points, part) = (self.points, Part::Stream);
        let at = points.out(self.shape.padded.hidden);
        let weights = eq_table(at);
        let weight = |n: usize| points.maker_weight(self.params.maker(n));
        let on = |states: Vec<(usize, K)>| Weight::Sparse(self.lead(part), states);
        let (mut plain, mut powered, mut residual) = (Vec::new(), Vec::new(), Vec::new());
        let mut normed = Vec::new();
        let all: Vec<K> = (0..self.shape.states()).map(weight).collect();
        plain.push(vec![padded(all, self.lead(part)), eq(&points.token), eq(at)]);
        // What enters the chunk, if something does, is multiplied by 2^1 in all rows and channels.
        claims.accumulators.value += weight(0) * felt::<K>(2) * self.boundary_eval(self.ends.input);
        for (class, rows) in self.classes() {
            let states = 0..self.shape.states();
            let updates = states.filter_map(|n| Some((Update::of(self.params, n, class)?, (n, weight(n)))));
            for (update, states) in alike(updates) {
                let powers = |pick: fn([u8; 2]) -> u8| {
                    let exponent = |c: usize| u32::from(pick(update.exponents(c)));
                    Weight::dense(self.feature_powers(&weights, &exponent))
                };
                powered.push(vec![on(states.clone()), rows.clone(), powers(|[divisor, _]| divisor)]);
                let before = |back: Option<usize>| {
                    let states = states
                        .iter()
                        .filter_map(move |(n, weight)| Some((n.checked_sub(back?)?, -*weight)));
                    states.collect::<Vec<_>>()
                };
                for (n, weight) in before(update.normed) {
                    let Some(gains) = Gains::of(self.params, n) else {
                        continue;
                    };
                    let factors = self.normed_residual(&gains, &weights, &|c| update.normed_exponent(c));
                    normed.push(vec![on(vec![(n, weight)]), rows.clone(), factors]);
                }
                let added = before(update.added);
                if !added.is_empty() {
                    residual.push(vec![on(added), rows.clone(), powers(|[_, factor]| factor)]);
                }
            }
        }
        let out = vec![(stream::X_HI, felt(256)), (stream::X_LO, K::one())];
        let columns = [(residual, out.clone()), (normed, self.normed_columns(Limbs::One))];
        let groups = columns.into_iter().filter(|(tensors, _)| !tensors.is_empty());
        let groups = groups.map(|(tensors, columns)| Group::new_sum(part, tensors, columns));
        claims.accumulators.groups.extend(groups);
        let rounding = Rounding {
            rounded: Rounded::STATE,
            out,
            plain,
            powered,
            factor: K::one(),
        };
        self.accumulated(claims, &rounding, stream::UPDATE);
    }

    /// Weights of the channels of a normed state in what it adds to the accumulators, whose channels weigh these and have factors of
    /// these exponents: limbs of [`Gains::residual`], the low one times its challenge.
    fn normed_residual(&self, gains: &Gains, weights: &[K], skip: &dyn Fn(usize) -> u8) -> Weight<K> {
        let limbs = |factor: i32, skip: u8| {
            let [high, low] = factor_limbs(factor, skip);
            felt::<K>(high) + self.points.limb * base(low)
        };
        let real = gains.own.iter().zip(weights).enumerate();
        // The sums of the weights of all channels of an exponent.
        let mut sums: BTreeMap<u8, K> = BTreeMap::new();
        let own = real.map(|(c, (gain, weight))| {
            *sums.entry(skip(c)).or_default() += *weight;
            *weight * limbs(*gain, skip(c))
        });
        let own: Vec<K> = own.collect();
        let factors = own.into_iter().zip(&gains.mean).map(|(own, mean)| {
            let all = sums.iter().map(|(skip, sum)| *sum * limbs(*mean, *skip));
            all.fold(own, |own, mean| own - mean)
        });
        padded(factors.collect(), self.shape.padded.hidden)
    }

    /// Weights of the token rows of each class.
    pub(super) fn classes(&self) -> Vec<(RowClass, Weight<K>)> {
        let log = self.shape.token;
        let rows = eq_table(&self.points.token);
        let of = |before: bool| Weight::Sparse(log, K::part_of(&rows, self.leading_rows(), before));
        vec![(RowClass::Lead, of(true)), (RowClass::Body, of(false))]
    }

    /// Weights of the features times a power of two: that of the channel, and that of [`PADDED_EXPONENT`] for padding.
    pub(super) fn feature_powers(&self, weights: &[K], exponent: &dyn Fn(usize) -> u32) -> Vec<K> {
        let hidden = self.shape.config.hidden;
        let power = |c: usize| match c < hidden {
            true => exponent(c),
            false => PADDED_EXPONENT.into(),
        };
        let features = weights.iter().enumerate();
        features.map(|(c, w)| *w * base(1 << power(c).min(30))).collect()
    }
}
