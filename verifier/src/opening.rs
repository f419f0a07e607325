//! The commitments to weights and activations and their opening (docs/protocol.md, sections 3, 4 and 10).
//!
//! Others hold a [`Commitment`] and make a [`Claim`] about it: which of its columns, at which point, with which weights, and the
//! value. [`verify`] checks the proof of a list of claims; [`terms`] says what can go wrong with it, and [`most_bytes`] how long it
//! can be. Everything else is private, or stands in [`parts`] for the prover's opening.
//!
//! What is committed to are `tiles` tiles of `2^12` values: 64 x 64 small integers of the weights, or units of the activations.
//! `2^s` consecutive tiles are one message of `2^mu = 2^(s + 12)` coefficients of the circle FFT basis; its codeword is one
//! column. A leaf of the Merkle tree holds the two conjugate points of one fibre across all columns, column by column.
//!
//! A band is `2^g` consecutive tiles. Of every commitment, an opening proves `sum_B gamma[B] B~(local point) = value`:
//! 1. a sumcheck over the band index reduces it to one evaluation of the multilinear extension of the
//!    whole array, `W~(rho_G, rho_s, local point)`;
//! 2. the columns are combined with `eq(rho_G, .)` to one message, and its first variable is bound to the last coordinate of
//!    the point, which needs no round: `u~(rho_s, rest of the point)` is claimed of a message `u` of `mu - 1` variables.
//!
//! From here on all claims are one. Shorter messages are *lifted* to the variables of the longest one, on the last of which they do
//! not depend:
//! 3. every message is evaluated at the points of the other claims; with powers of a challenge `iota` all messages are added, `v`,
//!    and with powers of another one the claims on `v` at all points;
//! 4. a sumcheck for their sum shares its challenges with a circle FRI (BaseFold): binding the least
//!    significant variable of the message is folding its codeword. The first oracle is virtual, that of `v` and the
//!    folded ones are committed every [`parts::FOLD_LOG`] folds, the last message is sent in the clear.

mod circle;
mod claim;
mod error;
mod lift;
mod merkle;
mod params;
pub mod parts;
mod policy;
mod proof;
mod rows;
mod size;
mod terms;
#[cfg(test)]
mod tests;
mod verify;

pub use self::claim::{Claim, Commitment};
pub use self::error::{CommitmentName, OpeningError, TreeName};
pub use self::params::{CommitmentParams, OpenedColumns, Slots};
pub use self::proof::OpeningProof;
pub use self::size::{most_bytes, most_hidden_bytes, most_reveal_bytes};
pub use self::terms::terms;
pub use self::verify::{sum_of_claims, verify};
