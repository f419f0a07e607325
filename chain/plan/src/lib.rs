//! Makes what contracts need to verify Tessera proofs (docs/chain.md): plans of keys, and proofs packed as calls.
//!
//! A verifier knows the model's architecture and calculates, from the challenges of a proof and its statement, what the proof
//! has to say. Contracts know no model. A [`Plan`] is this calculation as data: a program for a small machine, which
//! `Machine.sol` and [`run`] are, with a header that says sizes and roots. Its digest names it, and contracts write down facts about that
//! digest. So whoever reads facts makes the plan from a key that he trusts, and compares digests.
//!
//! The commands `tessera chain` call this crate: `plan` and `register` make a [`Plan`], `pack` and `estimate` a [`packing::Packed`].
//! The example `chain_vectors` prints the cases that the tests in `chain/test` compare contracts with, and the example `plans` compares plans
//! with the verifier. No verifier off a chain needs any of it.
//!
//! ```
//! use tessera_plan::{Budget, Plan};
//! # use tessera_testkit::{odd_config, random_model, unrooted_key_of};
//! # use tessera_verifier::suite::Suite;
//! # let key = unrooted_key_of(Suite::Keccak, &random_model(odd_config(), tessera_circuits::model::WeightFormat::Int8, 7));
//!
//! // For statements of five to eight token rows and three output tokens, of a valid key.
//! let plan = Plan::new(&key, 8, 3).expect("a decoder whose scores are not capped");
//! assert_eq!(plan.prompt_tokens(&key), 3..=6);
//! assert!(plan.program.iter().all(|segment| segment.gas <= Budget::TRANSACTION.gas));
//!
//! // It calculates what the verifier calculates, and its digest depends on the key and on the lengths.
//! plan.check(&key, [1, 2, 3, 4]).expect("the same function");
//! let other = Plan::new(&key, 8, 4).expect("a plan");
//! assert_ne!(plan.id(&key)?, other.id(&key)?);
//! # Ok::<(), tessera_verifier::codec::CodecError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]
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

pub mod average;
pub mod calculate;
mod check;
mod compile;
mod encode;
mod hash;
mod header;
pub mod packing;
mod plan;
mod program;
mod rows;
mod segments;
mod symbol;
mod wiring;

pub use check::Differs;
pub use packing::band_ends;
pub use plan::{expected, has_plans, NoPlan, Plan, MOST_OUTPUTS};
pub use program::{run, Words};
pub use segments::{Budget, Segment};
