//! What claims are made of. The wiring is written once, for elements of the field and for symbols that stand for them: a verifier
//! and a prover walk it with elements, and a plan is what it says of symbols.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use num_traits::{One, Zero};
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;

/// What a number of a statement is, for symbols, which do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The token of a row of the blocks of the text.
    RowId(usize),
    /// A generated token.
    OutputId(usize),
    /// The row of the first generated token.
    FirstRow,
    /// The number of leading rows.
    Leading,
    /// The last token row of the text.
    LastRow,
}

/// A number of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The number.
    pub value: usize,
    /// What it is.
    pub source: Source,
}

impl Word {
    /// A number of a statement.
    pub const fn new(value: usize, source: Source) -> Self {
        Self { value, source }
    }
}

/// An entry among `2^log`: its number, or the point of its bits.
pub enum Corner<K> {
    /// The number.
    Index(usize),
    /// The bits, the most significant one first.
    Point(Vec<K>),
}

/// One factor of `eq`: `a b + (1 - a)(1 - b)`.
pub(crate) fn eq_factor<K: Scalar>(a: K, b: K) -> K {
    let ab = a * b;
    ab + ab + K::one() - a - b
}

/// An element of the field, or a symbol.
pub trait Scalar:
    Copy
    + Debug
    + Default
    + PartialEq
    + Zero
    + One
    + Neg<Output = Self>
    + Sub<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Add<Output = Self>
    + Mul<Output = Self>
    + Mul<BaseField, Output = Self>
    + Sub<BaseField, Output = Self>
    + Add<BaseField, Output = Self>
    + From<BaseField>
    + Sum
{
    /// Whether these are symbols.
    const SYMBOLIC: bool;

    /// All `eq(point, z)`, `z` in order.
    fn eq_table(point: &[Self]) -> Vec<Self>;

    /// `sum_i a_i b_i`.
    fn dot(a: &[Self], b: &[Self]) -> Self;

    /// `eq(a, b)` of points of the same length.
    fn eq_eval(a: &[Self], b: &[Self]) -> Self;

    /// `eq(index, point)`; zero beyond the table.
    fn index_eq(index: usize, point: &[Self]) -> Self;

    /// The sum of the entries of a table `eq(point, .)`, each times a number.
    fn combine(table: &[Self], factor: impl Fn(usize) -> BaseField) -> Self;

    /// The extension at a point of a function whose values mostly differ little from one to the next: `values[i]` is its value at `i`. A plan
    /// has fewer instructions for it than for any other list.
    fn function(point: &[Self], values: &[BaseField]) -> Self {
        Self::combine(&Self::eq_table(point), |i| values.get(i).copied().unwrap_or_default())
    }

    /// The sum of all entries of a list.
    fn sum_of(list: &[Self]) -> Self;

    /// The product of all.
    fn product(factors: &[Self]) -> Self;

    /// The entry of a number among `2^log`.
    fn corner(log: u32, word: Word) -> Corner<Self>;

    /// `eq(word, point)`.
    fn word_eq(word: Word, point: &[Self]) -> Self;

    /// The sum of the entries of a table before a number.
    fn sum_below(table: &[Self], word: Word) -> Self;

    /// The same for each of some numbers, one by one.
    fn sums_below<'a>(table: &'a [Self], words: &'a [Word]) -> Box<dyn Iterator<Item = Self> + 'a> {
        Box::new(words.iter().map(|word| Self::sum_below(table, *word)))
    }

    /// The sum of those entries of a list that stand before a number, where the list begins at `start` and the number is at most `most`.
    fn sum_between(list: &[Self], start: usize, most: usize, word: Word) -> Self;

    /// The sum of the entries of a table of `2^k` entries up to the one that the low `k` bits of a number name, which is included.
    fn sum_to(table: &[Self], word: Word) -> Self;

    /// The table with zeros after the entry that [`Self::sum_to`] goes up to.
    fn part_to(table: &[Self], word: Word) -> Vec<Self>;

    /// The entries before a number, or those from it on, with their places.
    fn part_of(table: &[Self], word: Word, before: bool) -> Vec<(usize, Self)>;

    /// A table with these entries from a number on, and zeros.
    fn placed(values: &[Self], first: Word, len: usize) -> Vec<Self>;

    /// What equal scalars have in common, and most others have not.
    fn words(self) -> [u32; 4];
}

impl Scalar for SecureField {
    const SYMBOLIC: bool = false;

    fn words(self) -> [u32; 4] {
        self.to_m31_array().map(|c| c.0)
    }

    fn eq_table(point: &[Self]) -> Vec<Self> {
        point.iter().fold(vec![Self::one()], |table, &r| {
            let mut next = Vec::with_capacity(2 * table.len());
            for v in table {
                let high = v * r;
                next.extend([v - high, high]);
            }
            next
        })
    }

    fn dot(a: &[Self], b: &[Self]) -> Self {
        // Coordinates of products are summed in 64 bits and reduced once: four products of words fit, and what is left of them after one
        // folding is below `2^34`.
        const ORDER: u64 = P as u64;
        let fold = |v: u64| (v & ORDER) + (v >> 31);
        let mut sums = [0u64; 4];
        for (x, y) in a.iter().zip(b) {
            let [a, b, c, d] = x.to_m31_array().map(|v| u64::from(v.0));
            let [e, f, g, h] = y.to_m31_array().map(|v| u64::from(v.0));
            // `(a + b i + (c + d i) u)(e + f i + (g + h i) u)` with `u^2 = 2 + i`: `-b`, `-d`, `2 g - h` and `2 h + g`.
            let (nb, nd) = (ORDER - b, ORDER - d);
            let (p, q) = (fold(2 * g + ORDER - h), fold(2 * h + g));
            let products = [
                fold(a * e + nb * f) + fold(c * p + nd * q),
                fold(a * f + b * e) + fold(c * q + d * p),
                fold(a * g + nb * h) + fold(c * e + nd * f),
                fold(a * h + b * g) + fold(c * f + d * e),
            ];
            for (sum, product) in sums.iter_mut().zip(products) {
                *sum += product;
            }
        }
        SecureField::from_m31_array(sums.map(|v| BaseField::reduce(fold(v))))
    }

    fn eq_eval(a: &[Self], b: &[Self]) -> Self {
        let factors = a.iter().zip(b).map(|(&x, &y)| eq_factor(x, y));
        factors.fold(Self::one(), |product, factor| product * factor)
    }

    fn index_eq(index: usize, point: &[Self]) -> Self {
        let bits = point.iter().rev().enumerate().rev();
        let is_one = |bit: usize| index.checked_shr(bit as u32).unwrap_or(0) & 1 == 1;
        let factors = bits.map(|(bit, r)| if is_one(bit) { *r } else { Self::one() - *r });
        factors.fold(Self::one(), |product, factor| product * factor)
    }

    fn combine(table: &[Self], factor: impl Fn(usize) -> BaseField) -> Self {
        let entries = table.iter().enumerate();
        entries.fold(Self::zero(), |sum, (i, entry)| sum + *entry * factor(i))
    }

    fn sum_of(list: &[Self]) -> Self {
        list.iter().copied().sum()
    }

    fn product(factors: &[Self]) -> Self {
        factors.iter().fold(Self::one(), |product, factor| product * *factor)
    }

    fn corner(_: u32, word: Word) -> Corner<Self> {
        Corner::Index(word.value)
    }

    fn word_eq(word: Word, point: &[Self]) -> Self {
        let bits = point.len() as u32;
        match word.value.checked_shr(bits).unwrap_or(0) {
            0 => Self::index_eq(word.value, point),
            _ => Self::zero(),
        }
    }

    fn sum_below(table: &[Self], word: Word) -> Self {
        table.iter().take(word.value).fold(Self::zero(), |sum, v| sum + *v)
    }

    fn sum_between(list: &[Self], start: usize, most: usize, word: Word) -> Self {
        let before = word.value.min(most).saturating_sub(start);
        list.iter().take(before).fold(Self::zero(), |sum, v| sum + *v)
    }

    fn sum_to(table: &[Self], word: Word) -> Self {
        let last = word.value % table.len().max(1);
        table.iter().take(last + 1).fold(Self::zero(), |sum, v| sum + *v)
    }

    fn part_to(table: &[Self], word: Word) -> Vec<Self> {
        let last = word.value % table.len().max(1);
        let mut own = table.to_vec();
        own.iter_mut().skip(last + 1).for_each(|v| *v = Self::zero());
        own
    }

    fn sums_below<'a>(table: &'a [Self], words: &'a [Word]) -> Box<dyn Iterator<Item = Self> + 'a> {
        // In one pass over the table, by ascending numbers.
        let mut sums: Vec<(usize, Self)> = words.iter().map(|word| (word.value, Self::zero())).collect();
        let mut ascending: Vec<&mut (usize, Self)> = sums.iter_mut().collect();
        ascending.sort_unstable_by_key(|(value, _)| *value);
        let (mut sum, mut rest, mut passed) = (Self::zero(), table.iter(), 0);
        for (value, own) in ascending {
            sum = rest.by_ref().take(*value - passed).fold(sum, |sum, v| sum + *v);
            (*own, passed) = (sum, *value);
        }
        Box::new(sums.into_iter().map(|(_, sum)| sum))
    }

    fn part_of(table: &[Self], word: Word, before: bool) -> Vec<(usize, Self)> {
        let own = table.iter().copied().enumerate();
        own.filter(|(i, _)| (*i < word.value) == before).collect()
    }

    fn placed(values: &[Self], first: Word, len: usize) -> Vec<Self> {
        let zeros = std::iter::repeat_n(Self::zero(), first.value);
        let mut table: Vec<Self> = zeros.chain(values.iter().copied()).collect();
        table.resize(len, Self::zero());
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In any order, more than once, and beyond the table.
    #[test]
    fn sums_below_some_numbers_are_those_below_each() {
        let table: Vec<SecureField> = (1..40u32)
            .map(|i| SecureField::from_u32_unchecked(i, 3 * i, 5, i))
            .collect();
        let word = |value| Word::new(value, Source::OutputId(0));
        let words = [17, 0, 39, 3, 17, 1000, 1].map(word);
        let each = words.map(|word| SecureField::sum_below(&table, word));
        assert_eq!(SecureField::sums_below(&table, &words).collect::<Vec<_>>(), each);
        assert_eq!(SecureField::sums_below(&table, &[]).count(), 0);
    }
}
