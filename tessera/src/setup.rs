//! Makes a model directory from a checkpoint (docs/format.md): calibrate, quantise, write, commit. No step holds the model:
//! each step reads the matrices of the checkpoint in pieces, and reads a matrix again when it needs it again
//! (docs/performance.md, under "Set-up", says how often and why). Finished steps survive an interruption.

mod against;
mod cache;
mod error;
mod options;
mod partial;
mod recipe;

use std::path::Path;
use std::time::Instant;
use tessera_prover::opening::params_for;

use tessera_circuits::model::{ColumnNorms, ModelParams};
use tessera_circuits::table_tree::TableArgument;
use tessera_recipe::{Fidelity, Recipe};
use tessera_verifier::key::{KeyHeader, ModelId, ModelKey};
use tessera_verifier::opening::CommitmentParams;

pub use self::against::{recompute, Agreement};
pub use self::cache::{rebuild_cache, CodewordCache, RebuildReport};
pub use self::error::SetupError;
pub use self::options::SetupOptions;
pub use self::partial::partial_dir;
use self::partial::{Inputs, Partial};
use self::recipe::{CalibrationText, HeldOut};
use crate::plan::{Plan, Subject, Task};
use tessera_checkpoint::Checkpoint;
use tessera_kernels::digest::FileDigest;
use tessera_model::directory::{self, WEIGHTS_FILE};
use tessera_model::directory::{CODEWORD_FILE, KEY_FILE};
use tessera_model::weights::PackedWeights;
use tessera_model::QuantisedModel;
use tessera_prover::stark::tables_root;
use tessera_quantise::comparison::FidelityReport;
use tessera_quantise::texts::TextReader;
use tessera_quantise::{quantise, CalibrationReport};
use tessera_support::files::directory_bytes;
use tessera_support::files::{self, AtomicFile};
use tessera_support::heap;
use tessera_support::progress::Progress;
use tessera_text::tokenizer::{IdFile, TokenizerFiles};

/// The result of a set-up.
#[derive(Clone, Debug)]
pub struct SetupReport {
    /// Id of the model, a digest of its key without the recipe.
    pub model_id: ModelId,
    /// Key of the model, as it is in the model directory.
    pub key: ModelKey,
    /// The recipe in the key.
    pub recipe: Recipe,
    /// Number of weights, a tied embedding counted once per use.
    pub weights: u64,
    /// Bytes of all files of the model directory.
    pub disk_bytes: u64,
    /// Whether the model directory has the codeword of the weights.
    pub codeword_kept: bool,
    /// Predicted peak of resident memory in bytes, for the set-up and its comparison.
    pub predicted_bytes: u64,
    /// Tokens that the scales were calibrated on.
    pub calibration_tokens: usize,
    /// Scales and exponents that calibration chose.
    pub calibration: CalibrationReport,
    /// How close the model is to its checkpoint, also if the key leaves it out, or why it was not measured.
    pub fidelity: Fidelity,
    /// The whole comparison with the checkpoint; `None` if there was none, and for encoders.
    pub comparison: Option<FidelityReport>,
    /// Name of each phase and the seconds it took, in order.
    pub phases: Vec<(String, f64)>,
    /// Sentences that the user should read, such as which steps were resumed or discarded.
    pub notes: Vec<String>,
}

/// Reads `checkpoint`, quantises it on the calibration text, and writes the model directory `out`. If it is interrupted
/// or fails while it writes, `<out>.partial` keeps the finished steps, and a second run with the same inputs goes on
/// from there.
pub fn setup(
    checkpoint: &Path,
    out: &Path,
    options: &SetupOptions,
    progress: &dyn Progress,
) -> Result<SetupReport, SetupError> {
    let tables = options.table_argument()?;
    let mut clock = Clock::default();
    progress.phase("read checkpoint", None);
    files::check_free(out)?;
    let opened = Checkpoint::open(checkpoint).map_err(|source| SetupError::Checkpoint {
        dir: checkpoint.to_owned(),
        source,
    })?;
    let texts = Texts::read(checkpoint, &opened, options)?;
    let tokens = texts.calibration.ids.iter().map(Vec::len).sum();
    let subject = Subject {
        suite: options.suite,
        tables,
        tokenizer: texts.files.tokenizer.as_ref().map_or(0, Vec::len),
        ..Subject::of_config(opened.config(), options.quantise.strategy.format(), true)
    };
    let rows = options.quantise.rows(tokens);
    let plan = subject.plan(Task::Setup { tokens: rows }, options.memory)?;
    let comparison = texts.held_out.plan(&subject, options);
    let inputs = Inputs::of(&opened, options.quantise, &texts.calibration.ids)?;
    let mut notes = texts.notes.clone();
    let resumed = Partial::resume(out, &inputs, &mut notes)?;
    clock.lap("read checkpoint");

    let partial = match resumed {
        Some(partial) => partial,
        None => {
            progress.phase("calibrate", Some(opened.config().matmuls().len() as u64));
            let quantisation = quantise(&opened, &options.quantise, &texts.calibration.ids, progress)?;
            Partial::create(out, inputs, quantisation)?
        }
    };
    clock.lap("calibrate");
    let dir = partial.dir().to_owned();
    let unfinished = |source: SetupError| SetupError::Unfinished {
        partial: dir.clone(),
        source: Box::new(source),
    };
    let job = SetUp {
        checkpoint,
        opened: &opened,
        texts,
        options,
        tables,
        plans: Plans {
            setup: plan,
            comparison,
        },
    };
    let mut report = job.finish(partial, clock, progress).map_err(unfinished)?;
    notes.extend(report.calibration.notes());
    report.notes.splice(0..0, notes);
    progress.done();
    Ok(report)
}

/// How the steps of a set-up keep to its memory; why there is no comparison with the checkpoint, if there is none.
struct Plans {
    setup: Plan,
    comparison: Result<Plan, String>,
}

impl Plans {
    fn predicted_bytes(&self) -> u64 {
        let comparison = self.comparison.as_ref().map_or(0, Plan::predicted_bytes);
        self.setup.predicted_bytes().max(comparison)
    }
}

/// A set-up whose scales are chosen.
struct SetUp<'a> {
    checkpoint: &'a Path,
    opened: &'a Checkpoint,
    texts: Texts,
    options: &'a SetupOptions,
    tables: TableArgument,
    plans: Plans,
}

/// Weights that are written and committed to.
struct Committed {
    params: ModelParams,
    weights: PackedWeights,
    digest: FileDigest,
    commitment: CommitmentParams,
    root: [u8; 32],
    notes: Vec<String>,
}

impl SetUp<'_> {
    /// Writes the weights and commits to them, as far as that is not done.
    fn commit(
        &self,
        partial: &mut Partial,
        clock: &mut Clock,
        progress: &dyn Progress,
    ) -> Result<Committed, SetupError> {
        let (dir, config) = (partial.dir().to_owned(), self.opened.config());
        let mut params = partial.state.quantisation.params.clone();
        let path = dir.join(WEIGHTS_FILE);
        progress.phase("write weights", Some(config.total_tiles() as u64));
        let mut notes = Vec::new();
        let calibration = &self.texts.calibration.ids;
        let (digest, norms) = write_weights(self.opened, calibration, &path, partial, &mut notes, progress)?;
        params.columns = norms;
        partial.state.weights = Some(digest.clone());
        partial.save()?;
        clock.lap("write weights");

        let (suite, commitment) = (self.options.suite, params_for(config.total_tiles()));
        let weights = cache::open_weights(&path, config, params.format)?;
        let cached = self.options.codeword_cache;
        let root = partial.state.weights_root.take();
        let root = match root.filter(|root| cache::is_whole(&dir, (suite, &commitment), root, cached)) {
            Some(root) => root,
            None => {
                let split = self.plans.setup.choices.split;
                cache::commit_files(&dir, &weights, (suite, &commitment), split, cached, progress)?
            }
        };
        partial.state.weights_root = Some(root);
        partial.save()?;
        clock.lap("commit to weights");
        Ok(Committed {
            params,
            weights,
            digest,
            commitment,
            root,
            notes,
        })
    }

    /// The steps after all scales are chosen.
    fn finish(
        self,
        mut partial: Partial,
        mut clock: Clock,
        progress: &dyn Progress,
    ) -> Result<SetupReport, SetupError> {
        let Committed {
            params,
            weights,
            digest,
            commitment,
            root,
            mut notes,
        } = self.commit(&mut partial, &mut clock, progress)?;
        let (dir, config) = (partial.dir().to_owned(), self.opened.config().clone());
        let files = match self.options.private_recipe {
            true => None,
            false => {
                progress.phase("digest checkpoint", None);
                Some(recipe::source_files(
                    self.checkpoint,
                    self.opened,
                    &self.texts.id_files,
                )?)
            }
        };
        let model = QuantisedModel::new(config.clone(), params.clone(), weights);
        let verdict = recipe::verdict(
            model,
            self.opened,
            &self.texts.held_out,
            &self.plans.comparison,
            progress,
        )?;
        clock.lap("compare models");

        progress.phase("commit to tables", None);
        directory::write_description(&dir, &config, &params, digest, self.texts.files.both())?;
        let settings = recipe::settings(&self.options.quantise);
        let (source, private) = (self.texts.calibration.source, self.options.private_recipe);
        let recipe = recipe::recipe(settings, source, files, &verdict.fidelity, private);
        let key = ModelKey {
            tables_root: tables_root(self.tables, &params, &config),
            recipe: recipe.to_bytes()?,
            header: KeyHeader::of(self.options.suite, &config).with_tables(self.tables),
            config,
            params,
            weights: commitment,
            weights_root: root,
            tokenizer: self.texts.files.tokenizer.unwrap_or_default(),
            tokenizer_config: self.texts.files.config.unwrap_or_default(),
        };
        key.check()?;
        let model_id = key.id()?;
        files::write(&dir.join(KEY_FILE), &key.to_bytes()?)?;
        let calibration = partial.state.quantisation.report.clone();
        let codeword_kept = dir.join(CODEWORD_FILE).exists();
        if !codeword_kept {
            notes.extend(self.options.codeword_cache.note(&key.weights));
        }
        let target = partial.finish()?;
        clock.lap("commit to tables");
        Ok(SetupReport {
            model_id,
            weights: key.config.matmuls().iter().map(|m| (m.in_dim * m.out_dim) as u64).sum(),
            key,
            recipe,
            disk_bytes: directory_bytes(&target)?,
            codeword_kept,
            predicted_bytes: self.plans.predicted_bytes(),
            calibration_tokens: calibration.tokens,
            calibration,
            fidelity: verdict.fidelity,
            comparison: verdict.report,
            phases: clock.phases,
            notes,
        })
    }
}

/// Writes the quantised weights, unless they are there already, and whole; returns the norms of their columns, too.
fn write_weights(
    opened: &Checkpoint,
    calibration: &[Vec<u32>],
    path: &Path,
    partial: &mut Partial,
    notes: &mut Vec<String>,
    progress: &dyn Progress,
) -> Result<(FileDigest, Vec<ColumnNorms>), SetupError> {
    let params = partial.state.quantisation.params.clone();
    if let Some(digest) = partial.state.weights.take() {
        match directory::check_weights(path, opened.config(), &params, &digest) {
            Ok(norms) => return Ok((digest, norms)),
            Err(_) => notes.push(format!("{} was damaged and is written again", path.display())),
        }
    }
    partial.state.weights_root = None;
    let mut file = AtomicFile::create(path)?;
    let written = partial
        .state
        .quantisation
        .write_weights(opened, calibration, &mut file, progress)?;
    file.commit()?;
    Ok(written)
}

/// Seconds of each phase.
struct Clock {
    last: Instant,
    phases: Vec<(String, f64)>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            last: Instant::now(),
            phases: Vec::new(),
        }
    }
}

impl Clock {
    fn lap(&mut self, name: &str) {
        self.phases.push((name.to_owned(), self.last.elapsed().as_secs_f64()));
        self.last = Instant::now();
    }
}

/// Tokenizer files of a checkpoint, and the token sequences to calibrate and to measure on.
struct Texts {
    files: TokenizerFiles,
    /// Notes for the user about the files that decide ids.
    notes: Vec<String>,
    id_files: Vec<IdFile>,
    calibration: CalibrationText,
    held_out: HeldOut,
}

impl Texts {
    fn read(dir: &Path, checkpoint: &Checkpoint, options: &SetupOptions) -> Result<Self, SetupError> {
        let failed = |source| SetupError::Tokenizer {
            dir: dir.to_owned(),
            source,
        };
        let ids = checkpoint.id_files().map_err(failed)?;
        let parsed = ids.files.parse_alone().map_err(failed)?;
        let reader = TextReader {
            config: checkpoint.config(),
            tokenizer: parsed.as_ref(),
        };
        let calibration = CalibrationText::read(&reader, options.calibration.as_ref())?;
        let held_out = HeldOut::read(&reader)?;
        drop(parsed);
        heap::trim_heaps();
        Ok(Self {
            files: ids.files,
            notes: ids.notes,
            id_files: ids.record,
            calibration,
            held_out,
        })
    }
}
