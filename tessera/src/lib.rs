//! Tessera proves cryptographically that a given language model, on a given prompt, generates exactly a given text. This library does
//! everything that the command `tessera` does: it sets a checkpoint up, generates and proves with the model, and verifies.
//!
//! ```no_run
//! use tessera::{Key, Model, Options, SetupOptions, Silent};
//!
//! // Once: quantise a checkpoint, and commit to its weights. The key is what you publish.
//! let model = Model::setup("checkpoint", "model", &SetupOptions::default(), &Silent)?;
//! // For every answer: a text, and a proof that this model generates it.
//! let proof = model.prove("Once upon a time", &Options::at_most(64), &Silent)?;
//! proof.write("story.proof")?;
//!
//! // Anywhere, without the weights.
//! let key = Key::from_bytes(&std::fs::read("model/model.key")?)?;
//! let verdict = key.verify(&std::fs::read("story.proof")?);
//! println!("{}", verdict.text("story.proof", "model.key", None));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A proof says that the *integer* model of the key generates the text; [`Model::fidelity`] measures how close it is to the checkpoint's
//! float model. [`inspect`] tells you what a path holds, and why a checkpoint cannot be proved. The prover sees everything and is trusted with nothing: whoever verifies trusts the key alone, and anybody who has the
//! checkpoint can make the key again.
//!
//! Long texts and large models are proved in chunks that survive interruptions ([`Model::prepare`]). Every task reports to a
//! [`Progress`], can be ended from another thread ([`Cancel`]), and stays within a memory budget ([`Options::within`]) or is
//! refused before it begins.
//!
//! Building it needs the flags of `.cargo/config.toml` (see the README). The crates below are re-exported by name, for programs
//! that need a part of them.
#![deny(missing_docs)]

mod allowance;
mod answer;
pub mod batch;
mod cancel;
mod error;
mod expected;
mod fidelity;
pub mod given;
mod inspect;
pub mod lengths;
pub mod model;
mod open;
mod page;
pub mod plan;
pub mod prediction;
mod request;
mod secret;
pub mod setup;
mod timetable;
pub mod work;

pub use allowance::{mapped, Allowance, OutOfBudget};
pub use answer::{Answer, Embedding, Proof};
pub use cancel::Cancel;
pub use error::Error;
pub use expected::{take_answer, AnswerError, Awaited, Beginning, Difference, ExpectedAnswer, Followed, NamedToken};
pub use fidelity::Fidelity;
pub use inspect::{expected_key_of, inspect, inspect_bytes, is_supported, Inspected};
pub use model::Model;
pub use open::in_chunks;
pub use page::{page, PageError, ProofPage};
pub use plan::Budget;
pub use request::{lengths, Options, ProofRequest};
pub use secret::{reveal_ids, Reveal, SecretError, Span};
pub use setup::SetupOptions;
pub use tessera_verdict::prompt::{self, Prompt, PromptError, PromptIds};
pub use timetable::Timetable;

pub use tessera_checkpoint::Checkpoint;
pub use tessera_support::progress::{Progress, Silent};
pub use tessera_verdict::{Key, Outcome, Verdict};
pub use tessera_verifier::context::Context;

pub use {
    tessera_checkpoint as checkpoint, tessera_circuits as circuits, tessera_model as quantised,
    tessera_prover as prover, tessera_quantise as quantise, tessera_recipe as recipe, tessera_support as support,
    tessera_text as text, tessera_verifier as verifier,
};

/// Checkpoints of random weights, of any shape, for trials and benchmarks.
#[cfg(feature = "synthetic")]
pub use tessera_synthetic as synthetic;

/// The README, whose example is compiled as a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
