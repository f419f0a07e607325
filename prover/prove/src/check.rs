//! Checks lookups and claims of a trace without a proof, and names what does not hold: for tests. Nothing depends on it for
//! soundness.

use num_traits::Zero;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::{Lookup, Relation};
use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::air::Air;
use tessera_circuits::claims::LinearClaim;

use super::trace::Columns;

/// The lookups of one row (relation, values) that are in no table, with their positions among all lookups of a row.
pub type Missing = Vec<(usize, Relation, [u32; 3])>;

/// Checks one row of a part.
pub fn check_row(air: &Air, trace: &Columns, tables: &LookupTables, row: usize) -> Missing {
    let lookups = air.lookups.iter().enumerate();
    let missing = lookups.filter_map(|(i, lookup)| missing_from(tables, lookup, trace, row).map(|(r, v)| (i, r, v)));
    missing.collect()
}

/// The lookup of a row, if it is in no table.
fn missing_from(tables: &LookupTables, lookup: &Lookup, trace: &Columns, row: usize) -> Option<(Relation, [u32; 3])> {
    let column = |at: usize| trace[at][row];
    let value = |at: usize| lookup.tuple.get(at).map(|v| v.eval(column)).unwrap_or_default();
    let tuple = [0, 1, 2].map(value);
    (!tables.has(lookup.relation, tuple)).then_some((lookup.relation, tuple.map(|v| v.0)))
}

/// Checks every row of a part; the first one that misses something.
pub fn check(air: &Air, trace: &Columns, tables: &LookupTables) -> Option<(usize, Missing)> {
    (0..trace.first().map_or(0, Vec::len)).find_map(|row| {
        let missing = check_row(air, trace, tables, row);
        (!missing.is_empty()).then_some((row, missing))
    })
}

/// Whether a linear claim of public value holds of the trace (in row order, by part).
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
