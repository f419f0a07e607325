//! Proofs in a work directory (docs/protocol.md, section 15; docs/format.md): a job is written once, its chunks are
//! proved in any order, by any number of processes, and survive interruptions; the chunk proofs are composed into one.
//!
//! Nothing in a work directory is trusted: every file is checked against the digests of the job, and a composed proof
//! is verified before [`WorkDir::compose`] returns it.

mod error;
mod files;
mod job;
mod record;
mod schedule;
mod sealed;
mod task;
#[cfg(test)]
mod tests;
mod worker;

use std::path::{Path, PathBuf};

use tessera_circuits::chunk::{ends, Chunk, Ends, PublicBoundary};
use tessera_verifier::context::Context;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::verify::{verify, verify_chunk, ChunkStatement, Verified};

use self::files::{activation_bytes, activation_digest, activation_file, write};
use crate::model::Model;
use tessera_model::generate::GenerateOptions;
use tessera_prover::{boundaries, check_security, generate_statement, public_boundary, ProveError, ProvedChunk};
use tessera_support::files::{create_dir, remove_unfinished, FileError, Lock};
use tessera_support::output::STDOUT;
use tessera_support::progress::Progress;

pub use self::error::WorkError;
pub use self::files::{pause_writes, write_output};
pub use self::job::{Job, WorkDir, JOB_FILE, WORK_VERSION};
pub use self::record::{ChunkRecord, FileRef};
pub use self::schedule::{run, Observer};
pub use self::sealed::SealError;
pub use self::task::ChunkTask;
pub use self::worker::{core_sets, CpuWorker, Worker, WorkerError, WorkerGuard};

/// Name of the file that the process which drives a job holds.
const LOCK_FILE: &str = "lock";
/// The right to drive the job of a work directory. One process has it, until this is dropped.
#[derive(Debug)]
pub struct Driver {
    _lock: Lock,
}

/// Progress of a chunk.
#[derive(Clone, Debug)]
pub enum ChunkState {
    /// The chunk is not proved, and nobody is proving it.
    Open,
    /// The chunk is not proved, and a process is proving it.
    Busy,
    /// The chunk is proved; its proof is as it was written, but not verified.
    Done(Box<ChunkRecord>),
}

/// A request for a new job.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Token ids of the prompt.
    pub prompt: &'a [u32],
    /// How much to generate.
    pub options: GenerateOptions,
    /// The context of the proof, if it has one.
    pub context: Option<Context>,
    /// Number of layers of every chunk, in order.
    pub layers: Vec<usize>,
    /// The file that the composed proof is meant for, or `-` for standard output. The job only records it.
    pub out: &'a Path,
}

/// Makes this process the only one that drives the job of `dir`, which is created if there is none.
pub fn drive(dir: &Path) -> Result<Driver, WorkError> {
    create_dir(dir)?;
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
    /// Generates the text, runs the forward pass, and writes activations and job; if the directory has a job for the
    /// same request already, opens that.
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
                    (job.context() == request.context, "context"),
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
            let public = public_boundary(&model.key, statement.rows(), activation);
            digests.push(activation_digest(&public, &bytes));
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
            context: request.context.map(|context| context.to_string()),
            layers: request.layers.clone(),
            activations: digests,
        };
        write(&path, sealed::text(&job).as_bytes())?;
        Self::open(dir)
    }

    /// The state of a chunk, counted from 0. A record that is not of this chunk of this job, or whose proof is not
    /// there as it was written, is an error; the proof itself is not verified.
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

    /// The state of a chunk by its files alone, never [`ChunkState::Busy`].
    fn recorded(&self, chunk: usize) -> Result<ChunkState, WorkError> {
        if !self.record_path(chunk).exists() {
            return Ok(ChunkState::Open);
        }
        let record = self.record(chunk)?;
        self.proof_bytes(chunk, &record)?;
        Ok(ChunkState::Done(Box::new(record)))
    }

    /// Numbers of the chunks that have no record, counted from 0.
    pub fn open_chunks(&self) -> Vec<usize> {
        let open = |chunk: &usize| !self.record_path(*chunk).exists();
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

    /// Proves a chunk with `prove` and writes its record, unless that is done already.
    pub(crate) fn prove_chunk_with(
        &self,
        model: &Model,
        chunk: usize,
        worker: &str,
        prove: impl FnOnce(&ChunkTask<'_>) -> Result<ProvedChunk, ProveError>,
    ) -> Result<ChunkRecord, WorkError> {
        self.check_number(chunk)?;
        self.check_model(model)?;
        let _lock = self.lock(chunk)?;
        if let ChunkState::Done(record) = self.recorded(chunk)? {
            return Ok(*record);
        }
        let key = &model.key;
        let input = chunk.checked_sub(1).map(|i| self.activation(i, key)).transpose()?;
        let output = match chunk + 1 < self.chunks.len() {
            true => Some(self.activation(chunk, key)?),
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
            context: self.job.context(),
        };
        let proved = prove(&task).map_err(|source| WorkError::Prove { chunk, source })?;
        let bytes = proved.proof.to_bytes()?;
        let path = self.proof_path(chunk);
        write(&path, &bytes)?;
        let record = self.new_record(chunk, &bytes, &proved, worker, clock.elapsed());
        write(&self.record_path(chunk), sealed::text(&record).as_bytes())?;
        Ok(record)
    }

    /// Proves a chunk, counted from 0, in this process and writes its record, unless that is done already.
    pub fn prove_chunk(&self, model: &Model, chunk: usize, progress: &dyn Progress) -> Result<ChunkRecord, WorkError> {
        self.prove_chunk_with(model, chunk, "this process", |task| task.prove(progress))
    }

    /// Checks all activations and records that there are, and verifies the proof of every chunk that has a record.
    pub fn check(&self, model: &Model) -> Result<(), WorkError> {
        self.check_model(model)?;
        for i in 0..self.job.activations.len() {
            self.activation(i, &model.key)?;
        }
        let boundaries = self.boundaries(&model.key)?;
        for chunk in 0..self.chunks.len() {
            if self.record_path(chunk).exists() {
                self.checked_proof(model, chunk, &boundaries)?;
            }
        }
        Ok(())
    }

    /// Reads and verifies the proof of a chunk.
    fn checked_proof(
        &self,
        model: &Model,
        chunk: usize,
        boundaries: &[PublicBoundary],
    ) -> Result<ChunkProof, WorkError> {
        let proof = self.proof(chunk)?;
        let statement = self.job.statement();
        let ends = ends(boundaries, self.chunks.len())?;
        let claim = ChunkStatement {
            key: &model.key,
            model: &model.id,
            statement: &statement,
            chunk: &self.chunks[chunk],
            ends: ends[chunk],
            context: self.job.context(),
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
        let boundaries = self.boundaries(&model.key)?;
        let proofs = (0..self.chunks.len()).map(|chunk| self.checked_proof(model, chunk, &boundaries));
        let proof = Proof {
            model: model.id,
            statement: self.job.statement(),
            chunks: proofs.collect::<Result<_, _>>()?,
            boundaries,
            context: self.job.context(),
            hidden: None,
        };
        let verified = verify(&model.key, &proof).map_err(WorkError::Composed)?;
        Ok((proof, verified))
    }
}

/// Removes unfinished files that killed processes left, unless a process is proving a chunk: the files may be its own.
fn remove_leftovers(dir: &Path) -> Result<(), WorkError> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    let locks = names.filter(|name| name.starts_with("chunk_") && name.ends_with(".lock"));
    let locks: Result<Vec<Lock>, FileError> = locks.map(|name| Lock::take(&dir.join(name))).collect();
    if locks.is_ok() {
        remove_unfinished(dir)?;
    }
    Ok(())
}

/// Makes a path absolute, so that other processes find it; standard output stays as it is.
fn absolute(path: &Path) -> PathBuf {
    if path == Path::new(STDOUT) {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
