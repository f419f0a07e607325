//! Model keys that commands read.

use std::path::Path;

use tessera::given;
use tessera::verifier::key::{KeyError, ModelKey};
use tessera_verdict::input;

use crate::printer::Failure;

/// Reads a model key, from a file or from standard input.
pub fn read_key(path: &Path) -> Result<ModelKey, Failure> {
    if !input::is_stdin(path) {
        given::key(path)?;
    }
    let bytes = input::read(path).map_err(Failure)?;
    ModelKey::from_bytes(&bytes).map_err(|e| unusable_key(&input::name(path), &e))
}

/// Why the contents of a file cannot be used as a model key, and what helps.
pub fn unusable_key(name: &str, error: &KeyError) -> Failure {
    Failure(format!("{name}: {error}{}", error.advice()))
}
