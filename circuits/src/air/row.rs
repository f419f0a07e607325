//! What a kind of row is.

use super::lookups::Lookup;

/// The columns of one kind of row.
pub trait Air {
    /// Number of columns, public ones included.
    fn columns(&self) -> usize;
    /// The public columns, which nobody commits to: powers of shifts, each with the number of what is rounded by it
    /// (`Rounded::tensor`). Ascending.
    fn powers(&self) -> Vec<(usize, u8)>;
    /// The lookups of one row.
    fn lookups(&self) -> Vec<Lookup>;
}
