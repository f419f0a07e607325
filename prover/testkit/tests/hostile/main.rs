//! Robustness: whatever bytes a verifier is given, it answers soon, within little memory and without a panic.

#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

mod corpus;
mod faked;
mod lengths;
mod limits;
mod lists;

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// What is measured runs alone, everything else side by side: memory is counted for the whole process.
static ALONE: RwLock<()> = RwLock::new(());

/// Keeps what is measured waiting.
fn beside() -> RwLockReadGuard<'static, ()> {
    ALONE.read().unwrap_or_else(PoisonError::into_inner)
}
