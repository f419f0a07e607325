//! How a Tessera proof is made.
pub mod model;
pub mod opening;
