//! Prompt and output as people read them.

use tessera_circuits::statement::HIDDEN;

/// A stretch of text, or a token that no text stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text of one or more tokens.
    Text(String),
    /// A special token, or (without a name) an id that the tokenizer does not know.
    Special {
        /// Counted from the first id of the prompt, or of the output.
        position: usize,
        /// The token.
        id: u32,
        /// As the tokenizer spells it.
        name: Option<String>,
    },
    /// So many tokens that are hidden.
    Hidden(usize),
}

/// Prompt or output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Without special tokens, and without what is hidden.
    pub text: String,
    /// With special tokens: all ids, in order.
    pub pieces: Vec<Piece>,
}

/// Prompt and output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// What was given.
    pub prompt: Side,
    /// What was generated. It is what the output adds to the prompt, so that both read as one text.
    pub output: Side,
}

/// What a tokenizer has to know to show ids as text.
pub trait Decode {
    /// Why ids have no text.
    type Error;

    /// The text of ids, without special tokens.
    ///
    /// # Errors
    /// If there is no such text, or it is too long.
    fn decode(&self, ids: &[u32]) -> Result<String, Self::Error>;

    /// The token of an id, as the vocabulary spells it.
    fn token(&self, id: u32) -> Option<String>;

    /// The name of a special token; `None` for all others.
    fn special(&self, id: u32) -> Option<&str>;
}

impl Texts {
    /// Decodes a prompt and its output.
    ///
    /// # Errors
    /// If either has no text.
    pub fn of<D: Decode>(tokenizer: &D, prompt: &[u32], output: &[u32]) -> Result<Self, D::Error> {
        let [shown, said] = [prompt, output].map(shown);
        let head = tokenizer.decode(&shown)?;
        let text = continuation(tokenizer, &head, &shown, &said)?;
        // The stretch of text that the output goes on with.
        let last = prompt.iter().rposition(|id| !is_text(tokenizer, *id));
        let stretch = prompt.get(last.map_or(0, |at| at + 1)..).unwrap_or_default();
        Ok(Self {
            prompt: Side {
                text: head,
                pieces: pieces(tokenizer, &[], prompt)?,
            },
            output: Side {
                text,
                pieces: pieces(tokenizer, stretch, output)?,
            },
        })
    }

    /// The whole text.
    pub fn whole(&self) -> String {
        format!("{}{}", self.prompt.text, self.output.text)
    }
}

/// The ids that are not hidden.
fn shown(ids: &[u32]) -> Vec<u32> {
    ids.iter().copied().filter(|id| *id != HIDDEN).collect()
}

/// What `ids` add to the text `head` of `before`.
pub(crate) fn continuation<D: Decode>(
    tokenizer: &D,
    head: &str,
    before: &[u32],
    ids: &[u32],
) -> Result<String, D::Error> {
    if before.is_empty() {
        return tokenizer.decode(ids);
    }
    let whole = tokenizer.decode(&[before, ids].concat())?;
    match whole.strip_prefix(head) {
        Some(rest) => Ok(rest.to_owned()),
        None => tokenizer.decode(ids),
    }
}

/// Whether an id stands for text.
fn is_text<D: Decode>(tokenizer: &D, id: u32) -> bool {
    tokenizer.special(id).is_none() && tokenizer.token(id).is_some()
}

/// The pieces of ids that go on with the text of `before`.
fn pieces<D: Decode>(tokenizer: &D, before: &[u32], ids: &[u32]) -> Result<Vec<Piece>, D::Error> {
    let is_text = |id: u32| is_text(tokenizer, id);
    let mut pieces = Vec::new();
    let (mut before, mut position) = (before, 0);
    for run in ids.chunk_by(|a, b| is_text(*a) && is_text(*b) || [*a, *b] == [HIDDEN; 2]) {
        match run {
            [HIDDEN, ..] => pieces.push(Piece::Hidden(run.len())),
            [id] if !is_text(*id) => pieces.push(Piece::Special {
                position,
                id: *id,
                name: tokenizer.special(*id).map(str::to_owned),
            }),
            _ => {
                let head = tokenizer.decode(before)?;
                pieces.push(Piece::Text(continuation(tokenizer, &head, before, run)?));
            }
        }
        (before, position) = (&[], position + run.len());
    }
    Ok(pieces)
}
