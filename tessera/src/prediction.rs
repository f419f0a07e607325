//! What a proof will cost, from the dimensions alone.

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, TILE};
use tessera_circuits::shape::Shape;
use tessera_model::tiles::tile_bytes;
use tessera_prover::opening::{params_for, Codeword, Tree};

use crate::plan::{Choices, Plan, Subject, Task};
use crate::setup::LARGE_CODEWORD;

/// Seconds of a proof however small: proofs of work and the lookup tables.
const SECONDS_FIXED: f64 = 0.2;
/// Seconds per committed cell on two cores of 2.5 GHz.
const SECONDS_PER_CELL: f64 = 60e-9;
/// Seconds per weight to open the commitment on two cores of 2.5 GHz.
const SECONDS_PER_WEIGHT: f64 = 7e-9;

/// Whether set-up keeps the codeword of a model where nobody chooses.
pub fn keeps_codeword(config: &ModelConfig) -> bool {
    Codeword::file_len(&params_for(config.total_tiles())) <= LARGE_CODEWORD
}

/// Predicted cost of a model and one statement.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Prompt and generated tokens together.
    pub tokens: usize,
    /// Whether more were asked for than the context has room for.
    pub is_most: bool,
    /// Bytes of the model directory on disk.
    pub disk_bytes: u64,
    /// The memory that a proof needs with everything in memory.
    pub memory: Plan,
    /// The smallest memory budget, in bytes, that works.
    pub smallest_bytes: u64,
    /// Seconds of a proof in one piece on two cores of 2.5 GHz; a rough figure.
    pub prove_seconds: f64,
    /// Cells of the committed columns, which decide how long a proof takes.
    pub committed_cells: u64,
}

impl Prediction {
    /// Predicts a statement of `tokens` tokens; the config of `subject` must have passed its check.
    pub fn new(subject: &Subject, tokens: usize) -> Self {
        let config = &subject.config;
        let is_most = tokens > config.context + 1;
        let tokens = tokens.clamp(2, config.context + 1);
        let shape = Shape::with_limbs(config, subject.limbs, &Chunk::whole(config.layers), tokens - 1);
        let cells = shape.cells();
        let tiles = config.total_tiles();
        let padded = (tiles * TILE * TILE) as u64;
        let tables = config.context * config.head_dim * 2 + (4 << 16);
        let codeword = match subject.codeword_file {
            true => Codeword::file_len(&subject.commitment),
            false => 0,
        };
        let weight_bytes = (tiles * tile_bytes(subject.format)) as u64;
        let disk_bytes = weight_bytes + tables as u64 + Tree::file_len(&subject.commitment) + codeword;
        let task = Task::Prove {
            lengths: (tokens - 1).into(),
            chunk: Chunk::whole(config.layers),
        };
        Self {
            tokens,
            is_most,
            disk_bytes,
            memory: subject.with_choices(task, Choices::default()),
            smallest_bytes: subject.smallest(task).budget_bytes(),
            prove_seconds: SECONDS_FIXED + SECONDS_PER_WEIGHT * padded as f64 + SECONDS_PER_CELL * cells as f64,
            committed_cells: u64::try_from(cells).unwrap_or(u64::MAX),
        }
    }
}
