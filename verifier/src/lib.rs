//! Why a Tessera proof is believed: [`verify::verify`] and what it calls, one module per section of
//! docs/protocol.md. Small, deterministic, total on hostile bytes.
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
pub mod key;
pub mod labels;
pub mod ledger;
pub mod length;
pub mod message;
pub mod opening;
pub mod policy;
pub mod proof;
pub mod public;
pub mod stark;
pub mod suite;
pub mod sumcheck;
pub mod transcript;
pub mod verify;
