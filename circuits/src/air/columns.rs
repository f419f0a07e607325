//! The columns of the lookup tables, by what they hold.

/// A preprocessed column: the values that one place of a relation's tuples has, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableColumn {
    /// The number of the row.
    Index,
    /// `2^b`, of the rows `2^b - 1` to `2^(b + 1) - 2`.
    BitsBound,
    /// `0` to `2^b - 1`, beside [`Self::BitsBound`].
    BitsValue,
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
            Self::Exp => "exp",
            Self::Zero => "zero",
            Self::Silu => "silu",
            Self::Cap => "cap",
        }
    }
}
