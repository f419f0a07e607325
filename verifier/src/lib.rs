//! This crate decides whether a Tessera proof is valid: [`verify::verify`] takes a key and a proof, and returns what
//! was proved, or the reason why it rejects.
//!
//! If you trust a verdict, you trust this crate, so it is small and deterministic, and needs neither the prover nor the
//! weights. It treats every key and proof as hostile: it never panics, and the key's dimensions and the length of the
//! proof bound its work. The modules follow the sections of docs/protocol.md, so that you can read code and document
//! side by side; for example, [`sumcheck`] belongs to section 6 and [`opening`] to section 10.
//!
//! The crate `tessera-verdict` puts verdicts into words for people and programs.
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

pub mod codec;
pub mod context;
pub mod gkr;
pub mod hiding;
pub mod key;
mod known_tables;
pub mod labels;
pub mod ledger;
pub mod length;
pub mod listen;
pub mod message;
pub mod opening;
pub mod policy;
pub mod proof;
pub mod public;
pub mod reveal;
pub mod stark;
pub mod suite;
pub mod sumcheck;
pub mod tables;
pub mod term;
pub mod transcript;
pub mod verify;
