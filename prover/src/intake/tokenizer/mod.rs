//! Text to token ids and back, by the checkpoint's own `tokenizer.json`.
//!
//! A tokenizer comes with a checkpoint, or with the key that `verify` reads: it is hostile input. `limits` refuses
//! tokenizers that could grow a text without bounds, and `guard` ends what takes too long all the same.

mod files;
#[cfg(test)]
mod goldens;
pub(crate) mod guard;
mod limits;
mod pipeline;
mod regex;
pub(crate) mod rendered;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tessera_circuits::model::ModelConfig;
pub use tessera_verdict::text::{Piece, Side, Texts};
use thiserror::Error;
use tokenizers::AddedToken;

pub use self::files::{TokenizerFiles, CHAT_TEMPLATE_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE};
pub use self::guard::GuardError;

use self::guard::{guarded, time_for};
use self::limits::{Growth, TEXT_BYTES};
use self::pipeline::Inner;
use crate::intake::json;
use crate::support::files::FileError;
use crate::support::pages;

/// Why text and token ids could not be converted.
#[derive(Debug, Error)]
pub enum TokenizerError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("tokenizer.json: {0}")]
    Format(String),
    #[error("tokenizer.json is refused: {0}")]
    Limit(String),
    #[error("tokenizer_config.json: {0}")]
    Config(String),
    #[error("text cannot be encoded: {0}")]
    Encode(String),
    #[error("token ids cannot be decoded: {0}")]
    Decode(String),
    #[error("tokenizer.json cannot be used: {0}")]
    Guard(#[from] GuardError),
}

impl TokenizerError {
    /// The error with what helps, where the tokenizer is a checkpoint's.
    pub fn advised(&self) -> String {
        match self {
            Self::File(_) => self.to_string(),
            _ => format!("{self}; without tokenizer.json, prompts are given as ids"),
        }
    }
}

/// A tokenizer of the hub.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: Arc<Inner>,
    growth: Growth,
    /// Prepended by [`Tokenizer::encode`] because the tokenizer itself does not.
    adds_bos: bool,
    /// The token that begins a text.
    bos: Option<u32>,
    /// Special tokens by id, as the tokenizer names them.
    specials: Arc<BTreeMap<u32, AddedToken>>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, and `tokenizer_config.json` where there is one: if that has
    /// `add_bos_token` set and the post-processor adds no such token, [`Tokenizer::encode`] does.
    pub fn from_bytes(tokenizer: &[u8], config: Option<&[u8]>) -> Result<Self, TokenizerError> {
        let (time, bytes) = (2 * time_for(tokenizer.len()), tokenizer.to_vec());
        let (inner, growth) = guarded(time, move || load(&bytes))??;
        let specials = inner.get_added_tokens_decoder().into_iter().filter(|(_, t)| t.special);
        let mut tokenizer = Self {
            specials: Arc::new(specials.collect()),
            inner: Arc::new(inner),
            growth,
            adds_bos: false,
            bos: None,
        };
        let around = tokenizer.encode("")?;
        let config = config.map(bos_token).transpose()?.unwrap_or_default();
        let bos = config
            .text
            .as_deref()
            .map(|text| (text, tokenizer.inner.token_to_id(text)));
        match bos {
            Some((text, None)) if config.add => {
                let problem = format!("bos_token {text:?} is not in the vocabulary");
                return Err(TokenizerError::Config(problem));
            }
            Some((_, Some(id))) => {
                tokenizer.bos = Some(id);
                tokenizer.adds_bos = config.add && !around.contains(&id);
            }
            _ => tokenizer.bos = around.first().copied().filter(|id| tokenizer.special(*id).is_some()),
        }
        Ok(tokenizer)
    }

    /// Token ids of a text, with the special tokens that the model expects around it. A text that begins with the
    /// token that would be added does not get it twice.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = self.run(text, |inner, text| {
            inner.encode(text, true).map(|encoding| encoding.get_ids().to_vec())
        })?;
        if let Some(bos) = self.bos {
            if self.adds_bos && ids.first() != Some(&bos) {
                ids.insert(0, bos);
            }
            if ids.starts_with(&[bos, bos]) {
                ids.remove(0);
            }
        }
        Ok(ids)
    }

    /// Token ids of a query and a document, as the tokenizer puts them together. Errors if the types that it gives the tokens are not those that
    /// follow from the ids (docs/protocol.md, section 16.14): then one of the texts spells the separator, or it has another template.
    pub fn encode_pair(&self, query: &str, document: &str, config: &ModelConfig) -> Result<Vec<u32>, TokenizerError> {
        // Only the length counts for limits.
        let both = format!("{query}{document}");
        let pair = (query.to_owned(), document.to_owned());
        let (ids, types) = self.run(&both, move |inner, _| {
            let encoding = inner.encode(pair, true)?;
            Ok((encoding.get_ids().to_vec(), encoding.get_type_ids().to_vec()))
        })?;
        let expected = config.types_of(&ids);
        let separator = config.reranker().and_then(|own| own.separator);
        match separator {
            Some(id) if !types.iter().map(|t| *t as usize).eq(expected) => {
                let name = self.token(id).unwrap_or_default();
                let problem = format!(
                    "the second text does not begin after the first {name:?} (token {id}), which the query must not spell"
                );
                Err(TokenizerError::Encode(problem))
            }
            _ => Ok(ids),
        }
    }

    /// Runs the library on a text, within limits of size and time.
    fn run<T: Send + 'static>(
        &self,
        text: &str,
        work: impl FnOnce(&Inner, &str) -> tokenizers::Result<T> + Send + 'static,
    ) -> Result<T, TokenizerError> {
        self.growth.check_text(text.len()).map_err(TokenizerError::Limit)?;
        let (inner, text) = (Arc::clone(&self.inner), text.to_owned());
        let time = 10 * time_for(text.len()).saturating_sub(Duration::from_millis(800));
        guarded(time, move || work(&inner, &text))?.map_err(|e| TokenizerError::Encode(e.to_string()))
    }

    /// Text of token ids; special tokens are left out on request.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        let (this, ids) = (self.clone(), ids.to_vec());
        guarded(time_for(0), move || this.decode_here(&ids, skip_special))?
    }

    /// The same without a guard of its own.
    fn decode_here(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        let too_long = || TokenizerError::Decode(format!("the text is longer than {TEXT_BYTES} bytes"));
        let mut bytes = 0;
        for id in ids {
            bytes += self.inner.id_to_token(*id).map_or(0, |token| token.len());
            if bytes > TEXT_BYTES {
                return Err(too_long());
            }
        }
        let text = self.inner.decode(ids, skip_special);
        let text = text.map_err(|e| TokenizerError::Decode(e.to_string()))?;
        match text.len() > TEXT_BYTES {
            true => Err(too_long()),
            false => Ok(text),
        }
    }

    /// The name of a special token; `None` for all others.
    pub fn special(&self, id: u32) -> Option<&str> {
        self.specials.get(&id).map(|token| token.content.as_str())
    }

    /// The token of an id, as the vocabulary spells it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Number of tokens, added ones included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }
}

/// Reads a tokenizer that is within the limits.
fn load(bytes: &[u8]) -> Result<(Inner, Growth), TokenizerError> {
    let format = |e: serde_json::Error| TokenizerError::Format(json::problem(bytes, &e));
    // The library panics on files that are not JSON inside of their decoder, and gets what was checked here: a field
    // that is there twice has one value.
    let value: Value = serde_json::from_slice(bytes).map_err(format)?;
    let growth = Growth::of(&value).map_err(TokenizerError::Limit)?;
    pipeline::check_chance(&value).map_err(TokenizerError::Limit)?;
    let mut inner = Inner::deserialize(&value).map_err(format)?;
    // A large vocabulary takes more memory as it is read than afterwards.
    drop(value);
    pages::trim_heaps();
    inner.with_padding(None);
    let untruncated = inner.with_truncation(None);
    untruncated.map_err(|e| TokenizerError::Format(e.to_string()))?;
    Ok((inner, growth))
}

/// What `tokenizer_config.json` says of the token that begins a text.
#[derive(Default)]
struct BosToken {
    text: Option<String>,
    /// Whether it is to be added.
    add: bool,
}

fn bos_token(config: &[u8]) -> Result<BosToken, TokenizerError> {
    let config: Value =
        serde_json::from_slice(config).map_err(|e| TokenizerError::Config(json::problem(config, &e)))?;
    let add = config.get("add_bos_token").and_then(Value::as_bool) == Some(true);
    let text = token_text(&config, "bos_token");
    if add && text.is_none() {
        let problem = "add_bos_token is set, but bos_token is missing";
        return Err(TokenizerError::Config(problem.to_string()));
    }
    Ok(BosToken { text, add })
}

/// A token of `tokenizer_config.json`: either its text, or an object with the text and flags.
pub(crate) fn token_text(config: &Value, name: &str) -> Option<String> {
    let token = config.get(name)?;
    token.get("content").unwrap_or(token).as_str().map(str::to_owned)
}
