//! Committing to weights and activations, and opening them (docs/protocol.md, sections 3 and 10; the claims and the proof are in
//! `tessera_verifier::opening`).

mod batches;
mod behind;
mod codeword;
mod combine;
mod commit;
mod committed;
mod error;
mod fft;
mod fold;
pub mod memory;
mod merkle;
mod packed;
pub mod parts;
mod prove;
mod rows;
mod sizes;
mod sum;
#[cfg(test)]
mod tests;
mod tree;
mod units;

pub use self::codeword::Codeword;
pub use self::combine::weight_pass;
pub use self::commit::{commit, Split};
pub use self::committed::{with_root, Committed, CommittedWeights};
use self::error::length;
pub use self::error::OpeningProverError;
pub use self::fft::Twiddles;
pub(crate) use self::merkle::path as merkle_path;
pub use self::prove::{open, value, Equations, ProverClaim, Veil};
pub use self::sizes::{params_for, TILE_AREA};
pub use self::tree::Tree;
pub use self::units::CommittedUnits;
use tessera_model::tiles::TileSource;
