//! The unfinished model directory: what an interrupted set-up leaves, and what a second one takes from it.
//!
//! `<out>.partial` is the model directory in the making, with a file that says of which inputs it is made and which
//! steps are finished. It gets its name when nothing is missing.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use blake2::{Blake2s256, Digest as _};
use serde::{Deserialize, Serialize};
use tessera_circuits::model::ModelConfig;

use super::SetupError;
use tessera_checkpoint::Checkpoint;
use tessera_kernels::digest::FileDigest;
use tessera_quantise::{Quantisation, QuantiseOptions};
use tessera_support::files::{self, FileError, Lock};

const STATE_FILE: &str = "setup.json";
const LOCK_FILE: &str = "setup.lock";

/// Everything that determines the result of a set-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Inputs {
    program: String,
    config: ModelConfig,
    options: QuantiseOptions,
    /// Blake2s-256 of the calibration sequences.
    calibration: String,
    files: Vec<InputFile>,
}

/// A file of tensors. The tensors are not read to recognise the file: once changed, it has another time or length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct InputFile {
    #[serde(with = "tessera_support::paths")]
    path: PathBuf,
    bytes: u64,
    /// Nanoseconds since 1970 of the last change, 0 where the system does not tell.
    modified: u128,
    /// Blake2s-256 of the bytes before the tensors.
    header: String,
}

impl Inputs {
    pub fn of(checkpoint: &Checkpoint, options: QuantiseOptions, calibration: &[Vec<u32>]) -> Result<Self, FileError> {
        let mut ids = Blake2s256::new();
        for sequence in calibration {
            ids.update((sequence.len() as u64).to_le_bytes());
            sequence.iter().for_each(|id| ids.update(id.to_le_bytes()));
        }
        let file = |(path, header): (&Path, &[u8])| {
            let read = |source| FileError::Read {
                path: path.to_owned(),
                source,
            };
            let path = std::fs::canonicalize(path).map_err(read)?;
            let metadata = std::fs::metadata(&path).map_err(read)?;
            let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
            Ok(InputFile {
                path,
                bytes: metadata.len(),
                modified: modified.map_or(0, |t| t.as_nanos()),
                header: hex::encode(Blake2s256::digest(header)),
            })
        };
        Ok(Self {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            config: checkpoint.config().clone(),
            options,
            calibration: hex::encode(ids.finalize()),
            files: checkpoint.files().map(file).collect::<Result<_, FileError>>()?,
        })
    }
}

/// The finished steps of a set-up, and its inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub inputs: Inputs,
    pub quantisation: Quantisation,
    /// Digest of the weights file, once it is written.
    pub weights: Option<FileDigest>,
    /// Root of the tree file, once the weights are committed to.
    pub weights_root: Option<[u8; 32]>,
}

/// An unfinished model directory, held by this process.
pub(super) struct Partial {
    target: PathBuf,
    dir: PathBuf,
    pub state: State,
    _lock: Lock,
}

/// The directory in which a set-up makes the model directory `target` until it is finished: `<target>.partial`.
pub fn partial_dir(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

impl Partial {
    /// Takes up the directory that an earlier set-up of the same inputs has left; removes one that a set-up of other
    /// inputs has left, and adds a note that says so. Errors if no set-up made the directory.
    pub fn resume(target: &Path, inputs: &Inputs, notes: &mut Vec<String>) -> Result<Option<Self>, SetupError> {
        let dir = partial_dir(target);
        if files::check_free(&dir).is_ok() {
            return Ok(None);
        }
        let state = dir.join(STATE_FILE);
        if !state.exists() && !dir.join(LOCK_FILE).exists() {
            return Err(FileError::Exists { path: dir }.into());
        }
        let lock = Lock::take(&dir.join(LOCK_FILE))?;
        let read = files::read(&state).ok();
        let state: Option<State> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        match state.filter(|state| state.inputs == *inputs) {
            Some(state) => {
                notes.push(format!("resumed from {}", dir.display()));
                files::remove_unfinished(&dir)?;
                Ok(Some(Self {
                    target: target.to_owned(),
                    dir,
                    state,
                    _lock: lock,
                }))
            }
            None => {
                notes.push(format!(
                    "discarded {}: it was of another checkpoint or other options",
                    dir.display()
                ));
                files::remove_dir(&dir)?;
                Ok(None)
            }
        }
    }

    /// Starts an unfinished directory.
    pub fn create(target: &Path, inputs: Inputs, quantisation: Quantisation) -> Result<Self, SetupError> {
        let dir = partial_dir(target);
        files::create_dir(&dir)?;
        let partial = Self {
            target: target.to_owned(),
            _lock: Lock::take(&dir.join(LOCK_FILE))?,
            dir,
            state: State {
                inputs,
                quantisation,
                weights: None,
                weights_root: None,
            },
        };
        partial.save()?;
        Ok(partial)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Records what is finished.
    pub fn save(&self) -> Result<(), SetupError> {
        let json = serde_json::to_vec_pretty(&self.state).map_err(std::io::Error::other);
        let path = self.dir.join(STATE_FILE);
        let json = json.map_err(|source| FileError::Write {
            path: path.clone(),
            source,
        })?;
        Ok(files::write(&path, &json)?)
    }

    /// Gives the finished directory its name, and returns it.
    pub fn finish(self) -> Result<PathBuf, FileError> {
        files::check_free(&self.target)?;
        files::remove(&self.dir.join(STATE_FILE))?;
        files::remove(&self.dir.join(LOCK_FILE))?;
        files::rename_dir(&self.dir, &self.target)?;
        Ok(self.target)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use tessera_samples::FIXTURE;

    #[test]
    fn paths_that_are_not_utf_8_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = [b"a\xff", b"a\xfe"].map(|name| {
            let odd = dir.path().join(OsStr::from_bytes(name));
            std::os::unix::fs::symlink(FIXTURE, &odd).unwrap();
            let own = dir.path().join(OsStr::from_bytes(&[name.as_slice(), b"own"].concat()));
            std::fs::create_dir(&own).unwrap();
            for file in ["config.json", "model.safetensors"] {
                std::fs::copy(odd.join(file), own.join(file)).unwrap();
            }
            let checkpoint = Checkpoint::open(&own).unwrap();
            Inputs::of(&checkpoint, QuantiseOptions::default(), &[]).unwrap()
        });
        let written = serde_json::to_vec(&inputs[0]).unwrap();
        let read: Inputs = serde_json::from_slice(&written).unwrap();
        assert!(read == inputs[0] && read != inputs[1]);
    }
}
