//! Proofs of answers: a queue on disk, and the workers that make them in the background.

pub mod queue;
pub mod record;
pub mod retention;
pub mod store;
pub mod watch;
pub mod worker;
