//! How a Tessera proof is made.
pub mod forward;
pub mod generate;
pub mod model;
pub mod testing;
