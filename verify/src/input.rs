//! Keys and proofs from files and from standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tessera_verdict::Key;
use tessera_verifier::codec::{FileKind, KEY_LIMIT};

/// What stands for standard input.
const STDIN: &str = "-";
/// What a file has beside its payload, and a byte more than it may have, so that what is too long is found to be.
const HEADER: u64 = 64;

/// How an input is called.
pub fn name(path: &Path) -> String {
    match path.as_os_str() == STDIN {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Reads a file, but not much more of it than a key or proof can have.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |e: io::Error| format!("cannot read {}: {e}", name(path));
    let most = KEY_LIMIT as u64 + HEADER;
    let mut bytes = Vec::new();
    match path.as_os_str() == STDIN {
        true => io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => File::open(path).map_err(failed)?.take(most).read_to_end(&mut bytes),
    }
    .map_err(failed)?;
    Ok(bytes)
}

/// Reads a model key.
pub fn read_key(path: &Path) -> Result<Key, String> {
    let shown = name(path);
    if path.is_dir() {
        let key = path.join("model.key");
        return Err(match key.is_file() {
            true => format!("{shown} is a model directory: its key is {}", key.display()),
            false => format!("{shown} is a directory, not a model key"),
        });
    }
    let bytes = read(path)?;
    if bytes.starts_with(&FileKind::Proof.magic()) {
        return Err(format!(
            "{shown} is a proof, not a model key: --key takes the file model.key that setup wrote"
        ));
    }
    Key::from_bytes(&bytes).map_err(|e| format!("{shown}: {e}"))
}
