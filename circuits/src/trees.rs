//! Lookups as leaves of trees of fractions (docs/protocol.md, section 8.5): which tree has which lookup where, and what the
//! end of a tree's proof says about the columns. A function of the shape alone.

use std::collections::BTreeMap;
use std::ops::{Add, Mul, Range, Sub};

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use crate::air::lookups::{Linear, Lookup, Relation};
use crate::air::Relations;
use crate::claims::{Group, LinearClaim, Said, Weight};
use crate::mle::{index_eq, less_than_eval};
use crate::rounding::Powers;
use crate::scalar::Scalar;
use crate::shape::{LeafLimits, Part, Shape};
use crate::wiring::suffix;

/// Trees of a group at most. With as many as are full, proving eleven of them takes the rounds of one.
pub const GROUP_TREES: usize = 12;
/// log2 of the leaves of a group of several trees at most.
pub const LOG_GROUP_LEAVES: u32 = 28;

/// A lookup of one lane in all rows of its part.
#[derive(Clone, Debug)]
pub struct Plane {
    /// The part whose rows look up.
    pub part: Part,
    /// log2 of its rows.
    pub log_rows: u32,
    /// In the columns of the part.
    pub lookup: Lookup,
}

/// The fractions of some lookups, as the leaves of a binary tree: planes by descending height, so that each is a subcube, then
/// padding. All numerators are one, and so are the denominators of padding.
#[derive(Clone, Debug)]
pub struct LookupTree {
    /// The lookups of the tree, the tallest first.
    pub planes: Vec<Plane>,
}

/// What is left to show of a tree: its leaves, as multilinear polynomials, have these values at a point.
#[must_use = "a claim that is not proved"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafClaim<K = SecureField, V = K> {
    /// Coordinates of the leaf.
    pub point: Vec<K>,
    /// The numerators at the point.
    pub numerator: V,
    /// The denominators at the point.
    pub denominator: V,
}

impl LookupTree {
    /// Number of leaves without padding.
    pub fn leaves(&self) -> usize {
        self.planes.iter().map(|plane| 1usize << plane.log_rows).sum()
    }

    /// log2 of the number of leaves.
    pub fn log_leaves(&self) -> u32 {
        self.leaves().next_power_of_two().trailing_zeros()
    }

    /// What the padding adds to the sum of the fractions.
    pub fn padding(&self) -> usize {
        (1 << self.log_leaves()) - self.leaves()
    }

    /// The claim on the columns that a claim on the leaves comes down to. `None` if it is false whatever the columns are: the
    /// numerators are not one. `tree` is the number of this tree.
    pub fn claim(
        &self,
        powers: &Powers<'_>,
        relations: &Relations,
        tree: usize,
        leaf: &LeafClaim,
    ) -> Option<LinearClaim> {
        let claim = self.columns_claim(powers, |relation| relations.challenges(relation), tree, &leaf.point);
        (leaf.numerator == SecureField::one()).then_some(claim)
    }

    /// The same, of numerators that are one at a point.
    pub fn columns_claim<K: Scalar>(
        &self,
        powers: &Powers<'_>,
        challenges: impl Fn(Relation) -> [K; 2],
        tree: usize,
        point: &[K],
    ) -> LinearClaim<K> {
        let mut claim = Claim {
            powers,
            point,
            // Denominators of padding are one.
            value: less_than_eval(self.leaves(), point) - K::one(),
            parts: BTreeMap::new(),
            tables: BTreeMap::new(),
        };
        let mut start = 0usize;
        for plane in &self.planes {
            let (prefix, _) = point.split_at(point.len().saturating_sub(plane.log_rows as usize));
            let mut weight = index_eq(start >> plane.log_rows, prefix);
            start += 1 << plane.log_rows;
            let [z, alpha] = challenges(plane.lookup.relation);
            claim.value += weight * z;
            for value in &plane.lookup.tuple {
                claim.add(plane, value, weight);
                weight *= alpha;
            }
        }
        claim.finish().and(Said::Denominator(tree))
    }
}

/// A claim that is being made: columns of parts with their coefficients.
struct Claim<'a, K> {
    powers: &'a Powers<'a>,
    point: &'a [K],
    value: K,
    parts: BTreeMap<Part, BTreeMap<usize, K>>,
    /// The tables of `eq` that public columns are evaluated with.
    tables: BTreeMap<Part, Vec<Vec<K>>>,
}

impl<K: Scalar> Claim<'_, K> {
    /// Adds a linear form times a weight to the left side; what is public goes to the right.
    fn add(&mut self, plane: &Plane, form: &Linear, weight: K) {
        self.value -= weight * form.constant;
        for (column, coefficient) in &form.terms {
            let factor = weight * *coefficient;
            if self.powers.is_power(plane.part, *column) {
                // All planes of a part end at the same point.
                let (powers, rows) = (self.powers, suffix(self.point, plane.log_rows));
                let tables = self.tables.entry(plane.part);
                let tables = tables.or_insert_with(|| powers.tables(plane.part, rows));
                self.value -= factor * powers.eval_with(plane.part, *column, tables);
                continue;
            }
            let columns = self.parts.entry(plane.part).or_default();
            *columns.entry(*column).or_insert_with(K::zero) += factor;
        }
    }

    /// The claim, on the rows at the end of the point.
    fn finish(self) -> LinearClaim<K> {
        let shape = self.powers.shape;
        let group = |(part, columns): (Part, BTreeMap<usize, K>)| {
            let mut rest = suffix(self.point, shape.log_rows(part));
            let axes = shape.axes(part);
            let weights = axes.iter().map(|log| {
                let (own, tail) = rest.split_at((*log as usize).min(rest.len()));
                rest = tail;
                Weight::Eq(own.to_vec())
            });
            Group::new(part, weights.collect(), columns.into_iter().collect())
        };
        let groups = self.parts.into_iter().map(group).collect();
        LinearClaim::of("lookups", groups).of_value(self.value)
    }
}

/// The trees of all lookups of a shape.
pub fn lookup_trees(shape: &Shape) -> Vec<LookupTree> {
    let mut planes: Vec<Plane> = Vec::new();
    for &part in shape.parts() {
        let log_rows = shape.log_rows(part);
        let lookups = shape.air(part).lookups.into_iter();
        planes.extend(lookups.map(|lookup| Plane { part, log_rows, lookup }));
    }
    planes.sort_by_key(|plane| std::cmp::Reverse(plane.log_rows));
    cut(planes, shape.leaf_limits().log_tree)
}

/// Planes in trees of at most `2^log_leaves` leaves, or of one plane.
fn cut(planes: Vec<Plane>, log_leaves: u32) -> Vec<LookupTree> {
    let mut trees: Vec<LookupTree> = Vec::new();
    let mut free = 0usize;
    for plane in planes {
        let leaves = 1usize << plane.log_rows;
        match trees.last_mut().filter(|_| leaves <= free) {
            Some(tree) => {
                free -= leaves;
                tree.planes.push(plane);
            }
            None => {
                free = (1usize << log_leaves).saturating_sub(leaves);
                trees.push(LookupTree { planes: vec![plane] });
            }
        }
    }
    trees
}

/// How large the trees of all lookups are, and which of them share a balance. It is known without a list of the lookups, so that a
/// statement of any size is cheap to refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest {
    /// The leaves of every tree, without padding.
    leaves: Vec<u64>,
    /// The leaves of a balance group are fewer.
    balance: u64,
}

impl Forest {
    /// The trees of [`lookup_trees`].
    pub fn of(shape: &Shape) -> Self {
        let LeafLimits { log_tree, balance } = shape.leaf_limits();
        let planes = |part: &Part| {
            let lookups = shape.lanes(*part) * shape.lane_air(*part).lookups.len();
            (shape.log_rows(*part), lookups)
        };
        let mut planes: Vec<(u32, usize)> = shape.parts().iter().map(planes).collect();
        planes.sort_by_key(|(log_rows, _)| std::cmp::Reverse(*log_rows));
        let (mut leaves, mut free) = (Vec::new(), 0u64);
        for (log_rows, mut number) in planes {
            while number > 0 {
                // As many as fit in the last tree, or the first one of the next tree.
                let taken = match leaves.last_mut().zip(usize::try_from(free >> log_rows).ok()) {
                    Some((last, fit @ 1..)) => {
                        let taken = fit.min(number);
                        *last += (taken as u64) << log_rows;
                        free -= (taken as u64) << log_rows;
                        taken
                    }
                    _ => {
                        leaves.push(1 << log_rows);
                        free = (1u64 << log_tree).saturating_sub(1 << log_rows);
                        1
                    }
                };
                number -= taken;
            }
        }
        Self { leaves, balance }
    }

    /// log2 of the leaves of every tree, padding included.
    pub fn logs(&self) -> Vec<u32> {
        let log = |leaves: &u64| leaves.next_power_of_two().trailing_zeros();
        self.leaves.iter().map(log).collect()
    }

    /// The *balance groups*: consecutive trees with fewer leaves than a balance may have, so that no tuple is used so often that its uses
    /// are zero in the field. A tree with as many is alone.
    pub fn balances(&self) -> Vec<Range<usize>> {
        let mut balances: Vec<Range<usize>> = Vec::new();
        let mut sum = 0u64;
        for (tree, leaves) in self.leaves.iter().enumerate() {
            sum = sum.saturating_add(*leaves);
            match balances.last_mut() {
                Some(balance) if sum < self.balance => balance.end = tree + 1,
                _ => {
                    sum = *leaves;
                    balances.push(tree..tree + 1);
                }
            }
        }
        balances
    }

    /// Whether there are two balance groups or more, which are weighed with powers of a challenge.
    pub fn is_weighted(&self) -> bool {
        self.balances().len() > 1
    }

    /// Adds up all lookups, from the sum of each tree with its padding, which is taken off. The trees of balance group `m` count
    /// `weight^m` times. Without a weight there is one group.
    pub fn balance<V>(&self, sums: &[V], weight: Option<SecureField>) -> V
    where
        V: Clone + From<SecureField> + Add<Output = V> + Sub<Output = V> + Mul<SecureField, Output = V>,
    {
        let weight = weight.unwrap_or_else(SecureField::one);
        // Horner's rule, from the last group on.
        let balances = self.balances().into_iter().rev();
        let zero = || V::from(SecureField::zero());
        balances.fold(zero(), |total, trees| {
            let own = sums.get(trees.clone()).unwrap_or_default().iter();
            let leaves = self.leaves.get(trees).unwrap_or_default();
            let sum = own.zip(leaves).fold(zero(), |sum, (own, leaves)| {
                let padding = leaves.next_power_of_two() - leaves;
                // Less than half of a tree.
                sum + own.clone() - SecureField::from(BaseField::from(padding as usize)).into()
            });
            total * weight + sum
        })
    }
}

/// The groups of trees of `2^log` leaves each that are proved together: consecutive ones, as many as a group may have.
pub fn groups(logs: &[u32]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut leaves = 0u64;
    for (tree, log) in logs.iter().enumerate() {
        leaves += 1 << log;
        match groups.last_mut() {
            Some(group) if group.len() < GROUP_TREES && leaves <= 1 << LOG_GROUP_LEAVES => group.end = tree + 1,
            _ => {
                leaves = 1 << log;
                groups.push(tree..tree + 1);
            }
        }
    }
    groups
}

/// The depth of the deepest tree of each of these groups.
pub fn depths(logs: &[u32]) -> Vec<u32> {
    let deepest = |group: Range<usize>| logs.get(group).and_then(|own| own.iter().max()).copied().unwrap_or(0);
    groups(logs).into_iter().map(deepest).collect()
}

/// What the padding of all trees adds to the sum of their fractions.
pub fn padding(trees: &[LookupTree]) -> SecureField {
    let of = |tree: &LookupTree| BaseField::from(tree.padding());
    trees.iter().map(of).fold(BaseField::zero(), |sum, v| sum + v).into()
}

/// The denominator of a plane in one row: the tuple, combined.
pub fn denominator(plane: &Plane, relations: &Relations, column: impl Fn(usize) -> BaseField) -> SecureField {
    let [z, alpha] = relations.challenges(plane.lookup.relation);
    let values = plane.lookup.tuple.iter().rev();
    values.fold(SecureField::zero(), |sum, value| sum * alpha + value.eval(&column)) - z
}

#[cfg(test)]
mod tests;
