//! What Tessera proves: the quantised model, its integer semantics, the columns with their lookups and the claims
//! that tie them together. Both the prover and the verifier walk the functions of this crate; neither reads a
//! size, a table or a parameter from a proof. Start at [`wiring`] for the list of everything that is
//! proved across rows, and at [`air`] for what is proved within a row.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// What a verifier runs has no way to panic. Tests may: that is how they fail.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::indexing_slicing
    )
)]

pub mod air;
pub mod bounds;
pub mod chunk;
pub mod claims;
pub mod gains;
pub mod mle;
pub mod model;
pub mod ops;
pub mod reranker;
pub mod rounding;
pub mod scalar;
pub mod semantics;
pub mod shape;
pub mod sizes;
pub mod statement;
pub mod statistics;
pub mod trees;
pub mod wiring;
pub mod wording;
