//! What row spaces are computed from: the architecture of a chunk, how its accumulators are claimed, and the lengths of a statement.

use std::ops::RangeInclusive;

use crate::chunk::Chunk;
use crate::model::{log_ceil, LeadingRows, LimbSet, Matmul, ModelConfig, Padded};
use crate::scalar::{Source, Word};
use crate::statement::{HiddenLengths, Lengths};
use crate::text::TextEnd;

/// log2 of the tokens of a block: rows are committed in blocks, and scores for pairs of them.
const BLOCK_LOG: u32 = 4;

/// log2 of the tokens of a block, of axes of `2^token` rows: a text that is shorter than a block has shorter blocks.
const fn block_log(token: u32) -> u32 {
    if token < BLOCK_LOG {
        token
    } else {
        BLOCK_LOG
    }
}

/// An axis of a part that may be cut into lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which one.
    pub axis: usize,
    /// How many entries have to be committed, from the first on.
    pub real: usize,
    /// log2 of the fewest entries of a lane along it.
    pub least: u32,
}

impl Extent {
    /// An axis of layers, states, heads or channels.
    pub const fn of(axis: usize, real: usize) -> Self {
        Self { axis, real, least: 0 }
    }
}

/// Whether an entry is of a row of the text, where the second axis of a part are the token rows.
pub fn of_second_axis(sizes: &Sizes, place: &[usize]) -> bool {
    place.get(1).is_some_and(|row| *row < sizes.rows)
}

/// The sizes of a chunk and of a statement of it.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// The architecture of the chunk alone: its layers, not the model's.
    pub config: ModelConfig,
    /// The layers that are proved.
    pub chunk: Chunk,
    /// Padded dimensions of the chunk.
    pub padded: Padded,
    /// Token rows of the text.
    pub rows: usize,
    /// log2 of the length of axes of token rows.
    pub token: u32,
    /// Number of output tokens.
    pub outputs: usize,
    /// How many ids are hidden.
    pub hidden: HiddenLengths,
    /// How accumulators are claimed.
    pub limbs: LimbSet,
}

impl Sizes {
    /// Of a chunk of a model and a statement of these lengths.
    pub fn new(model: &ModelConfig, limbs: LimbSet, chunk: &Chunk, lengths: impl Into<Lengths>) -> Self {
        let Lengths { rows, outputs, hidden } = lengths.into();
        let config = chunk.config(model);
        Self {
            padded: config.padded(),
            config,
            chunk: *chunk,
            rows,
            token: ModelConfig::token_log(rows),
            outputs,
            hidden,
            limbs,
        }
    }

    /// Whether there are logits: of models that generate tokens, in the last chunk.
    pub const fn has_logits(&self) -> bool {
        self.chunk.is_last() && self.config.generates()
    }

    /// The architecture of the whole model.
    pub fn model(&self) -> ModelConfig {
        ModelConfig {
            layers: self.chunk.of,
            ..self.config.clone()
        }
    }

    /// The weight matrices of the chunk ([`Chunk::matmuls`]).
    pub fn matmuls(&self) -> Vec<Matmul> {
        self.chunk.matmuls(&self.model())
    }

    /// log2 of the padded number of output tokens.
    pub fn output(&self) -> u32 {
        log_ceil(self.outputs, 0)
    }

    /// Number of residual states.
    pub fn states(&self) -> usize {
        self.config.states()
    }

    /// log2 of the tokens of a block.
    pub const fn block(&self) -> u32 {
        block_log(self.token)
    }

    /// log2 of the number of blocks along an axis of token rows.
    pub const fn blocks(&self) -> u32 {
        self.token - self.block()
    }

    /// The blocks that have a row of the text.
    pub const fn text_blocks(&self) -> usize {
        self.rows.div_ceil(1 << self.block())
    }

    /// The rows of the blocks that have a row of the text: every part commits to these at least.
    pub const fn text_rows(&self) -> usize {
        self.text_blocks() << self.block()
    }

    /// Returns [`Self::text_rows`] for a text of this many rows, whatever the model is.
    pub fn text_rows_of(rows: usize) -> usize {
        rows.next_multiple_of(1 << block_log(ModelConfig::token_log(rows)))
    }

    /// The lengths of the texts that have the same row spaces.
    pub const fn same_rows(&self) -> RangeInclusive<usize> {
        let most = self.text_rows();
        // A text of one block has an axis of the next power of two, so half as many rows would have a shorter axis.
        let least = match self.text_blocks() {
            1 => most / 2 + 1,
            _ => most + 1 - (1 << self.block()),
        };
        least..=most
    }

    /// The extent of an axis of token rows. Its lanes are whole blocks, because scores are committed for pairs of blocks.
    pub const fn tokens(&self, axis: usize) -> Extent {
        Extent {
            axis,
            real: self.text_rows(),
            least: self.block(),
        }
    }

    /// The most leading rows that a statement of the same row spaces can have.
    pub fn most_leading(&self, rule: &LeadingRows) -> usize {
        let all = self.text_rows();
        match rule.run {
            true => all,
            false => all.min(rule.first.into()),
        }
    }

    /// Where the text ends.
    pub const fn end(&self) -> TextEnd {
        TextEnd {
            last: Word::new(self.rows.saturating_sub(1), Source::LastRow),
            block: self.block(),
        }
    }
}
