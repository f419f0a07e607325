//! Committing to weights and activations, and opening them (docs/protocol.md, sections 3 and 10; the statement and the
//! proof format are in `tessera_verifier::opening`).

pub mod batches;
mod behind;
mod codeword;
mod combine;
mod commit;
mod error;
mod fft;
mod fold;
mod join;
pub(super) mod merkle;
mod packed;
mod prove;
mod rows;
mod sizes;
#[cfg(test)]
mod tests;
mod tree;

pub use self::codeword::Codeword;
pub use self::combine::combine_columns;
pub use self::commit::{commit, Split};
use self::error::length;
pub use self::error::OpeningProverError;
pub use self::fft::Twiddles;
pub use self::prove::{open, value, Committed, CommittedWeights, Side};
pub use self::sizes::{params_at_rate, params_for, TILE_AREA};
pub use self::tree::Tree;
pub use tessera_model::tiles::TileSource;
