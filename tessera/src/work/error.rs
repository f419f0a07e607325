//! Errors of work directories and their chunks.

use std::path::PathBuf;

use tessera_circuits::chunk::{BoundaryError, ChunkError};
use tessera_circuits::wording::bytes;
use tessera_verifier::codec::CodecError;
use tessera_verifier::verify::VerifyError;
use thiserror::Error;

use super::files::WORK_VERSION;
use super::sealed::SealError;
use super::worker::WorkerError;
use crate::given::JOB_FILE;
use tessera_prover::ProveError;
use tessera_support::files::FileError;

/// Why a work directory cannot be used, or a chunk cannot be proved.
#[derive(Debug, Error)]
pub enum WorkError {
    /// A file of the work directory, or the directory itself, cannot be read, written or locked.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file of the job was edited or damaged.
    #[error("{}: {source}", path.display())]
    Sealed {
        /// The file of the job.
        path: PathBuf,
        /// How the file differs from what was written.
        source: SealError,
    },
    /// The directory has no job: [`WorkDir::create`](super::WorkDir::create) makes one.
    #[error("{} has no {JOB_FILE}: there is nothing to go on with; start with tessera prove --work", dir.display())]
    NoJob {
        /// The directory.
        dir: PathBuf,
    },
    /// Another version of this program, with other files, wrote the job: go on with that version, or start again in
    /// another directory.
    #[error("{}: a work directory of version {got}, this program uses version {WORK_VERSION}", path.display())]
    Version {
        /// The file of the job.
        path: PathBuf,
        /// Version of the job; this program's is [`WORK_VERSION`].
        got: u32,
    },
    /// The job is malformed, or contradicts itself or its model: start again in another directory.
    #[error("{}: not a possible job: {reason}", path.display())]
    Job {
        /// The file of the job.
        path: PathBuf,
        /// The fault found in the job.
        reason: String,
    },
    /// The job is about something else than it is used for: open the model that it was created with.
    #[error("{} is a job of another {what}", path.display())]
    OtherJob {
        /// The file of the job.
        path: PathBuf,
        /// The part that differs: `model`.
        what: &'static str,
    },
    /// The directory has a job for another request: go on with that job, or take another directory.
    #[error(
        "{} has a job of another {what}: go on with that one by tessera resume {}, or take another directory",
        dir.display(), dir.display()
    )]
    Started {
        /// The work directory.
        dir: PathBuf,
        /// The first part of the request that differs, in words: `prompt`, for example.
        what: &'static str,
    },
    /// A file of activations was damaged or replaced. Activations are written only when a job is created, so start
    /// again in another directory.
    #[error("{}: the activations are not those of the job (digest {got}, expected {expected})", path.display())]
    Activation {
        /// The file of the activations.
        path: PathBuf,
        /// Digest of the file, in hexadecimal.
        got: String,
        /// Digest in the job, in hexadecimal.
        expected: String,
    },
    /// The record of a chunk is not of this chunk of this job, or its proof is missing, damaged or does not verify:
    /// remove the record to prove the chunk again.
    #[error(
        "chunk {chunk}: {} {cause}; remove {} to prove the chunk again", path.display(), record.display()
    )]
    Record {
        /// Number of the chunk, counted from 0.
        chunk: usize,
        /// The file that cannot be used: the record or the proof.
        path: PathBuf,
        /// The fault of the file, as the rest of a sentence: `does not verify`, for example.
        cause: String,
        /// The record of the chunk.
        record: PathBuf,
    },
    /// The proof has to be in one piece, which a job does not make: use [`Model::prove`](crate::Model::prove).
    #[error("proofs in chunks {asked}: prove in one piece, without a work directory")]
    OnePiece {
        /// The property of a proof in chunks for which the request is refused, as the rest of a sentence: `hide no activations`, for example.
        asked: &'static str,
    },
    /// The job has fewer chunks.
    #[error("there is no chunk {chunk}: the job has {chunks}, counted from 0")]
    NoChunk {
        /// The number that was asked for, counted from 0.
        chunk: usize,
        /// Number of chunks of the job.
        chunks: usize,
    },
    /// Another process is proving the chunk.
    #[error("chunk {chunk} is being proved by another process")]
    Busy {
        /// Number of the chunk, counted from 0.
        chunk: usize,
    },
    /// Another process drives the job of the directory ([`drive`](super::drive)).
    #[error("{} is being worked on by another process", dir.display())]
    Locked {
        /// The work directory.
        dir: PathBuf,
    },
    /// The proof cannot be composed before all chunks are proved.
    #[error("chunks that are not proved yet: {}", chunks.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))]
    Incomplete {
        /// Numbers of the chunks that are not proved, counted from 0.
        chunks: Vec<usize>,
    },
    /// A chunk cannot be proved.
    #[error("chunk {chunk}: {source}")]
    Prove {
        /// Number of the chunk, counted from 0.
        chunk: usize,
        /// Why it cannot be proved.
        source: ProveError,
    },
    /// A new job was refused: its text cannot be generated, or a proof of it would not be secure enough. More chunks
    /// may help against the latter.
    #[error(transparent)]
    Statement(#[from] ProveError),
    /// The requested chunks do not divide the layers of the model.
    #[error(transparent)]
    Chunks(#[from] ChunkError),
    /// The activations do not fit the chunks of the job.
    #[error(transparent)]
    Boundaries(#[from] BoundaryError),
    /// The proof of a chunk cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A worker cannot be had.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// No worker has the memory that a chunk needs: use fewer workers, a larger budget, or a job with more chunks.
    #[error("no device has the {} of memory that chunk {chunk} needs", bytes(*needed))]
    NoWorker {
        /// Number of the chunk, counted from 0.
        chunk: usize,
        /// Bytes of memory that the chunk needs.
        needed: u64,
    },
    /// The composed proof does not verify, although the proof of every chunk does.
    #[error("the composed proof does not verify: {0}")]
    Composed(#[source] VerifyError),
}
