//! Lookups as data: which values of a row are looked up where (docs/protocol.md, section 8.2). What is
//! looked up is linear in the columns of the row.

use std::ops::{Add, Mul, Neg, Sub};

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;

use super::integers::base;
#[cfg(doc)]
use crate::model::ModelConfig;

/// A set of tuples that lookups refer to. The variants stand in the order in which a model's relations
/// ([`ModelConfig::relations`]) have their multiplicities and challenges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// `(v)`, `0 <= v < 2^16`.
    Range16,
    /// `(2^b, v)`, `0 <= v < 2^b`, `b <= 15`.
    Bits,
    /// `(2^8 h + l, h)`, `0 <= h, l < 2^8`: two bytes in one lookup. The first value and `h` say what `l` is.
    Bytes,
    /// `(d, exp(d), [d = 0])`.
    Exp,
    /// `(g + 2^15, silu(g))`.
    Silu,
    /// `(s + 2^15, cap(s))`, where scores are capped.
    Cap,
}

impl Relation {
    /// Every relation, in order.
    pub const ALL: [Self; 6] = [Self::Range16, Self::Bits, Self::Bytes, Self::Exp, Self::Silu, Self::Cap];

    /// The columns of the tables that hold the values of its tuples.
    pub const fn columns(self) -> &'static [TableColumn] {
        match self {
            Self::Range16 => &[TableColumn::Index],
            Self::Bits => &[TableColumn::BitsBound, TableColumn::BitsValue],
            Self::Bytes => &[TableColumn::Index, TableColumn::High],
            Self::Exp => &[TableColumn::Index, TableColumn::Exp, TableColumn::Zero],
            Self::Silu => &[TableColumn::Index, TableColumn::Silu],
            Self::Cap => &[TableColumn::Index, TableColumn::Cap],
        }
    }

    /// How diagnostics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range16 => "Range16",
            Self::Bits => "Bits",
            Self::Bytes => "Bytes",
            Self::Exp => "Exp",
            Self::Silu => "Silu",
            Self::Cap => "Cap",
        }
    }

    /// Number of values of its tuples.
    pub const fn values(self) -> usize {
        self.columns().len()
    }
}

/// A preprocessed column: the values that one place of a relation's tuples has, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableColumn {
    /// The number of the row.
    Index,
    /// `2^b`, of the rows `2^b` to `2^(b + 1) - 1`; 1 of row 0, too.
    BitsBound,
    /// `0` to `2^b - 1`, beside [`Self::BitsBound`].
    BitsValue,
    /// The high byte of [`Self::Index`].
    High,
    /// Exponentials of differences of scores.
    Exp,
    /// Whether the row is the first one.
    Zero,
    /// The activation of the MLP.
    Silu,
    /// Capped scores.
    Cap,
}

impl TableColumn {
    /// The id of the column in the proof of the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::BitsBound => "bits bound",
            Self::BitsValue => "bits value",
            Self::High => "high",
            Self::Exp => "exp",
            Self::Zero => "zero",
            Self::Silu => "silu",
            Self::Cap => "cap",
        }
    }
}

/// A linear form in the columns of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The part without columns.
    pub constant: BaseField,
    /// (column, coefficient)
    pub terms: Vec<(usize, BaseField)>,
}

impl Linear {
    /// A constant.
    pub fn constant(v: i64) -> Self {
        Self {
            constant: base(v),
            terms: Vec::new(),
        }
    }

    /// A column.
    pub fn column(column: usize) -> Self {
        Self {
            constant: BaseField::zero(),
            terms: vec![(column, BaseField::one())],
        }
    }

    /// The value, given those of the columns.
    pub fn eval<F>(&self, column: impl Fn(usize) -> F) -> F
    where
        F: From<BaseField> + Add<Output = F> + Neg<Output = F> + Mul<BaseField, Output = F>,
    {
        let mut terms = self.terms.iter().map(|(at, coefficient)| {
            let value = column(*at);
            match *coefficient {
                one if one.is_one() => value,
                minus if (-minus).is_one() => -value,
                other => value * other,
            }
        });
        let Some(first) = terms.next() else {
            return F::from(self.constant);
        };
        let sum = terms.fold(first, |sum, term| sum + term);
        match self.constant.is_zero() {
            true => sum,
            false => sum + F::from(self.constant),
        }
    }
}

impl Add for Linear {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self.constant += other.constant;
        for (column, coefficient) in other.terms {
            match self.terms.iter_mut().find(|(own, _)| *own == column) {
                Some((_, own)) => *own += coefficient,
                None => self.terms.push((column, coefficient)),
            }
        }
        self
    }
}

impl Mul<BaseField> for Linear {
    type Output = Self;
    fn mul(mut self, factor: BaseField) -> Self {
        self.constant *= factor;
        self.terms.iter_mut().for_each(|(_, own)| *own *= factor);
        self
    }
}

impl Sub for Linear {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + other * -BaseField::one()
    }
}

/// A lookup of every row of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The table that is looked up.
    pub relation: Relation,
    /// One to three values.
    pub tuple: Vec<Linear>,
}

impl Lookup {
    /// That a tuple is in a table.
    pub fn new(relation: Relation, tuple: impl Into<Vec<Linear>>) -> Self {
        let tuple = tuple.into();
        Self { relation, tuple }
    }

    /// A value of Range16.
    pub fn range16(v: Linear) -> Self {
        Self::new(Relation::Range16, [v])
    }

    /// `0 <= v < bound` where `bound` is a power of two up to `2^15`.
    pub fn bits(bound: Linear, v: Linear) -> Self {
        Self::new(Relation::Bits, [bound, v])
    }

    /// `0 <= v < 2^bits`, for up to 15 bits.
    pub fn below(bits: u32, v: Linear) -> Self {
        Self::bits(Linear::constant(1 << bits), v)
    }

    /// `0 <= high, low < 2^8`.
    pub fn bytes(high: Linear, low: Linear) -> Self {
        let both = high.clone() * base(1 << 8) + low;
        Self::new(Relation::Bytes, [both, high])
    }

    /// Checks a column to be int16.
    pub fn int16(column: usize) -> Self {
        Self::range16(Linear::column(column) + Linear::constant(1 << 15))
    }

    /// The same lookup of a lane whose columns are `by` further.
    pub(super) fn shifted(&self, by: usize) -> Self {
        let mut own = self.clone();
        let terms = own.tuple.iter_mut().flat_map(|value| &mut value.terms);
        terms.for_each(|(column, _)| *column += by);
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_forms_are_what_they_say() {
        let columns = |at: usize| [3, 5, 7].map(base)[at];
        let [a, b, c] = [0, 1, 2].map(Linear::column);
        let form = (a.clone() - b.clone() + Linear::constant(9)) * base(4) + c - b.clone();
        assert_eq!(form.eval(columns), base(4 * (3 - 5 + 9) + 7 - 5));
        assert_eq!(form.terms, [(0, base(4)), (1, base(-5)), (2, base(1))]);
        assert_eq!((a - b).eval(columns), base(-2));
        assert_eq!(Linear::constant(-6).eval(columns), base(-6));
    }
}
