//! Keys from files and from standard input.

use std::path::Path;

use tessera_verifier::codec::FileKind;

use crate::input::{is_stdin, name, read};
use crate::Key;

/// Reads a model key, from a file or from standard input.
///
/// # Errors
/// If that fails, or if there is something else in its place: the text names the input.
pub fn read_key(path: &Path) -> Result<Key, String> {
    let shown = name(path);
    if !is_stdin(path) && path.is_dir() {
        let key = path.join("model.key");
        return Err(match key.is_file() {
            true => format!("{shown} is a model directory: its key is {}", key.display()),
            false => format!("{shown} is a directory, not a model key"),
        });
    }
    let bytes = read(path)?;
    if bytes.starts_with(&FileKind::PROOF.magic()) {
        return Err(format!(
            "{shown} is a proof, not a model key: --key takes the file model.key that setup wrote"
        ));
    }
    Key::from_bytes(&bytes).map_err(|e| format!("{shown}: {e}{}", e.advice()))
}
