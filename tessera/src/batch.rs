//! Many requests for proofs with one model, which is opened once: requests are lines of JSON, and each has a proof of its own.
//!
//! A batch goes on where it was interrupted, by what the proofs say: a request whose proof is there and verifies is skipped, and
//! every other one is proved.

mod read;
mod request;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use tessera_circuits::statement::Statement;
use tessera_plan::packing::Packed;
use tessera_support::files::{self, FileError, Lock};
use tessera_support::progress::Progress;
use tessera_verifier::length::most_bytes;
use tessera_verifier::proof::Proof as VerifierProof;
use tessera_verifier::verify::{verify_bytes, Verified};

use crate::expected::Difference;
use crate::request::ProofRequest;
use crate::{Error, Model, Proof};

pub use self::read::{read, sampling};
pub use self::request::{BatchError, BatchRequest, Wish};

/// The file that the process which proves a batch holds.
const LOCK_FILE: &str = ".tessera-batch.lock";

/// The outcome of a request.
#[derive(Debug)]
pub enum BatchOutcome {
    /// The request is proved, and the proof is written.
    Proved(Box<Proof>),
    /// The proof was there: it verifies, and is about what the request asks for.
    Present {
        /// The statement that the proof proves.
        statement: Box<Statement>,
        /// Bits of security of the proof.
        security_bits: f64,
        /// Length of the proof.
        proof_bytes: usize,
    },
    /// The model gives another answer than the expected one.
    Differs(Box<Difference>),
    /// The request could not be proved.
    Failed(Error),
}

/// A directory into which this process alone proves requests.
pub struct Batch<'a> {
    model: &'a Model,
    dir: &'a Path,
    _lock: Lock,
}

impl Model {
    /// Makes this process the only one that proves requests into a directory, which is created if there is none.
    ///
    /// # Errors
    /// If the directory cannot be used, or if another process proves into it.
    ///
    /// ```no_run
    /// # use tessera::{batch, Model, Silent};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = Model::open("model")?;
    /// let requests = batch::read(&std::fs::read_to_string("requests.jsonl")?, None)?;
    /// let batch = model.batch("proofs".as_ref())?;
    /// for request in &requests {
    ///     println!("{}: {:?}", request.id, batch.prove(request, &Silent));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch<'a>(&'a self, dir: &'a Path) -> Result<Batch<'a>, Error> {
        files::create_dir(dir)?;
        let lock = Lock::take(&dir.join(LOCK_FILE))?;
        files::remove_unfinished(dir)?;
        Ok(Batch {
            model: self,
            dir,
            _lock: lock,
        })
    }
}

impl Batch<'_> {
    /// Proves a request, unless its proof is there already. Whatever goes wrong with one request keeps no other from being proved.
    pub fn prove(&self, request: &BatchRequest, progress: &dyn Progress) -> BatchOutcome {
        match self.try_to_prove(request, progress) {
            Ok(outcome) => outcome,
            Err(Error::Differs(difference)) => BatchOutcome::Differs(difference),
            Err(error) => BatchOutcome::Failed(error),
        }
    }

    fn try_to_prove(&self, request: &BatchRequest, progress: &dyn Progress) -> Result<BatchOutcome, Error> {
        let (model, path) = (self.model, request.path(self.dir));
        let (tokenizer, options) = (model.tokenizer.as_ref(), &request.options);
        request.wish.check(&model.key)?;
        let read = ProofRequest::new(&model.key, tokenizer, &request.prompt, options)?;
        if let Some((verified, proof_bytes)) = self.proved_before(&path, &read)? {
            let same = verified.context == read.context && verified.hides_activations == read.hide_activations;
            // Nobody can tell from a proof that hides ids which ones it hides.
            let shown = read.hidden_ids.is_none() && !verified.statement.hides_ids();
            if same && shown && read.is_answered_by(&verified.statement, &model.key, tokenizer) {
                return Ok(BatchOutcome::Present {
                    security_bits: verified.security_bits,
                    statement: Box::new(verified.statement),
                    proof_bytes,
                });
            }
        }
        let proof = model.prove_within(&read, options.memory, progress)?;
        proof.write(&path)?;
        Ok(BatchOutcome::Proved(Box::new(proof)))
    }

    /// The statement that the proof in a file proves of this model, and the proof's length; `None` if there is no such proof, or if contracts do not
    /// verify it and are to.
    fn proved_before(&self, path: &Path, read: &ProofRequest) -> Result<Option<(Verified, usize)>, FileError> {
        let found = match fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other,
        };
        let refused = |source| FileError::Write {
            path: path.to_owned(),
            source,
        };
        let found = found.map_err(refused)?;
        if !found.is_file() {
            return Err(refused(std::io::Error::other(
                "something that is no regular file has this name",
            )));
        }
        if found.len() > most_bytes(&self.model.key) as u64 {
            return Ok(None);
        }
        let bytes = files::read(path)?;
        let key = &self.model.key;
        let verified = verify_bytes(key, &bytes).ok().filter(|_| {
            let packed = || VerifierProof::from_bytes(&bytes).is_ok_and(|proof| Packed::new(key, &proof).is_ok());
            !read.for_chain || packed()
        });
        Ok(verified.map(|verified| (verified, bytes.len())))
    }
}
