//! The file `chunk_{i}.json`, which says that a chunk is proved, where its proof is, and what the proof is about.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tessera_verifier::proof::ChunkProof;

use super::error::WorkError;
use super::files::{activation_file, digest, WORK_VERSION};
use super::job::WorkDir;
use super::sealed;
use tessera_model::forward::Saturations;
use tessera_prover::ProvedChunk;
use tessera_support::files;

/// A file of the work directory and its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    /// Name of the file in the work directory.
    pub file: String,
    /// Blake2s-256 of the file's length (8 bytes, little-endian) and contents, in hexadecimal.
    pub digest: String,
}

/// The record of a proved chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRecord {
    /// Version of the files of the work directory, [`WORK_VERSION`](super::WORK_VERSION).
    pub version: u32,
    /// Version of the program that wrote the record.
    pub tessera: String,
    /// Number of the chunk, counted from 0.
    pub chunk: usize,
    /// Number of chunks of the job.
    pub chunks: usize,
    /// First layer of the chunk, and first layer after the chunk.
    pub layers: [usize; 2],
    /// Id of the model, in hexadecimal.
    pub model: String,
    /// Digest of prompt, output and context ([`Job::statement_digest`](super::Job::statement_digest)).
    pub statement: String,
    /// Activations that enter the chunk; `None` for the first chunk.
    pub input: Option<FileRef>,
    /// Activations that leave the chunk; `None` for the last chunk.
    pub output: Option<FileRef>,
    /// Link of the chunk before in the job's chain of digests; `None` for the first chunk.
    pub previous: Option<String>,
    /// Link of this chunk in the chain, which covers model, statement, and all chunks up to this one with their
    /// outputs.
    pub link: String,
    /// The proof of the chunk.
    pub proof: FileRef,
    /// Bytes of the proof.
    pub proof_bytes: u64,
    /// Name of the worker that proved the chunk, or `this process`.
    pub device: String,
    /// Milliseconds from the start of the chunk until its proof was written.
    pub milliseconds: u64,
    /// Milliseconds of every phase, by its name.
    pub phases: BTreeMap<String, u64>,
    /// Saturated values by tensor, over all rows; tensors without any are absent.
    pub saturated: Saturations,
}

fn proof_file(chunk: usize) -> String {
    format!("chunk_{chunk}.proof")
}

impl WorkDir {
    pub(super) fn record_path(&self, chunk: usize) -> PathBuf {
        self.dir.join(format!("chunk_{chunk}.json"))
    }

    pub(super) fn proof_path(&self, chunk: usize) -> PathBuf {
        self.dir.join(proof_file(chunk))
    }

    pub(super) fn bad(&self, chunk: usize, path: PathBuf, cause: String) -> WorkError {
        WorkError::Record {
            chunk,
            path,
            cause,
            record: self.record_path(chunk),
        }
    }

    fn activation_ref(&self, i: usize) -> Option<FileRef> {
        let digest = self.job.activations.get(i)?.clone();
        let file = activation_file(i);
        Some(FileRef { file, digest })
    }

    pub(super) fn new_record(
        &self,
        chunk: usize,
        proof: &[u8],
        proved: &ProvedChunk,
        worker: &str,
        time: Duration,
    ) -> ChunkRecord {
        let range = self.chunks[chunk];
        let previous = chunk.checked_sub(1);
        let milliseconds = |(name, seconds): &(String, f64)| (name.clone(), (seconds * 1e3) as u64);
        ChunkRecord {
            version: WORK_VERSION,
            tessera: env!("CARGO_PKG_VERSION").to_owned(),
            chunk,
            chunks: self.chunks.len(),
            layers: [range.start, range.end],
            model: self.job.model.clone(),
            statement: self.job.statement_digest(),
            input: previous.and_then(|i| self.activation_ref(i)),
            output: self.activation_ref(chunk),
            previous: previous.and_then(|i| self.links.get(i).cloned()),
            link: self.links[chunk].clone(),
            proof: FileRef {
                file: proof_file(chunk),
                digest: digest(&[proof]),
            },
            proof_bytes: proof.len() as u64,
            device: worker.to_owned(),
            milliseconds: time.as_millis() as u64,
            phases: proved.phases.iter().map(milliseconds).collect(),
            saturated: proved.saturated.clone(),
        }
    }

    /// Reads the record of a chunk and checks that it belongs to this chunk of this job.
    pub(super) fn record(&self, chunk: usize) -> Result<ChunkRecord, WorkError> {
        let path = self.record_path(chunk);
        let bad = |cause: String| self.bad(chunk, path.clone(), cause);
        let bytes = files::read(&path)?;
        let record: ChunkRecord = sealed::parse(&bytes).map_err(|e| bad(e.to_string()))?;
        let range = self.chunks[chunk];
        let previous = chunk.checked_sub(1);
        let c = &record;
        for (same, what) in [
            (c.version == WORK_VERSION, "version of the work directory"),
            (c.model == self.job.model, "model"),
            (c.statement == self.job.statement_digest(), "prompt or output"),
            (c.chunks == self.chunks.len(), "division in chunks"),
            (c.chunk == chunk, "position"),
            (c.layers == [range.start, range.end], "range of layers"),
            (c.input == previous.and_then(|i| self.activation_ref(i)), "input"),
            (c.output == self.activation_ref(chunk), "output"),
            (
                c.previous.as_ref() == previous.and_then(|i| self.links.get(i)) && c.link == self.links[chunk],
                "chain of digests",
            ),
            (c.proof.file == proof_file(chunk), "proof file"),
        ] {
            if !same {
                return Err(bad(format!("is of another {what}")));
            }
        }
        Ok(record)
    }

    /// Reads the proof that a record names, as it was written, but does not verify it.
    pub(super) fn proof(&self, chunk: usize) -> Result<ChunkProof, WorkError> {
        let bytes = self.proof_bytes(chunk, &self.record(chunk)?)?;
        let malformed = |e| self.bad(chunk, self.proof_path(chunk), format!("is malformed: {e}"));
        ChunkProof::from_bytes(&bytes).map_err(malformed)
    }

    /// Reads the proof of a chunk as it was written; its contents are not looked at.
    pub(super) fn proof_bytes(&self, chunk: usize, record: &ChunkRecord) -> Result<Vec<u8>, WorkError> {
        let path = self.proof_path(chunk);
        let bad = |cause: String| self.bad(chunk, path.clone(), cause);
        let bytes = match files::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return Err(bad(format!("is not readable: {error}"))),
        };
        if bytes.len() as u64 != record.proof_bytes {
            let expected = record.proof_bytes;
            return Err(bad(format!("has {} bytes, expected {expected}", bytes.len())));
        }
        if digest(&[&bytes]) != record.proof.digest {
            return Err(bad(
                "was changed: it does not have the digest of its checkpoint".to_owned()
            ));
        }
        Ok(bytes)
    }
}
