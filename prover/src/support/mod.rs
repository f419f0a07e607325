//! What every room needs and none is about.

pub mod arena;
pub mod digest;
pub mod files;
pub(crate) mod hashes;
pub mod output;
pub mod pages;
pub mod paths;
pub mod progress;
pub mod random;
