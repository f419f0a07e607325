//! Hidden ids of token rows (docs/protocol.md, section 17.6): the one-hot vectors of their two digits. Part Ids has one row per (hidden token row, digit, value
//! of the digit). No other part has the ids: the operand of the embedding and the ids of output tokens follow from their digits.

use stwo::core::fields::qm31::SecureField;

use crate::air::lookups::{Linear, Lookup};
use crate::air::Air;
use crate::claims::{Group, LinearClaim, Said, Weight};
use crate::mle::eq_table;
use crate::model::log_ceil;
use crate::scalar::Scalar;
use crate::shape::{Part, Product, Rows, Shape};
use crate::sizes::{Extent, Sizes};
use crate::statement::Decided;
use crate::wiring::{felt, padded, suffix, times, Claims, Public};

use super::operator::Operator;

impl Part {
    /// (hidden token row, digit, value of the digit)
    pub const IDS: Self = Self::new(14, "Ids");
}

/// Whether the digit has the value: a bit.
pub const IS_DIGIT: usize = 0;
/// log2 of the number of digits, which have as many bits.
const DIGITS: u32 = 1;

/// The ids of a vocabulary as two digits, the high one first. The largest value of the high digit is no digit of any id: its bit says whether the id is
/// neither among the last ones nor beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    /// Bits of a digit.
    pub log: u32,
    /// The digits of the last id.
    pub last: [usize; 2],
}

impl Digits {
    /// The digits of the ids of a vocabulary.
    pub const fn of(vocab: usize) -> Self {
        let mut log = 1;
        while vocab > (1 << log) * ((1 << log) - 1) {
            log += 1;
        }
        let last = vocab.saturating_sub(1);
        Self {
            log,
            last: [last >> log, last & ((1 << log) - 1)],
        }
    }

    /// Number of values of a digit.
    const fn values(&self) -> usize {
        1 << self.log
    }

    /// The value of the high digit that no id has.
    const fn spare(&self) -> usize {
        self.values() - 1
    }

    /// The digits of an id.
    pub const fn split(&self, id: usize) -> [usize; 2] {
        [id >> self.log, id & (self.values() - 1)]
    }

    /// Whether a bit is set of an id of the vocabulary.
    pub const fn bit(&self, id: usize, digit: usize, value: usize) -> bool {
        let [high, low] = self.split(id);
        match (digit, value == self.spare()) {
            (0, true) => high != self.last[0] && low <= self.last[1],
            (0, false) => value == high,
            _ => value == low,
        }
    }
}

/// The hidden ids of token rows.
pub struct Ids;

impl<K: Scalar> Operator<K> for Ids {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let rows = sizes.hidden.rows;
        let part = || Rows {
            part: Part::IDS,
            // The last entry of the first axis has the bit of [`Public::run_ends`].
            axes: vec![log_ceil(rows + 1, 0), DIGITS, Digits::of(sizes.config.vocab).log],
            extents: vec![Extent::of(0, rows + 1)],
            of_text: |_, _| true,
            air: Air {
                columns: 1,
                powers: Vec::new(),
                lookups: vec![Lookup::below(1, Linear::column(IS_DIGIT))],
            },
            shifts: Vec::new(),
        };
        (rows > 0).then(part).into_iter().collect()
    }

    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        Vec::new()
    }

    fn rounded(&self, _: &Public<'_, K>, _: &mut Claims<K>) {}

    fn across(&self, public: &Public<'_, K>) -> Vec<LinearClaim<K>> {
        match public.shape.hidden.rows {
            0 => Vec::new(),
            _ => public.digits_of_ids().into_iter().chain(public.run_ends()).collect(),
        }
    }
}

impl Sizes {
    /// Number of variables of the product of the digits of hidden ids; `None` if no ids of rows are hidden.
    pub fn digit_variables(&self) -> Option<usize> {
        let rows = self.hidden.rows;
        (rows > 0).then(|| log_ceil(rows, 0) as usize)
    }
}

impl Shape {
    /// The cells that say both digits of the id of a hidden row, given its place among the hidden rows: each is 1 if the row has this id.
    pub(crate) fn digit_cells(&self, place: usize, id: u32) -> [Group; 2] {
        let digits = Digits::of(self.config.vocab);
        let [high, low] = digits.split(id as usize);
        let cell = |digit: usize, value: usize| {
            let weights = vec![
                Weight::single(self.lead(Part::IDS), place),
                Weight::single(DIGITS, digit),
                Weight::single(digits.log, value),
            ];
            Group::new(Part::IDS, weights, vec![(IS_DIGIT, SecureField::from(1))])
        };
        [cell(0, high), cell(1, low)]
    }
}

impl<K: Scalar> Public<'_, K> {
    /// `eq(token, .)` on the hidden rows.
    fn hidden_weights(&self) -> Vec<K> {
        let tokens = eq_table(&self.points.token);
        let rows = self.statement.hidden_rows();
        rows.map(|row| tokens.get(row).copied().unwrap_or_default()).collect()
    }

    /// The weights of some values of a digit, in some rows.
    fn digit(&self, rows: Weight<K>, digit: usize, values: Vec<K>) -> Vec<Weight<K>> {
        let log = Digits::of(self.shape.config.vocab).log;
        vec![rows, Weight::single(DIGITS, digit), padded(values, log)]
    }

    /// Three claims on every hidden id: its high digit has one value, at most the last id's; its low digit has one value; and if its high digit is the last
    /// id's, its low digit is at most the last id's.
    fn digits_of_ids(&self) -> [LinearClaim<K>; 3] {
        let digits = Digits::of(self.shape.config.vocab);
        let [high, low] = digits.last;
        let weights = self.hidden_weights();
        let total = K::sum_of(&weights);
        let rows = padded(weights, self.lead(Part::IDS));
        let ones = |from: usize, to: usize| {
            let values = (0..to).map(|value| if value < from { K::zero() } else { K::one() });
            values.collect::<Vec<_>>()
        };
        let claim = |name, tensors: Vec<(usize, Vec<K>)>| {
            let tensors = tensors.into_iter();
            let tensors = tensors.map(|(digit, values)| self.digit(rows.clone(), digit, values));
            let group = Group::new_sum(Part::IDS, tensors.collect(), vec![(IS_DIGIT, K::one())]);
            LinearClaim::of(name, vec![group]).of_value(total)
        };
        let mut last = ones(high, high + 1);
        last.resize(digits.spare(), K::zero());
        last.push(K::one());
        [
            claim("high digits of ids", vec![(0, ones(0, high + 1))]),
            claim("low digits of ids", vec![(1, ones(0, digits.values()))]),
            claim("range of ids", vec![(0, last), (1, ones(low + 1, digits.values()))]),
        ]
    }

    /// Claims that a hidden id differs from the first id, if the number of leading rows follows from that: the hidden id shares at most one digit with the first
    /// one. The bit at the end of the part is 1 if they share none.
    fn run_ends(&self) -> Option<LinearClaim<K>> {
        let rule = &self.params.leading;
        let Some(Decided::Ends { row, first }) = self.statement.leading_decided(rule) else {
            return None;
        };
        let digits = Digits::of(self.shape.config.vocab);
        let place = self.statement.hidden_rows().position(|own| own == row)?;
        let at = |place: usize, digit: usize, value: usize| {
            let mut values = vec![K::zero(); value];
            values.push(K::one());
            let row = Weight::single(self.lead(Part::IDS), place);
            self.digit(row, digit, values)
        };
        let [high, low] = digits.split(first as usize);
        let tensors = vec![at(place, 0, high), at(place, 1, low), at(self.shape.hidden.rows, 0, 0)];
        let group = Group::new_sum(Part::IDS, tensors, vec![(IS_DIGIT, K::one())]);
        Some(LinearClaim::of("end of the leading rows", vec![group]).of_value(K::one()))
    }

    /// The sum of some hidden ids, each with its weight, by their places among the hidden rows.
    pub(super) fn hidden_ids(&self, places: Vec<(usize, K)>, factor: K) -> Group<K> {
        let digits = Digits::of(self.shape.config.vocab);
        let rows = Weight::Sparse(self.lead(Part::IDS), places);
        let values = |count: usize, log: u32| (0..count).map(|value| felt((value as i64) << log)).collect();
        let tensors = vec![
            self.digit(rows.clone(), 0, values(digits.last[0] + 1, digits.log)),
            self.digit(rows, 1, values(digits.values(), 0)),
        ];
        Group::new_sum(Part::IDS, tensors, vec![(IS_DIGIT, factor)])
    }

    /// The point of the embedding in two parts, one for each digit.
    fn digit_points<'p>(&self, products: &'p [K]) -> (&'p [K], &'p [K]) {
        let point = suffix(products, Product::EMBED.variables(self.shape));
        let log = Digits::of(self.shape.config.vocab).log as usize;
        point.split_at(point.len().saturating_sub(log))
    }

    /// The weights of the values of the high digit, and the weights of the values of the low digit, where the product sumcheck ends.
    pub fn digit_values(&self, products: &[K]) -> [Vec<K>; 2] {
        let digits = Digits::of(self.shape.config.vocab);
        let (high, low) = self.digit_points(products);
        let mut high = eq_table(high);
        high.truncate(digits.last[0] + 1);
        [high, eq_table(low)]
    }

    /// The weights of the hidden rows in the operand of the embedding.
    pub fn digit_rows(&self) -> Vec<K> {
        let scale = felt::<K>(1 << self.params.embed_exponent);
        self.hidden_weights().into_iter().map(|weight| weight * scale).collect()
    }

    /// The claims on the digits of hidden ids that the sumcheck of their product ends with, at the point `rows` of hidden rows; the product sumcheck ends at
    /// `products`.
    pub fn digit_claims(&self, products: &[K], rows: &[K]) -> Vec<LinearClaim<K>> {
        if self.shape.hidden.rows == 0 {
            return Vec::new();
        }
        let mut own = eq_table(rows);
        own.truncate(self.shape.hidden.rows);
        let [high, low] = self.digit_values(products);
        let claim = |side, name, weights, values| {
            let tensor = self.digit(padded(weights, self.lead(Part::IDS)), side, values);
            let group = Group::new(Part::IDS, tensor, vec![(IS_DIGIT, K::one())]);
            LinearClaim::of(name, vec![group])
                .and(Said::Digit(side))
                .in_lanes(self.shape)
        };
        let weighted = times(&own, &self.digit_rows());
        vec![
            claim(0, "high digits of the embedding", weighted, high),
            claim(1, "low digits of the embedding", own, low),
        ]
    }
}

#[cfg(test)]
mod tests;
