//! Opens a checkpoint, whatever model it holds.

use std::path::Path;

use super::config::{HubConfig, FILE};
use super::error::CheckpointError;
use super::source::{Source, TokenizerSource};
use super::storage::Storage;
use super::{families, gguf, mistaken};
use tessera_support::files::is_there;

/// A file is a GGUF file, anything else a directory in the hub layout.
pub(super) fn open(path: &Path) -> Result<Source, CheckpointError> {
    open_with(path, false)
}

/// Opens a checkpoint. A directory without weights of any kind is opened, too, if the caller only surveys it.
pub(super) fn open_with(path: &Path, weightless: bool) -> Result<Source, CheckpointError> {
    let format = |problem| CheckpointError::Format {
        path: path.to_path_buf(),
        problem,
    };
    if path.is_file() {
        // A file is what it contains; its name only helps to say what else it may be.
        return gguf::open(path).map_err(|error| match (error, mistaken::file(path)) {
            (CheckpointError::Format { .. }, Some(problem)) => format(problem),
            (error, _) => error,
        });
    }
    if !is_there(&path.join(FILE)) {
        if let Some(text) = mistaken::folder(path) {
            return Err(CheckpointError::Mistaken { text });
        }
    }
    let hub = HubConfig::read(path)?;
    let (storage, weights) = match Storage::open(path) {
        Ok(storage) => (storage, true),
        Err(CheckpointError::NoWeights { .. }) if weightless => (Storage::empty(), false),
        // Another model may store its tensors in another way.
        Err(error) => {
            hub.check_architecture()?;
            families::read(&hub).description?;
            return Err(error);
        }
    };
    Ok(Source {
        hub,
        storage,
        weights,
        tokenizer: TokenizerSource::Directory(path.to_path_buf()),
        unsupported: Vec::new(),
    })
}
