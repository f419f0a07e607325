//! Paths that were given in the place of something else: how they are recognised, and how to go on.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tessera_model::directory::KEY_FILE;
use tessera_verifier::codec::FileKind;
use thiserror::Error;

/// The job in a work directory.
pub const JOB_FILE: &str = "job.json";

/// A path that holds something else than it was given for; the text says what it holds, and what to give instead.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Misplaced(pub(crate) String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Key,
    Proof,
    ModelDir,
    Checkpoint,
    WorkDir,
    Other,
}

impl Kind {
    /// By names in a directory, or by how a file begins.
    fn of(path: &Path) -> Self {
        if path.is_dir() {
            let names = [
                (KEY_FILE, Self::ModelDir),
                (JOB_FILE, Self::WorkDir),
                ("config.json", Self::Checkpoint),
            ];
            let found = names.into_iter().find(|(name, _)| path.join(name).exists());
            return found.map_or(Self::Other, |(_, kind)| kind);
        }
        if !path.is_file() {
            return Self::Other;
        }
        let mut magic = [0; 8];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
        match read {
            Ok(()) if magic == FileKind::Key.magic() => Self::Key,
            Ok(()) if magic == FileKind::PROOF.magic() => Self::Proof,
            _ => Self::Other,
        }
    }
}

/// Refuses a path that is known to be something else than a model directory.
pub fn model_dir(dir: &Path) -> Result<(), Misplaced> {
    let shown = dir.display();
    let partial = format!("{shown}.partial");
    let text = match Kind::of(dir) {
        Kind::Checkpoint => format!(
            "{shown} is a checkpoint, not a model directory: make one with tessera setup {shown} --out MODEL, and give MODEL"
        ),
        Kind::Key => format!("{shown} is a model key without weights: give the directory that setup wrote"),
        Kind::Proof => format!("{shown} is a proof: give the directory that setup wrote"),
        Kind::WorkDir => format!("{shown} is a work directory, not a model directory: go on with tessera resume {shown}"),
        Kind::Other if !dir.exists() && Path::new(&partial).is_dir() => format!(
            "{shown} is not there, but {partial}, a set-up that was interrupted: finish it with the same tessera setup"
        ),
        Kind::Other if !dir.exists() => format!("{shown} is not there: give the directory that setup wrote"),
        Kind::Other if dir.is_dir() => {
            format!("{shown} is not a model directory, it has no {KEY_FILE}: give the directory that setup wrote")
        }
        Kind::ModelDir | Kind::Other => return Ok(()),
    };
    Err(Misplaced(text))
}

/// Refuses a path that is known to be something else than a checkpoint.
pub fn checkpoint(path: &Path) -> Result<(), Misplaced> {
    let shown = path.display();
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let text = match (Kind::of(path), extension) {
        (Kind::ModelDir, _) => format!(
            "{shown} is a model directory, which setup has made already, and not a checkpoint: give the checkpoint that it was made from, \
             or prove with it (tessera prove --model {shown})"
        ),
        (Kind::Key, _) => format!("{shown} is a model key, not a checkpoint"),
        (Kind::Proof, _) => format!("{shown} is a proof, not a checkpoint"),
        (Kind::Other, "safetensors") if path.is_file() => {
            format!("{shown} is a file of tensors: give the directory that has it beside config.json")
        }
        (Kind::Other, "bin" | "pth" | "pt") if path.is_file() => {
            let advice = tessera_checkpoint::CONVERT;
            format!("{shown} is a PyTorch checkpoint: {advice}")
        }
        _ => return Ok(()),
    };
    Err(Misplaced(text))
}

/// Refuses a path that is known to be something else than a model key.
pub fn key(path: &Path) -> Result<(), Misplaced> {
    let shown = path.display();
    let text = match Kind::of(path) {
        Kind::Proof => format!("{shown} is a proof, not a model key: --key takes the file {KEY_FILE} that setup wrote"),
        Kind::ModelDir => format!(
            "{shown} is a model directory: its key is {}",
            path.join(KEY_FILE).display()
        ),
        Kind::Checkpoint => {
            format!("{shown} is a checkpoint: only a model directory, which setup makes, has a {KEY_FILE}")
        }
        Kind::Other if path.is_file() => {
            format!("{shown} is not a model key: --key takes the file {KEY_FILE} that setup wrote")
        }
        _ => return Ok(()),
    };
    Err(Misplaced(text))
}
