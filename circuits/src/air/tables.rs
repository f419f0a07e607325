//! The lookup tables, all of 2^16 rows in one component: preprocessed values, committed multiplicities.

use num_traits::{One, Zero};
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry};

use super::lookups::Relation;
use super::{base, Relations};
use crate::model::{ModelParams, ScoreCap};
use crate::semantics::{cap_table, exp_table, mlp_table};
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
/// Multiplicities of capped scores, where there are any.
pub const CAP: usize = 4;

/// Number of multiplicity columns, one per relation.
pub const fn columns(capped: bool) -> usize {
    Relation::of(capped).len()
}

/// Names of the preprocessed columns, in commitment order; models whose scores are not capped have all but the last.
const NAMES: [&str; 7] = ["index", "bits bound", "bits value", "exp", "zero", "silu", "cap"];

/// Names of the preprocessed columns of a model, in commitment order.
pub fn names(capped: bool) -> &'static [&'static str] {
    match (capped, NAMES.split_last()) {
        (false, Some((_, plain))) => plain,
        _ => &NAMES,
    }
}

/// Row of `(2^b, v)` in the bits table: `2^b - 1 + v`; the last row repeats `(1, 0)`.
pub const fn bits_row(bound: u32, v: u32) -> usize {
    (bound - 1 + v) as usize
}

impl Relation {
    /// Whether the second value of a tuple decides in which row it is, too.
    #[inline]
    pub const fn has_row_by_both(self) -> bool {
        match self {
            Self::Bits => true,
            Self::Range16 | Self::Exp | Self::Silu | Self::Cap => false,
        }
    }

    /// The row of the tables that has a tuple, if any has: the second value is not looked at where the first decides.
    #[inline]
    pub fn row(self, first: BaseField, second: BaseField) -> Option<usize> {
        let row = match self.has_row_by_both() {
            true => (u64::from(first.0) + u64::from(second.0)).saturating_sub(1),
            false => u64::from(first.0),
        };
        usize::try_from(row).ok().filter(|row| *row < 1 << LOG_ROWS)
    }
}

/// The preprocessed columns of a model with this cap of scores, in row order.
pub fn preprocessed(params: &ModelParams, cap: Option<ScoreCap>) -> Vec<Vec<BaseField>> {
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
    let mut columns = vec![
        (0..1u32 << LOG_ROWS).map(BaseField::from_u32_unchecked).collect(),
        bound,
        value,
        exp_table(params.score_bits)
            .into_iter()
            .map(|v| base(i64::from(v)))
            .collect(),
        (0..1 << LOG_ROWS).map(|d| base(i64::from(d == 0))).collect(),
        mlp_table(params).into_iter().map(|v| base(i64::from(v))).collect(),
    ];
    let capped = cap.map(|cap| cap_table(cap, params.score_bits));
    columns.extend(capped.map(|table| table.into_iter().map(|v| base(i64::from(v))).collect()));
    columns
}

/// The lookup tables, as a component of the STARK: every entry with minus its multiplicity.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The challenges of the lookups.
    pub relations: Relations,
}

impl FrameworkEval for Tables {
    fn log_size(&self) -> u32 {
        LOG_ROWS
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        LOG_ROWS + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut e: E) -> E {
        let relations = &self.relations;
        let capped = relations.cap.is_some();
        let counts: [E::F; Relation::ALL.len()] = std::array::from_fn(|_| e.next_trace_mask());
        let negative = |count: E::F| E::EF::one() * (E::F::zero() - count);
        let [range16, bits, exp, silu] = counts.map(negative);
        let cap = capped.then(|| negative(e.next_trace_mask()));
        let [index, bound, value, exps, zero, silus, caps] = NAMES.map(|id| match id {
            "cap" if !capped => E::F::zero(),
            id => e.get_preprocessed_column(PreProcessedColumnId { id: id.to_owned() }),
        });
        let only = std::slice::from_ref(&index);
        e.add_to_relation(RelationEntry::new(&relations.range16, range16, only));
        e.add_to_relation(RelationEntry::new(&relations.bits, bits, &[bound, value]));
        e.add_to_relation(RelationEntry::new(&relations.exp, exp, &[index.clone(), exps, zero]));
        e.add_to_relation(RelationEntry::new(&relations.silu, silu, &[index.clone(), silus]));
        if let (Some(relation), Some(cap)) = (&relations.cap, cap) {
            e.add_to_relation(RelationEntry::new(relation, cap, &[index.clone(), caps]));
        }
        e.finalize_logup_in_pairs();
        e
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
        for relation in [Relation::Range16, Relation::Exp, Relation::Silu, Relation::Cap] {
            assert_eq!(relation.row(base(0), base(7)), Some(0));
            assert_eq!(relation.row(base(0xffff), base(7)), Some(0xffff));
            assert_eq!(relation.row(base(1 << 16), base(7)), None);
        }
        assert_eq!(Relation::Bits.row(base(-1), base(-1)), None);
        assert_eq!(Relation::Bits.row(base(1 << 15), base(1 << 15 | 1)), None);
    }
}
