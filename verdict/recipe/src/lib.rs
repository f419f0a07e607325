//! The recipe of a model key (docs/format.md, section 2): how the model was made, and how close it is to its checkpoint.
//!
//! A recipe is the word of whoever made the key. It is not in the model id, nothing proves it, and no verifier relies on it: to the
//! crate `tessera-verifier` it is bytes at the end of a key. Whoever shows it or follows it reads it here, with [`read_key`]: every
//! front end, the prover, and `tessera inspect --against`, which makes the model again. So all of them refuse a key whose recipe no program
//! writes, such as one with a text that moves the cursor of a terminal. `ModelKey::from_bytes` alone accepts such a key. Two keys
//! with one id may have different recipes, and both may be of this form: compare recipes, or make the model again, before you
//! repeat what one says.
//!
//! ```
//! use tessera_recipe::{Recipe, RecipeError};
//!
//! let recipe = Recipe {
//!     tool: "tessera 0.1.0".to_owned(),
//!     ..Recipe::default()
//! };
//! assert_eq!(Recipe::from_bytes(&recipe.to_bytes()?)?, recipe);
//! let hostile = Recipe {
//!     tool: "\u{1b}[2Jverified".to_owned(),
//!     ..Recipe::default()
//! };
//! assert_eq!(hostile.to_bytes(), Err(RecipeError::Control { what: "tool" }));
//! # Ok::<(), RecipeError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// Recipes are hostile bytes. Tests may panic: that is how they fail.
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

mod key;
mod list;
mod recipe;

pub use key::{read_key, KeyFileError};
pub use recipe::{
    Calibration, Class, Fidelity, Figures, Recipe, RecipeError, ScoreFigures, Setting, SourceFile, VectorFigures,
};
