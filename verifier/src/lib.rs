//! Why a Tessera proof is believed.
pub mod sumcheck;
pub mod opening;
pub mod transcript;
