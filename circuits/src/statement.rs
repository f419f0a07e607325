//! The statement (docs/protocol.md, section 1).

use serde::{Deserialize, Serialize};

use crate::model::{LeadingRows, ModelConfig, ModelParams, NormParams, RowClass};

/// "This model, on this prompt, generates these tokens" (greedy, lowest index on a tie).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// What was given.
    pub prompt: Vec<u32>,
    /// What was generated.
    pub output: Vec<u32>,
}

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
        for (position, &id) in self.prompt.iter().chain(&self.output).enumerate() {
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

    /// Token rows of the forward pass: prompt and all generated tokens but the last.
    pub fn rows(&self) -> usize {
        (self.prompt.len() + self.output.len()).saturating_sub(1)
    }

    /// What row spaces follow from.
    pub fn lengths(&self) -> Lengths {
        Lengths {
            rows: self.rows(),
            outputs: self.output.len(),
        }
    }

    /// Token of every row, padded with token 0 to `2^token_log` rows.
    pub fn row_ids(&self, token_log: u32) -> Vec<u32> {
        let mut ids: Vec<u32> = self
            .prompt
            .iter()
            .chain(&self.output)
            .copied()
            .take(self.rows())
            .collect();
        ids.resize(1 << token_log, 0);
        ids
    }

    /// Number of leading rows among the `2^token_log` padded rows, which are the first ones.
    pub fn leading(&self, rule: &LeadingRows, token_log: u32) -> usize {
        rule.count(&self.row_ids(token_log))
    }

    /// How the output ends.
    pub fn finish(&self, config: &ModelConfig) -> Finish {
        match self.output.last() {
            Some(&id) if config.eos.contains(&id) => Finish::Stop { id },
            _ => Finish::Length {
                tokens: self.output.len(),
            },
        }
    }

    /// Positions in the output of tokens that end a text, but for the last position: there the model went on past its
    /// own end.
    pub fn ends_inside(&self, config: &ModelConfig) -> Vec<usize> {
        let before = self.output.len().saturating_sub(1);
        let inside = self.output.iter().take(before).enumerate();
        let ends = inside.filter(|(_, id)| config.eos.contains(id));
        ends.map(|(position, _)| position).collect()
    }

    /// (row, output token) of every generated position.
    pub fn generated(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let first = self.prompt.len().saturating_sub(1);
        self.output.iter().enumerate().map(move |(i, &id)| (first + i, id))
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
    match params.layers.get(state / 2) {
        Some(layer) if state.is_multiple_of(2) => &layer.norm_attn,
        Some(layer) => &layer.norm_mlp,
        None => &params.norm_final,
    }
}

#[cfg(test)]
mod tests;
