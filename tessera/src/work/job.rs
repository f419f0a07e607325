//! The job of a work directory.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tessera_circuits::chunk::{Boundary, Chunk, PublicBoundary};
use tessera_circuits::statement::Statement;
use tessera_verifier::context::Context;
use tessera_verifier::key::ModelKey;

use super::error::WorkError;
use super::files::{activation_digest, activation_file, digest};
use super::sealed;
use crate::model::Model;
use tessera_prover::public_boundary;
use tessera_support::files;

pub use super::files::WORK_VERSION;
pub use crate::given::JOB_FILE;

/// A statement to prove, and the chunks to prove it in. [`WorkDir::create`] writes it once, before any chunk is proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Version of the files of the work directory, [`WORK_VERSION`].
    pub version: u32,
    /// Version of the program that wrote the job.
    pub tessera: String,
    /// Id of the model, in hexadecimal.
    pub model: String,
    /// Absolute path of the model directory that the job was created with.
    #[serde(with = "tessera_support::paths")]
    pub model_dir: PathBuf,
    /// Absolute path of the file that gets the composed proof, or `-` for standard output.
    #[serde(with = "tessera_support::paths")]
    pub out: PathBuf,
    /// Token ids of the prompt.
    pub prompt: Vec<u32>,
    /// The most tokens that were to be generated.
    pub tokens: usize,
    /// Whether generation went on past tokens that end a text.
    pub ignore_eos: bool,
    /// Token ids that the model generated.
    pub output: Vec<u32>,
    /// The context of the proof, as text; `None` if it has none.
    pub context: Option<String>,
    /// Number of layers of every chunk, in order.
    pub layers: Vec<usize>,
    /// Digests, in hexadecimal, of the activations that leave each chunk but the last; where proofs have a commitment to them, its root.
    pub activations: Vec<String>,
}

impl Job {
    /// The statement that is proved: prompt and output.
    pub fn statement(&self) -> Statement {
        Statement {
            prompt: self.prompt.clone(),
            output: self.output.clone(),
        }
    }

    /// The context of the proof; `None` if it has none. [`WorkDir::open`] refuses a job whose context is malformed.
    pub fn context(&self) -> Option<Context> {
        self.context.as_ref().and_then(|context| context.parse().ok())
    }

    /// Digest of prompt, output and context, in hexadecimal.
    pub fn statement_digest(&self) -> String {
        let words = |ids: &[u32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
        let context = self.context.as_deref().unwrap_or_default();
        digest(&[
            b"statement",
            &words(&self.prompt),
            &words(&self.output),
            context.as_bytes(),
        ])
    }

    /// The chain of digests that gives every chunk its place: link `i` covers model, statement, all chunks up to `i`
    /// and the activations that leave them.
    pub(super) fn links(&self) -> Vec<String> {
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
    pub(super) dir: PathBuf,
    /// The job, as it was read.
    pub job: Job,
    /// The chunks that the job divides the model into, in order.
    pub chunks: Vec<Chunk>,
    pub(super) links: Vec<String>,
}

impl WorkDir {
    /// Reads the job of a work directory and checks that it is whole and consistent.
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
        let context = job.context.as_ref().map(|context| context.parse::<Context>());
        context
            .transpose()
            .map_err(|e| impossible(format!("its context: {e}")))?;
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

    /// Path of the work directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Checks that the job is about this model, and that its chunks and its statement fit the model.
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

    /// Reads the activations that leave chunk `i`, and checks them against the job.
    pub(super) fn activation(&self, i: usize, key: &ModelKey) -> Result<Boundary, WorkError> {
        let (path, rows) = (self.dir.join(activation_file(i)), self.job.statement().rows());
        let bytes = files::read(&path)?;
        let values = bytes.as_chunks::<2>().0.iter().map(|v| i16::from_le_bytes(*v));
        let activation = Boundary(values.collect());
        // A file of another length may be a long one, which is not worth a commitment.
        let got = match bytes.len() == 2 * rows * key.config.hidden {
            true => activation_digest(&public_boundary(key, rows, &activation), &bytes),
            false => digest(&[&bytes]),
        };
        let expected = self.job.activations[i].clone();
        match got == expected {
            true => Ok(activation),
            false => Err(WorkError::Activation { path, got, expected }),
        }
    }

    /// Boundaries as a proof has them: roots are those of the job, all others are read and checked against the job.
    pub(super) fn boundaries(&self, key: &ModelKey) -> Result<Vec<PublicBoundary>, WorkError> {
        let rows = self.job.statement().rows();
        let boundary = |(i, digest): (usize, &String)| {
            if key.boundary(rows).is_none() {
                return self.activation(i, key).map(PublicBoundary::Clear);
            }
            let mut root = [0; 32];
            match hex::decode_to_slice(digest, &mut root) {
                Ok(()) => Ok(PublicBoundary::Committed(root)),
                Err(error) => Err(WorkError::Job {
                    path: self.dir.join(JOB_FILE),
                    reason: format!("root {i} of its activations: {error}"),
                }),
            }
        };
        self.job.activations.iter().enumerate().map(boundary).collect()
    }
}
