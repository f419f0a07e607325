//! How a Tessera proof is made.
pub mod bind;
pub mod model;
pub mod sumcheck;
pub mod opening;
pub mod forward;
pub mod generate;
pub mod model;
pub mod testing;
