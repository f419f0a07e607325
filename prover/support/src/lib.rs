//! Tools that every crate of the prover needs and none is about: files that are complete or absent, memory, progress, and the places
//! where results go.

pub mod arena;
pub mod files;
pub mod heap;
pub mod output;
pub mod pages;
pub mod paths;
pub mod progress;
pub mod random;
