//! What a proof will cost and how secure it will be, from the dimensions of a model alone.
//!
//! A checkpoint, its `config.json`, a model directory and a key therefore have the same prediction, as far as nothing but the
//! dimensions decides. Where a model has no key yet, [`expected_key`] stands for the one that set-up will make.

mod gas;
mod size;
mod typical;

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ColumnNorms, MatmulKind, ModelConfig, ModelParams, WeightFormat, LAYER_KINDS, TILE};
use tessera_circuits::shape::Shape;
use tessera_circuits::table_tree::TableArgument;
use tessera_model::tiles::tile_bytes;
use tessera_prover::opening::{params_for, Codeword, Tree};
use tessera_verifier::key::{KeyHeader, ModelKey};
use tessera_verifier::ledger::security_bits;
use tessera_verifier::suite::Suite;

use crate::lengths::{fewest_chunks, most_rows};
use crate::plan::{equal_parts, Choices, Plan, Subject, Task};

pub use self::gas::{Gas, NoGas};

/// Seconds of a proof however small: proofs of work and the lookup tables.
const SECONDS_FIXED: f64 = 0.2;
/// Seconds per committed cell on two cores of 2.5 GHz.
const SECONDS_PER_CELL: f64 = 60e-9;
/// Seconds per weight to open the commitment on two cores of 2.5 GHz.
const SECONDS_PER_WEIGHT: f64 = 7e-9;
/// Seconds of a verification per byte of the proof, mostly for hashing, on one core of 2.5 GHz.
const SECONDS_PER_PROOF_BYTE: f64 = 20e-9;
/// Seconds of a verification per output channel of a matrix of a chunk, on the same core.
const SECONDS_PER_CHANNEL: f64 = 85e-9;

/// Prompt and generated tokens of the statement that is predicted where nobody asks for a number.
const TOKENS: usize = 64;

/// The key that set-up makes of a model of these dimensions, as far as security and costs depend on it. Its parameters are samples, its
/// roots are zero, and it has no tokenizer, so it verifies nothing.
pub fn expected_key(config: &ModelConfig, format: WeightFormat, (suite, tables): (Suite, TableArgument)) -> ModelKey {
    ModelKey {
        params: ModelParams {
            format,
            // With small norms, every matrix is in one limb, as set-up makes it.
            columns: vec![ColumnNorms::default(); config.layers * LAYER_KINDS.len() + 1],
            ..ModelParams::sample(config)
        },
        weights: params_for(config.total_tiles()),
        header: KeyHeader::of(suite, config).with_tables(tables),
        config: config.clone(),
        weights_root: [0; 32],
        tables_root: [0; 32],
        tokenizer: Vec::new(),
        tokenizer_config: Vec::new(),
        recipe: Vec::new(),
    }
}

/// An [`expected_key`] whose shifts differ by channel as those of most keys do, and that has biases for matrices of the kinds `biased`:
/// for [`Prediction::gas`], because contracts calculate with each of them.
pub fn typical_key(expected: &ModelKey, biased: &[MatmulKind]) -> ModelKey {
    ModelKey {
        params: typical::typical(expected.params.clone(), &expected.config, biased),
        ..expected.clone()
    }
}

/// Predicted security and cost of a model and one statement.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Prompt and generated tokens together.
    pub tokens: usize,
    /// The tokens that were asked for, which may be more than the context has room for, or fewer than a statement has.
    pub asked: Option<usize>,
    /// Bits of security of a proof in one piece. It is refused below [`tessera_verifier::policy::MIN_BITS`].
    pub security_bits: f64,
    /// The most tokens, prompt included, that one piece has enough security for; `None` if there are no such proofs.
    pub most_tokens: Option<usize>,
    /// The fewest chunks of layers that have enough security; `None` if no number of chunks has, so that the statement
    /// cannot be proved.
    pub fewest_chunks: Option<usize>,
    /// Bytes of the model directory on disk, without the tokenizer.
    pub disk_bytes: u64,
    /// The memory that a proof in the fewest chunks needs with everything in memory, one chunk at a time, without the tokenizer.
    pub memory: Plan,
    /// The smallest memory budget, in bytes, that works, with the tokenizer.
    pub smallest_bytes: u64,
    /// Seconds of a proof on two cores of 2.5 GHz; a rough figure.
    pub prove_seconds: f64,
    /// Seconds of its verification on one core of 2.5 GHz; a rough figure.
    pub verify_seconds: f64,
    /// Bytes of the proof.
    pub proof_bytes: u64,
    /// Cells of the committed columns, which decide how long a proof takes.
    pub committed_cells: u64,
}

/// Seconds of a proof about so many token rows, in these chunks, on two cores of 2.5 GHz; a rough figure.
pub fn prove_seconds(key: &ModelKey, chunks: &[Chunk], rows: usize) -> f64 {
    let cells: u128 = chunks.iter().map(|chunk| key.shape(chunk, rows).cells()).sum();
    of_cells(key, cells)
}

fn of_cells(key: &ModelKey, cells: u128) -> f64 {
    let padded = (key.config.total_tiles() * TILE * TILE) as u64;
    SECONDS_FIXED + SECONDS_PER_WEIGHT * padded as f64 + SECONDS_PER_CELL * cells as f64
}

impl Prediction {
    /// Predicts the statement that is nearest to one of `asked` tokens, by default of 64; the config of `key` must have passed its check.
    pub fn new(key: &ModelKey, codeword_file: bool, asked: Option<usize>) -> Self {
        let config = &key.config;
        // The last token of a generation is no row; an encoder generates none.
        let last = usize::from(config.generates());
        let tokens = asked.unwrap_or(TOKENS).clamp(1 + last, config.context + last);
        let rows = tokens - last;
        let whole = [Chunk::whole(config.layers)];
        let fewest_chunks = fewest_chunks(key, rows);
        let layers = equal_parts(config.layers, fewest_chunks.unwrap_or(1));
        let chunks = Chunk::partition(layers, config.layers).unwrap_or(whole.to_vec());
        let exact = Subject::of_key(key, codeword_file);
        // Neither tokenizer nor exponents follow from the dimensions.
        let subject = Subject {
            tokenizer: 0,
            exponents: Vec::new(),
            ..exact.clone()
        };
        let shapes: Vec<Shape> = chunks.iter().map(|chunk| key.shape(chunk, rows)).collect();
        let cells: u128 = shapes.iter().map(Shape::cells).sum();
        let proof_bytes = size::proof(key, &chunks, &shapes, tokens);
        let channels: usize = config.matmuls().iter().map(|matmul| matmul.out_dim).sum();
        let kinds = exact.kinds(&chunks);
        let plans = |choices: Choices| {
            let plan = |chunk: &Chunk| {
                let (lengths, chunk) = (rows.into(), *chunk);
                subject.with_choices(Task::prove(lengths, chunk), choices)
            };
            let plans = kinds.iter().map(plan);
            plans.max_by_key(Plan::predicted_bytes).unwrap_or_default()
        };
        let smallest = kinds.iter().map(|chunk| {
            let (lengths, chunk) = (rows.into(), *chunk);
            exact.smallest(Task::prove(lengths, chunk)).budget_bytes()
        });
        Self {
            tokens,
            asked,
            security_bits: security_bits(key, &whole, rows),
            most_tokens: most_rows(key).map(|rows| rows + last),
            fewest_chunks,
            disk_bytes: disk_bytes(&subject),
            memory: plans(Choices::default()),
            smallest_bytes: smallest.max().unwrap_or(0),
            prove_seconds: of_cells(key, cells),
            verify_seconds: SECONDS_PER_PROOF_BYTE * proof_bytes as f64 + SECONDS_PER_CHANNEL * channels as f64,
            proof_bytes,
            committed_cells: u64::try_from(cells).unwrap_or(u64::MAX),
        }
    }

    /// What contracts take to verify the proof. `key` is the one that the prediction was made of, or the [`typical_key`] of an expected one.
    /// It compiles a program: a second for a model of a hundred million weights.
    ///
    /// # Errors
    /// If contracts do not verify such proofs.
    pub fn gas(&self, key: &ModelKey) -> Result<Gas, NoGas> {
        let rows = self.tokens - usize::from(key.config.generates());
        let chunks = self.fewest_chunks.filter(|_| !self.is_too_long());
        gas::predicted(key, rows, chunks)
    }

    /// Whether the statement that was asked for can be proved, in one piece or in chunks.
    pub fn is_provable(&self) -> bool {
        self.fewest_chunks.is_some() && !self.is_too_long()
    }

    /// Whether more tokens were asked for than the context has room for.
    pub fn is_too_long(&self) -> bool {
        self.asked.is_some_and(|asked| asked > self.tokens)
    }
}

/// Weights, tables, tree and codeword.
fn disk_bytes(subject: &Subject) -> u64 {
    let config = &subject.config;
    let tables = config.context * config.head_dim * 2 + (4 << 16);
    let codeword = match subject.codeword_file {
        true => Codeword::file_len(&subject.commitment),
        false => 0,
    };
    let weights = config.total_tiles() * tile_bytes(subject.format);
    (weights + tables) as u64 + Tree::file_len(&subject.commitment) + codeword
}
