//! Why a Tessera proof is believed.
pub mod opening;
pub mod transcript;
