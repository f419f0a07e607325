//! What a kind of row is.

use super::lookups::Lookup;

/// The columns of one kind of row, and what is looked up in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Air {
    /// Number of columns, public ones included.
    pub columns: usize,
    /// The public columns, which nobody commits to: powers of shifts, each with the number of what is rounded by it
    /// ([`crate::rounding::Rounded::tensor`]). Ascending.
    pub powers: Vec<(usize, u8)>,
    /// The lookups of one row.
    pub lookups: Vec<Lookup>,
}

impl Air {
    /// No columns.
    pub const NONE: Self = Self {
        columns: 0,
        powers: Vec::new(),
        lookups: Vec::new(),
    };

    /// Number of columns that are committed to.
    pub fn committed(&self) -> usize {
        self.columns.saturating_sub(self.powers.len())
    }

    /// The same of so many lanes side by side. Columns are lane by lane.
    pub fn lanes(&self, lanes: usize) -> Self {
        let by = || (0..lanes).map(|lane| lane * self.columns);
        let powers = |by: usize| self.powers.iter().map(move |(column, tensor)| (column + by, *tensor));
        let lookups = |by: usize| self.lookups.iter().map(move |lookup| lookup.shifted(by));
        Self {
            columns: lanes * self.columns,
            powers: by().flat_map(powers).collect(),
            lookups: by().flat_map(lookups).collect(),
        }
    }
}
