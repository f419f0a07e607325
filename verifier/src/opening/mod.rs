//! The weight commitment and its opening (docs/protocol.md, sections 3 and 10).
//!
//! Weights are `tiles` tiles of 64 x 64 small integers. `2^s` consecutive tiles are one message of
//! `2^mu = 2^(s + 12)` coefficients of the circle FFT basis; its codeword is one column. A leaf of the
//! Merkle tree holds the two conjugate points of one fibre across all columns, column by column.
//!
//! A band is `2^g` consecutive tiles. An opening proves `sum_B gamma[B] B~(local point) = value`, over bands:
//! 1. a sumcheck over the band index reduces it to one evaluation of the multilinear extension of the
//!    whole weight array, `W~(rho_G, rho_s, local point)`;
//! 2. the columns are combined with `eq(rho_G, .)` to one message `u` with `u~(rho_s, local point)` claimed;
//! 3. a sumcheck for that claim shares its challenges with a circle FRI (BaseFold): binding the least
//!    significant variable of the message is folding its codeword. The first variable is bound to the
//!    last coordinate of the point, which needs no round. The first oracle is virtual, the
//!    folded ones are committed every [`FOLD_LOG`] folds, the last message is sent in the clear.

pub mod circle;
mod error;
pub mod merkle;
pub mod multilinear;
mod params;
mod proof;
#[cfg(test)]
mod tests;
mod verify;

pub use self::error::{OpeningError, TreeName};
pub use self::params::{CommitmentParams, OpenedColumns, FIBRE, FINAL_LOG, FOLD_LOG, MAX_MESSAGE_LOG, TILE_AREA_LOG};
pub use self::proof::{LeafOpening, OpeningClaim, OpeningProof, OracleOpening};
pub use self::verify::{absorb_statement, draw_leaves, verify};
