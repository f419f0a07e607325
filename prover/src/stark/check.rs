//! Checks the constraints row by row, without a proof: names the first violation. For tests and for the
//! message of an internal error; nothing depends on it for soundness.

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use stwo::core::Fraction;
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, INTERACTION_TRACE_IDX, ORIGINAL_TRACE_IDX};
use tessera_circuits::air::{tables, Air, Relations};
use tessera_circuits::claims::LinearClaim;

use super::trace::Columns;

/// Reads one row and keeps what the constraints evaluate to.
struct Row<'a> {
    trace: &'a Columns,
    tables: &'a [Vec<BaseField>],
    row: usize,
    next_column: usize,
    violated: Vec<usize>,
    constraints: usize,
    fractions: Vec<Fraction<SecureField, SecureField>>,
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

    fn get_preprocessed_column(&mut self, column: PreProcessedColumnId) -> BaseField {
        let at = tables::PREPROCESSED
            .iter()
            .position(|id| *id == column.id)
            .expect("a known table column");
        self.tables[at][self.row]
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

    fn write_logup_frac(&mut self, fraction: Fraction<SecureField, SecureField>) {
        self.fractions.push(fraction);
    }
}

/// What one row violates: constraints by number, and lookups (relation, values) that are in no table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    pub constraints: Vec<usize>,
    pub lookups: Vec<(u32, [u32; 2])>,
    /// Positions of these lookups among all lookups of a row.
    pub lookup_numbers: Vec<usize>,
}

impl Violations {
    /// Whether the row is fine.
    pub fn is_empty(&self) -> bool {
        self.constraints.is_empty() && self.lookups.is_empty()
    }
}

/// Runs the constraints of a part other than the tables over one row.
fn evaluate<'a>(air: &impl Air, trace: &'a Columns, tables: &'a [Vec<BaseField>], row: usize) -> Row<'a> {
    let mut eval = Row {
        trace,
        tables,
        row,
        next_column: 0,
        violated: Vec::new(),
        constraints: 0,
        fractions: Vec::new(),
    };
    let columns: Vec<BaseField> = (0..air.columns()).map(|_| eval.next_trace_mask()).collect();
    air.constrain(&mut eval, &columns, &Relations::transparent());
    eval
}

/// Checks one row of a part other than the tables. `tables` are the preprocessed columns.
pub fn check_row(air: &impl Air, trace: &Columns, tables: &[Vec<BaseField>], row: usize) -> Violations {
    let eval = evaluate(air, trace, tables, row);
    let fractions = eval.fractions.iter().enumerate();
    let (lookup_numbers, lookups) = fractions.filter_map(|(i, f)| Some((i, missing(f, tables)?))).unzip();
    Violations {
        constraints: eval.violated,
        lookups,
        lookup_numbers,
    }
}

/// What a row of a part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub constraints: usize,
    pub lookups: usize,
    /// Lookups with a column as multiplicity, which a row of zeros does not use.
    pub conditional: usize,
}

/// Counts the constraints and lookups of a part other than the tables.
pub fn counts(air: &impl Air) -> Counts {
    let zeros = vec![vec![BaseField::zero()]; air.columns()];
    let eval = evaluate(air, &zeros, &[], 0);
    Counts {
        constraints: eval.constraints,
        lookups: eval.fractions.len(),
        conditional: eval.fractions.iter().filter(|f| f.numerator.is_zero()).count(),
    }
}

/// The lookup, if it is used and in no table.
fn missing(fraction: &Fraction<SecureField, SecureField>, tables: &[Vec<BaseField>]) -> Option<(u32, [u32; 2])> {
    if fraction.numerator.is_zero() {
        return None;
    }
    let [first, second, relation, _] = fraction.denominator.to_m31_array().map(|v| v.0);
    let [index, bound, value, exp, silu] = [0, 1, 2, 3, 4].map(|i| tables.get(i).map_or(&[][..], Vec::as_slice));
    let at = |column: &[BaseField], row: usize| column.get(row).map(|v| v.0);
    let present = match relation as usize {
        tables::RANGE16 => at(index, first as usize) == Some(first),
        tables::BITS => {
            let row = (first as usize).saturating_sub(1) + second as usize;
            at(bound, row) == Some(first) && at(value, row) == Some(second)
        }
        tables::EXP => at(exp, first as usize) == Some(second),
        _ => at(silu, first as usize) == Some(second),
    };
    (!present).then_some((relation, [first, second]))
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
