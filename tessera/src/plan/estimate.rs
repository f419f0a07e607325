//! Resident bytes of every phase of a statement, added up from the tables that the phase holds. The sums
//! follow `prove/src/chunk.rs` and what it calls; a test compares them with measured peaks.

use std::cell::OnceCell;

use tessera_circuits::air::tables;
use tessera_circuits::boundary::BoundaryUnits;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{LimbSet, MatmulKind, ModelConfig, WeightFormat, MIN_ROWS_LOG};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Lengths;
use tessera_circuits::table_tree::TableArgument;
use tessera_circuits::trees::{lookup_trees, Forest};
use tessera_verifier::opening::{CommitmentParams, OpenedColumns};
use tessera_verifier::policy::STARK_LOG_BLOWUP;
use tessera_verifier::suite::Suite;

use super::{claims, Choices, Phase};
use tessera_float::{GROUP_ROWS, LOGITS};
use tessera_model::tiles::tile_bytes;
use tessera_model::weights::Residency;
use tessera_prover::opening::memory::{commit_bytes, encoding_bytes, Opening};
use tessera_prover::opening::Tree;
use tessera_prover::vectors::layers::arena_bytes;
use tessera_quantise::comparison::comparison_bytes;
use tessera_quantise::feedback_bytes;

/// The program, its threads, and a key without its tokenizer.
const FIXED: u64 = 40 << 20;
/// Memory of a tokenizer for each byte of its file: while it is read, and afterwards. Measured on a tokenizer of 14.3
/// MB, with 262,144 tokens and 513,511 merges.
const READING_TOKENIZER: u64 = 36;
const TOKENIZER: u64 = 15;
/// Bytes of a cell of a column.
const CELL: u64 = 2;
/// Bytes of a field element, and of an element of its extension.
const WORD: u64 = 4;
const SECURE: u64 = 16;
/// Bytes of the sums of a band in the first pass over the weights.
const BAND_SUMS: u64 = 1024;
/// The STARK from its first commitment on: tables and counts of `2^16` rows, their extensions, trees and twiddles.
const TABLES: u64 = 104 << 20;
/// A column of the tables.
const ROWS: u64 = WORD << tables::LOG_ROWS;
/// A further column of counts: its rows, the coefficients of its polynomial and its extension.
const COUNTS: u64 = ((2 * WORD) << tables::LOG_ROWS) + (WORD << (tables::LOG_ROWS + STARK_LOG_BLOWUP));
/// Memory that proving the STARK takes in addition: the other columns, quotients, layers and their trees.
const STARK: u64 = 80 << 20;
/// Tables of a product sumcheck that are copied at once, as instances become packed.
const COPIES: usize = 2;

/// The facts about a model that a plan depends on, as in [`Subject`](super::Subject).
#[derive(Clone, Debug)]
pub(super) struct Model<'a> {
    pub config: &'a ModelConfig,
    pub format: WeightFormat,
    pub exponents: &'a [u8],
    pub limbs: LimbSet,
    pub commitment: CommitmentParams,
    pub suite: Suite,
    pub tables: TableArgument,
    pub codeword_file: bool,
    /// Bytes of the tokenizer's file.
    pub tokenizer: u64,
}

impl Model<'_> {
    /// Bytes of the weights file.
    pub fn weights(&self) -> u64 {
        (self.commitment.tiles * tile_bytes(self.format)) as u64
    }

    /// Resident weights in a phase that reads them, and in one that does not.
    fn resident(&self, residency: Residency) -> (u64, u64) {
        match residency {
            Residency::Keep => (self.weights(), self.weights()),
            Residency::Window { bytes } => ((bytes as u64).min(self.weights()), 0),
        }
    }

    /// Bytes that are in memory as soon as the model is open.
    fn open(&self) -> u64 {
        FIXED + TOKENIZER * self.tokenizer + 2 * Tree::file_len(&self.commitment)
    }

    /// The tokenizer is read before anything else.
    pub fn read_tokenizer(&self) -> Phase {
        Phase::on_host("read tokenizer", FIXED + READING_TOKENIZER * self.tokenizer)
    }

    /// The state of the forward pass: rotations, tables, and the key/value cache of `rows` rows.
    fn state(&self, rows: u64) -> u64 {
        let c = self.config;
        let rope = c.context.next_power_of_two() * c.head_dim / 2 * 8 * c.rotations.len();
        let cache = 2 * 2 * c.layers * c.kv_heads * c.head_dim;
        rope as u64 + (6 << 16) + rows * cache as u64 * 3 / 2
    }

    /// Values of a layer or two, as a pass without a record has them.
    fn activations(&self, rows: u64) -> u64 {
        let c = self.config;
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        rows * (24 * c.hidden + 28 * q + 34 * kv + 40 * c.ff) as u64
            + rows * rows * c.heads as u64 * 4
            + 22 * c.vocab as u64
    }

    /// Generation from a prompt of `rows` rows at most, perhaps followed by a pass for the logits of all rows.
    pub fn generate(&self, rows: u64, logits: bool, residency: Residency) -> Phase {
        let logits = if logits {
            18 * rows * self.config.vocab as u64
        } else {
            0
        };
        let bytes = self.open() + self.resident(residency).0 + self.state(rows) + self.activations(rows) + logits;
        Phase::on_host("generate", bytes)
    }
}

/// The activations of a statement and the committed boundaries of a chunk, all in bytes.
struct Activations {
    shape: Shape,
    /// One for each boundary that is committed to.
    boundaries: Vec<CommitmentParams>,
    /// The columns of all parts in row order.
    columns: u64,
    params: CommitmentParams,
}

impl Activations {
    fn new(shape: Shape, weights: &CommitmentParams) -> Self {
        Self {
            columns: shape.parts().iter().map(|part| columns(&shape, *part)).sum(),
            params: CommitmentParams::of_activations(&shape, weights),
            boundaries: boundaries(&shape, weights),
            shape,
        }
    }

    /// Bytes that are held from the commitment on.
    fn committed(&self) -> u64 {
        // Of a boundary the values, and those of its units, with their tree.
        let boundary =
            |own: &CommitmentParams| 2 * ((CELL * own.tiles as u64) << MIN_ROWS_LOG) + 2 * Tree::file_len(own);
        let boundaries: u64 = self.boundaries.iter().map(boundary).sum();
        self.columns + boundaries + 2 * Tree::file_len(&self.params) + self.tables()
    }

    /// What is held of the tables beside the columns that are committed to.
    fn tables(&self) -> u64 {
        let relations = self.shape.config.relations().len() as u64;
        match (self.shape.table_tree(), Forest::of(&self.shape).is_weighted()) {
            (Some(_), _) => ROWS * (relations + 3),
            // Three columns of counts more than one for each relation.
            (None, true) => TABLES + 3 * COUNTS * relations,
            (None, false) => TABLES,
        }
    }
}

/// The committed boundaries of a chunk.
fn boundaries(shape: &Shape, weights: &CommitmentParams) -> Vec<CommitmentParams> {
    let params = |units: BoundaryUnits| CommitmentParams::of_boundary(&units, weights);
    let own = BoundaryUnits::of(shape.rows, shape.config.hidden).map(params);
    let ends = [shape.chunk.is_first(), shape.chunk.is_last()];
    ends.into_iter().filter_map(|none| own.filter(|_| !none)).collect()
}

/// The columns of a part. Counts do not fit two bytes.
fn columns(shape: &Shape, part: Part) -> u64 {
    let cell = if part == Part::COUNTS { WORD } else { CELL };
    (cell * shape.columns(part) as u64) << shape.log_rows(part)
}

/// Bytes that a forward pass of a chunk records for one part alone, the ones that
/// [`Witness::forget`](tessera_model::forward::Witness::forget) frees.
fn recorded(shape: &Shape, part: Part) -> u64 {
    let (c, rows) = (&shape.config, shape.rows as u64);
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let pairs = rows * rows * c.heads as u64;
    let of_layers = |bytes: u64| c.layers as u64 * bytes;
    match part {
        Part::STREAM => c.states() as u64 * rows * 12 * c.hidden as u64,
        Part::Q => of_layers(rows * 12 * q as u64),
        Part::K => of_layers(rows * 12 * kv as u64),
        Part::V => of_layers(rows * 10 * kv as u64),
        Part::SCORES | Part::WINDOWED => {
            let own = shape.kinds().into_iter().filter(|kind| kind.part == part);
            own.map(|kind| kind.layers.len() as u64 * 14 * pairs).sum()
        }
        Part::SOFTMAX => of_layers(2 * pairs),
        Part::ATT => of_layers(rows * 6 * q as u64),
        Part::FF => of_layers(rows * 24 * c.ff as u64),
        Part::LOGITS if shape.has_logits() => 12 * (shape.outputs * c.vocab) as u64,
        Part::NORMS => rows * (28 * c.states() + 14 * c.layers * c.heads) as u64,
        // Norms of heads have no record of their own, and there may be no logits.
        _ => 0,
    }
}

/// The record of a forward pass of a chunk, without and with its logits.
fn witness(shape: &Shape) -> (u64, u64) {
    let all: u64 = shape.parts().iter().map(|part| recorded(shape, *part)).sum();
    (all - recorded(shape, Part::LOGITS), all)
}

/// The record and the columns while they are made of it, part by part.
fn made(shape: &Shape) -> u64 {
    let steps = shape
        .parts()
        .iter()
        .scan((witness(shape).1, 0), |(record, made), part| {
            *made += columns(shape, *part);
            let held = *record + *made;
            *record -= recorded(shape, *part);
            Some(held)
        });
    steps.max().unwrap_or(0)
}

/// The largest tables of a phase, taken twice while they are copied.
fn copied(mut tables: Vec<u64>) -> u64 {
    tables.sort_unstable();
    tables.iter().sum::<u64>() + tables.iter().rev().take(COPIES).sum::<u64>()
}

/// The columns of the weights' commitment that a chunk opens.
pub(super) fn opened(commitment: &CommitmentParams, config: &ModelConfig, chunk: &Chunk) -> OpenedColumns {
    commitment.columns_of(&chunk.tiles(config), config.band_log())
}

/// All phases of a proof of a chunk. `counted` is what [`claims::bytes`] says of the chunk, which no choice changes.
pub(super) fn prove(
    model: &Model<'_>,
    chunk: &Chunk,
    lengths: Lengths,
    choices: &Choices,
    counted: &OnceCell<u64>,
) -> Vec<Phase> {
    let shape = Shape::with_limbs(model.config, model.limbs, chunk, lengths).with_tables(model.tables);
    let trace = Activations::new(shape, &model.commitment);
    let (shape, c) = (&trace.shape, &trace.shape.config);
    let rows = shape.rows as u64;
    let base = model.open();
    let (reading, idle) = model.resident(choices.residency);
    let phase = Phase::on_host;

    let (body, record) = witness(shape);
    let scores = 16 * rows * rows * c.heads as u64;
    let logits = if chunk.is_last() {
        18 * (shape.outputs * c.vocab) as u64
    } else {
        0
    };
    let forward = base + reading + model.state(rows) + (body + scores.max(logits)).max(record);

    let threads = rayon::current_num_threads() as u64;
    let counts = (2 * threads * WORD * shape.config.relations().len() as u64) << tables::LOG_ROWS;
    let made = base + idle + made(shape);
    let commit = base + idle + trace.committed() + counts.max(encoding_bytes(model.suite, &trace.params));

    let opened = opened(&model.commitment, model.config, chunk);
    let sums = BAND_SUMS * opened.bands().len() as u64;
    let products = shape
        .products()
        .iter()
        .map(|own| (2 * SECURE) << own.variables.unwrap_or(0))
        .collect();
    let committed = base + trace.committed();
    let matmuls = committed + reading + sums + copied(products);

    let trees = lookup_trees(shape);
    let lookups = committed + idle + arena_bytes(&trees, shape.table_tree().as_ref());

    // The sums of the first pass become the message of the second.
    let counted = counted.get_or_init(|| claims::bytes(shape, &trees, model.exponents));
    let claims = committed + idle + sums + *counted;

    // What is proved in one piece is recorded while it is generated, but for pairs of rows.
    let pairs: u64 = [Part::SCORES, Part::WINDOWED, Part::SOFTMAX]
        .map(|part| recorded(shape, part))
        .into_iter()
        .sum();
    let kept = match chunk.is_first() && chunk.is_last() {
        true => record - pairs,
        false => 0,
    };
    let generate = model.generate(lengths.rows as u64, false, choices.residency).bytes + kept;

    let opening = Opening {
        suite: model.suite,
        weights: &model.commitment,
        units: &trace.params,
        boundaries: &trace.boundaries,
        columns: &opened,
        sums,
        codeword_file: model.codeword_file,
        resident: (reading, idle),
    };

    let mut phases = vec![
        model.read_tokenizer(),
        phase("generate", generate),
        phase("forward pass", forward),
        phase("trace", made),
        phase("commit activations", commit),
        phase("lookups", lookups),
        phase("matmuls", matmuls),
        phase("claims", claims),
        phase("open", committed + opening.bytes()),
    ];
    if model.tables == TableArgument::Stark {
        phases.push(phase("stark", committed + STARK));
    }
    phases
}

/// Bytes of the tensor of a checkpoint that is mapped while it is read, and of the activations of `tokens` tokens in
/// the float model, which takes so many rows through a layer at once.
fn float(c: &ModelConfig, tokens: usize) -> (u64, u64) {
    let (q, kv, rows) = (c.heads * c.head_dim, c.kv_heads * c.head_dim, tokens.min(GROUP_ROWS));
    let tensors = c.matmuls().into_iter().map(|m| 4 * (m.in_dim * m.out_dim) as u64);
    let layer = (4 * c.hidden + 3 * q + 2 * kv + 3 * c.ff).max(2 * c.hidden + 2 * c.vocab.min(LOGITS));
    let bytes = 4 * (rows * layer + tokens * c.hidden) as u64;
    (tensors.max().unwrap_or(0), bytes)
}

/// Bytes that rotating the stream adds to a set-up: the largest matrix that is transposed, and the turned rows of a
/// state. Weights of two bytes are not rotated, unless another program asks this library for it.
fn turned(model: &Model<'_>, tokens: usize) -> u64 {
    if model.format != WeightFormat::Int8 {
        return 0;
    }
    let matrices = [MatmulKind::O, MatmulKind::Down].map(|kind| model.config.dims(kind));
    let largest = matrices.into_iter().map(|(inputs, outputs)| inputs * outputs).max();
    4 * (largest.unwrap_or(0) + tokens.min(GROUP_ROWS) * model.config.hidden) as u64
}

/// A comparison of the integer model with the float model.
pub(super) fn compare(model: &Model<'_>, tokens: usize, window: usize, residency: Residency) -> Phase {
    let (tensor, values) = float(model.config, tokens);
    let rows = window as u64;
    let integer = model.resident(residency).0 + model.state(rows) + model.activations(rows);
    let bytes = FIXED + tensor + values.max(integer) + comparison_bytes(model.config, tokens, window);
    Phase::on_host("compare models", bytes)
}

/// All phases of a set-up on `tokens` tokens of calibration text, as far as they depend on the model.
pub(super) fn setup(model: &Model<'_>, tokens: usize, choices: &Choices) -> Vec<Phase> {
    let (c, params) = (model.config, &model.commitment);
    let phase = Phase::on_host;
    let (tensor, values) = float(c, tokens);
    let values = values + turned(model, tokens);
    let calibrate = FIXED + tensor + values;
    // Where errors of rounding are fed back, the float model runs again.
    let fed_back = feedback_bytes(c, model.format, tokens);
    let write = FIXED + tensor + values + fed_back + (64 << 20);
    let commit = FIXED + commit_bytes(model.suite, params, choices.split) + (48 << 20);
    vec![
        model.read_tokenizer(),
        phase("calibrate", calibrate),
        phase("write weights", write),
        phase("commit to weights", commit),
        phase("commit to tables", FIXED + (24 << 20)),
    ]
}
