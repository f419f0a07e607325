//! How much memory a task may take, and why it was refused.

use std::fmt::Display;
use std::path::Path;

use tessera_circuits::wording::bytes;
use thiserror::Error;

use crate::plan::available::{address_space, Available, Bound};
use crate::plan::{Budget, DEFAULT_PERCENT};
use tessera_support::files::directory_bytes;

/// Threads beside those that work: of the main program, of readers and writers.
const MORE_THREADS: usize = 4;

/// A task that does not fit its budget: what it needs, and where the budget comes from.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct OutOfBudget(pub(crate) String);

impl OutOfBudget {
    /// A refusal in these words.
    pub const fn new(why: String) -> Self {
        Self(why)
    }
}

/// A budget, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The most memory; `None` if nothing is known to limit it.
    pub budget: Option<Budget>,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// `--memory`
    Given,
    /// What there is, and what leaves the least of it.
    Available(Available),
    /// The limit of address space, beside mapped files of so many bytes.
    AddressSpace {
        mapped: u64,
    },
    Unknown,
}

impl Allowance {
    /// The allowance of a task that maps files of `mapped` bytes. A limit of address space holds whatever budget is given: the system
    /// enforces it.
    pub fn new(given: Option<Budget>, mapped: u64) -> Self {
        let threads = rayon::current_num_threads() + MORE_THREADS;
        Self::of(given, Available::now(), address_space(mapped, threads), mapped)
    }

    fn of(given: Option<Budget>, available: Option<Available>, space: Option<u64>, mapped: u64) -> Self {
        let (budget, source) = match (given, available) {
            (Some(given), _) => (Some(given), Source::Given),
            (None, Some(available)) => (
                Some(Budget::of_available(available.bytes)),
                Source::Available(available),
            ),
            (None, None) => (None, Source::Unknown),
        };
        match space {
            Some(space) if budget.is_none_or(|Budget(bytes)| space < bytes) => Self {
                budget: Some(Budget(space)),
                source: Source::AddressSpace { mapped },
            },
            _ => Self { budget, source },
        }
    }

    /// The allowance of each of several devices that share this one.
    pub fn shared_by(self, devices: usize) -> Self {
        let budget = self.budget.map(|Budget(all)| Budget(all / devices.max(1) as u64));
        Self { budget, ..self }
    }

    /// Why the budget was too small, with where it comes from.
    pub fn refusal(&self, error: impl Display) -> OutOfBudget {
        let why = match &self.source {
            Source::Given | Source::Unknown => String::new(),
            Source::Available(Available { bytes: n, bound }) => format!(
                "; the budget is {DEFAULT_PERCENT} % of the {} that {bound} {}, --memory sets another",
                bytes(*n),
                match bound {
                    Bound::Machine => "has available",
                    Bound::Group(_) => "leaves",
                },
            ),
            Source::AddressSpace { mapped } => format!(
                "; the budget is what the limit of address space (ulimit -v) leaves beside {} of mapped files and the \
                 threads: raise it, or use fewer --threads",
                bytes(*mapped)
            ),
        };
        OutOfBudget(format!("{error}{why}"))
    }
}

/// Bytes of the files of a directory, which a task may map; a file that cannot be read is refused elsewhere.
pub fn mapped(dir: &Path) -> u64 {
    directory_bytes(dir).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(bytes: u64) -> Option<Available> {
        let bound = Bound::Group("/group".into());
        Some(Available { bytes, bound })
    }

    #[test]
    fn a_refusal_names_the_limit_that_decided() {
        let refusal = |given, available, space| {
            let allowance = Allowance::of(given, available, space, 5_000_000);
            let OutOfBudget(text) = allowance.refusal("too small");
            (allowance.budget.map(|b| b.0), text)
        };
        let (budget, text) = refusal(None, available(1000), None);
        assert_eq!(budget, Some(800));
        assert!(
            text.starts_with("too small; ") && text.contains("/group") && text.contains("80 %"),
            "{text}"
        );
        let (budget, text) = refusal(None, available(1000), Some(900));
        assert!(budget == Some(800) && text.contains("/group"), "{text}");
        for given in [None, Some(Budget(5000))] {
            let (budget, text) = refusal(given, available(1000), Some(700));
            assert!(
                budget == Some(700) && text.contains("ulimit -v") && text.contains("5.00 MB"),
                "{text}"
            );
        }
        assert_eq!(
            refusal(Some(Budget(300)), available(1000), Some(700)),
            (Some(300), "too small".to_owned())
        );
        assert_eq!(refusal(None, None, None), (None, "too small".to_owned()));
        assert_eq!(
            Allowance::of(Some(Budget(300)), None, None, 0).shared_by(3).budget,
            Some(Budget(100))
        );
    }
}
