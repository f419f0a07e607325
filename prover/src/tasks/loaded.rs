//! A model directory, opened and checked: everything that proving and generating need.

use std::path::{Path, PathBuf};

use tessera_recipe::KeyFileError;
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::{ModelId, ModelKey};
use thiserror::Error;

use crate::intake::checkpoint::Checkpoint;
use crate::intake::tokenizer::{Tokenizer, TokenizerError, TokenizerFiles};
use crate::model::directory::{self, ModelDirError, CODEWORD_FILE, KEY_FILE, TREE_FILE};
use crate::model::QuantisedModel;
use crate::prove::opening::{Codeword, OpeningProverError, Tree};
use crate::prove::ProverModel;
use crate::quantise::comparison::{measure, FidelityError, FidelityReport};
use crate::quantise::vectors::{measure_vectors, VectorReport};
use crate::support::files::{self, FileError};
use crate::support::progress::Progress;
use crate::tasks::plan::Choices;

/// A model directory or key that cannot be used.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    ModelDir(#[from] ModelDirError),
    #[error("{}: {source}{}", path.display(), source.advice())]
    Key { path: PathBuf, source: KeyFileError },
    #[error("{}: {source}", path.display())]
    Codec { path: PathBuf, source: CodecError },
    #[error("{} is the key of another model: its {what} differ from those in {}", key.display(), dir.display())]
    OtherModel {
        key: PathBuf,
        dir: PathBuf,
        what: &'static str,
    },
    #[error(transparent)]
    Codeword(#[from] OpeningProverError),
    #[error("{}: {source}", path.display())]
    Tokenizer { path: PathBuf, source: TokenizerError },
}

/// Reads a model key. One whose recipe no program writes is refused, too.
pub fn read_key(path: &Path) -> Result<ModelKey, LoadError> {
    let bytes = files::read(path)?;
    let read = tessera_recipe::read_key(&bytes).map_err(|source| LoadError::Key {
        path: path.to_owned(),
        source,
    });
    Ok(read?.0)
}

/// Digest of a key that was read from `path`.
pub fn key_id(key: &ModelKey, path: &Path) -> Result<ModelId, LoadError> {
    key.id().map_err(|source| LoadError::Codec {
        path: path.to_owned(),
        source,
    })
}

/// The tokenizer in a key that was read from `path`; `None` if the model has none.
pub fn key_tokenizer(key: &ModelKey, path: &Path) -> Result<Option<Tokenizer>, LoadError> {
    if key.tokenizer.is_empty() {
        return Ok(None);
    }
    let config = Some(key.tokenizer_config.as_slice()).filter(|c| !c.is_empty());
    let tokenizer = Tokenizer::from_bytes(&key.tokenizer, config);
    tokenizer.map(Some).map_err(|source| LoadError::Tokenizer {
        path: path.to_owned(),
        source,
    })
}

/// An open model directory.
pub struct Model {
    pub dir: PathBuf,
    pub key: ModelKey,
    pub id: ModelId,
    pub quantised: QuantisedModel,
    pub codeword: Codeword,
    pub tokenizer: Option<Tokenizer>,
    choices: Choices,
}

impl Model {
    /// Opens a model directory and checks that its files are whole and belong together. Weights stay on disk. Only the
    /// contents of the codeword are not read here, but checked where they are opened.
    pub fn open(dir: &Path) -> Result<Self, LoadError> {
        let path = dir.join(KEY_FILE);
        let key = read_key(&path)?;
        let tokenizer = key_tokenizer(&key, &path)?;
        Self::of_key(dir, key, tokenizer)
    }

    /// The same with a key that was read from the directory, and its tokenizer ([`key_tokenizer`]).
    pub fn of_key(dir: &Path, key: ModelKey, tokenizer: Option<Tokenizer>) -> Result<Self, LoadError> {
        let key_path = dir.join(KEY_FILE);
        let id = key_id(&key, &key_path)?;
        let quantised = directory::load_model(dir)?;
        let other = |what| LoadError::OtherModel {
            key: key_path.clone(),
            dir: dir.to_owned(),
            what,
        };
        if quantised.config != key.config {
            return Err(other("dimensions"));
        }
        if quantised.params != key.params {
            return Err(other("parameters"));
        }
        let files = TokenizerFiles::stored(dir).map_err(|source| LoadError::Tokenizer {
            path: dir.to_owned(),
            source,
        })?;
        let [tokenizer_file, config_file] = [files.tokenizer, files.config].map(Option::unwrap_or_default);
        if (&tokenizer_file, &config_file) != (&key.tokenizer, &key.tokenizer_config) {
            return Err(other("tokenizer files"));
        }
        let tree = Tree::read(
            key.header.hash_suite,
            &dir.join(TREE_FILE),
            &key.weights,
            &key.weights_root,
        )?;
        let values = dir.join(CODEWORD_FILE);
        let codeword = match values.exists() {
            true => Codeword::with_file(key.weights, tree, &values)?,
            false => Codeword::new(key.weights, tree),
        };
        Ok(Self {
            dir: dir.to_owned(),
            key,
            id,
            quantised,
            codeword,
            tokenizer,
            choices: Choices::default(),
        })
    }

    /// The same model, used as a plan says.
    #[must_use]
    pub fn with_choices(mut self, choices: Choices) -> Self {
        self.quantised.weights = self.quantised.weights.with_residency(choices.residency);
        self.choices = choices;
        self
    }

    /// How it is used.
    pub const fn choices(&self) -> Choices {
        self.choices
    }

    /// The model as the prover takes it.
    pub fn prover(&self) -> ProverModel<'_> {
        ProverModel {
            key: &self.key,
            id: self.id,
            quantised: &self.quantised,
            codeword: &self.codeword,
        }
    }

    /// Runs it and the float models of `checkpoint` on every window, and compares their distributions at every position.
    pub fn compare(
        &self,
        checkpoint: &Checkpoint,
        texts: &[Vec<u32>],
        progress: &dyn Progress,
    ) -> Result<FidelityReport, FidelityError> {
        self.check_origin(checkpoint)?;
        let report = measure(&self.quantised, checkpoint, texts, progress)?;
        progress.done();
        Ok(report)
    }

    /// The same of an encoder: compares the vectors of all texts.
    pub fn compare_vectors(
        &self,
        checkpoint: &Checkpoint,
        texts: &[Vec<u32>],
        progress: &dyn Progress,
    ) -> Result<VectorReport, FidelityError> {
        self.check_origin(checkpoint)?;
        let report = measure_vectors(&self.quantised, checkpoint, texts, progress)?;
        progress.done();
        Ok(report)
    }

    /// A checkpoint that is compared with the model has its dimensions.
    fn check_origin(&self, checkpoint: &Checkpoint) -> Result<(), FidelityError> {
        match checkpoint.config() == &self.key.config {
            true => Ok(()),
            false => Err(FidelityError::OtherModel {
                model: self.dir.clone(),
            }),
        }
    }

    /// Bytes of all files of the directory.
    pub fn disk_bytes(&self) -> Result<u64, FileError> {
        directory_bytes(&self.dir)
    }
}

/// Bytes of all files of a directory.
pub fn directory_bytes(dir: &Path) -> Result<u64, FileError> {
    let failed = |source| FileError::Read {
        path: dir.to_owned(),
        source,
    };
    let mut total = 0;
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        total += entry.and_then(|e| e.metadata()).map_err(failed)?.len();
    }
    Ok(total)
}
