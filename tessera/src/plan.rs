//! How much memory a proof, a text or a set-up needs, phase by phase, and how to stay within a budget: decided before
//! any work. A plan chooses what it can do without (weights in memory, long blocks of the codeword) and refuses a
//! budget that nothing fits.

pub mod available;
mod budget;
mod choices;
mod claims;
mod estimate;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::path::Path;
use tessera_prover::opening::params_for;

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{LimbSet, Limbs, ModelConfig, WeightFormat};
use tessera_circuits::statement::Lengths;
use tessera_circuits::table_tree::TableArgument;
use tessera_circuits::wording::bytes;
use tessera_verifier::key::ModelKey;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::Suite;
use thiserror::Error;

pub use self::budget::{Budget, BudgetError, DEFAULT_PERCENT};
pub use self::choices::{Choices, Phase, Place};
use tessera_model::directory::CODEWORD_FILE;
use tessera_model::weights::Residency;
use tessera_prover::opening::Split;
use tessera_support::arena;

/// How much more than a prediction a process may really use, in percent; it can also be less. Budgets must have so much beyond a
/// prediction.
pub const MARGIN_PERCENT: u64 = 10;
/// Bytes of a window in which streamed weights are read, from the fastest on.
const WINDOWS: [usize; 4] = [256 << 20, 64 << 20, 16 << 20, 1 << 20];

/// The model that a plan is for: every fact about it that its memory depends on.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Architecture of the model.
    pub config: ModelConfig,
    /// Format in which the model stores a weight.
    pub format: WeightFormat,
    /// Exponents of the residual stream's channels, as in the parameters; empty if there are none or the model is not
    /// set up yet.
    pub exponents: Vec<u8>,
    /// Number of limbs in which each kind of matmul claims its accumulators.
    pub limbs: LimbSet,
    /// Shape of the weight commitment.
    pub commitment: CommitmentParams,
    /// Hash suite of the commitment and of proofs.
    pub suite: Suite,
    /// How proofs prove the lookup tables.
    pub tables: TableArgument,
    /// Whether the codeword of the weights is in a file; if not, every proof takes one more pass over the weights.
    pub codeword_file: bool,
    /// Bytes of the tokenizer's file; 0 if the model has none.
    pub tokenizer: usize,
}

/// A task that takes memory, and the numbers that its memory depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Generates the whole text, then proves a chunk of its statement.
    Prove {
        /// Token rows and output tokens of the whole statement.
        lengths: Lengths,
        /// The chunk to prove; all layers for a proof in one piece.
        chunk: Chunk,
        /// Whether the proof hides its activations, so that its tables are a tree.
        hides: bool,
    },
    /// Generates a text.
    Generate {
        /// The most token rows that pass through the model, prompt and output together.
        rows: usize,
        /// Whether a further pass computes the logits of all rows.
        logits: bool,
    },
    /// Sets a model up, or makes its commitment again.
    Setup {
        /// The most token rows that calibration has in memory at a time; 0 if only the commitment is made again.
        tokens: usize,
    },
    /// Compares the model with the float model of its checkpoint.
    Compare {
        /// Tokens of all windows of text together.
        tokens: usize,
        /// Tokens of the longest window.
        window: usize,
    },
}

impl Task {
    /// The proof of a chunk of a statement that hides nothing.
    pub const fn prove(lengths: Lengths, chunk: Chunk) -> Self {
        let hides = false;
        Self::Prove { lengths, chunk, hides }
    }
}

/// How a task is done, and how much memory it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// How weights and codeword are held in memory.
    pub choices: Choices,
    /// The phases of the task in the order in which they run, each with its predicted peak.
    pub phases: Vec<Phase>,
}

/// A budget within which a task cannot be done in any way. A budget of [`Self::smallest`] bytes or more helps.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "a memory budget of {} is too small: {what} needs {} at least, {margin} % more than the {} predicted for its phase \
     {phase:?}",
    Budget(*budget),
    Budget(*smallest),
    bytes(*predicted),
    margin = MARGIN_PERCENT
)]
pub struct BudgetTooSmall {
    /// The task that was refused, in words: `this proof in one piece`, for example.
    pub what: &'static str,
    /// The refused budget in bytes.
    pub budget: u64,
    /// The smallest budget, in bytes, that works.
    pub smallest: u64,
    /// Predicted peak of resident memory, in bytes, of the way that needs least.
    pub predicted: u64,
    /// Name of the phase that needs most.
    pub phase: &'static str,
}

impl Plan {
    /// Predicted peak of resident memory in bytes, with what the program keeps of freed blocks.
    pub fn predicted_bytes(&self) -> u64 {
        arena::held(self.largest(Place::Host).map_or(0, |phase| phase.bytes))
    }

    /// The phase that takes most of the memory at a place.
    pub fn largest(&self, place: Place) -> Option<&Phase> {
        let own = self.phases.iter().filter(|phase| phase.place == place);
        own.max_by_key(|phase| phase.bytes)
    }

    /// The error for a budget that even this plan, the smallest, does not fit.
    fn refusal(&self, what: &'static str, budget: u64) -> BudgetTooSmall {
        BudgetTooSmall {
            what,
            budget,
            smallest: self.budget_bytes(),
            predicted: self.predicted_bytes(),
            phase: self.largest(Place::Host).map_or("", |phase| phase.name),
        }
    }

    /// The smallest budget, in bytes, that this plan fits.
    pub fn budget_bytes(&self) -> u64 {
        let predicted = self.predicted_bytes();
        predicted + (predicted * MARGIN_PERCENT).div_ceil(100)
    }
}

/// Divides `of` layers into `chunks` parts whose lengths differ by one at most.
pub fn equal_parts(of: usize, chunks: usize) -> Vec<usize> {
    (0..chunks).map(|i| (i + 1) * of / chunks - i * of / chunks).collect()
}

impl Subject {
    /// The subject for a model directory with this key, with or without a codeword file.
    pub fn of_key(key: &ModelKey, codeword_file: bool) -> Self {
        Self {
            config: key.config.clone(),
            format: key.params.format,
            exponents: key.params.exponents.clone(),
            limbs: key.params.limb_set(&key.config),
            commitment: key.weights,
            suite: key.header.hash_suite,
            tables: key.table_argument(),
            codeword_file,
            tokenizer: key.tokenizer.len(),
        }
    }

    /// The subject for the model directory `dir`, whose key is `key`.
    pub fn of_dir(key: &ModelKey, dir: &Path) -> Self {
        Self::of_key(key, dir.join(CODEWORD_FILE).exists())
    }

    /// The subject for a model that is not set up yet, without tokenizer.
    pub fn of_config(config: &ModelConfig, format: WeightFormat, codeword_file: bool) -> Self {
        Self {
            config: config.clone(),
            format,
            exponents: Vec::new(),
            // What set-up makes.
            limbs: LimbSet::all(Limbs::One),
            commitment: params_for(config.total_tiles()),
            suite: Suite::default(),
            tables: TableArgument::default(),
            codeword_file,
            tokenizer: 0,
        }
    }

    /// The plan that does `task` with these choices.
    pub fn with_choices(&self, task: Task, choices: Choices) -> Plan {
        self.way(task, choices, &OnceCell::new())
    }

    /// The plans of all ways to do a task. Claims are the same in each, and take the longest to count.
    fn each_way(&self, task: Task) -> impl Iterator<Item = Plan> + '_ {
        let claims = OnceCell::new();
        self.ways(task)
            .into_iter()
            .map(move |choices| self.way(task, choices, &claims))
    }

    /// The first chunk of each kind. A chunk of the same shape that opens as many bands of the weights needs the same memory.
    pub(crate) fn kinds(&self, chunks: &[Chunk]) -> Vec<Chunk> {
        let kind = |chunk: &Chunk| {
            let bands = estimate::opened(&self.commitment, &self.config, chunk).bands().len();
            (chunk.kind(&self.config), bands)
        };
        let mut known = Vec::new();
        let mut firsts = Vec::new();
        for chunk in chunks {
            let own = kind(chunk);
            if !known.contains(&own) {
                known.push(own);
                firsts.push(*chunk);
            }
        }
        firsts
    }

    /// The plan of one way. `claims` are the bytes of the claims of this task, if they are counted already.
    fn way(&self, task: Task, choices: Choices, claims: &OnceCell<u64>) -> Plan {
        let model = estimate::Model {
            config: &self.config,
            format: self.format,
            exponents: &self.exponents,
            limbs: self.limbs,
            commitment: self.commitment,
            suite: self.suite,
            tables: match task {
                Task::Prove { hides: true, .. } => TableArgument::Gkr,
                _ => self.tables,
            },
            codeword_file: self.codeword_file,
            tokenizer: self.tokenizer as u64,
        };
        let phases = match task {
            Task::Prove { lengths, chunk, .. } => estimate::prove(&model, &chunk, lengths, &choices, claims),
            Task::Generate { rows, logits } => vec![
                model.read_tokenizer(),
                model.generate(rows as u64, logits, choices.residency),
            ],
            Task::Setup { tokens } => estimate::setup(&model, tokens, &choices),
            Task::Compare { tokens, window } => vec![estimate::compare(&model, tokens, window, choices.residency)],
        };
        Plan { choices, phases }
    }

    /// The ways to do a task, from the fastest to the smallest.
    fn ways(&self, task: Task) -> Vec<Choices> {
        match task {
            Task::Setup { .. } => (0..=Split::MAX)
                .map(|log| Choices {
                    split: Split::new(log, &self.commitment),
                    ..Choices::default()
                })
                .collect(),
            Task::Prove { .. } | Task::Generate { .. } | Task::Compare { .. } => {
                let streams = WINDOWS.map(|bytes| Residency::Window { bytes });
                let all = [Residency::Keep].into_iter().chain(streams);
                let with = |residency| Choices {
                    residency,
                    ..Choices::default()
                };
                all.map(with).collect()
            }
        }
    }

    /// The fastest way to prove every one of these chunks, one at a time, within `budget` (`None`: without a limit). It
    /// is returned as the plan of the chunk that needs most.
    pub fn plan_chunks(
        &self,
        lengths: impl Into<Lengths>,
        chunks: &[Chunk],
        budget: Option<Budget>,
    ) -> Result<Plan, BudgetTooSmall> {
        let lengths = lengths.into();
        let kinds = self.kinds(chunks);
        let largest = |choices| {
            let plans = kinds.iter().map(|chunk| {
                let task = Task::prove(lengths, *chunk);
                self.with_choices(task, choices)
            });
            plans.max_by_key(Plan::budget_bytes)
        };
        // Ways depend on the chunk that needs most.
        let tasks = kinds.iter().map(|chunk| Task::prove(lengths, *chunk));
        let most = tasks.max_by_key(|task| self.with_choices(*task, Choices::default()).budget_bytes());
        let ways = most.map(|task| self.ways(task)).unwrap_or_default();
        let fastest = ways.first().copied().unwrap_or_default();
        let Some(Budget(budget)) = budget else {
            return Ok(largest(fastest).unwrap_or_default());
        };
        let fits = |plan: &Plan| plan.budget_bytes() <= budget;
        // Most budgets that are too small are too small for the last way.
        let least = ways.last().copied().and_then(largest).filter(|plan| !fits(plan));
        let least = match least {
            Some(least) => least,
            None => match ways.into_iter().filter_map(largest).find(fits) {
                Some(plan) => return Ok(plan),
                None => largest(fastest).unwrap_or_default(),
            },
        };
        Err(least.refusal("a chunk of this proof", budget))
    }

    /// Divides the layers into the largest chunks that fit `budget` (`None`: without a limit), as equal as can be and
    /// `fewest` at least. Returns the number of layers of each, and their plan.
    pub fn divide(
        &self,
        lengths: impl Into<Lengths>,
        fewest: usize,
        budget: Option<Budget>,
    ) -> Result<(Vec<usize>, Plan), BudgetTooSmall> {
        let lengths = lengths.into();
        let of = self.config.layers;
        let mut refused = None;
        for chunks in fewest.max(1)..=of {
            let layers = equal_parts(of, chunks);
            let ranges = Chunk::partition(layers.iter().copied(), of).unwrap_or_default();
            match self.plan_chunks(lengths, &ranges, budget) {
                Ok(plan) => return Ok((layers, plan)),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| Plan::default().refusal("a model without layers", 0)))
    }

    /// The plan for `task` that needs least memory.
    pub fn smallest(&self, task: Task) -> Plan {
        let least = self.each_way(task).min_by_key(Plan::budget_bytes);
        least.unwrap_or_else(|| self.with_choices(task, Choices::default()))
    }

    /// The fastest plan for `task` that fits `budget`; `None` is no limit.
    pub fn plan(&self, task: Task, budget: Option<Budget>) -> Result<Plan, BudgetTooSmall> {
        let mut plans = self.each_way(task);
        let Some(Budget(budget)) = budget else {
            return Ok(plans.next().unwrap_or_default());
        };
        if let Some(plan) = plans.find(|plan| plan.budget_bytes() <= budget) {
            return Ok(plan);
        }
        let what = match task {
            Task::Prove { .. } => "this proof in one piece",
            Task::Generate { .. } => "this text",
            Task::Setup { .. } => "this set-up",
            Task::Compare { .. } => "this comparison",
        };
        Err(self.smallest(task).refusal(what, budget))
    }
}
