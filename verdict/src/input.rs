//! Keys and proofs from files and from standard input: what the programs share.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use tessera_verifier::codec::KEY_LIMIT;
use tessera_verifier::key::ModelKey;
use tessera_verifier::length::{most_bytes, most_reveal_bytes};

use crate::shown;

/// What stands for standard input.
const STDIN: &str = "-";
/// What a file has beside its payload, and a byte more than it may have, so that what is too long is found to be.
const HEADER: u64 = 64;

/// Whether standard input is meant.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == STDIN
}

/// How an input is called in sentences.
pub fn name(path: &Path) -> String {
    match is_stdin(path) {
        true => "standard input".to_owned(),
        false => shown::spelled(path),
    }
}

/// Reads a file or standard input, but not much more of it than a key or proof can have.
///
/// # Errors
/// If that fails: the text names the input.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_at_most(path, KEY_LIMIT as u64 + HEADER)
}

/// The most bytes of a file with a prompt, an answer or messages.
pub const PROMPT_BYTES: u64 = 1 << 24;

/// Reads a text file, or standard input, of so many bytes at most; `what` names what such a file holds.
///
/// # Errors
/// If that fails, if the file is longer, or if it is not UTF-8: the error names the input.
pub fn read_text(path: &Path, most: u64, what: &str) -> Result<String, String> {
    let bytes = read_at_most(path, most + 1)?;
    if bytes.len() as u64 > most {
        return Err(format!("{} has more than {most} bytes, which is no {what}", name(path)));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        format!("{} is not UTF-8 text: invalid byte at {at}", name(path))
    })
}

/// Reads what should be a proof of the model of a key, up to a byte more than such a proof can have. The key must have passed
/// its check.
///
/// # Errors
/// If that fails: the text names the input.
pub fn read_proof(path: &Path, key: &ModelKey) -> Result<Vec<u8>, String> {
    read_at_most(path, most_bytes(key) as u64 + 1)
}

/// Reads what should be a reveal of ids that a proof of the model hides, up to a byte more than such a reveal can have. The key must have passed
/// its check.
///
/// # Errors
/// If that fails: the text names the input.
pub fn read_reveal(path: &Path, key: &ModelKey) -> Result<Vec<u8>, String> {
    read_at_most(path, most_reveal_bytes(key) as u64 + 1)
}

fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    if !is_stdin(path) && path.is_dir() {
        return Err(format!("{} is a directory: give a file", name(path)));
    }
    let failed = |e: io::Error| format!("cannot read {}: {e}", name(path));
    let mut bytes = Vec::new();
    match is_stdin(path) {
        true => io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => File::open(path).map_err(failed)?.take(most).read_to_end(&mut bytes),
    }
    .map_err(failed)?;
    Ok(bytes)
}

/// One of several inputs has to be a regular file, or standard input: a pipe or a device may never end, and the others would
/// wait for it.
///
/// # Errors
/// If it is neither, or cannot be looked at: the text names the input.
pub fn regular(path: &Path) -> Result<(), String> {
    if is_stdin(path) {
        return Ok(());
    }
    let metadata = fs::metadata(path).map_err(|e| format!("cannot read {}: {e}", name(path)))?;
    match metadata.is_file() || metadata.is_dir() {
        true => Ok(()),
        false => Err(format!(
            "{} is no regular file but a pipe or a device: give it alone, or - for standard input",
            name(path)
        )),
    }
}

/// Standard input can be read once.
///
/// # Errors
/// If more than one of the inputs is standard input.
pub fn once<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), String> {
    match inputs.into_iter().filter(|path| is_stdin(path)).count() {
        0 | 1 => Ok(()),
        _ => {
            Err("only one of key and proofs, and of the files that options name, can be standard input: name a file for the others".to_owned())
        }
    }
}
