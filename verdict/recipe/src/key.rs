//! A key file with its recipe.

use tessera_verifier::key::{KeyError, ModelKey, DAMAGED};
use thiserror::Error;

use crate::recipe::{Recipe, RecipeError};

/// A file that is no usable model key, or one whose recipe no program writes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// No verifier can use it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A verifier could use it, but nobody can show what it says.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
}

impl KeyFileError {
    /// Advice that follows the message.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Key(error) => error.advice(),
            Self::Recipe(_) => DAMAGED,
        }
    }
}

/// Reads a key with its recipe, and checks both. Total on hostile bytes.
///
/// # Errors
/// If the bytes are no usable model key, or its recipe is not one that [`Recipe::to_bytes`] gives.
pub fn read_key(bytes: &[u8]) -> Result<(ModelKey, Recipe), KeyFileError> {
    let key = ModelKey::from_bytes(bytes)?;
    let recipe = Recipe::of(&key)?;
    Ok((key, recipe))
}
