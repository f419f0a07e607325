//! Names of the files of a work directory, how they are written, and their digests.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use blake2::digest::Digest as _;
use blake2::Blake2s256;
use tessera_circuits::chunk::{Boundary, PublicBoundary};

use tessera_support::files::{self, FileError};
use tessera_support::output::Output;

/// Version of the files of a work directory that this program reads and writes.
pub const WORK_VERSION: u32 = 6;

/// Blake2s-256 of the parts, each preceded by its length in 8 bytes, as hexadecimal digits.
pub(super) fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Blake2s256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}

/// Held while a file of a work directory is written, so that an orderly interruption can wait for it.
static WRITING: Mutex<()> = Mutex::new(());

/// Waits until no file of a work directory is being written, and keeps it so until the guard is dropped.
pub fn pause_writes() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a file atomically; [`pause_writes`] waits for it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let _writing = pause_writes();
    files::write(path, bytes)
}

/// Writes a result; [`pause_writes`] waits for it.
pub fn write_output(output: &Output, bytes: &[u8]) -> Result<(), FileError> {
    let _writing = pause_writes();
    output.write(bytes)
}

pub(super) fn activation_file(i: usize) -> String {
    format!("activation_{i}.bin")
}

/// The digest of activations that a job names: of their file, or if a proof has their commitment, its root.
pub(super) fn activation_digest(public: &PublicBoundary, bytes: &[u8]) -> String {
    match public {
        PublicBoundary::Clear(_) => digest(&[bytes]),
        PublicBoundary::Committed(root) => hex::encode(root),
    }
}

pub(super) fn activation_bytes(activation: &Boundary) -> Vec<u8> {
    activation.0.iter().flat_map(|v| v.to_le_bytes()).collect()
}
