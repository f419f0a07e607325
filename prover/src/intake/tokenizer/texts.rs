//! Prompt and output as people read them.

use super::guard::{guarded, time_for};
use super::{Tokenizer, TokenizerError};

/// A stretch of text, or a token that no text stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// A special token, or (without a name) an id that the tokenizer does not know.
    Special {
        /// Counted from the first id of the prompt, or of the output.
        position: usize,
        id: u32,
        name: Option<String>,
    },
}

/// Prompt or output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Without special tokens.
    pub text: String,
    /// With special tokens: all ids, in order.
    pub pieces: Vec<Piece>,
}

/// Prompt and output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub prompt: Side,
    pub output: Side,
}

impl Texts {
    /// The whole text.
    pub fn whole(&self) -> String {
        format!("{}{}", self.prompt.text, self.output.text)
    }
}

impl Tokenizer {
    /// Decodes a prompt and its output. The output is what it adds to the prompt, so that both read as one text.
    pub fn texts(&self, prompt: &[u32], output: &[u32]) -> Result<Texts, TokenizerError> {
        let (this, prompt, output) = (self.clone(), prompt.to_vec(), output.to_vec());
        guarded(time_for(0), move || this.texts_here(&prompt, &output))?
    }

    fn texts_here(&self, prompt: &[u32], output: &[u32]) -> Result<Texts, TokenizerError> {
        let head = self.decode_here(prompt, true)?;
        let text = self.continuation(&head, prompt, output)?;
        // The stretch of text that the output goes on with.
        let last = prompt.iter().rposition(|id| !self.is_text(*id)).map_or(0, |at| at + 1);
        Ok(Texts {
            prompt: Side {
                text: head,
                pieces: self.pieces(&[], prompt)?,
            },
            output: Side {
                text,
                pieces: self.pieces(&prompt[last..], output)?,
            },
        })
    }

    /// What `ids` add to the text `head` of `before`.
    fn continuation(&self, head: &str, before: &[u32], ids: &[u32]) -> Result<String, TokenizerError> {
        if before.is_empty() {
            return self.decode_here(ids, true);
        }
        let whole = self.decode_here(&[before, ids].concat(), true)?;
        match whole.strip_prefix(head) {
            Some(rest) => Ok(rest.to_owned()),
            None => self.decode_here(ids, true),
        }
    }

    /// Whether an id stands for text.
    fn is_text(&self, id: u32) -> bool {
        self.special(id).is_none() && self.token(id).is_some()
    }

    /// The pieces of ids that go on with the text of `before`.
    fn pieces(&self, before: &[u32], ids: &[u32]) -> Result<Vec<Piece>, TokenizerError> {
        let mut pieces = Vec::new();
        let (mut before, mut position) = (before, 0);
        for run in ids.chunk_by(|a, b| self.is_text(*a) && self.is_text(*b)) {
            match run {
                [id] if !self.is_text(*id) => pieces.push(Piece::Special {
                    position,
                    id: *id,
                    name: self.special(*id).map(str::to_owned),
                }),
                _ => {
                    let head = self.decode_here(before, true)?;
                    pieces.push(Piece::Text(self.continuation(&head, before, run)?));
                }
            }
            (before, position) = (&[], position + run.len());
        }
        Ok(pieces)
    }
}
