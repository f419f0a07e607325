//! Files that are often where a checkpoint should be: what they are, and how to get one.

use std::path::Path;

use super::error::CheckpointError;

/// What to do with a checkpoint of PyTorch.
pub const CONVERT: &str = "only safetensors are read; convert it, for instance with transformers: \
    AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW, safe_serialization=True)";
/// How a file begins that stands for another one in a repository.
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Why these bytes are no tensors, if they stand for a file that was not downloaded.
pub(super) fn pointer(bytes: &[u8]) -> Option<String> {
    let text = "is a git-LFS pointer, not the tensors: fetch them with git lfs pull in the checkpoint's repository";
    bytes.starts_with(POINTER).then(|| text.to_owned())
}

/// Errors if a directory without safetensors has tensors of PyTorch.
pub(super) fn pytorch(dir: &Path) -> Result<(), CheckpointError> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let of_pytorch = |path: &&std::path::PathBuf| {
        let extension = path.extension().and_then(|e| e.to_str());
        path.is_file() && extension.is_some_and(|e| ["bin", "pth", "pt"].contains(&e))
    };
    match files.iter().find(of_pytorch) {
        Some(path) => Err(CheckpointError::Format {
            path: path.clone(),
            problem: format!("is a PyTorch checkpoint: {CONVERT}"),
        }),
        None => Ok(()),
    }
}
