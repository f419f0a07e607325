//! Why a work directory cannot be used, or a chunk not be proved.

use std::path::PathBuf;

use tessera_circuits::chunk::{BoundaryError, ChunkError};
use tessera_circuits::wording::bytes;
use tessera_verifier::codec::CodecError;
use tessera_verifier::verify::VerifyError;
use thiserror::Error;

use super::files::{JOB_FILE, WORK_VERSION};
use super::sealed::SealError;
use super::worker::WorkerError;
use tessera_prover::ProveError;
use tessera_support::files::FileError;

/// Why a work directory cannot be used, or a chunk not be proved.
#[derive(Debug, Error)]
pub enum WorkError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {source}", path.display())]
    Sealed { path: PathBuf, source: SealError },
    #[error("{} has no {JOB_FILE}: there is nothing to go on with; start with tessera prove --work", dir.display())]
    NoJob { dir: PathBuf },
    #[error("{}: a work directory of version {got}, this program uses version {WORK_VERSION}", path.display())]
    Version { path: PathBuf, got: u32 },
    #[error("{}: not a possible job: {reason}", path.display())]
    Job { path: PathBuf, reason: String },
    #[error("{} is a job of another {what}", path.display())]
    OtherJob { path: PathBuf, what: &'static str },
    #[error(
        "{} has a job of another {what}: go on with that one by tessera resume {}, or take another directory",
        dir.display(), dir.display()
    )]
    Started { dir: PathBuf, what: &'static str },
    #[error("{}: the activations are not those of the job (digest {got}, expected {expected})", path.display())]
    Activation {
        path: PathBuf,
        got: String,
        expected: String,
    },
    #[error(
        "chunk {chunk}: {} {cause}; remove {} to prove the chunk again", path.display(), record.display()
    )]
    Record {
        chunk: usize,
        path: PathBuf,
        cause: String,
        record: PathBuf,
    },
    #[error("there is no chunk {chunk}: the job has {chunks}, counted from 0")]
    NoChunk { chunk: usize, chunks: usize },
    #[error("chunk {chunk} is being proved by another process")]
    Busy { chunk: usize },
    #[error("{} is being worked on by another process", dir.display())]
    Locked { dir: PathBuf },
    #[error("chunks that are not proved yet: {}", chunks.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))]
    Incomplete { chunks: Vec<usize> },
    #[error("chunk {chunk}: {source}")]
    Prove { chunk: usize, source: ProveError },
    #[error(transparent)]
    Statement(#[from] ProveError),
    #[error(transparent)]
    Chunks(#[from] ChunkError),
    #[error(transparent)]
    Boundaries(#[from] BoundaryError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Worker(#[from] WorkerError),
    #[error("no device has the {} of memory that chunk {chunk} needs", bytes(*needed))]
    NoWorker { chunk: usize, needed: u64 },
    #[error("the composed proof does not verify: {0}")]
    Composed(#[source] VerifyError),
}
