//! Runs code on hostile files: tokenizers and chat templates come with a checkpoint or a key, and `verify` shows text.
//!
//! The checks of `limits` refuse what is known to grow or to take long. What they do not foresee ends here: after
//! a time, or when the process has grown by more than a conversion of text needs. A thread cannot be stopped from outside,
//! so the work that is given up goes on until the process ends, which a command does soon.

mod error;
#[cfg(not(target_family = "wasm"))]
mod threads;

use std::time::Duration;

pub use error::GuardError;

/// How much resident memory may grow while text is converted.
const MEMORY: u64 = 1 << 30;

/// The processor time that `bytes` of input may take.
pub fn time_for(bytes: usize) -> Duration {
    Duration::from_secs(1) + Duration::from_micros(bytes as u64)
}

/// Runs `work`, whose panics are errors, for at most `time` of the processor, and a multiple of it by the clock.
pub fn guarded<T: Send + 'static>(time: Duration, work: impl FnOnce() -> T + Send + 'static) -> Result<T, GuardError> {
    within(time, MEMORY, work)
}

#[cfg(not(target_family = "wasm"))]
use threads::within;

/// Runs `work` where there are no threads. Whoever loads the program there ends it from outside, for example by ending its worker.
#[cfg(target_family = "wasm")]
fn within<T>(_: Duration, _: u64, work: impl FnOnce() -> T) -> Result<T, GuardError> {
    Ok(work())
}
