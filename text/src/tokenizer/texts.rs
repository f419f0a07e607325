//! Prompt and output as people read them.

use crate::shown::{continuation, Decode, Texts};

use super::guard::{guarded, time_for};
use super::{Tokenizer, TokenizerError};

impl Tokenizer {
    /// Decodes a prompt and its output. The output is what it adds to the prompt, so that both read as one text.
    pub fn texts(&self, prompt: &[u32], output: &[u32]) -> Result<Texts, TokenizerError> {
        let (this, prompt, output) = (self.clone(), prompt.to_vec(), output.to_vec());
        guarded(time_for(0), move || Texts::of(&Unguarded(&this), &prompt, &output))?
    }
}

/// The text of an output that comes token by token, in pieces that are whole characters.
///
/// All pieces together are the text that [`Tokenizer::texts`] has of the output.
#[derive(Clone, Debug)]
pub struct Streamed {
    tokenizer: Tokenizer,
    prompt: Vec<u32>,
    /// The text of the prompt.
    head: String,
    output: Vec<u32>,
    sent: String,
}

/// What stands for bytes that are no character, or not all of it yet.
const INCOMPLETE: char = char::REPLACEMENT_CHARACTER;

impl Streamed {
    /// An output that is to come after a prompt.
    pub fn new(tokenizer: &Tokenizer, prompt: &[u32]) -> Result<Self, TokenizerError> {
        Ok(Self {
            tokenizer: tokenizer.clone(),
            prompt: prompt.to_vec(),
            head: tokenizer.decode(prompt, true)?,
            output: Vec::new(),
            sent: String::new(),
        })
    }

    /// The text that is whole with one more token, and was not before; it may be empty.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        self.output.push(id);
        let text = self.text()?;
        Ok(self.more(text.trim_end_matches(INCOMPLETE)).unwrap_or_default())
    }

    /// The rest of the text. Errors if the text does not begin with what came before: a tokenizer that changes what it has said.
    pub fn finish(&mut self) -> Result<String, TokenizerError> {
        let text = self.text()?;
        let changed = || {
            TokenizerError::Decode("its beginning depends on what follows, so it cannot be sent in pieces".to_owned())
        };
        self.more(&text).ok_or_else(changed)
    }

    /// The ids so far.
    pub fn output(&self) -> &[u32] {
        &self.output
    }

    fn more(&mut self, text: &str) -> Option<String> {
        let more = text.strip_prefix(self.sent.as_str())?.to_owned();
        self.sent.push_str(&more);
        Some(more)
    }

    fn text(&self) -> Result<String, TokenizerError> {
        let this = self.clone();
        guarded(time_for(0), move || {
            continuation(&Unguarded(&this.tokenizer), &this.head, &this.prompt, &this.output)
        })?
    }
}

/// A tokenizer inside of a guard, which needs no other.
struct Unguarded<'a>(&'a Tokenizer);

impl Decode for Unguarded<'_> {
    type Error = TokenizerError;

    fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.0.decode_here(ids, true)
    }

    fn token(&self, id: u32) -> Option<String> {
        self.0.token(id)
    }

    fn special(&self, id: u32) -> Option<&str> {
        self.0.special(id)
    }
}
