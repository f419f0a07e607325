//! Proofs in a work directory (docs/protocol.md, section 15; docs/format.md): a job is written once, its chunks are
//! proved in any order, by any number of processes, and survive interruptions; the chunk proofs are composed into one.
//!
//! Nothing in a work directory is trusted: every file is checked against the digests of the job, and a composed proof is
//! verified before it is written.

mod checkpoint;
mod device;
mod schedule;
mod sealed;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use blake2::digest::Digest as _;
use blake2::Blake2s256;
use serde::{Deserialize, Serialize};
use tessera_circuits::chunk::{ends, Boundary, BoundaryError, Chunk, ChunkError, Ends};
use tessera_circuits::model::ModelConfig;
use tessera_circuits::statement::Statement;
use tessera_verifier::codec::CodecError;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::verify::{verify, verify_chunk, ChunkStatement, Verified, VerifyError};
use thiserror::Error;

use crate::prove::{boundaries, check_security, generate_statement, prove_chunk, ProveError};
use crate::run::generate::GenerateOptions;
use crate::support::files::{self, FileError, Lock};
use crate::support::output::{Output, STDOUT};
use crate::support::progress::Progress;
use crate::tasks::loaded::Model;

pub use self::checkpoint::{Checkpoint, FileRef};
pub use self::device::{core_sets, CpuDevice, Device, DeviceError, DeviceGuard};
pub use self::schedule::{run, Observer};

use self::sealed::SealError;

/// The job of a work directory.
pub const JOB_FILE: &str = "job.json";
/// Held by the process that drives a job.
const LOCK_FILE: &str = "lock";
/// Version of the files of a work directory.
pub const WORK_VERSION: u32 = 2;

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
        "chunk {chunk}: {} {cause}; remove {} to prove the chunk again", path.display(), checkpoint.display()
    )]
    Checkpoint {
        chunk: usize,
        path: PathBuf,
        cause: String,
        checkpoint: PathBuf,
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
    Device(#[from] DeviceError),
    #[error("no device has the {needed} bytes of memory that chunk {chunk} needs")]
    NoDevice { chunk: usize, needed: u64 },
    #[error("the composed proof does not verify: {0}")]
    Composed(#[source] VerifyError),
}

/// Blake2s-256, as hexadecimal digits.
fn digest(parts: &[&[u8]]) -> String {
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
fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let _writing = pause_writes();
    files::write(path, bytes)
}

/// Writes a result; [`pause_writes`] waits for it.
pub fn write_output(output: &Output, bytes: &[u8]) -> Result<(), FileError> {
    let _writing = pause_writes();
    output.write(bytes)
}

/// What is proved, and in which pieces. Written once, before any chunk is proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`WORK_VERSION`]
    pub version: u32,
    /// The program that wrote it.
    pub tessera: String,
    /// The model's id.
    pub model: String,
    pub model_dir: PathBuf,
    /// Where the composed proof goes.
    pub out: PathBuf,
    pub prompt: Vec<u32>,
    /// The most tokens that were asked for, and whether they go on past the end of the text.
    pub tokens: usize,
    pub ignore_eos: bool,
    pub output: Vec<u32>,
    /// Layers of every chunk.
    pub layers: Vec<usize>,
    /// Digests of the activations between any two chunks.
    pub activations: Vec<String>,
}

impl Job {
    /// What is proved.
    pub fn statement(&self) -> Statement {
        Statement {
            prompt: self.prompt.clone(),
            output: self.output.clone(),
        }
    }

    /// Digest of what is proved.
    pub fn statement_digest(&self) -> String {
        let words = |ids: &[u32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
        digest(&[b"statement", &words(&self.prompt), &words(&self.output)])
    }

    /// The chain of digests that gives every chunk its place: link `i` covers model, statement, all chunks up to `i` and
    /// what leaves them.
    fn links(&self) -> Vec<String> {
        let mut link = digest(&[b"job", self.model.as_bytes(), self.statement_digest().as_bytes()]);
        let mut start = 0;
        let chunks = self.layers.iter().enumerate();
        let next = |(i, layers): (usize, &usize)| {
            let range = [start, start + layers].map(|l| (l as u64).to_le_bytes());
            start += layers;
            let output = self.activations.get(i).map_or("", String::as_str);
            link = digest(&[link.as_bytes(), range.as_flattened(), output.as_bytes()]);
            link.clone()
        };
        chunks.map(next).collect()
    }
}

/// A work directory with a job.
#[derive(Debug)]
pub struct WorkDir {
    dir: PathBuf,
    pub job: Job,
    pub chunks: Vec<Chunk>,
    links: Vec<String>,
}

/// Held by the process that drives a job.
#[derive(Debug)]
pub struct Driver {
    _lock: Lock,
}

/// Progress of a chunk.
#[derive(Clone, Debug)]
pub enum ChunkState {
    Open,
    /// Another process is at it.
    Busy,
    Done(Box<Checkpoint>),
}

/// What a new job is about.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub prompt: &'a [u32],
    /// How much to generate.
    pub options: GenerateOptions,
    /// Layers of every chunk.
    pub layers: Vec<usize>,
    /// Where the composed proof goes.
    pub out: &'a Path,
}

/// Makes this process the only one that drives the job of `dir`, which is created if there is none.
pub fn drive(dir: &Path) -> Result<Driver, WorkError> {
    files::create_dir(dir)?;
    match Lock::take(&dir.join(LOCK_FILE)) {
        Ok(lock) => {
            remove_leftovers(dir)?;
            Ok(Driver { _lock: lock })
        }
        Err(FileError::Locked { .. }) => Err(WorkError::Locked { dir: dir.to_owned() }),
        Err(error) => Err(error.into()),
    }
}

impl WorkDir {
    /// Generates the text, runs the forward pass, and writes activations and job; if there is a job for the same request
    /// already, goes on with it.
    pub fn create(
        dir: &Path,
        _driver: &Driver,
        model: &Model,
        request: &Request<'_>,
        progress: &dyn Progress,
    ) -> Result<Self, WorkError> {
        let path = dir.join(JOB_FILE);
        match Self::open(dir) {
            Ok(work) => {
                let job = &work.job;
                for (same, what) in [
                    (job.model == model.id.to_string(), "model"),
                    (job.prompt == request.prompt, "prompt"),
                    (job.tokens == request.options.tokens, "number of tokens"),
                    (job.ignore_eos == request.options.ignore_eos, "choice of --ignore-eos"),
                    (job.layers == request.layers, "division in chunks"),
                    (job.out == absolute(request.out), "proof file"),
                ] {
                    if !same {
                        let dir = dir.to_owned();
                        return Err(WorkError::Started { dir, what });
                    }
                }
                return Ok(work);
            }
            Err(WorkError::NoJob { .. }) => {}
            Err(error) => return Err(error),
        }
        let prover = model.prover();
        let chunks = Chunk::partition(request.layers.iter().copied(), model.key.config.layers)?;
        let statement = generate_statement(&prover, request.prompt, &request.options, progress)?;
        check_security(&model.key, &chunks, &statement)?;
        let activations = boundaries(&prover, &statement, &chunks, progress)?;
        let mut digests = Vec::new();
        for (i, activation) in activations.iter().enumerate() {
            let bytes = activation_bytes(activation);
            write(&dir.join(activation_file(i)), &bytes)?;
            digests.push(digest(&[&bytes]));
        }
        let job = Job {
            version: WORK_VERSION,
            tessera: env!("CARGO_PKG_VERSION").to_owned(),
            model: model.id.to_string(),
            model_dir: absolute(&model.dir),
            out: absolute(request.out),
            prompt: statement.prompt,
            tokens: request.options.tokens,
            ignore_eos: request.options.ignore_eos,
            output: statement.output,
            layers: request.layers.clone(),
            activations: digests,
        };
        write(&path, sealed::text(&job).as_bytes())?;
        Self::open(dir)
    }

    /// Reads the job of a work directory.
    pub fn open(dir: &Path) -> Result<Self, WorkError> {
        let path = dir.join(JOB_FILE);
        if !path.exists() {
            return Err(WorkError::NoJob { dir: dir.to_owned() });
        }
        let job: Job = sealed::parse(&files::read(&path)?).map_err(|source| WorkError::Sealed {
            path: path.clone(),
            source,
        })?;
        if job.version != WORK_VERSION {
            return Err(WorkError::Version { path, got: job.version });
        }
        let impossible = |reason: String| WorkError::Job {
            path: path.clone(),
            reason,
        };
        let of = job
            .layers
            .iter()
            .try_fold(0usize, |sum, layers| sum.checked_add(*layers));
        let of = of.ok_or_else(|| impossible("its layers overflow".to_owned()))?;
        let chunks = Chunk::partition(job.layers.iter().copied(), of).map_err(|e| impossible(e.to_string()))?;
        if job.activations.len() + 1 != chunks.len() {
            return Err(impossible(format!(
                "{} activations between {} chunks",
                job.activations.len(),
                chunks.len()
            )));
        }
        Ok(Self {
            dir: dir.to_owned(),
            links: job.links(),
            job,
            chunks,
        })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Checks that the job is about this model.
    pub fn check_model(&self, model: &Model) -> Result<(), WorkError> {
        let path = self.dir.join(JOB_FILE);
        if self.job.model != model.id.to_string() {
            return Err(WorkError::OtherJob { path, what: "model" });
        }
        let impossible = |reason: String| WorkError::Job {
            path: path.clone(),
            reason,
        };
        Chunk::partition(self.job.layers.iter().copied(), model.key.config.layers)
            .map_err(|e| impossible(e.to_string()))?;
        let statement = self.job.statement();
        statement
            .check(&model.key.config)
            .map_err(|e| impossible(e.to_string()))
    }

    /// Bytes of an activation.
    fn activation_len(&self, config: &ModelConfig) -> usize {
        config.hidden << ModelConfig::token_log(self.job.statement().rows())
    }

    /// The activations that leave chunk `i`, checked.
    fn activation(&self, i: usize, config: &ModelConfig) -> Result<Boundary, WorkError> {
        let path = self.dir.join(activation_file(i));
        let bytes = files::read(&path)?;
        let (got, expected) = (digest(&[&bytes]), self.job.activations[i].clone());
        if got != expected || bytes.len() != 2 * self.activation_len(config) {
            return Err(WorkError::Activation { path, got, expected });
        }
        let values = bytes.as_chunks::<2>().0.iter().map(|v| i16::from_le_bytes(*v));
        Ok(Boundary(values.collect()))
    }

    /// All activations, checked.
    fn activations(&self, config: &ModelConfig) -> Result<Vec<Boundary>, WorkError> {
        (0..self.job.activations.len())
            .map(|i| self.activation(i, config))
            .collect()
    }

    /// The state of a chunk. A checkpoint that is not of this chunk of this job, or whose proof is not there as it was
    /// written, is an error; the proof itself is not verified.
    pub fn state(&self, chunk: usize) -> Result<ChunkState, WorkError> {
        self.check_number(chunk)?;
        let recorded = self.recorded(chunk)?;
        if matches!(recorded, ChunkState::Done(_)) || !self.lock_path(chunk).exists() {
            return Ok(recorded);
        }
        match self.lock(chunk) {
            Ok(_) => Ok(ChunkState::Open),
            Err(WorkError::Busy { .. }) => Ok(ChunkState::Busy),
            Err(error) => Err(error),
        }
    }

    /// The state of a chunk by its files alone: whether another process is at it is not looked at.
    fn recorded(&self, chunk: usize) -> Result<ChunkState, WorkError> {
        if !self.checkpoint_path(chunk).exists() {
            return Ok(ChunkState::Open);
        }
        let checkpoint = self.checkpoint(chunk)?;
        self.proof_bytes(chunk, &checkpoint)?;
        Ok(ChunkState::Done(Box::new(checkpoint)))
    }

    /// Chunks without a checkpoint.
    pub fn open_chunks(&self) -> Vec<usize> {
        let open = |chunk: &usize| !self.checkpoint_path(*chunk).exists();
        (0..self.chunks.len()).filter(open).collect()
    }

    fn check_number(&self, chunk: usize) -> Result<(), WorkError> {
        let chunks = self.chunks.len();
        match chunk < chunks {
            true => Ok(()),
            false => Err(WorkError::NoChunk { chunk, chunks }),
        }
    }

    fn lock_path(&self, chunk: usize) -> PathBuf {
        self.dir.join(format!("chunk_{chunk}.lock"))
    }

    fn lock(&self, chunk: usize) -> Result<Lock, WorkError> {
        match Lock::take(&self.lock_path(chunk)) {
            Err(FileError::Locked { .. }) => Err(WorkError::Busy { chunk }),
            other => Ok(other?),
        }
    }

    /// Proves a chunk with `prove` and writes its checkpoint, unless that is done already.
    pub(crate) fn prove_chunk_with(
        &self,
        model: &Model,
        chunk: usize,
        device: &str,
        prove: impl FnOnce(&ChunkTask<'_>) -> Result<crate::prove::ProvedChunk, ProveError>,
    ) -> Result<Checkpoint, WorkError> {
        self.check_number(chunk)?;
        self.check_model(model)?;
        let _lock = self.lock(chunk)?;
        if let ChunkState::Done(checkpoint) = self.recorded(chunk)? {
            return Ok(*checkpoint);
        }
        let config = &model.key.config;
        let input = chunk.checked_sub(1).map(|i| self.activation(i, config)).transpose()?;
        let output = match chunk + 1 < self.chunks.len() {
            true => Some(self.activation(chunk, config)?),
            false => None,
        };
        let statement = self.job.statement();
        let clock = std::time::Instant::now();
        let task = ChunkTask {
            model,
            statement: &statement,
            chunk: self.chunks[chunk],
            ends: Ends {
                input: input.as_ref(),
                output: output.as_ref(),
            },
        };
        let proved = prove(&task).map_err(|source| WorkError::Prove { chunk, source })?;
        let bytes = proved.proof.to_bytes()?;
        let path = self.proof_path(chunk);
        write(&path, &bytes)?;
        let checkpoint = self.new_checkpoint(chunk, &bytes, &proved, device, clock.elapsed());
        write(&self.checkpoint_path(chunk), sealed::text(&checkpoint).as_bytes())?;
        Ok(checkpoint)
    }

    /// Proves a chunk here and writes its checkpoint, unless that is done already.
    pub fn prove_chunk(&self, model: &Model, chunk: usize, progress: &dyn Progress) -> Result<Checkpoint, WorkError> {
        self.prove_chunk_with(model, chunk, "this process", |task| task.prove(progress))
    }

    /// Checks every checkpoint that there is, and every proof against the key and the activations beside it.
    pub fn check(&self, model: &Model) -> Result<(), WorkError> {
        self.check_model(model)?;
        let activations = self.activations(&model.key.config)?;
        for chunk in 0..self.chunks.len() {
            if self.checkpoint_path(chunk).exists() {
                self.checked_proof(model, chunk, &activations)?;
            }
        }
        Ok(())
    }

    /// The proof of a chunk, if it is one.
    fn checked_proof(&self, model: &Model, chunk: usize, activations: &[Boundary]) -> Result<ChunkProof, WorkError> {
        let proof = self.proof(chunk)?;
        let config = &model.key.config;
        let statement = self.job.statement();
        let tokens = 1 << ModelConfig::token_log(statement.rows());
        let ends = ends(activations, self.chunks.len(), tokens, config.hidden)?;
        let claim = ChunkStatement {
            key: &model.key,
            model: &model.id,
            statement: &statement,
            chunk: &self.chunks[chunk],
            ends: ends[chunk],
        };
        let bad = |cause: String| self.bad(chunk, self.proof_path(chunk), cause);
        if proof.layers as usize != self.chunks[chunk].layers().len() {
            return Err(bad("is a proof of another number of layers".to_owned()));
        }
        verify_chunk(&claim, &proof).map_err(|e| bad(format!("does not verify: {e}")))?;
        Ok(proof)
    }

    /// Chains the chunk proofs into one proof, which is verified; no weights are read.
    pub fn compose(&self, model: &Model) -> Result<(Proof, Verified), WorkError> {
        self.check_model(model)?;
        let open = self.open_chunks();
        if !open.is_empty() {
            return Err(WorkError::Incomplete { chunks: open });
        }
        let boundaries = self.activations(&model.key.config)?;
        let proofs = (0..self.chunks.len()).map(|chunk| self.checked_proof(model, chunk, &boundaries));
        let proof = Proof {
            model: model.id,
            statement: self.job.statement(),
            chunks: proofs.collect::<Result<_, _>>()?,
            boundaries,
        };
        let verified = verify(&model.key, &proof).map_err(WorkError::Composed)?;
        Ok((proof, verified))
    }
}

/// A chunk to prove.
pub struct ChunkTask<'a> {
    pub model: &'a Model,
    pub statement: &'a Statement,
    pub chunk: Chunk,
    pub ends: Ends<'a>,
}

impl ChunkTask<'_> {
    /// Proves it on the threads of the caller.
    pub fn prove(&self, progress: &dyn Progress) -> Result<crate::prove::ProvedChunk, ProveError> {
        prove_chunk(&self.model.prover(), self.statement, &self.chunk, self.ends, progress)
    }
}

/// Removes unfinished files of processes that were killed, unless a process is at a chunk: they may be its own.
fn remove_leftovers(dir: &Path) -> Result<(), WorkError> {
    let names = || {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().into_string().ok())
    };
    let locks = names().filter(|name| name.starts_with("chunk_") && name.ends_with(".lock"));
    let locks: Result<Vec<Lock>, FileError> = locks.map(|name| Lock::take(&dir.join(name))).collect();
    if locks.is_ok() {
        for name in names().filter(|name| files::is_unfinished(name)) {
            files::remove(&dir.join(name))?;
        }
    }
    Ok(())
}

fn activation_file(i: usize) -> String {
    format!("activation_{i}.bin")
}

fn activation_bytes(activation: &Boundary) -> Vec<u8> {
    activation.0.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The path from the root on, so that other processes find it; standard output has none.
fn absolute(path: &Path) -> PathBuf {
    if path == Path::new(STDOUT) {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
