//! How the lookup tables are proved (docs/protocol.md, section 9), and their entries as the leaves of a tree of fractions, beside the
//! trees of the lookups themselves ([`crate::trees`]).

use std::fmt;
use std::iter::successors;

use crate::air::lookups::{Relation, TableColumn};
use crate::air::tables::LOG_ROWS;
use crate::air::Air;
use crate::claims::{Group, LinearClaim, Said, Weight};
use crate::mle::{index_eq, less_than_eval};
use crate::scalar::Scalar;
use crate::shape::{LeafLimits, Part, Rows, Shape};
use crate::trees::Forest;
use crate::wiring::suffix;

/// How lookup tables are proved. The key says it, and so the model id does; a proof that hides its activations has a tree whatever the key says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableArgument {
    /// By a STARK over the tables, which commits to how often they are used.
    #[default]
    Stark,
    /// By one more tree of the sums of lookups. How often the tables are used is committed to with the activations.
    Gkr,
}

impl TableArgument {
    /// Both, by their numbers in a key.
    pub const ALL: [Self; 2] = [Self::Stark, Self::Gkr];

    /// The number in a key.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The argument of a number; `None` of any other.
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.number() == number)
    }

    /// How options and messages call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stark => "stark",
            Self::Gkr => "gkr",
        }
    }
}

impl fmt::Display for TableArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Part {
    /// How often the entries of the tables are used: a column for every relation of every balance group.
    pub const COUNTS: Self = Self::new(15, "Counts");
}

/// The entries of all tables as the leaves of a tree: a plane of `2^16` fractions for every relation, `-count / tuple`, then padding `0 / 1`. The
/// counts of balance group `m` count `weight^m` times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTree {
    /// The relations, in the order of the planes.
    pub relations: Vec<Relation>,
    /// Number of balance groups.
    pub balances: usize,
}

impl TableTree {
    /// Number of leaves without padding.
    pub fn leaves(&self) -> usize {
        self.relations.len() << LOG_ROWS
    }

    /// log2 of the number of leaves.
    pub fn log_leaves(&self) -> u32 {
        self.leaves().next_power_of_two().trailing_zeros()
    }

    /// The column of counts of a relation in a balance group.
    pub fn column(&self, balance: usize, relation: usize) -> usize {
        balance * self.relations.len() + relation
    }

    /// The rows of [`Part::COUNTS`].
    fn rows(&self) -> Rows {
        let air = Air {
            columns: self.balances * self.relations.len(),
            ..Air::NONE
        };
        Rows {
            part: Part::COUNTS,
            axes: vec![LOG_ROWS],
            extents: Vec::new(),
            of_text: |_, _| false,
            air,
            shifts: Vec::new(),
        }
    }

    /// The relations with the weights of their planes at a point of a leaf.
    fn planes<'a, K: Scalar>(&'a self, point: &'a [K]) -> impl Iterator<Item = (usize, Relation, K)> + 'a {
        let (prefix, _) = point.split_at(point.len().saturating_sub(LOG_ROWS as usize));
        let planes = self.relations.iter().enumerate();
        planes.map(|(plane, relation)| (plane, *relation, index_eq(plane, prefix)))
    }

    /// Turns a claim on the numerators at a point into the claim on the counts that it follows from. `weight` is the challenge that weighs balance
    /// groups, if there are several.
    pub fn claim<K: Scalar>(&self, weight: Option<K>, point: &[K]) -> LinearClaim<K> {
        let weight = weight.unwrap_or_else(K::one);
        let powers = successors(Some(K::one()), |power| Some(*power * weight));
        let column = |(balance, power): (usize, K)| {
            let planes = self.planes(point);
            planes.map(move |(plane, _, own)| (self.column(balance, plane), K::zero() - power * own))
        };
        let columns = (0..self.balances).zip(powers).flat_map(column).collect();
        let rows = Weight::Eq(suffix(point, LOG_ROWS).to_vec());
        let group = Group::new(Part::COUNTS, vec![rows], columns);
        LinearClaim::of("entries of the tables", vec![group]).and(Said::Counts)
    }

    /// The denominators at a point. `value` is the multilinear extension of a column that has no closed form, at the point of its rows.
    pub fn denominator<K: Scalar>(
        &self,
        challenges: impl Fn(Relation) -> [K; 2],
        value: impl Fn(TableColumn, &[K]) -> K,
        point: &[K],
    ) -> K {
        let rows = suffix(point, LOG_ROWS);
        // Denominators of padding are one.
        let padding = K::one() - less_than_eval(self.leaves(), point);
        self.planes(point).fold(padding, |sum, (_, relation, weight)| {
            let [z, alpha] = challenges(relation);
            let columns = relation.columns().iter().rev();
            let tuple = columns.fold(K::zero(), |tuple, column| {
                let own = column.closed_form(rows).unwrap_or_else(|| value(*column, rows));
                tuple * alpha + own
            });
            sum + weight * (tuple - z)
        })
    }
}

impl TableColumn {
    /// The multilinear extension of the column, most significant bit first, where it is a short formula.
    pub fn closed_form<K: Scalar>(self, point: &[K]) -> Option<K> {
        let (one, zero) = (K::one(), K::zero());
        let number = |bits: &[K]| bits.iter().fold(zero, |sum, bit| sum + sum + *bit);
        // For every bit that may be the first one that is set: that it is, its power of two, and the bits behind it.
        let firsts = || {
            point.iter().enumerate().scan(one, move |none, (at, bit)| {
                let own = *none * *bit;
                *none *= one - *bit;
                let (_, behind) = point.split_at((at + 1).min(point.len()));
                Some((own, behind))
            })
        };
        let none = || point.iter().fold(one, |none, bit| none * (one - *bit));
        match self {
            Self::Index => Some(number(point)),
            Self::High => Some(number(point.split_at(point.len().min(8)).0)),
            Self::Zero => Some(none()),
            Self::BitsBound => Some(firsts().fold(none(), |sum, (first, behind)| {
                sum + first * behind.iter().fold(one, |power, _| power + power)
            })),
            Self::BitsValue => Some(firsts().fold(zero, |sum, (first, behind)| sum + first * number(behind))),
            Self::Exp | Self::Silu | Self::Cap => None,
        }
    }
}

impl Shape {
    /// The tree of the tables; `None` if a STARK proves them.
    pub fn table_tree(&self) -> Option<TableTree> {
        let relations = self.config.relations();
        let columns = self.lane_columns(Part::COUNTS);
        // Columns are made of whole balance groups, below.
        let balances = columns.checked_div(relations.len()).filter(|own| *own > 0)?;
        Some(TableTree { relations, balances })
    }

    /// Adds a part for the counts if a tree proves the lookup tables, and removes it if a STARK does.
    #[must_use]
    pub fn with_tables(self, tables: TableArgument) -> Self {
        let own = self.without(Part::COUNTS);
        match tables {
            TableArgument::Stark => own,
            TableArgument::Gkr => {
                // Nobody proves more, so nobody has to list their trees.
                let balances = match own.is_too_large() {
                    true => 1,
                    false => Forest::of(&own).balances().len(),
                };
                let relations = own.config.relations();
                own.and(TableTree { relations, balances }.rows())
            }
        }
    }

    /// Returns the same row spaces under other limits. Tests lower the limits because nobody can prove a statement of `2^30` lookups in a
    /// test, and smaller ones have a single balance group.
    #[must_use]
    #[doc(hidden)]
    pub fn with_leaf_limits(self, limits: LeafLimits) -> Self {
        let tables = match self.table_tree() {
            None => TableArgument::Stark,
            Some(_) => TableArgument::Gkr,
        };
        self.within(limits).with_tables(tables)
    }
}

impl Forest {
    /// log2 of the leaves of all trees that are proved together: these, then the one of the tables if there is one.
    pub fn logs_with(&self, tables: Option<&TableTree>) -> Vec<u32> {
        let own = self.logs().into_iter();
        own.chain(tables.map(TableTree::log_leaves)).collect()
    }
}

#[cfg(test)]
mod tests;
