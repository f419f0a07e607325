//! Prompt and output as people read them.

use crate::shown::{Decode, Texts};

use super::guard::{guarded, time_for};
use super::{Tokenizer, TokenizerError};

impl Tokenizer {
    /// Decodes a prompt and its output. The output is what it adds to the prompt, so that both read as one text.
    pub fn texts(&self, prompt: &[u32], output: &[u32]) -> Result<Texts, TokenizerError> {
        let (this, prompt, output) = (self.clone(), prompt.to_vec(), output.to_vec());
        guarded(time_for(0), move || Texts::of(&Unguarded(&this), &prompt, &output))?
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
