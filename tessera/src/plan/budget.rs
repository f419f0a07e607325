//! Amounts of memory, as users write them.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use thiserror::Error;

/// Percentage of the available memory that is used where no budget is given.
pub const DEFAULT_PERCENT: u64 = 80;

/// A budget of resident memory in bytes. As text, it is a number with a unit of powers of 1000 (`500MB`) or of 1024
/// (`4GiB`, or `4G` for short), or a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget(pub u64);

/// A text that is not an amount of memory.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text:?} is no amount of memory: a positive number of bytes, or with one of the units {}", UNITS.map(|(name, _)| name).join(", "))]
pub struct BudgetError {
    text: String,
}

const UNITS: [(&str, u64); 12] = [
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    // As other programs write and read them.
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

/// The units in which amounts are written, the largest of each kind first.
const WRITTEN: [(&str, u64); 5] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
];

impl Budget {
    /// The budget where none is given: [`DEFAULT_PERCENT`] percent of `available` bytes.
    pub const fn of_available(available: u64) -> Self {
        Self(available / 100 * DEFAULT_PERCENT)
    }
}

impl Display for Budget {
    /// Writes the budget so that it parses again: exactly if it is a whole number of some unit, otherwise rounded up to
    /// three digits.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let whole = |(_, unit): &&(&str, u64)| bytes >= *unit && bytes.is_multiple_of(*unit) && bytes / unit < 10_000;
        let decimal = |(_, unit): &&(&str, u64)| bytes >= *unit;
        let found = [WRITTEN.iter().find(whole), WRITTEN.iter().skip(2).find(decimal)];
        let Some((name, unit)) = found.into_iter().flatten().next() else {
            return write!(f, "{bytes}B");
        };
        if bytes.is_multiple_of(*unit) {
            return write!(f, "{}{name}", bytes / unit);
        }
        let decimals = match bytes / unit {
            0..10 => 2,
            10..100 => 1,
            _ => 0,
        };
        let step = unit / 10u64.pow(decimals);
        let (steps, decimals) = (bytes.div_ceil(step), decimals as usize);
        write!(f, "{:.decimals$}{name}", steps as f64 / (unit / step) as f64)
    }
}

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let error = || BudgetError { text: text.to_owned() };
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim();
        let factor = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() || unit.eq_ignore_ascii_case("b") => 1,
            None => return Err(error()),
        };
        let bytes = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(factor),
            // Fractions of a unit; of a byte there are none.
            Err(_) if factor > 1 => number.parse::<f64>().ok().map(|n| (n * factor as f64) as u64),
            Err(_) => None,
        };
        match bytes {
            Some(bytes @ 1..) if bytes < u64::MAX => Ok(Self(bytes)),
            _ => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_given_and_is_no_less() {
        for (bytes, text) in [
            (4 << 30, "4GiB"),
            (1_000_000, "1MB"),
            (1 << 20, "1MiB"),
            (1_664_100_001, "1.67GB"),
            (16_641_000_001, "16.7GB"),
            (367_100_000, "368MB"),
            (999_500_001, "1000MB"),
            (123_456_789_012, "124GB"),
            (999, "999B"),
        ] {
            assert_eq!(Budget(bytes).to_string(), text);
            assert!(text.parse::<Budget>().unwrap() >= Budget(bytes), "{text}");
        }
    }

    #[test]
    fn amounts_are_read() {
        for (text, bytes) in [
            ("4GiB", 4 << 30),
            ("500MB", 500_000_000),
            ("500 mb", 500_000_000),
            ("123", 123),
            ("123B", 123),
            ("1.5GiB", 3 << 29),
            ("1kB", 1000),
            ("4G", 4 << 30),
            ("512m", 512 << 20),
            ("0.5T", 1 << 39),
            ("100k", 100 << 10),
        ] {
            assert_eq!(text.parse(), Ok(Budget(bytes)), "{text}");
        }
        for text in ["", "GiB", "0", "0GB", "-1", "1.5", "4XB", "1e9", "99999999999TiB"] {
            let error = text.parse::<Budget>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("GiB"), "{error}");
        }
    }
}
