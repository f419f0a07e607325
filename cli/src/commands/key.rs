//! Model keys that commands read.

use std::path::Path;

use tessera::given;
use tessera::recipe::{self, KeyFileError};
use tessera::verifier::key::ModelKey;
use tessera_verdict::input;

use crate::printer::Failure;

/// Reads a model key, from a file or from standard input. A key whose recipe no program writes is refused, too.
pub fn read_key(path: &Path) -> Result<ModelKey, Failure> {
    if !input::is_stdin(path) {
        given::key(path)?;
    }
    let bytes = input::read(path).map_err(Failure)?;
    let (key, _) = recipe::read_key(&bytes).map_err(|e| unusable_key(&input::name(path), &e))?;
    Ok(key)
}

/// Why the contents of a file cannot be used as a model key, and what helps.
pub fn unusable_key(name: &str, error: &KeyFileError) -> Failure {
    Failure(format!("{name}: {error}{}", error.advice()))
}
