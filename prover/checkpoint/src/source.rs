//! What is read of a checkpoint, whatever its format.

use std::collections::btree_map::Entry;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::config::HubConfig;
use super::error::Unsupported;
use super::families;
use super::storage::Storage;
use super::tensors::aliases;
use tessera_text::tokenizer::{IdFile, IdFiles, TokenizerError, TokenizerFiles};

/// The stored names by the names of the hub layout.
#[derive(Debug)]
pub(super) struct Names {
    stored: BTreeMap<String, String>,
    /// The second stored tensor, where two have one name in the hub layout.
    others: Vec<(String, String)>,
}

impl Names {
    pub(super) fn of(storage: &Storage) -> Self {
        let (mut stored, mut others) = (BTreeMap::new(), Vec::new());
        for (name, _) in storage.tensors() {
            match stored.entry(storage.canonical(name)) {
                Entry::Vacant(place) => drop(place.insert(name.to_string())),
                Entry::Occupied(place) => others.push((place.get().clone(), name.to_string())),
            }
        }
        Self { stored, others }
    }

    /// Stored tensors that have one name in the hub layout.
    pub(super) fn twice(&self) -> impl Iterator<Item = (&str, &str)> {
        self.others.iter().map(|(one, other)| (one.as_str(), other.as_str()))
    }

    /// Names of the hub layout with the stored ones.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.stored
            .iter()
            .map(|(name, stored)| (name.as_str(), stored.as_str()))
    }

    /// The stored name, where `aliases` are names of one and the same tensor.
    pub(super) fn resolve(&self, name: &str, aliases: &[String]) -> Option<&str> {
        let found = match aliases.iter().any(|n| n == name) {
            true => aliases.iter().find_map(|n| self.stored.get(n)),
            false => self.stored.get(name),
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
    /// Whether there are weights at all.
    pub(super) weights: bool,
    pub(super) tokenizer: TokenizerSource,
    /// What the format found, beside all that fields and tensors say.
    pub(super) unsupported: Vec<Unsupported>,
}

impl Source {
    /// Reads the model from its config and its tensors: a head that is stored with other values than the embedding is not tied to
    /// it, as in transformers 5, whatever the config says.
    pub(super) fn read(&self, names: &Names) -> families::Read {
        let mut read = families::read(&self.hub);
        let family = read.family.unwrap_or(&families::LLAMA);
        if let Ok(description) = read.description.as_mut().map_err(|_| ()) {
            let stored = aliases(family, description);
            let stored = stored.iter().map(|name| names.resolve(name, &[]));
            if let [Some(embedding), Some(head)] = stored.collect::<Vec<_>>().as_slice() {
                if !self.storage.same(embedding, head) {
                    description.tied = false;
                    description.notes.push(format!(
                        "tie_word_embeddings is true, but {head} has other values than {embedding}: it is the output head, as in \
                         transformers 5; earlier ones take the embedding"
                    ));
                }
            }
        }
        read
    }
}
