//! The lookup tables, all of 2^16 rows in one component: preprocessed values, committed multiplicities.

use num_traits::One;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, RelationEntry};

use super::lookups::{Lookup, Relation};
use super::{base, constant, Air, Relations};
use crate::model::ModelParams;
use crate::semantics::{exp_table, mlp_table};
use stwo::core::fields::m31::BaseField;

/// log2 of the number of rows.
pub const LOG_ROWS: u32 = 16;
/// Multiplicity columns, one per relation.
pub const RANGE16: usize = 0;
/// Multiplicities of bits.
pub const BITS: usize = 1;
/// Multiplicities of exponentials.
pub const EXP: usize = 2;
/// Multiplicities of SiLU.
pub const SILU: usize = 3;
/// Number of multiplicity columns.
pub const COLUMNS: usize = Relation::ALL.len();

/// Names of the preprocessed columns, in commitment order.
pub const PREPROCESSED: [&str; 5] = ["index", "bits bound", "bits value", "exp", "silu"];

/// Row of `(2^b, v)` in the bits table: `2^b - 1 + v`; the last row repeats `(1, 0)`.
pub const fn bits_row(bound: u32, v: u32) -> usize {
    (bound - 1 + v) as usize
}

impl Relation {
    /// The row of the tables that has a tuple, if any has: the second value is not looked at where the first decides.
    pub fn row(self, first: BaseField, second: BaseField) -> Option<usize> {
        let row = match self {
            Self::Bits => (u64::from(first.0) + u64::from(second.0)).saturating_sub(1),
            Self::Range16 | Self::Exp | Self::Silu => u64::from(first.0),
        };
        usize::try_from(row).ok().filter(|row| *row < 1 << LOG_ROWS)
    }
}

/// The preprocessed columns of a model, in row order.
pub fn preprocessed(params: &ModelParams) -> Vec<Vec<BaseField>> {
    let mut bound = Vec::with_capacity(1 << LOG_ROWS);
    let mut value = Vec::with_capacity(1 << LOG_ROWS);
    for b in 0..16 {
        for v in 0..1u32 << b {
            bound.push(BaseField::from_u32_unchecked(1 << b));
            value.push(BaseField::from_u32_unchecked(v));
        }
    }
    bound.push(BaseField::one());
    value.push(base(0));
    vec![
        (0..1u32 << LOG_ROWS).map(BaseField::from_u32_unchecked).collect(),
        bound,
        value,
        exp_table(params.score_bits)
            .into_iter()
            .map(|v| base(i64::from(v)))
            .collect(),
        mlp_table(params).into_iter().map(|v| base(i64::from(v))).collect(),
    ]
}

/// The lookup tables, as a component.
#[derive(Clone, Debug)]
pub struct Tables;

impl Air for Tables {
    fn log_rows(&self) -> u32 {
        LOG_ROWS
    }
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn constrain<E: EvalAtRow>(&self, _e: &mut E, _c: &[E::F]) {}
    fn lookups(&self) -> Vec<Lookup> {
        Vec::new()
    }
}

impl Tables {
    /// Adds every entry of a row with minus its multiplicity.
    pub(super) fn add_entries<E: EvalAtRow>(&self, e: &mut E, c: &[E::F], rel: &Relations) {
        let [index, bound, value, exp, silu] =
            PREPROCESSED.map(|id| e.get_preprocessed_column(PreProcessedColumnId { id: id.to_owned() }));
        let yields = |i: usize| E::EF::one() * (constant::<E>(0) - c[i].clone());
        e.add_to_relation(RelationEntry::new(
            &rel.range16,
            yields(RANGE16),
            std::slice::from_ref(&index),
        ));
        e.add_to_relation(RelationEntry::new(&rel.bits, yields(BITS), &[bound, value]));
        e.add_to_relation(RelationEntry::new(&rel.exp, yields(EXP), &[index.clone(), exp]));
        e.add_to_relation(RelationEntry::new(&rel.silu, yields(SILU), &[index, silu]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every entry of every table is found in its row; nothing else has one.
    #[test]
    fn tuples_have_the_row_of_their_table() {
        for b in 0..16u32 {
            for v in [0, 1, (1 << b) / 2, (1 << b) - 1] {
                let (first, second) = (base(1 << b), base(i64::from(v.min((1 << b) - 1))));
                let expected = bits_row(first.0, second.0);
                assert_eq!(Relation::Bits.row(first, second), Some(expected));
            }
        }
        for relation in [Relation::Range16, Relation::Exp, Relation::Silu] {
            assert_eq!(relation.row(base(0), base(7)), Some(0));
            assert_eq!(relation.row(base(0xffff), base(7)), Some(0xffff));
            assert_eq!(relation.row(base(1 << 16), base(7)), None);
        }
        assert_eq!(Relation::Bits.row(base(-1), base(-1)), None);
        assert_eq!(Relation::Bits.row(base(1 << 15), base(1 << 15 | 1)), None);
    }
}
