//! The terms of a soundness ledger (docs/security.md): each says what can go wrong, and how likely it is. Whatever can go wrong
//! names its own terms, and the ledger adds them up.

/// log2 of the size of the challenge field.
pub const FIELD_BITS: f64 = 123.999_999;

/// One error term: `2^-bits`.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What can go wrong.
    pub name: String,
    /// How likely it is, as a formula.
    pub formula: String,
    /// `-log2` of it.
    pub bits: f64,
}

impl Term {
    /// The term `numerator / |K|`.
    pub fn algebraic(name: impl Into<String>, formula: String, numerator: f64) -> Self {
        Self {
            name: name.into(),
            formula,
            bits: FIELD_BITS - numerator.max(1.0).log2(),
        }
    }

    /// The term `numerator / |K|` of challenges that are drawn after a proof of work of so many bits.
    pub fn worked(name: impl Into<String>, formula: String, numerator: f64, bits: u32) -> Self {
        let own = Self::algebraic(name, format!("{formula} x 2^-{bits}"), numerator);
        Self {
            bits: own.bits + f64::from(bits),
            ..own
        }
    }

    /// The term of something that leaves no security at all.
    pub fn certain(name: impl Into<String>, formula: String) -> Self {
        Self {
            name: name.into(),
            formula,
            bits: 0.0,
        }
    }
}
