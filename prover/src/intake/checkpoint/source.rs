//! What is read of a checkpoint, whatever its format.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::config::HubConfig;
use super::error::Unsupported;
use super::storage::Storage;
use crate::intake::tokenizer::{IdFile, IdFiles, TokenizerError, TokenizerFiles};

/// The stored names by the names of the hub layout.
#[derive(Debug)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    pub(super) fn of(storage: &Storage) -> Self {
        Self(
            storage
                .tensors()
                .map(|(name, _)| (storage.canonical(name), name.to_string()))
                .collect(),
        )
    }

    /// Names of the hub layout with the stored ones.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, stored)| (name.as_str(), stored.as_str()))
    }

    /// The stored name, where `aliases` are names of one and the same tensor.
    pub(super) fn resolve(&self, name: &str, aliases: &[String]) -> Option<&str> {
        let found = match aliases.iter().any(|n| n == name) {
            true => aliases.iter().find_map(|n| self.0.get(n)),
            false => self.0.get(name),
        };
        found.map(String::as_str)
    }
}

/// Where tokenizer files come from.
#[derive(Debug)]
pub(super) enum TokenizerSource {
    Directory(PathBuf),
    /// Made from the metadata of the file with this name.
    Made(String, TokenizerFiles),
}

impl TokenizerSource {
    /// The files that decide ids, as a key gets them.
    pub(super) fn files(&self) -> Result<IdFiles, TokenizerError> {
        match self {
            Self::Directory(dir) => IdFiles::read(dir),
            Self::Made(name, files) => Ok(IdFiles {
                files: files.clone(),
                record: vec![IdFile {
                    name: name.clone(),
                    sha256: None,
                    used: vec!["tokenizer.*".to_owned()],
                    ignored: Vec::new(),
                }],
                notes: Vec::new(),
            }),
        }
    }
}

/// What is read of a checkpoint before it is known to be supported.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) hub: HubConfig,
    pub(super) storage: Storage,
    pub(super) tokenizer: TokenizerSource,
    /// What the format found, beside all that fields and tensors say.
    pub(super) unsupported: Vec<Unsupported>,
}
