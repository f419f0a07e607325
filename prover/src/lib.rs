//! How a Tessera proof is made.
pub mod bind;
pub mod forward;
pub mod generate;
pub mod matmul;
pub mod model;
pub mod opening;
pub mod progress;
pub mod prove;
pub mod stark;
pub mod sumcheck;
pub mod testing;
