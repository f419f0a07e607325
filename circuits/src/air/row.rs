//! What a kind of row is.

use stwo_constraint_framework::EvalAtRow;

use super::lookups::Lookup;

/// Row-local constraints over the trace columns `c` of one component.
pub trait Air {
    /// log2 of the number of rows.
    fn log_rows(&self) -> u32;
    /// Number of trace columns.
    fn columns(&self) -> usize;
    /// Adds the constraints of one row.
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]);
    /// The lookups of one row.
    fn lookups(&self) -> Vec<Lookup>;
}
