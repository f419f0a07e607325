//! How a Tessera proof is made.
pub mod bind;
pub mod model;
pub mod sumcheck;
pub mod opening;
