//! From a checkpoint to a model directory (docs/format.md): calibrate, quantise, write, commit.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tessera_circuits::model::Strategy;
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::{KeyError, ModelId, ModelKey};
use tessera_verifier::opening::CommitmentParams;
use thiserror::Error;

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::files::{self, AtomicDir, AtomicFile, FileError};
use crate::library::{directory_bytes, CODEWORD_FILE, KEY_FILE, TREE_FILE};
use crate::model_dir::{self, ModelDirError};
use crate::opening::{commit, OpeningProverError};
use crate::progress::Progress;
use crate::quantise::{quantise, CalibrationReport, QuantiseError, DEFAULT_HEADROOM};
use crate::stark::tables_roots;
use crate::texts::{TextError, TextReader};
use crate::tokenizer::{Tokenizer, TokenizerError};

/// How to set a model up.
#[derive(Clone, Debug)]
pub struct SetupOptions {
    pub strategy: Strategy,
    /// Calibration text; `None` for the bundled one.
    pub calibration: Option<PathBuf>,
}

/// What a set-up made.
#[derive(Clone, Debug)]
pub struct SetupReport {
    pub model_id: ModelId,
    pub key: ModelKey,
    /// Number of weights, a tied embedding counted once per use.
    pub weights: u64,
    /// Bytes of the model directory.
    pub disk_bytes: u64,
    /// Tokens that the scales were calibrated on.
    pub calibration_tokens: usize,
    pub calibration: CalibrationReport,
    /// Seconds of each phase, in order.
    pub phases: Vec<(String, f64)>,
}

/// Why there is no model directory; nothing is left on disk.
#[derive(Debug, Error)]
pub enum SetupError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {source}", dir.display())]
    Checkpoint { dir: PathBuf, source: CheckpointError },
    #[error("{}: {source}", dir.display())]
    Tokenizer { dir: PathBuf, source: TokenizerError },
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
    #[error(transparent)]
    ModelDir(#[from] ModelDirError),
    #[error(transparent)]
    Commit(#[from] OpeningProverError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The bytes of an optional file; empty if there is none.
fn optional(path: &Path) -> Result<Vec<u8>, FileError> {
    match files::read(path) {
        Err(FileError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// Reads `checkpoint`, quantises it on the calibration text, and writes the model directory `out`:
/// complete, or not at all.
pub fn setup(
    checkpoint: &Path,
    out: &Path,
    options: &SetupOptions,
    progress: &dyn Progress,
) -> Result<SetupReport, SetupError> {
    let mut phases = Vec::new();
    let mut clock = Instant::now();
    let mut lap = |name: &str, phases: &mut Vec<(String, f64)>| {
        phases.push((name.to_owned(), clock.elapsed().as_secs_f64()));
        clock = Instant::now();
    };

    progress.phase("read checkpoint", None);
    let failed = |source| SetupError::Checkpoint {
        dir: checkpoint.to_owned(),
        source,
    };
    let opened = Checkpoint::open(checkpoint).map_err(failed)?;
    let texts = Texts::read(checkpoint, &opened, options)?;
    let dir = AtomicDir::create(out)?;
    lap("read checkpoint", &mut phases);

    progress.phase("calibrate and quantise", None);
    let (model, calibration) = quantise(&opened, options.strategy, &texts.calibration, DEFAULT_HEADROOM)?;
    lap("calibrate and quantise", &mut phases);

    progress.phase("write weights", None);
    model_dir::write_model(dir.path(), &model, checkpoint)?;
    lap("write weights", &mut phases);

    let params = CommitmentParams::for_tiles(model.config.total_tiles());
    let weights = model_dir::open_weights(
        &dir.path().join(model_dir::WEIGHTS_FILE),
        &model.config,
        options.strategy,
    )?;
    let mut codeword = AtomicFile::create(&dir.path().join(CODEWORD_FILE))?;
    progress.phase(
        "commit to weights",
        Some((params.columns() as u64) << params.log_codeword()),
    );
    let tree = commit(&weights, &params, Some(&mut codeword), progress)?;
    codeword.commit()?;
    let mut file = AtomicFile::create(&dir.path().join(TREE_FILE))?;
    tree.write(&mut file).map_err(OpeningProverError::Write)?;
    file.commit()?;
    lap("commit to weights", &mut phases);

    progress.phase("commit to tables", None);
    let key = ModelKey {
        tables_roots: tables_roots(&model.params),
        config: model.config,
        params: model.params,
        weights: params,
        weights_root: tree.root(),
        tokenizer: texts.tokenizer,
        tokenizer_config: texts.tokenizer_config,
    };
    key.check()?;
    let model_id = key.id()?;
    files::write(&dir.path().join(KEY_FILE), &key.to_bytes()?)?;
    lap("commit to tables", &mut phases);

    let disk_bytes = directory_bytes(dir.path())?;
    dir.commit()?;
    progress.done();
    let weight_count = key.config.matmuls().iter().map(|m| (m.in_dim * m.out_dim) as u64).sum();
    let calibration_tokens = texts.calibration.iter().map(Vec::len).sum();
    Ok(SetupReport {
        model_id,
        key,
        weights: weight_count,
        disk_bytes,
        calibration_tokens,
        calibration,
        phases,
    })
}

/// Tokenizer files of a checkpoint and the token sequences to calibrate on.
struct Texts {
    tokenizer: Vec<u8>,
    tokenizer_config: Vec<u8>,
    calibration: Vec<Vec<u32>>,
}

impl Texts {
    fn read(dir: &Path, checkpoint: &Checkpoint, options: &SetupOptions) -> Result<Self, SetupError> {
        let tokenizer = optional(&dir.join(model_dir::TOKENIZER_FILE))?;
        let tokenizer_config = optional(&dir.join(model_dir::TOKENIZER_CONFIG_FILE))?;
        let parsed = match tokenizer.is_empty() {
            true => None,
            false => {
                let config = Some(tokenizer_config.as_slice()).filter(|c| !c.is_empty());
                let parsed = Tokenizer::from_bytes(&tokenizer, config);
                Some(parsed.map_err(|source| SetupError::Tokenizer {
                    dir: dir.to_owned(),
                    source,
                })?)
            }
        };
        let reader = TextReader {
            config: checkpoint.config(),
            tokenizer: parsed.as_ref(),
        };
        let calibration = match &options.calibration {
            Some(path) => reader.read(path)?,
            None => reader.bundled()?,
        };
        Ok(Self {
            tokenizer,
            tokenizer_config,
            calibration,
        })
    }
}
