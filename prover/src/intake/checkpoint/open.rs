//! Opens a checkpoint, whatever model it holds.

use std::path::Path;

use super::config::HubConfig;
use super::error::CheckpointError;
use super::source::{Source, TokenizerSource};
use super::storage::Storage;
use super::{families, gguf};

/// A file is a GGUF file, anything else a directory in the hub layout.
pub(super) fn open(path: &Path) -> Result<Source, CheckpointError> {
    if path.is_file() {
        return gguf::open(path);
    }
    let hub = HubConfig::read(path)?;
    let storage = match Storage::open(path) {
        Ok(storage) => storage,
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
        tokenizer: TokenizerSource::Directory(path.to_path_buf()),
        unsupported: Vec::new(),
    })
}
