//! The statement (docs/protocol.md, section 1).

use serde::{Deserialize, Serialize};

use crate::model::{LeadingRows, ModelConfig, ModelParams, NormParams, RowClass};

/// "This model, on this prompt, generates these tokens" (greedy, lowest index on a tie); or "this encoder makes this vector of
/// this text".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// What was given.
    pub prompt: Vec<u32>,
    /// What was generated; or [`VECTOR`] and the integers of a vector, in two's complement.
    pub output: Vec<u32>,
}

/// The first word of an output that is a vector: no token has this id.
pub const VECTOR: u32 = u32::MAX;
/// Largest absolute value of an integer of a vector: the sum of as many values of 16 bits as a text has tokens.
pub const MAX_VECTOR: u32 = 1 << 28;

/// Lengths of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Token rows of the forward pass.
    pub rows: usize,
    /// Output tokens.
    pub outputs: usize,
}

/// The longest output that a statement of so many rows can have: that of a prompt of one token.
impl From<usize> for Lengths {
    fn from(rows: usize) -> Self {
        Self { rows, outputs: rows }
    }
}

/// How an output ends. It follows from the ids of the statement and the end tokens of the model alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The last token ends the text.
    Stop {
        /// Which one.
        id: u32,
    },
    /// The output stops at this many tokens, not because the model ended the text.
    Length {
        /// How many there are.
        tokens: usize,
    },
}

impl Finish {
    /// As programs say it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Stop { .. } => "stop",
            Self::Length { .. } => "length",
        }
    }
}

/// A statement that cannot be true of the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum StatementError {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("no output token is claimed")]
    EmptyOutput,
    #[error("{rows} token rows exceed the model's context of {context}")]
    TooLong { rows: usize, context: usize },
    #[error("the output is {got} words, but the vector of this encoder is {expected} integers")]
    Vector { got: usize, expected: usize },
    #[error("integer {value} at {index} of the vector is more than the sum of its rows can be")]
    VectorRange { index: usize, value: i32 },
    #[error("token id {id} at position {position} is outside the vocabulary of {vocab}")]
    UnknownToken { id: u32, position: usize, vocab: usize },
}

impl Statement {
    /// Checks lengths and ids against the model.
    pub fn check(&self, config: &ModelConfig) -> Result<(), StatementError> {
        if self.prompt.is_empty() {
            return Err(StatementError::EmptyPrompt);
        }
        if self.output.is_empty() {
            return Err(StatementError::EmptyOutput);
        }
        if self.rows() > config.context {
            return Err(StatementError::TooLong {
                rows: self.rows(),
                context: config.context,
            });
        }
        let output = match config.generates() {
            true => self.output.as_slice(),
            false => self.check_vector(config.hidden).map(|()| [].as_slice())?,
        };
        for (position, &id) in self.prompt.iter().chain(output).enumerate() {
            if id as usize >= config.vocab {
                return Err(StatementError::UnknownToken {
                    id,
                    position,
                    vocab: config.vocab,
                });
            }
        }
        Ok(())
    }

    /// One integer for every channel, none larger than sums are.
    fn check_vector(&self, hidden: usize) -> Result<(), StatementError> {
        let (expected, got) = (hidden, self.output.len());
        let vector = self.vector().filter(|vector| vector.len() == expected);
        let vector = vector.ok_or(StatementError::Vector { got, expected })?;
        match vector.iter().position(|v| v.unsigned_abs() > MAX_VECTOR) {
            Some(index) => Err(StatementError::VectorRange {
                index,
                value: vector.get(index).copied().unwrap_or_default(),
            }),
            None => Ok(()),
        }
    }

    /// That an encoder makes this vector of a text.
    pub fn of_vector(text: Vec<u32>, vector: &[i32]) -> Self {
        let integers = vector.iter().map(|v| *v as u32);
        Self {
            prompt: text,
            output: std::iter::once(VECTOR).chain(integers).collect(),
        }
    }

    /// The vector of an encoder, if the output is one.
    pub fn vector(&self) -> Option<Vec<i32>> {
        let (_, integers) = self.output.split_first().filter(|(first, _)| **first == VECTOR)?;
        Some(integers.iter().map(|v| *v as i32).collect())
    }

    /// The ids that were generated: none if the output is a vector.
    pub fn generated_ids(&self) -> &[u32] {
        match self.output.first() {
            Some(&VECTOR) => &[],
            _ => &self.output,
        }
    }

    /// Token rows of the forward pass: prompt and all generated tokens but the last; of a vector all tokens of the text.
    pub fn rows(&self) -> usize {
        match self.output.first() {
            Some(&VECTOR) => self.prompt.len(),
            _ => (self.prompt.len() + self.output.len()).saturating_sub(1),
        }
    }

    /// What row spaces follow from.
    pub fn lengths(&self) -> Lengths {
        Lengths {
            rows: self.rows(),
            outputs: self.generated_ids().len(),
        }
    }

    /// The token of every row.
    pub fn row_ids(&self) -> Vec<u32> {
        let all = self.prompt.iter().chain(self.generated_ids());
        all.copied().take(self.rows()).collect()
    }

    /// The number of leading rows, which are the first ones.
    pub fn leading(&self, rule: &LeadingRows) -> usize {
        rule.count(&self.row_ids())
    }

    /// How the output ends.
    pub fn finish(&self, config: &ModelConfig) -> Finish {
        match self.generated_ids().last() {
            Some(&id) if config.eos.contains(&id) => Finish::Stop { id },
            _ => Finish::Length {
                tokens: self.generated_ids().len(),
            },
        }
    }

    /// Positions in the output of tokens that end a text, but for the last position: there the model went on past its
    /// own end.
    pub fn ends_inside(&self, config: &ModelConfig) -> Vec<usize> {
        let ids = self.generated_ids();
        let inside = ids.iter().take(ids.len().saturating_sub(1)).enumerate();
        let ends = inside.filter(|(_, id)| config.eos.contains(id));
        ends.map(|(position, _)| position).collect()
    }

    /// (row, output token) of every generated position.
    pub fn generated(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let first = self.prompt.len().saturating_sub(1);
        let ids = self.generated_ids().iter().enumerate();
        ids.map(move |(i, &id)| (first + i, id))
    }
}

/// Class of a token row, where the first `leading` ones are leading rows.
pub const fn class_of(row: usize, leading: usize) -> RowClass {
    match row < leading {
        true => RowClass::Lead,
        false => RowClass::Body,
    }
}

/// Norm parameters of a residual state.
pub fn norm_of(params: &ModelParams, state: usize) -> &NormParams {
    let per_layer = if params.norms_outputs() { 4 } else { 2 };
    let Some(layer) = params.layers.get(state / per_layer) else {
        return &params.norm_final;
    };
    match (state % per_layer, &layer.attention.post_norm, &layer.mlp.post_norm) {
        (0, ..) => &layer.attention.norm,
        (1, Some(post), _) | (3, _, Some(post)) => &post.norm,
        _ => &layer.mlp.norm,
    }
}

#[cfg(test)]
mod tests;
