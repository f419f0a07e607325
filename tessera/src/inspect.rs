//! What a path holds, recognised by its contents: a checkpoint, a model directory, a key or a proof.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tessera_checkpoint::{mistaken_file, mistaken_folder, Checkpoint, Survey, GGUF_MAGIC};
use tessera_circuits::model::WeightFormat;
use tessera_circuits::table_tree::TableArgument;
use tessera_model::directory::KEY_FILE;
use tessera_recipe::{self as recipe, Recipe};
use tessera_support::files::{is_there, parent, FileError};
use tessera_verdict::describe::of_reveal;
use tessera_verifier::codec::{FileKind, KEY_LIMIT};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;

use crate::given::Misplaced;
use crate::model::{LoadError, Model};
use crate::prediction::expected_key;
use crate::setup::SetupError;
use crate::Error;

/// How all files that Tessera writes begin.
const OWN: &[u8] = b"TESS";
/// The file by which a folder is known as a checkpoint in the hub layout.
const CONFIG: &str = "config.json";
/// Bytes by which a file is recognised.
const BEGIN: u64 = 64;
/// The most bytes of a file that is read whole: those of the largest key with its header, and one more, so that a longer file is
/// refused.
const MOST: u64 = KEY_LIMIT as u64 + BEGIN;

/// The contents of a path, as [`inspect`] finds them.
#[non_exhaustive]
pub enum Inspected {
    /// A checkpoint, supported or not: the survey says what cannot be proved.
    Checkpoint {
        /// The folder or the GGUF file.
        path: PathBuf,
        /// What it contains, and what of it cannot be proved.
        survey: Box<Survey>,
    },
    /// A model directory, whose files are whole and belong together.
    Directory {
        /// The model, as [`Model::open`] returns it.
        model: Box<Model>,
        /// How the key says that it was made.
        recipe: Recipe,
    },
    /// A model key.
    Key {
        /// The key.
        key: Box<ModelKey>,
        /// How the key says that it was made.
        recipe: Recipe,
    },
    /// A proof, which is not verified here.
    Proof {
        /// The proof.
        proof: Box<Proof>,
        /// Its length in bytes.
        bytes: usize,
    },
}

/// Finds out what a path holds. A checkpoint may be a folder, its `config.json` alone or a GGUF file.
///
/// # Errors
/// If the path cannot be read, holds something else or something damaged.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspected, Error> {
    let path = path.as_ref();
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    if std::fs::metadata(path).map_err(failed)?.is_dir() {
        return folder(path);
    }
    if path.file_name().is_some_and(|name| name == CONFIG) {
        return checkpoint(parent(path));
    }
    let content = match begin(path).map_err(failed)? {
        (begin, _) if begin.starts_with(&GGUF_MAGIC) => return checkpoint(path),
        (mut begin, rest) => {
            if let (false, Some(problem)) = (begin.starts_with(OWN), mistaken_file(path)) {
                return Err(Misplaced(format!("{} {problem}", path.display())).into());
            }
            rest.take(MOST).read_to_end(&mut begin).map_err(failed)?;
            begin
        }
    };
    inspect_bytes(&path.display().to_string(), &content)
}

/// Finds out what the contents of a file are, a key or a proof; errors call the file `name`.
///
/// # Errors
/// If the contents are something else or damaged.
pub fn inspect_bytes(name: &str, content: &[u8]) -> Result<Inspected, Error> {
    if content.starts_with(&FileKind::Key.magic()) {
        let (key, recipe) = recipe::read_key(content).map_err(|source| LoadError::Key {
            path: name.into(),
            source,
        })?;
        Ok(Inspected::Key {
            key: Box::new(key),
            recipe,
        })
    } else if content.starts_with(&FileKind::PROOF.magic()) {
        let proof = Proof::from_bytes(content).map_err(|source| Error::Proof {
            name: name.to_owned(),
            source,
        })?;
        Ok(Inspected::Proof {
            proof: Box::new(proof),
            bytes: content.len(),
        })
    } else {
        let text = match content.starts_with(&FileKind::Reveal.magic()) {
            true => of_reveal(name),
            false => format!("{name} is neither a model key, nor a proof, nor a GGUF file"),
        };
        Err(Misplaced(text).into())
    }
}

/// The first bytes of a file, which may be larger than memory, and the file behind them.
fn begin(path: &Path) -> io::Result<(Vec<u8>, File)> {
    let mut file = File::open(path)?;
    let mut begin = Vec::new();
    file.by_ref().take(BEGIN).read_to_end(&mut begin)?;
    Ok((begin, file))
}

fn folder(path: &Path) -> Result<Inspected, Error> {
    if path.join(KEY_FILE).exists() {
        let model = Model::open(path)?;
        let recipe = Recipe::of(&model.key).map_err(|e| LoadError::Key {
            path: path.join(KEY_FILE),
            source: e.into(),
        })?;
        return Ok(Inspected::Directory {
            model: Box::new(model),
            recipe,
        });
    }
    if is_there(&path.join(CONFIG)) {
        return checkpoint(path);
    }
    let neither = || {
        let shown = path.display();
        format!("{shown} is neither a model directory (no {KEY_FILE}) nor a checkpoint (no {CONFIG})")
    };
    Err(Misplaced(mistaken_folder(path).unwrap_or_else(neither)).into())
}

fn checkpoint(path: &Path) -> Result<Inspected, Error> {
    let survey = Checkpoint::survey(path).map_err(|source| SetupError::Checkpoint {
        dir: path.to_owned(),
        source,
    })?;
    Ok(Inspected::Checkpoint {
        path: path.to_owned(),
        survey: Box::new(survey),
    })
}

/// The key that set-up would make of a checkpoint, as far as predictions ([`Prediction`](crate::prediction::Prediction)) depend on
/// it: with this hash, and lookup tables proved in this way. `None` if the checkpoint is not supported.
pub fn expected_key_of(survey: &Survey, format: WeightFormat, ways: (Suite, TableArgument)) -> Option<ModelKey> {
    let config = survey
        .config
        .as_ref()
        .filter(|c| is_supported(survey) && c.check().is_ok())?;
    Some(expected_key(config, format, ways))
}

/// Whether nothing that there is of a checkpoint prevents a set-up. A checkpoint that lacks nothing but its weights is supported, because
/// `config.json` says what they have to be.
pub fn is_supported(survey: &Survey) -> bool {
    let config_alone = !survey.weights && survey.unsupported.is_empty();
    (survey.is_supported() || config_alone) && survey.tokenizer.is_ok()
}
