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

/// An id that a proof hides, in the place of the id: no token has it.
pub const HIDDEN: u32 = u32::MAX - 1;

/// Lengths of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Token rows of the forward pass.
    pub rows: usize,
    /// Output tokens.
    pub outputs: usize,
    /// How many ids are hidden.
    pub hidden: HiddenLengths,
}

/// How many ids a statement hides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenLengths {
    /// Token rows whose ids are hidden.
    pub rows: usize,
    /// Whether the id of an output token is hidden.
    pub outputs: bool,
}

impl Lengths {
    /// The lengths of a statement that hides no id.
    pub const fn new(rows: usize, outputs: usize) -> Self {
        let hidden = HiddenLengths {
            rows: 0,
            outputs: false,
        };
        Self { rows, outputs, hidden }
    }

    /// Returns these lengths for a statement whose prompt has so many ids and whose proof hides `ids`.
    #[must_use]
    pub fn hiding(self, prompt: usize, ids: &HiddenIds) -> Self {
        let of_prompt = ids
            .prompt
            .map_or(0, |own| prompt.saturating_sub(own.prefix.saturating_add(own.suffix)));
        let of_output = match ids.output {
            true => self.rows.saturating_sub(prompt),
            false => 0,
        };
        let hidden = HiddenLengths {
            rows: of_prompt + of_output,
            outputs: ids.output && self.outputs > 0,
        };
        Self { hidden, ..self }
    }

    /// Returns these lengths for a statement whose proof hides every id.
    #[must_use]
    pub const fn all_hidden(self) -> Self {
        let hidden = HiddenLengths {
            rows: self.rows,
            outputs: self.outputs > 0,
        };
        Self { hidden, ..self }
    }
}

/// The longest output that a statement of so many rows can have: that of a prompt of one token.
impl From<usize> for Lengths {
    fn from(rows: usize) -> Self {
        Self::new(rows, rows)
    }
}

/// The ids that a proof hides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenIds {
    /// Which ids of the prompt are hidden; `None`: none of them.
    pub prompt: Option<HiddenPrompt>,
    /// Whether all ids of the output are hidden.
    pub output: bool,
}

/// The ids of a prompt that a proof shows; it hides those between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenPrompt {
    /// How many are shown from the first one on.
    pub prefix: usize,
    /// How many are shown up to the last one.
    pub suffix: usize,
}

impl HiddenIds {
    /// Whether no id is hidden.
    pub const fn is_none(&self) -> bool {
        self.prompt.is_none() && !self.output
    }

    /// Refuses, before there is an output, a prompt of which a proof cannot hide these ids ([`Statement::hiding`]).
    pub fn check(&self, prompt: &[u32], config: &ModelConfig, rule: &LeadingRows) -> Result<(), StatementError> {
        if self.output && !config.generates() {
            return Err(StatementError::HiddenVector);
        }
        let own = self.masked(prompt)?;
        let statement = |prompt| Statement {
            prompt,
            output: vec![HIDDEN],
        };
        statement(own).check_decided(&statement(prompt.to_vec()), config, rule)
    }

    /// A prompt with [`HIDDEN`] in the place of the ids that are hidden.
    fn masked(&self, prompt: &[u32]) -> Result<Vec<u32>, StatementError> {
        let mut own = prompt.to_vec();
        if let Some(HiddenPrompt { prefix, suffix }) = self.prompt {
            let (tokens, shown) = (prompt.len(), prefix.saturating_add(suffix));
            if shown >= tokens {
                return Err(StatementError::NothingHidden { tokens, shown });
            }
            let middle = own.iter_mut().skip(prefix).take(tokens - shown);
            middle.for_each(|id| *id = HIDDEN);
        }
        Ok(own)
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
    /// Tokens of the output are hidden, and so is whether one of them ends the text.
    Hidden {
        /// How many there are.
        tokens: usize,
    },
}

impl Finish {
    /// As programs say it; `None` if it is hidden.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Stop { .. } => Some("stop"),
            Self::Length { .. } => Some("length"),
            Self::Hidden { .. } => None,
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
    #[error("the id at position {position} is hidden, but this proof hides no ids")]
    Hidden { position: usize },
    #[error("the prompt has {tokens} ids, and the {shown} that are to be shown leave none to hide")]
    NothingHidden { tokens: usize, shown: usize },
    #[error("{}", leading_message(*.needed))]
    HiddenLeading { needed: Option<usize> },
    #[error("the types of the tokens of a pair follow from its ids, so this reranker cannot hide a pair")]
    HiddenTypes,
    #[error("the output of this model is a vector, which is not hidden")]
    HiddenVector,
}

/// The message of [`StatementError::HiddenLeading`].
fn leading_message(needed: Option<usize>) -> String {
    match needed {
        Some(1) => {
            "the first id of this prompt has to be shown, because it decides which rows are leading rows".to_owned()
        }
        Some(needed) => format!(
            "the first {needed} ids of this prompt have to be shown, because they decide which rows are leading rows"
        ),
        None => {
            "ids are hidden that decide which rows are leading rows: the first id, or a prompt of equal ids and an output that begins with it".to_owned()
        }
    }
}

impl Statement {
    /// Checks lengths and ids against the model. No id may be hidden.
    pub fn check(&self, config: &ModelConfig) -> Result<(), StatementError> {
        self.check_ids(config)?;
        match self.tokens().position(|id| id == HIDDEN) {
            Some(position) => Err(StatementError::Hidden { position }),
            None => Ok(()),
        }
    }

    /// Checks lengths, ids that are shown, and that everything follows from them that a verifier has to know: which rows are leading rows, and the types of
    /// tokens.
    pub fn check_hiding(&self, config: &ModelConfig, rule: &LeadingRows) -> Result<(), StatementError> {
        self.check_ids(config)?;
        if self.hidden_rows().next().is_none() {
            return Ok(());
        }
        if config.token_types() > 1 {
            return Err(StatementError::HiddenTypes);
        }
        match self.leading_decided(rule) {
            Some(_) => Ok(()),
            None => Err(StatementError::HiddenLeading { needed: None }),
        }
    }

    /// How the number of leading rows follows from the ids that are not hidden; `None` if it does not.
    pub fn leading_decided(&self, rule: &LeadingRows) -> Option<Decided> {
        decided(&self.row_ids(), rule)
    }

    /// Checks lengths, and all ids but those that are hidden.
    fn check_ids(&self, config: &ModelConfig) -> Result<(), StatementError> {
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
            if id as usize >= config.vocab && id != HIDDEN {
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
        let hidden = HiddenLengths {
            rows: self.hidden_rows().count(),
            outputs: self.hides_output(),
        };
        let lengths = Lengths::new(self.rows(), self.generated_ids().len());
        Lengths { hidden, ..lengths }
    }

    /// Returns the ids of the prompt, then the generated ids.
    pub fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        self.prompt.iter().chain(self.generated_ids()).copied()
    }

    /// Returns the statement with these ids at these positions of its tokens, from 0 on.
    #[must_use]
    pub fn revealing(&self, revealed: &[(usize, u32)]) -> Self {
        let mut own = self.clone();
        let prompt = own.prompt.len();
        for &(position, id) in revealed {
            let place = match position.checked_sub(prompt) {
                None => own.prompt.get_mut(position),
                Some(place) => own.output.get_mut(place),
            };
            if let Some(place) = place {
                *place = id;
            }
        }
        own
    }

    /// The rows whose tokens are hidden, ascending.
    pub fn hidden_rows(&self) -> impl Iterator<Item = usize> + '_ {
        let rows = self.tokens().take(self.rows()).enumerate();
        rows.filter(|(_, id)| *id == HIDDEN).map(|(row, _)| row)
    }

    /// Whether any ids are hidden.
    pub fn hides_ids(&self) -> bool {
        self.hides_prompt() || self.hides_output()
    }

    /// Whether ids of the prompt are hidden.
    pub fn hides_prompt(&self) -> bool {
        self.prompt.contains(&HIDDEN)
    }

    /// Whether ids of the output are hidden.
    pub fn hides_output(&self) -> bool {
        self.generated_ids().contains(&HIDDEN)
    }

    /// The statement as its proof says it, with [`HIDDEN`] in the place of the ids that it hides.
    ///
    /// # Errors
    /// If the ids of the prompt that are shown leave none to hide, if the output is a vector and is to be hidden, or if not all that a verifier has to
    /// know follows from the ids that are shown ([`Self::check_hiding`]).
    pub fn hiding(&self, hidden: &HiddenIds, config: &ModelConfig, rule: &LeadingRows) -> Result<Self, StatementError> {
        if hidden.output && !config.generates() {
            return Err(StatementError::HiddenVector);
        }
        let own = Self {
            prompt: hidden.masked(&self.prompt)?,
            output: match hidden.output {
                true => vec![HIDDEN; self.output.len()],
                false => self.output.clone(),
            },
        };
        own.check_ids(config)?;
        own.check_decided(self, config, rule)?;
        Ok(own)
    }

    /// Checks that everything follows from the ids that are shown, where `all` has those that are hidden, too.
    fn check_decided(&self, all: &Self, config: &ModelConfig, rule: &LeadingRows) -> Result<(), StatementError> {
        if self.hidden_rows().next().is_none() {
            return Ok(());
        }
        if config.token_types() > 1 {
            return Err(StatementError::HiddenTypes);
        }
        match all.is_decided(&self.row_ids(), rule) {
            true => Ok(()),
            false => Err(StatementError::HiddenLeading {
                needed: all.needed(rule),
            }),
        }
    }

    /// Whether the number of leading rows follows if the ids of the rows are shown and hidden as these are.
    fn is_decided(&self, hidden: &[u32], rule: &LeadingRows) -> bool {
        match decided(hidden, rule) {
            Some(Decided::Ends { row, first }) => self.row_ids().get(row) != Some(&first),
            own => own.is_some(),
        }
    }

    /// The fewest first ids of the prompt from which the number of leading rows follows; `None` if all of them are needed.
    fn needed(&self, rule: &LeadingRows) -> Option<usize> {
        let ids = self.row_ids();
        let enough = |shown: &usize| {
            let hidden = std::iter::repeat_n(HIDDEN, ids.len() - shown);
            let ids: Vec<u32> = ids.iter().copied().take(*shown).chain(hidden).collect();
            self.is_decided(&ids, rule)
        };
        (1..self.prompt.len()).find(enough)
    }

    /// The token of every row.
    pub fn row_ids(&self) -> Vec<u32> {
        self.tokens().take(self.rows()).collect()
    }

    /// The number of leading rows, which are the first ones.
    pub fn leading(&self, rule: &LeadingRows) -> usize {
        rule.count(&self.row_ids())
    }

    /// How the output ends.
    pub fn finish(&self, config: &ModelConfig) -> Finish {
        match self.generated_ids().last() {
            // A hidden token may end the text, too, even if the last one is shown.
            _ if self.hides_output() => Finish::Hidden {
                tokens: self.generated_ids().len(),
            },
            Some(&id) if config.eos.contains(&id) => Finish::Stop { id },
            _ => Finish::Length {
                tokens: self.generated_ids().len(),
            },
        }
    }

    /// Returns the positions in the output, before the last one, where a shown token ends a text: there the model went on past its own end.
    /// Hidden tokens are left out.
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

/// How the number of leading rows follows from ids of which some are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It follows from the ids that are shown.
    Shown,
    /// It follows from them and from a hidden id not being the first id, which is shown: the initial run of equal ids ends there.
    Ends {
        /// The row of the hidden id.
        row: usize,
        /// The first id.
        first: u32,
    },
}

/// How [`LeadingRows::count`] of these ids follows from those among them that are not [`HIDDEN`]; `None` if it does not.
fn decided(ids: &[u32], rule: &LeadingRows) -> Option<Decided> {
    let shown = |id: &u32| *id != HIDDEN;
    let first = ids.first().copied().filter(shown);
    if let Some(token) = rule.token {
        // Of a text that begins with another token no row is a leading one.
        if first? != token {
            return Some(Decided::Shown);
        }
    }
    let least = usize::from(rule.first);
    if !rule.run || ids.len() <= least {
        return Some(Decided::Shown);
    }
    let first = first?;
    // Another id may end the run among rows that are leading ones anyway.
    let within = ids.iter().take(least + 1).any(|id| shown(id) && *id != first);
    let row = ids.iter().take_while(|id| **id == first).count();
    Some(match ids.get(row) {
        Some(&HIDDEN) if !within => Decided::Ends { row, first },
        _ => Decided::Shown,
    })
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
