//! This library verifies Tessera proofs and tells you what they prove. Every front end uses it: the command line, the
//! static binary, the browser and Python.
//!
//! You read a [`Key`] once, and it gives you a [`Verdict`] on every proof. A verdict is a Rust value, and it can also
//! write itself as a text for people and as a JSON object for programs. All front ends therefore say the same.
//!
//! ```
//! use tessera_verdict::{Key, Outcome};
//!
//! # use tessera_testkit::{odd_config, random_ids, random_model, TestModel};
//! # let model = TestModel::new(random_model(odd_config(), tessera_circuits::model::WeightFormat::Int8, 7));
//! # let proof = model.prove_chunks(&random_ids(&odd_config(), 4, 3), 3, &[odd_config().layers]);
//! # let (key, proof) = (model.key.to_bytes().unwrap(), proof.to_bytes().unwrap());
//! // The bytes of a model key, from somebody whom you trust, and of a proof, from anybody.
//! let key = Key::from_bytes(&key)?;
//! let verdict = key.verify(&proof);
//! let Outcome::Accepted(proved) = &verdict.outcome else {
//!     panic!("{}", verdict.text("a.proof", "model.key", None));
//! };
//! assert_eq!(proved.statement().output.len(), 3);
//! assert!(proved.security_bits() >= 93.5);
//!
//! // A proof that was changed anywhere is rejected, and the reason is said.
//! let mut changed = proof.clone();
//! let middle = changed.len() / 2;
//! changed[middle] ^= 1;
//! assert!(matches!(key.verify(&changed).outcome, Outcome::Rejected { .. }));
//! # Ok::<(), tessera_verdict::KeyFileError>(())
//! ```
//!
//! The crate needs no prover and no clock, and only [`input`] needs a file system, so you can embed it
//! anywhere. The feature `command-line` adds the command `verify` for programs. Tokenizers, which come with keys, run on a
//! thread of their own where there are threads, so that one that takes too long can be given up. It treats keys and proofs as hostile bytes: it does not panic on them, and its work is bounded. A text
//! inside a proof cannot pass itself off as the verdict, because [`shown`] escapes it.
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

pub mod check;
pub mod claim;
#[cfg(feature = "command-line")]
pub mod command;
pub mod conversation;
pub mod describe;
pub mod input;
mod key;
pub mod page;
pub mod policy;
pub mod prompt;
pub mod rows;
pub mod shown;
pub use tessera_text::shown as text;
#[cfg(feature = "command-line")]
pub mod usage;
pub mod vector;
mod verdict;
pub mod vocabulary;

pub use key::Key;
pub use tessera_recipe::KeyFileError;
pub use verdict::{add_context, add_hidden, hidden_parts, mistaken, mode, runs, Outcome, Proved, Status, Verdict};
