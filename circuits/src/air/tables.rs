//! The lookup tables, all of 2^16 rows in one component: preprocessed values, committed multiplicities.

use num_traits::One;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, RelationEntry};

use super::lookups::Lookup;
use super::{base, constant, Air, Relations};
use crate::model::ModelParams;
use crate::semantics::{exp_table, silu_table};
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
pub const COLUMNS: usize = 4;

/// Names of the preprocessed columns, in commitment order.
pub const PREPROCESSED: [&str; 5] = ["index", "bits bound", "bits value", "exp", "silu"];

/// Row of `(2^b, v)` in the bits table: `2^b - 1 + v`; the last row repeats `(1, 0)`.
pub const fn bits_row(bound: u32, v: u32) -> usize {
    (bound - 1 + v) as usize
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
        silu_table(params.gate_bits, params.silu_bits)
            .into_iter()
            .map(|v| base(i64::from(v)))
            .collect(),
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
