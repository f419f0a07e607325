//! The files of the weight commitment in a model directory: the tree, and the codeword where it is kept.

use std::path::Path;

use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::wording;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::{Digest, Suite};

use super::SetupError;
use crate::model::read_key;
use crate::plan::{Budget, Subject, Task};
use tessera_model::directory::{self, ModelDirError, WEIGHTS_FILE};
use tessera_model::directory::{CODEWORD_FILE, KEY_FILE, TREE_FILE};
use tessera_model::weights::{PackedWeights, Residency};
use tessera_prover::opening::{commit, Codeword, OpeningProverError, Split, Tree};
use tessera_support::files::{self, AtomicFile};
use tessera_support::progress::Progress;

/// How many times the size of the codeword must be free on the disk, so that it is kept where nobody chooses.
const ROOM: u64 = 3;

/// Whether the codeword of the weights is kept on disk. This is a choice for a model directory: neither the key nor
/// proofs depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodewordCache {
    /// Kept: 8 bytes per weight (16 or 32 in small models), and proofs read only what they open.
    Full,
    /// Not kept: every proof makes what it opens in one more pass over the weights.
    None,
    /// Kept if the disk has three times its size free.
    #[default]
    Auto,
}

impl CodewordCache {
    /// Whether a codeword of so many bytes is kept on a disk that has so many free, if that is known.
    fn keeps(self, bytes: u64, free: Option<u64>) -> bool {
        match self {
            Self::Full => true,
            Self::None => false,
            Self::Auto => free.is_none_or(|free| bytes <= free / ROOM),
        }
    }

    /// Why there is no codeword with these parameters in a model directory, unless somebody chose that.
    pub(super) fn note(self, params: &CommitmentParams) -> Option<String> {
        let bytes = wording::bytes(Codeword::file_len(params));
        let note = format!(
            "the codeword of the weights ({bytes}) is not kept, because the disk had less than {ROOM} times as much room: every proof \
             makes it again, which takes longer; make room, or choose --codeword-cache full, and set up with --rebuild-cache"
        );
        (self == Self::Auto).then_some(note)
    }
}

/// Maps a weights file to read it once: no more of it stays in memory than is in use.
pub(super) fn open_weights(
    path: &Path,
    config: &ModelConfig,
    format: WeightFormat,
) -> Result<PackedWeights, ModelDirError> {
    let weights = directory::open_weights(path, config, format)?;
    Ok(weights.with_residency(Residency::Window { bytes: 0 }))
}

/// Commits to the weights and writes the files of the commitment; returns the root.
pub(super) fn commit_files(
    dir: &Path,
    weights: &PackedWeights,
    (suite, params): (Suite, &CommitmentParams),
    split: Split,
    cache: CodewordCache,
    progress: &dyn Progress,
) -> Result<Digest, SetupError> {
    let (tree, codeword) = write_files(dir, weights, (suite, params), split, cache, progress)?;
    install(dir, &tree, codeword)?;
    Ok(tree.root())
}

fn write_files(
    dir: &Path,
    weights: &PackedWeights,
    (suite, params): (Suite, &CommitmentParams),
    split: Split,
    cache: CodewordCache,
    progress: &dyn Progress,
) -> Result<(Tree, Option<AtomicFile>), SetupError> {
    progress.phase("commit to weights", Some(Codeword::values(params)));
    if !cache.keeps(Codeword::file_len(params), files::free_space(dir)) {
        return Ok((commit(suite, weights, params, split, None, progress)?, None));
    }
    let mut file = AtomicFile::create_cold(&dir.join(CODEWORD_FILE))?;
    let tree = commit(suite, weights, params, split, Some(&mut file), progress)?;
    Ok((tree, Some(file)))
}

/// Gives the files their names.
fn install(dir: &Path, tree: &Tree, codeword: Option<AtomicFile>) -> Result<(), SetupError> {
    match codeword {
        Some(file) => file.commit()?,
        None => files::remove(&dir.join(CODEWORD_FILE))?,
    }
    let mut file = AtomicFile::create(&dir.join(TREE_FILE))?;
    tree.write(&mut file).map_err(OpeningProverError::Write)?;
    Ok(file.commit()?)
}

/// Whether the files in `dir` belong to a commitment with this root, as far as opening a model directory checks them.
pub(super) fn is_whole(
    dir: &Path,
    (suite, params): (Suite, &CommitmentParams),
    root: &Digest,
    cache: CodewordCache,
) -> bool {
    let path = dir.join(CODEWORD_FILE);
    let length = std::fs::metadata(&path).map_or(0, |m| m.len());
    let expected = match (cache, path.exists()) {
        (CodewordCache::Full, _) | (CodewordCache::Auto, true) => Codeword::file_len(params),
        (CodewordCache::None, _) | (CodewordCache::Auto, false) => 0,
    };
    length == expected && Tree::read(suite, &dir.join(TREE_FILE), params, root).is_ok()
}

/// The result of [`rebuild_cache`].
#[derive(Clone, Debug)]
pub struct RebuildReport {
    /// Whether the model directory has the codeword of the weights now.
    pub codeword_kept: bool,
    /// Bytes of all files of the model directory.
    pub disk_bytes: u64,
    /// What somebody who did not choose should know.
    pub notes: Vec<String>,
}

/// Makes the tree and the codeword of a model directory again from its weights. Errors, and changes nothing, if the key
/// was made from other weights, or if nothing fits the memory budget.
pub fn rebuild_cache(
    dir: &Path,
    cache: CodewordCache,
    memory: Option<Budget>,
    progress: &dyn Progress,
) -> Result<RebuildReport, SetupError> {
    let key = read_key(&dir.join(KEY_FILE))?;
    let plan = Subject::of_dir(&key, dir).plan(Task::Setup { tokens: 0 }, memory)?;
    let path = dir.join(WEIGHTS_FILE);
    let weights = open_weights(&path, &key.config, key.params.format)?;
    let (tree, codeword) = write_files(
        dir,
        &weights,
        (key.header.hash_suite, &key.weights),
        plan.choices.split,
        cache,
        progress,
    )?;
    if tree.root() != key.weights_root {
        return Err(SetupError::OtherWeights {
            path,
            got: hex::encode(tree.root()),
            expected: hex::encode(key.weights_root),
        });
    }
    let codeword_kept = codeword.is_some();
    install(dir, &tree, codeword)?;
    progress.done();
    Ok(RebuildReport {
        codeword_kept,
        disk_bytes: files::directory_bytes(dir)?,
        notes: match codeword_kept {
            true => Vec::new(),
            false => cache.note(&key.weights).into_iter().collect(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codeword_is_kept_unasked_where_there_is_room_for_three() {
        for (cache, free, kept) in [
            (CodewordCache::Auto, Some(300), true),
            (CodewordCache::Auto, Some(299), false),
            (CodewordCache::Auto, None, true),
            (CodewordCache::Full, Some(0), true),
            (CodewordCache::None, Some(1000), false),
        ] {
            assert_eq!(cache.keeps(100, free), kept, "{cache:?}, {free:?} free");
        }
    }

    /// Whoever chose is not told why.
    #[test]
    fn a_codeword_that_is_not_kept_unasked_is_explained() {
        let params = CommitmentParams {
            tiles: 5,
            log_message: 13,
            log_blowup: 1,
        };
        let note = CodewordCache::Auto.note(&params).unwrap_or_default();
        assert!(note.contains("--codeword-cache full"), "{note}");
        assert_eq!(
            [CodewordCache::Full, CodewordCache::None].map(|cache| cache.note(&params)),
            [None, None]
        );
    }
}
