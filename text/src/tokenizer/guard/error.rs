//! Why work on a hostile file has no result.

use std::time::Duration;

use thiserror::Error;

/// Why work on a hostile file has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GuardError {
    #[error("it makes the program that reads it fail: {0}")]
    Panicked(String),
    #[error("it takes longer than {} ms", .0.as_millis())]
    Time(Duration),
    #[error("it takes more than {} MB of memory", .0 / 1_000_000)]
    Memory(u64),
    #[error("no thread could be started, as the limit of address space (ulimit -v) or of processes (ulimit -u) is too small: {0}")]
    Thread(String),
}
