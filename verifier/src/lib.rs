//! Why a Tessera proof is believed.
pub mod transcript;
