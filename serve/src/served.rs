//! The model of a server, and how its memory is shared between answers and proofs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tessera::circuits::chunk::Chunk;
use tessera::circuits::sizes::Sizes;
use tessera::circuits::statement::Lengths;
use tessera::lengths::fewest_chunks;
use tessera::plan::{Plan, Subject, Task};
use tessera::prediction::prove_seconds;
use tessera::quantised::directory::KEY_FILE;
use tessera::quantised::QuantisedModel;
use tessera::support::files;
use tessera::{mapped, Allowance, Budget, Model};
use tessera_verdict::Key;
use thiserror::Error;

use crate::settings::{Proofs, Settings};

/// The share of the memory that is for answers: a fourth. The rest is for proofs.
const SHARE: u64 = 4;
/// Bytes of a channel in the cache: of a key two limbs of two bytes each, of a value two bytes.
const CHANNEL: usize = 6;

/// A model that cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The model cannot be opened.
    #[error(transparent)]
    Model(#[from] tessera::Error),
    /// The model makes neither texts nor embeddings.
    #[error("{}: the model is a reranker, and a server has no request for scores: it serves models that generate, and encoders", .0.display())]
    Reranker(PathBuf),
    /// There is too little memory to generate a token.
    #[error("a memory budget of {budget} bytes is too small: a fourth of it is for answers, and a token of one takes {row} bytes")]
    Memory {
        /// The budget.
        budget: u64,
        /// Bytes of the keys and values of a token.
        row: u64,
    },
    /// Not even the shortest answer could be proved.
    #[error("no answer could be proved: {0}; give more memory, or say --proofs asked for answers without proofs")]
    Unprovable(String),
}

/// The model of a server.
pub struct Served {
    /// The model.
    pub model: Model,
    /// The same as verifiers have it.
    pub verifier: Key,
    /// The bytes of the key.
    pub key: Vec<u8>,
    /// The id of the model.
    pub id: String,
    /// The name of the model.
    pub name: String,
    /// Token rows that all texts that are being generated may have together.
    pub rows: usize,
    /// The most bytes of a text that the context can have room for, several times over: a tokenizer may leave bytes out.
    pub text_bytes: usize,
    /// The memory of one proof; `None` if nothing is known to limit it.
    pub proof_memory: Option<Budget>,
    subject: Subject,
    divisions: Mutex<Divisions>,
}

/// How proofs are made, by the most token rows and output tokens.
type Divisions = HashMap<(usize, usize), Result<Division, String>>;

/// How a proof is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Seconds that the proof takes on two cores, as predicted.
    pub seconds: f64,
    /// Layers of every chunk.
    pub layers: Vec<usize>,
    /// How weights are held in memory.
    pub plan: Plan,
}

impl Served {
    /// Opens the model of a server.
    ///
    /// # Errors
    /// If the model cannot be used, or there is too little memory for it.
    pub fn open(settings: &Settings) -> Result<Self, OpenError> {
        let dir = &settings.model;
        let model = Model::open(dir)?;
        let config = &model.key.config;
        if config.reranker().is_some() {
            return Err(OpenError::Reranker(dir.clone()));
        }
        let key = files::read(&dir.join(KEY_FILE)).map_err(tessera::Error::from)?;
        let verifier = Key::from_bytes(&key).map_err(|source| tessera::model::LoadError::Key {
            path: dir.join(KEY_FILE),
            source,
        });
        let budget = Allowance::new(settings.memory, mapped(dir)).budget;
        let row = config.layers * config.kv_heads * config.head_dim * CHANNEL;
        let rows = budget.map_or(usize::MAX, |Budget(all)| {
            usize::try_from(all / SHARE).unwrap_or(usize::MAX) / row.max(1)
        });
        if rows == 0 {
            return Err(OpenError::Memory {
                budget: budget.map_or(0, |Budget(all)| all),
                row: row as u64,
            });
        }
        let devices = settings.devices as u64;
        let served = Self {
            id: model.id.to_string(),
            name: settings.name.clone().unwrap_or_else(|| name_of(dir)),
            verifier: verifier.map_err(tessera::Error::from)?,
            subject: model.subject(),
            divisions: Mutex::default(),
            text_bytes: text_bytes(&model),
            proof_memory: budget.map(|Budget(all)| Budget((all - all / SHARE) / devices)),
            model,
            key,
            rows,
        };
        if settings.proofs == Proofs::Always {
            let outputs = usize::from(served.generates());
            let shortest = served.accept(Lengths::new(1, outputs));
            shortest.map_err(OpenError::Unprovable)?;
        }
        Ok(served)
    }

    /// Whether the model generates tokens; otherwise it makes vectors.
    pub fn generates(&self) -> bool {
        self.model.key.config.generates()
    }

    /// How a proof of at most these lengths is made, or why there is none; `None` if that is not known yet.
    pub fn known(&self, lengths: Lengths) -> Option<Result<Division, String>> {
        let divisions = self.divisions();
        match divisions.get(&self.bound(lengths))? {
            Ok(division) => Some(Ok(division.clone())),
            Err(_) => divisions.get(&self.block(lengths)).cloned(),
        }
    }

    /// How a proof of at most these lengths is made. It is planned once for all lengths up to a power of two, because a plan takes long for
    /// long texts. Only where there is no such proof, the lengths themselves are planned.
    ///
    /// # Errors
    /// Why there is no such proof: it would not be secure enough, or memory is too small.
    pub fn accept(&self, lengths: Lengths) -> Result<Division, String> {
        self.planned_once(self.bound(lengths))
            .or_else(|_| self.planned_once(self.block(lengths)))
    }

    /// How a proof of exactly these lengths is made: in as few chunks as it needs, which may be fewer than [`Self::accept`] says.
    ///
    /// # Errors
    /// Why there is no such proof.
    pub fn divide(&self, lengths: Lengths) -> Result<Division, String> {
        match self.known(lengths) {
            Some(Ok(whole)) if whole.layers.len() == 1 => Ok(whole),
            _ => self.planned_once(self.block(lengths)),
        }
    }

    fn divisions(&self) -> std::sync::MutexGuard<'_, Divisions> {
        self.divisions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn planned_once(&self, (rows, outputs): (usize, usize)) -> Result<Division, String> {
        if let Some(known) = self.divisions().get(&(rows, outputs)) {
            return known.clone();
        }
        let division = self.planned(Lengths::new(rows, outputs));
        self.divisions().insert((rows, outputs), division.clone());
        division
    }

    /// The longest text that is accepted as one of these lengths is.
    fn bound(&self, Lengths { rows, outputs, .. }: Lengths) -> (usize, usize) {
        let most = self.model.key.config.context;
        let rows = rows.next_power_of_two().min(most.max(rows));
        (rows, outputs.next_power_of_two().min(rows).max(outputs))
    }

    /// The longest text whose proof commits to as many rows as that of one of these lengths.
    fn block(&self, Lengths { rows, outputs, .. }: Lengths) -> (usize, usize) {
        let most = self.model.key.config.context;
        let rows = Sizes::text_rows_of(rows).min(most.max(rows));
        (rows, Sizes::text_rows_of(outputs.max(1)).min(rows).max(outputs))
    }

    fn planned(&self, lengths: Lengths) -> Result<Division, String> {
        let key = &self.model.key;
        let Some(fewest) = fewest_chunks(key, lengths) else {
            return Err(format!("no proof about {} token rows is secure enough", lengths.rows));
        };
        let of = key.config.layers;
        let whole = || {
            let chunk = Chunk::whole(of);
            let task = Task::prove(lengths, chunk);
            let plan = self.subject.plan(task, self.proof_memory).ok()?;
            Some((vec![of], plan))
        };
        let whole = (fewest == 1).then(whole).flatten();
        let divided = whole.map_or_else(|| self.subject.divide(lengths, fewest, self.proof_memory), Ok);
        let share =
            |e| format!("{e}; of --memory, proofs have three fourths, in equal parts for each of the --devices");
        let (layers, plan) = divided.map_err(share)?;
        let chunks = Chunk::partition(layers.iter().copied(), of).map_err(|e| e.to_string())?;
        Ok(Division {
            seconds: prove_seconds(key, &chunks, lengths.rows),
            layers,
            plan,
        })
    }

    /// The integer model with its weights as a plan holds them.
    pub fn quantised(&self, plan: &Plan) -> QuantisedModel {
        let mut quantised = self.model.quantised.clone();
        quantised.weights = quantised.weights.with_residency(plan.choices.residency);
        quantised
    }
}

/// How many bytes of a text a token may stand for beside those that it is spelled with.
const LEFT_OUT: usize = 8;

/// The most bytes of a text that is worth encoding.
fn text_bytes(model: &Model) -> usize {
    let Some(tokenizer) = &model.tokenizer else {
        return usize::MAX;
    };
    let ids = 0..u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
    let longest = ids.filter_map(|id| tokenizer.token(id)).map(|token| token.len()).max();
    let tokens = model.key.config.context.saturating_mul(LEFT_OUT);
    tokens.saturating_mul(longest.unwrap_or(1))
}

/// The name of a directory.
fn name_of(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    whole
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
