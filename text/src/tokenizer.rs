//! Text to token ids and back, by the checkpoint's own `tokenizer.json`.
//!
//! A tokenizer comes with a checkpoint, or with the key that `verify` reads: it is hostile input. `limits` refuses
//! tokenizers that could grow a text without bounds, and `guard` ends what takes too long all the same.

mod added;
mod class;
mod error;
mod fields;
mod files;
pub mod guard;
mod limits;
mod pipeline;
mod rebuild;
mod regex;
mod rendered;
mod sentence;
mod sources;
mod templates;
#[cfg(test)]
mod tests;
mod texts;
mod unknown;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use crate::shown::{Piece, Side, Texts};
use serde::Deserialize;
use serde_json::{Map, Value};
use tessera_circuits::model::ModelConfig;
use tokenizers::{AddedToken, PostProcessor, TruncationDirection, TruncationParams};

pub use self::class::{special_tokens, token_text, IN_CHATS};
pub use self::error::TokenizerError;
pub use self::files::{IdFiles, TokenizerFiles};
pub use self::guard::GuardError;
pub use self::sources::{IdFile, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE};
pub use self::templates::CHAT_TEMPLATE_FILE;
pub use self::texts::Streamed;

use self::guard::{guarded, time_for};
use self::limits::{Growth, TEXT_BYTES};
use self::pipeline::Inner;
use self::sentence::Sentence;
use crate::json;

/// A tokenizer of the hub.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: Arc<Inner>,
    growth: Growth,
    sentence: Sentence,
    /// Special tokens by id, as the tokenizer names them.
    specials: Arc<BTreeMap<u32, AddedToken>>,
    /// The token in the place of text that no other token stands for.
    unknown: Option<u32>,
}

/// A text as token ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The ids, with the special tokens that the model expects around a text.
    pub ids: Vec<u32>,
    /// Notes for the user, for example that the text was cut.
    pub notes: Vec<String>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, and `tokenizer_config.json` where there is one, as transformers 5.24 reads the two: the latter names
    /// the class by which the tokenizer is built.
    pub fn from_bytes(tokenizer: &[u8], config: Option<&[u8]>) -> Result<Self, TokenizerError> {
        let config = config.map(config_fields).transpose()?.unwrap_or_default();
        let sentence = Sentence::of_config(&config);
        let (time, bytes, own) = (2 * time_for(tokenizer.len()), tokenizer.to_vec(), sentence.clone());
        let (inner, growth, unknown) = guarded(time, move || load(&bytes, &config, &own))??;
        let specials = inner.get_added_tokens_decoder().into_iter().filter(|(_, t)| t.special);
        Ok(Self {
            specials: Arc::new(specials.collect()),
            inner: Arc::new(inner),
            growth,
            sentence,
            unknown,
        })
    }

    /// Token ids of a text, with the special tokens that the model expects around it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(self.encode_text(text)?.ids)
    }

    /// Token ids of a text as [`Tokenizer::encode`] makes them, and what a user should know of them.
    pub fn encode_text(&self, text: &str) -> Result<Encoded, TokenizerError> {
        let text = match self.sentence.prompt.as_str() {
            "" => text.to_owned(),
            prompt => format!("{prompt}{text}"),
        };
        let (ids, cut) = self.run(&text, |inner, text| {
            let encoding = inner.encode(text, true)?;
            Ok((encoding.get_ids().to_vec(), !encoding.get_overflowing().is_empty()))
        })?;
        let mut notes = Vec::new();
        if let (true, Some(most)) = (cut, self.sentence.max_seq_length) {
            let side = self.inner.get_truncation().map(|truncation| truncation.direction);
            let gone = match side {
                Some(TruncationDirection::Left) => "its beginning is cut off, because truncation_side is left",
                _ => "what follows is cut off",
            };
            notes.push(format!(
                "the text is longer than the {most} tokens that this model takes (max_seq_length): {gone}"
            ));
        }
        if let [first, second, ..] = ids[..] {
            if let Some(name) = self.special(first).filter(|_| first == second) {
                notes.push(format!(
                    "the prompt begins with {name:?} twice: the text spells it, and the tokenizer puts it before every text"
                ));
            }
        }
        Ok(Encoded { ids, notes })
    }

    /// Encodes the empty text: the ids that go around every text.
    fn run_empty(&self) -> Result<Vec<u32>, TokenizerError> {
        self.run("", |inner, text| Ok(inner.encode(text, true)?.get_ids().to_vec()))
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Token ids of a query and a document, as the tokenizer puts them together. Errors if the types that it gives the tokens are not those that
    /// follow from the ids (docs/protocol.md, section 16.14): then one of the texts spells the separator, or it has another template.
    pub fn encode_pair(&self, query: &str, document: &str, config: &ModelConfig) -> Result<Vec<u32>, TokenizerError> {
        // Only the length counts for limits.
        let both = format!("{query}{document}");
        let pair = (query.to_owned(), document.to_owned());
        let (ids, types, cut) = self.run(&both, move |inner, _| {
            let encoding = inner.encode(pair, true)?;
            let cut = !encoding.get_overflowing().is_empty();
            Ok((encoding.get_ids().to_vec(), encoding.get_type_ids().to_vec(), cut))
        })?;
        if let (true, Some(most)) = (cut, self.sentence.max_seq_length) {
            return Err(TokenizerError::Encode(format!(
                "query and document are longer than the {most} tokens that this model takes (max_seq_length): shorten the document"
            )));
        }
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

/// A tokenizer, how it can grow a text, and its unknown token.
type Loaded = (Inner, Growth, Option<u32>);

/// Reads a tokenizer that is within the limits.
fn load(bytes: &[u8], config: &Map<String, Value>, sentence: &Sentence) -> Result<Loaded, TokenizerError> {
    let format = |e: serde_json::Error| TokenizerError::Format(json::problem(bytes, &e));
    // The library panics on files that are not JSON inside of their decoder, and gets what was checked here: a field
    // that is there twice has one value.
    let mut value: Value = serde_json::from_slice(bytes).map_err(format)?;
    if value.is_object() {
        rebuild::rebuild(&mut value, config)?;
        if sentence.lower {
            rebuild::lower(&mut value);
        }
    }
    let growth = Growth::of(&value).map_err(TokenizerError::Limit)?;
    pipeline::check_chance(&value).map_err(TokenizerError::Limit)?;
    let mut inner = Inner::deserialize(&value).map_err(format)?;
    check_ids(&inner, &value)?;
    let direction = truncation_side(config, &value);
    let model = &value["model"];
    let unknown = model["unk_id"].as_u64().and_then(|id| u32::try_from(id).ok());
    let unknown = unknown.or_else(|| inner.token_to_id(model["unk_token"].as_str()?));
    drop(value);
    inner.with_padding(None);
    // The library would subtract these from a length that is smaller.
    let around = inner.get_post_processor().map_or(0, |around| around.added_tokens(true));
    if let Some(most) = sentence.max_seq_length.filter(|most| *most <= around) {
        return Err(TokenizerError::Config(format!(
            "max_seq_length is {most}, but {around} tokens go around a pair of texts: no text has room"
        )));
    }
    let truncation = sentence.max_seq_length.map(|max_length| TruncationParams {
        max_length,
        direction,
        ..TruncationParams::default()
    });
    let truncated = inner.with_truncation(truncation);
    truncated.map_err(|e| TokenizerError::Format(e.to_string()))?;
    Ok((inner, growth, unknown))
}

/// The end at which a text that is too long is cut: transformers asks `tokenizer_config.json` first, then `tokenizer.json`.
fn truncation_side(config: &Map<String, Value>, document: &Value) -> TruncationDirection {
    let stored = document["truncation"]["direction"].as_str();
    match config.get("truncation_side").and_then(Value::as_str).or(stored) {
        Some("left" | "Left") => TruncationDirection::Left,
        _ => TruncationDirection::Right,
    }
}

/// Compares the id of every added token with the one that the file gives it.
fn check_ids(inner: &Inner, document: &Value) -> Result<(), TokenizerError> {
    for token in document["added_tokens"].as_array().into_iter().flatten() {
        let (content, id) = (token["content"].as_str().unwrap_or_default(), token["id"].as_u64());
        let real = inner.token_to_id(content).map(u64::from);
        if !content.is_empty() && real != id {
            let shown = |id: Option<u64>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
            return Err(TokenizerError::Ids(format!(
                "tokenizer.json gives the added token {content:?} the id {}, but its place in the vocabulary has the id {}",
                shown(id),
                shown(real)
            )));
        }
    }
    Ok(())
}

/// The fields of `tokenizer_config.json`.
fn config_fields(config: &[u8]) -> Result<Map<String, Value>, TokenizerError> {
    match serde_json::from_slice(config) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(TokenizerError::Config("the file holds no JSON object".to_owned())),
        Err(e) => Err(TokenizerError::Config(json::problem(config, &e))),
    }
}
