//! Why a Tessera proof is believed.
pub mod sumcheck;
pub mod transcript;
