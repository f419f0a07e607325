//! A model directory, opened and checked: everything that proving and generating need.

use std::path::{Path, PathBuf};

use tessera_recipe::KeyFileError;
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::{ModelId, ModelKey};
use thiserror::Error;

use crate::plan::Choices;
use tessera_checkpoint::Checkpoint;
use tessera_circuits::statement::Statement;
use tessera_model::directory::{self, ModelDirError, CODEWORD_FILE, KEY_FILE, TREE_FILE};
use tessera_model::QuantisedModel;
use tessera_prover::opening::{Codeword, OpeningProverError, Tree};
use tessera_prover::vectors::Vectors;
use tessera_prover::ProverModel;
use tessera_quantise::comparison::{measure, FidelityError, FidelityReport};
use tessera_quantise::vectors::{measure_vectors, VectorReport};
use tessera_support::files::{self, FileError};
use tessera_support::heap;
use tessera_support::progress::Progress;
use tessera_text::tokenizer::{Tokenizer, TokenizerError, TokenizerFiles};
use tessera_verdict::claim::Claim;

/// A model directory or key that cannot be used.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file of the model directory is missing, damaged or of another version.
    #[error(transparent)]
    ModelDir(#[from] ModelDirError),
    /// The key cannot be used.
    #[error("{}: {source}{}", path.display(), source.advice())]
    Key {
        /// The key's file.
        path: PathBuf,
        /// The problem.
        source: KeyFileError,
    },
    /// The key cannot be encoded again, so it has no id.
    #[error("{}: {source}", path.display())]
    Codec {
        /// The key's file.
        path: PathBuf,
        /// The problem.
        source: CodecError,
    },
    /// The key and the other files of a directory belong to different models.
    #[error("{} is the key of another model: its {what} differ from those in {}", key.display(), dir.display())]
    OtherModel {
        /// The key's file.
        key: PathBuf,
        /// The model directory.
        dir: PathBuf,
        /// The part that differs, in the plural.
        what: &'static str,
    },
    /// The tree or the codeword of the weights cannot be used.
    #[error(transparent)]
    Codeword(#[from] OpeningProverError),
    /// The tokenizer cannot be used.
    #[error("{}: {source}", path.display())]
    Tokenizer {
        /// The key's file, or the model directory.
        path: PathBuf,
        /// The problem.
        source: TokenizerError,
    },
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

/// The digest of a key that was read from `path`.
pub fn key_id(key: &ModelKey, path: &Path) -> Result<ModelId, LoadError> {
    key.id().map_err(|source| LoadError::Codec {
        path: path.to_owned(),
        source,
    })
}

/// The tokenizer in a key that was read from `path`; `None` if the model has none.
pub fn key_tokenizer(key: &ModelKey, path: &Path) -> Result<Option<Tokenizer>, LoadError> {
    read_tokenizer(key).map_err(|source| LoadError::Tokenizer {
        path: path.to_owned(),
        source,
    })
}

/// The tokenizer in a key; `None` if the model has none.
pub(crate) fn read_tokenizer(key: &ModelKey) -> Result<Option<Tokenizer>, TokenizerError> {
    if key.tokenizer.is_empty() {
        return Ok(None);
    }
    let config = Some(key.tokenizer_config.as_slice()).filter(|c| !c.is_empty());
    let tokenizer = Tokenizer::from_bytes(&key.tokenizer, config);
    // A large vocabulary takes more memory as it is read than afterwards.
    heap::trim_heaps();
    tokenizer.map(Some)
}

/// What a statement about the model of a key says, with texts by this tokenizer, or with none for a reason.
pub fn claim_of(statement: &Statement, key: &ModelKey, tokenizer: Result<Option<&Tokenizer>, String>) -> Claim {
    let texts = match &tokenizer {
        Ok(Some(tokenizer)) => {
            let texts = tokenizer.texts(&statement.prompt, statement.generated_ids());
            texts.map_err(|e| e.to_string())
        }
        Ok(None) => Err("the model has no tokenizer".to_owned()),
        Err(reason) => Err(reason.clone()),
    };
    let tokenizer = tokenizer.ok().flatten();
    Claim::new(statement, key, texts, |id| tokenizer?.token(id))
}

/// An open model directory.
pub struct Model {
    /// The directory.
    pub dir: PathBuf,
    /// The key, which verifiers have.
    pub key: ModelKey,
    /// The digest of the key that names the model.
    pub id: ModelId,
    /// The integer model, with its weights.
    pub quantised: QuantisedModel,
    /// The commitment to the weights.
    pub codeword: Codeword,
    /// The tokenizer of the key; `None` if the model has none.
    pub tokenizer: Option<Tokenizer>,
    choices: Choices,
}

impl Model {
    /// Opens a model directory with a key that was read from it, and with the key's tokenizer ([`key_tokenizer`]).
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

    /// Uses the model as a plan says.
    #[must_use]
    pub fn with_choices(mut self, choices: Choices) -> Self {
        self.quantised.weights = self.quantised.weights.with_residency(choices.residency);
        self.choices = choices;
        self
    }

    /// The choices by which the model is used.
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
            device: &Vectors,
        }
    }

    /// Runs the model and the float models of `checkpoint` on every window, and compares their distributions at every position.
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

    /// Compares the vectors that an encoder and its float models make of all texts.
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
        files::directory_bytes(&self.dir)
    }
}
