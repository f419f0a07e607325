//! The insides of the prover's opening, for tests and benchmarks. Everybody else commits, claims and opens
//! (`fixtures/check_imports.py`).

pub use super::combine::combine_columns;
pub use super::prove::{open_under, value};
