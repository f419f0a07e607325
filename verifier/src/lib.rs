//! Why a Tessera proof is believed.
pub mod codec;
pub mod sumcheck;
pub mod transcript;
