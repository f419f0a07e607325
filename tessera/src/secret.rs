//! Secrets of proofs that leave room for reveals, and reveals.
//!
//! A secret is a file of its owner alone: everything that a proof commits to, its ids, and a counter of the reveals that were made. Whoever has it reads all
//! that the proof hides. The counter is on disk before a reveal leaves this module, so that no crash makes one reveal more than the proof has room for. A
//! copy of the file has a counter of its own, and undoes that.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tessera_circuits::statement::{Statement, HIDDEN};
use tessera_prover::hiding::Kept;
use tessera_prover::reveal::{reveal, RevealProverError};
use tessera_support::files::{AtomicFile, FileError};
use tessera_verdict::Key;
use tessera_verifier::proof::Proof as Proved;
use tessera_verifier::reveal::proof_digest;
use tessera_verifier::suite::Digest;
use tessera_verifier::verify::{verify_bytes, VerifyError};
use thiserror::Error;

use crate::answer::Proof;

/// How a secret begins, and its version.
const MAGIC: &[u8; 8] = b"TESSSEC\0";
const VERSION: u32 = 1;
/// Where the counter is: behind magic, version and the number of reveals.
const COUNTER: u64 = 16;
/// The most ids of a text.
const MOST_IDS: u64 = 1 << 32;

/// Why ids are not revealed.
#[derive(Debug, Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum SecretError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot use {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is no secret of a proof: give the file that prove --reveals N --secret FILE wrote", path.display())]
    NotSecret { path: PathBuf },
    #[error("{} is a secret of version {got}, but this program reads version {VERSION}: use the version of Tessera that made it", path.display())]
    Version { path: PathBuf, got: u32 },
    #[error("{} is damaged: {source}", path.display())]
    Damaged { path: PathBuf, source: io::Error },
    #[error("{} is the secret of another proof", path.display())]
    OtherProof { path: PathBuf },
    #[error("{} is damaged: it says that the proof has room for {}, but the proof says {got}", path.display(), tessera_verdict::rows::count(*said, "reveal"))]
    Room { path: PathBuf, said: usize, got: usize },
    #[error(
        "the secret of this proof was written already: with two of them, nobody would know how many reveals were made"
    )]
    Written,
    #[error("{} is spent: the proof has room for {}, and so many were made; one more would undo what the proof hides", path.display(), tessera_verdict::rows::count(*reveals, "reveal"))]
    Spent { path: PathBuf, reveals: usize },
    #[error("the proof is not accepted: {0}")]
    Proof(#[from] VerifyError),
    #[error("no id is hidden in the {0} of this proof")]
    NothingHidden(&'static str),
    #[error("{}: {source}", path.display())]
    Reveal { path: PathBuf, source: RevealProverError },
}

/// Ids of a text that are to be revealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From one position to another, which is not among them; the first id of the prompt has position 0, and the output follows the prompt.
    Positions {
        /// The first.
        first: usize,
        /// The one behind the last.
        end: usize,
    },
    /// All hidden ids of the prompt.
    Prompt,
    /// All hidden ids of the output.
    Output,
}

impl Span {
    /// The positions, of which those that are named by number need not be hidden.
    fn positions(self, shown: &Statement) -> Result<Vec<usize>, SecretError> {
        let prompt = shown.prompt.len();
        let hidden = |of_prompt: bool| -> Vec<usize> {
            let hidden = shown.tokens().enumerate().filter(|(_, id)| *id == HIDDEN);
            let own = hidden.filter(|(at, _)| (*at < prompt) == of_prompt);
            own.map(|(at, _)| at).collect()
        };
        match self {
            Self::Positions { first, end } => Ok((first..end).collect()),
            Self::Prompt => Some(hidden(true))
                .filter(|own| !own.is_empty())
                .ok_or(SecretError::NothingHidden("prompt")),
            Self::Output => Some(hidden(false))
                .filter(|own| !own.is_empty())
                .ok_or(SecretError::NothingHidden("output")),
        }
    }
}

/// A reveal that was made.
#[derive(Clone, Debug)]
pub struct Reveal {
    /// The reveal, as verifiers take it.
    pub bytes: Vec<u8>,
    /// Positions, each with its id.
    pub ids: Vec<(usize, u32)>,
    /// The statement as it is known with the proof and this reveal.
    pub statement: Statement,
    /// For how many reveals there is room left.
    pub left: usize,
}

impl Proof {
    /// Whether there is a secret, which reveals take: if the proof leaves room for any.
    pub const fn has_secret(&self) -> bool {
        self.report.kept.is_some()
    }

    /// Writes the secret to a new file that nobody else can read. Without one, the proof leaves no room for reveals, and nothing is written. A secret is written
    /// once, because each file counts its own reveals.
    ///
    /// # Errors
    /// If the file cannot be written, or is there already, or if the secret of this proof, or of a clone of it, was written before.
    pub fn write_secret(&self, path: impl AsRef<Path>) -> Result<(), SecretError> {
        let path = path.as_ref();
        let Some(kept) = &self.report.kept else { return Ok(()) };
        let written = kept.take(|kept| self.write_kept(kept, path))?;
        written.ok_or(SecretError::Written)
    }

    fn write_kept(&self, kept: &Kept, path: &Path) -> Result<(), SecretError> {
        let hidden = self.report.proof.hidden.as_ref();
        let reveals = hidden.map_or(0, |own| own.reveals);
        let failed = |source| SecretError::Io {
            path: path.to_path_buf(),
            source,
        };
        let mut file = BufWriter::new(AtomicFile::create_private(path)?);
        let ids: Vec<u32> = self.report.statement.tokens().collect();
        let mut write = || {
            file.write_all(MAGIC)?;
            for word in [VERSION, reveals, 0] {
                file.write_all(&word.to_le_bytes())?;
            }
            file.write_all(&self.report.digest)?;
            file.write_all(&(ids.len() as u64).to_le_bytes())?;
            for id in &ids {
                file.write_all(&id.to_le_bytes())?;
            }
            kept.write(&mut file)?;
            file.flush()
        };
        write().map_err(failed)?;
        let file = file.into_inner().map_err(|e| failed(e.into_error()))?;
        Ok(file.commit()?)
    }
}

/// A secret that is open, and held until it is dropped.
struct Secret<'a> {
    path: &'a Path,
    file: File,
    /// For how many reveals the proof has room.
    reveals: u32,
    /// How many were made.
    made: u32,
    digest: Digest,
}

impl<'a> Secret<'a> {
    /// Opens a secret, and waits for other processes that hold it.
    fn open(path: &'a Path) -> Result<Self, SecretError> {
        let failed = |source| SecretError::Io {
            path: path.to_path_buf(),
            source,
        };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        file.lock().map_err(failed)?;
        let mut header = [0; COUNTER as usize + 4];
        let mut digest = Digest::default();
        let read = file.read_exact(&mut header);
        let read = read.and_then(|()| file.read_exact(&mut digest));
        let not_secret = || SecretError::NotSecret {
            path: path.to_path_buf(),
        };
        read.map_err(|_| not_secret())?;
        let (magic, words) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(not_secret());
        }
        let mut words = words.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let mut word = || words.next().unwrap_or_default();
        let [got, reveals, made] = std::array::from_fn(|_| word());
        if got != VERSION {
            let path = path.to_path_buf();
            return Err(SecretError::Version { path, got });
        }
        Ok(Self {
            path,
            file,
            reveals,
            made,
            digest,
        })
    }

    /// The ids of the text, and what was kept.
    fn read(&mut self) -> Result<(Vec<u32>, Kept), SecretError> {
        let mut file = BufReader::new(&self.file);
        let mut read = || {
            let mut count = [0; 8];
            file.read_exact(&mut count)?;
            let count = u64::from_le_bytes(count);
            if count > MOST_IDS {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            let mut id = || {
                let mut word = [0; 4];
                file.read_exact(&mut word).map(|()| u32::from_le_bytes(word))
            };
            let ids = (0..count).map(|_| id()).collect::<io::Result<Vec<u32>>>()?;
            Ok((ids, Kept::read(&mut file)?))
        };
        read().map_err(|source| SecretError::Damaged {
            path: self.path.to_path_buf(),
            source,
        })
    }

    /// Counts a reveal, on disk; returns for how many there is room left.
    fn count(&mut self) -> Result<usize, SecretError> {
        let made = self.made + 1;
        let mut write = || {
            self.file.seek(SeekFrom::Start(COUNTER))?;
            self.file.write_all(&made.to_le_bytes())?;
            self.file.sync_all()
        };
        write().map_err(|source| SecretError::Io {
            path: self.path.to_path_buf(),
            source,
        })?;
        self.made = made;
        Ok(self.reveals.saturating_sub(made) as usize)
    }
}

/// Reveals ids that a proof hides, with the secret that was written with the proof. Each call that succeeds takes one of the reveals that the proof has room for.
///
/// # Errors
/// If the proof is not accepted, if the secret is not its secret or is spent, or if these ids are not hidden: no reveal is taken.
pub fn reveal_ids(key: &Key, proof: &[u8], secret: impl AsRef<Path>, spans: &[Span]) -> Result<Reveal, SecretError> {
    let path = secret.as_ref();
    let key = key.model_key();
    let verified = verify_bytes(key, proof)?;
    let mut positions = Vec::new();
    for span in spans {
        positions.extend(span.positions(&verified.statement)?);
    }
    positions.sort_unstable();
    positions.dedup();
    let mut secret = Secret::open(path)?;
    if secret.digest != proof_digest(key.header.hash_suite, proof) {
        let path = path.to_path_buf();
        return Err(SecretError::OtherProof { path });
    }
    // Nothing else vouches for this number.
    let (said, got) = (secret.reveals as usize, verified.reveals);
    if said != got {
        let path = path.to_path_buf();
        return Err(SecretError::Room { path, said, got });
    }
    if secret.made >= secret.reveals {
        let (path, reveals) = (path.to_path_buf(), secret.reveals as usize);
        return Err(SecretError::Spent { path, reveals });
    }
    let (ids, kept) = secret.read()?;
    // A position behind the text is refused by name below.
    let id = |at: usize| (at, ids.get(at).copied().unwrap_or_default());
    let ids: Vec<(usize, u32)> = positions.into_iter().map(id).collect();
    let decoded = Proved::from_bytes(proof).map_err(VerifyError::from)?;
    let made = reveal(key, &decoded, proof, &kept, ids.clone());
    let bytes = made.map_err(|source| SecretError::Reveal {
        path: path.to_path_buf(),
        source,
    })?;
    Ok(Reveal {
        left: secret.count()?,
        statement: verified.statement.revealing(&ids),
        bytes,
        ids,
    })
}

#[cfg(test)]
mod tests;
