//! Checks the constraints row by row, without a proof: names the first violation. For tests and for the
//! message of an internal error; nothing depends on it for soundness.

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use stwo::core::Fraction;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, INTERACTION_TRACE_IDX, ORIGINAL_TRACE_IDX};
use tessera_circuits::air::lookups::{Lookup, Relation, Uses};
use tessera_circuits::air::Air;
use tessera_circuits::claims::LinearClaim;

use super::trace::Columns;

/// Reads one row and keeps what the constraints evaluate to.
struct Row<'a> {
    trace: &'a Columns,
    row: usize,
    next_column: usize,
    violated: Vec<usize>,
    constraints: usize,
}

impl EvalAtRow for Row<'_> {
    type F = BaseField;
    type EF = SecureField;

    fn next_interaction_mask<const N: usize>(&mut self, interaction: usize, _offsets: [isize; N]) -> [BaseField; N] {
        debug_assert_ne!(
            interaction, INTERACTION_TRACE_IDX,
            "only row-local constraints are checked"
        );
        debug_assert_eq!(interaction, ORIGINAL_TRACE_IDX);
        self.next_column += 1;
        [self.trace[self.next_column - 1][self.row]; N]
    }

    fn get_preprocessed_column(&mut self, _column: PreProcessedColumnId) -> BaseField {
        unreachable!("no constraint reads a table")
    }

    fn add_constraint<G>(&mut self, constraint: G)
    where
        Self::EF: std::ops::Mul<G, Output = Self::EF> + From<G>,
    {
        if !SecureField::from(constraint).is_zero() {
            self.violated.push(self.constraints);
        }
        self.constraints += 1;
    }

    fn combine_ef(values: [BaseField; SECURE_EXTENSION_DEGREE]) -> SecureField {
        SecureField::from_m31_array(values)
    }

    fn write_logup_frac(&mut self, _fraction: Fraction<SecureField, SecureField>) {}
}

/// What one row violates: constraints by number, and lookups (relation, values) that are in no table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    pub constraints: Vec<usize>,
    pub lookups: Vec<(Relation, [u32; 2])>,
    /// Positions of these lookups among all lookups of a row.
    pub lookup_numbers: Vec<usize>,
}

impl Violations {
    /// Whether the row is fine.
    pub fn is_empty(&self) -> bool {
        self.constraints.is_empty() && self.lookups.is_empty()
    }
}

/// Runs the constraints of a part over one row.
fn evaluate<'a>(air: &impl Air, trace: &'a Columns, row: usize) -> Row<'a> {
    let mut eval = Row {
        trace,
        row,
        next_column: 0,
        violated: Vec::new(),
        constraints: 0,
    };
    let columns: Vec<BaseField> = (0..air.columns()).map(|_| eval.next_trace_mask()).collect();
    air.constrain(&mut eval, &columns);
    eval
}

/// Checks one row of a part. `tables` are the preprocessed columns.
pub fn check_row(air: &impl Air, trace: &Columns, tables: &[Vec<BaseField>], row: usize) -> Violations {
    let lookups = air.lookups();
    let missing = lookups.iter().enumerate();
    let missing = missing.filter_map(|(i, lookup)| Some((i, missing_from(tables, lookup, trace, row)?)));
    let (lookup_numbers, lookups) = missing.unzip();
    Violations {
        constraints: evaluate(air, trace, row).violated,
        lookups,
        lookup_numbers,
    }
}

/// What a row of a part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub constraints: usize,
    pub lookups: usize,
    /// Lookups with a column as multiplicity.
    pub conditional: usize,
}

/// Counts the constraints and lookups of a part.
pub fn counts(air: &impl Air) -> Counts {
    let zeros = vec![vec![BaseField::zero()]; air.columns()];
    let lookups = air.lookups();
    Counts {
        constraints: evaluate(air, &zeros, 0).constraints,
        lookups: lookups.len(),
        conditional: lookups.iter().filter(|l| l.uses != Uses::Once).count(),
    }
}

/// The lookup of a row, if it is used and in no table.
fn missing_from(
    tables: &[Vec<BaseField>],
    lookup: &Lookup,
    trace: &Columns,
    row: usize,
) -> Option<(Relation, [u32; 2])> {
    let column = |at: usize| trace[at][row];
    if matches!(lookup.uses, Uses::Column(at) if column(at).is_zero()) {
        return None;
    }
    let value = |at: usize| lookup.tuple.get(at).map(|v| v.eval(column)).unwrap_or_default();
    let (first, second) = (value(0), value(1));
    let [_, bound, value, exp, silu] = [0, 1, 2, 3, 4].map(|i| tables.get(i).map_or(&[][..], Vec::as_slice));
    let present = lookup
        .relation
        .row(first, second)
        .is_some_and(|row| match lookup.relation {
            Relation::Range16 => true,
            Relation::Bits => bound.get(row) == Some(&first) && value.get(row) == Some(&second),
            Relation::Exp => exp.get(row) == Some(&second),
            Relation::Silu => silu.get(row) == Some(&second),
        });
    (!present).then_some((lookup.relation, [first.0, second.0]))
}

/// Checks every row of a part; the first violation with its row.
pub fn check(air: &impl Air, trace: &Columns, tables: &[Vec<BaseField>]) -> Option<(usize, Violations)> {
    (0..1usize << air.log_rows()).find_map(|row| {
        let violations = check_row(air, trace, tables, row);
        (!violations.is_empty()).then_some((row, violations))
    })
}

/// Whether a linear claim holds of the trace (in row order, by part).
pub fn claim_holds(claim: &LinearClaim, columns: &[Columns]) -> bool {
    let total = claim.groups.iter().fold(SecureField::zero(), |sum, group| {
        let weights = group.table();
        let own = &columns[group.part.index()];
        group.columns.iter().fold(sum, |sum, (column, factor)| {
            let dot = weights
                .iter()
                .zip(&own[*column])
                .fold(SecureField::zero(), |s, (w, v)| s + *w * *v);
            sum + *factor * dot
        })
    });
    total == claim.value
}
