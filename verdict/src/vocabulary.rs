//! Ids to text by the `tokenizer.json` in a key, without the library that encodes text.
//!
//! Decoding is the small half of a tokenizer: a list of tokens, and a chain of steps that joins them. The steps here are
//! those of Llama-type models, each as the library `tokenizers` has it. A file with any other is not guessed at: it has no
//! text, and ids are shown. The file is hostile: no panic, and no text longer than [`TEXT_BYTES`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::Deserializer;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::text::Decode;

/// The most bytes of a decoded text, at any step.
pub const TEXT_BYTES: usize = 1 << 20;
/// The most steps of a decoder.
const STEPS: usize = 64;
/// One character in the place of bytes that are no UTF-8.
const REPLACEMENT: &str = "\u{fffd}";

/// Why ids have no text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum VocabularyError {
    /// The file is not JSON, or not a tokenizer.
    #[error("tokenizer.json: {0}")]
    Format(String),
    /// The file has a part that this decoder does not have.
    #[error("tokenizer.json: this program does not know the {what} {name:?}, and shows no text")]
    Unknown {
        /// A model or a decoder.
        what: &'static str,
        /// Its name in the file.
        name: String,
    },
    /// The text would be too long.
    #[error("token ids cannot be decoded: the text is longer than {TEXT_BYTES} bytes")]
    TooLong,
}

fn format(problem: impl Into<String>) -> VocabularyError {
    VocabularyError::Format(problem.into())
}

/// The tokens of a model, and how they become text.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    tokens: BTreeMap<u32, String>,
    /// Tokens that were added to the vocabulary; they come first.
    added: BTreeMap<u32, String>,
    /// Names of the special ones.
    specials: BTreeSet<String>,
    /// The token in the place of text that no other token stands for.
    unknown: Option<u32>,
    /// `None` if tokens are joined by spaces.
    steps: Option<Vec<Step>>,
}

/// A step of a decoder: tokens to tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    ByteLevel,
    ByteFallback,
    Fuse,
    Metaspace { space: char, keep_first: bool },
    Replace { pattern: String, with: String },
    Strip { content: char, start: usize, stop: usize },
}

impl Vocabulary {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// If the file is malformed, or has a part that is not known here.
    pub fn from_bytes(tokenizer: &[u8]) -> Result<Self, VocabularyError> {
        let value = without_merges(tokenizer)?;
        let model = value.get("model").ok_or_else(|| format("there is no model"))?;
        let tokens = tokens(model)?;
        let steps = match value.get("decoder") {
            None | Some(Value::Null) => None,
            Some(decoder) => {
                let mut steps = Vec::new();
                read_steps(decoder, &mut steps)?;
                Some(steps)
            }
        };
        let mut vocabulary = Self {
            tokens,
            added: BTreeMap::new(),
            specials: BTreeSet::new(),
            unknown: None,
            steps,
        };
        let added = value.get("added_tokens").and_then(Value::as_array);
        vocabulary.add(added.map_or(&[], Vec::as_slice))?;
        let by_id = model
            .get("unk_id")
            .and_then(Value::as_u64)
            .and_then(|id| id.try_into().ok());
        let named = model.get("unk_token").and_then(Value::as_str);
        vocabulary.unknown = by_id.or_else(|| vocabulary.id(named?));
        Ok(vocabulary)
    }

    /// The token in the place of text that no other token stands for, if the tokenizer has one.
    pub const fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// The id of a token.
    fn id(&self, token: &str) -> Option<u32> {
        let mut own = self.added.iter().chain(&self.tokens);
        own.find(|(_, own)| *own == token).map(|(id, _)| *id)
    }

    /// Added tokens have the id that the model gives them, or else the next one.
    fn add(&mut self, added: &[Value]) -> Result<(), VocabularyError> {
        let ids: BTreeMap<&str, u32> = self.tokens.iter().map(|(id, token)| (token.as_str(), *id)).collect();
        let mut known: BTreeMap<String, u32> = BTreeMap::new();
        let mut next = u32::try_from(self.tokens.len()).map_err(|_| format("too many tokens"))?;
        for token in added {
            let content = token.get("content").and_then(Value::as_str);
            let content = content.ok_or_else(|| format("an added token has no content"))?;
            if content.is_empty() {
                continue;
            }
            if token.get("special").and_then(Value::as_bool) == Some(true) {
                self.specials.insert(content.to_owned());
            }
            let id = match known.get(content).or_else(|| ids.get(content)) {
                Some(id) => *id,
                None => {
                    let id = next;
                    next = next.checked_add(1).ok_or_else(|| format("too many tokens"))?;
                    id
                }
            };
            if token.get("id").and_then(Value::as_u64) != Some(id.into()) {
                let text = "an added token has another id than its place in the vocabulary gives it";
                return Err(format(text));
            }
            known.insert(content.to_owned(), id);
            self.added.insert(id, content.to_owned());
        }
        Ok(())
    }

    /// The token of an id.
    fn spelled(&self, id: u32) -> Option<&str> {
        self.added.get(&id).or_else(|| self.tokens.get(&id)).map(String::as_str)
    }
}

impl Decode for Vocabulary {
    type Error = VocabularyError;

    fn decode(&self, ids: &[u32]) -> Result<String, VocabularyError> {
        let (mut tokens, mut bytes) = (Vec::new(), 0usize);
        for token in ids.iter().filter_map(|id| self.spelled(*id)) {
            bytes = bytes.saturating_add(token.len());
            if bytes > TEXT_BYTES {
                return Err(VocabularyError::TooLong);
            }
            if !self.specials.contains(token) {
                tokens.push(token.to_owned());
            }
        }
        let text = match &self.steps {
            None => tokens.join(" "),
            Some(steps) => {
                for step in steps {
                    tokens = step.apply(tokens)?;
                }
                tokens.concat()
            }
        };
        match text.len() > TEXT_BYTES {
            true => Err(VocabularyError::TooLong),
            false => Ok(text),
        }
    }

    fn token(&self, id: u32) -> Option<String> {
        self.spelled(id).map(str::to_owned)
    }

    fn special(&self, id: u32) -> Option<&str> {
        let name = self.added.get(&id)?;
        self.specials.contains(name).then_some(name)
    }
}

/// The file without the merges of its model, by which texts become ids. They are more than half of a large file, and would take
/// most of the memory that reading it takes.
fn without_merges(tokenizer: &[u8]) -> Result<Value, VocabularyError> {
    let failed = |e: serde_json::Error| format(e.to_string());
    let mut file = serde_json::Deserializer::from_slice(tokenizer);
    let value = Without(&["model", "merges"]).deserialize(&mut file).map_err(failed)?;
    file.end().map_err(failed)?;
    Ok(value)
}

/// Reads JSON without the field at the end of a path, if there is one.
#[derive(Clone, Copy)]
struct Without<'p>(&'p [&'p str]);

impl<'de> DeserializeSeed<'de> for Without<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Without<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = match self.0 {
                [last] if *last == name => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                [first, rest @ ..] if *first == name => map.next_value_seed(Without(rest))?,
                _ => map.next_value()?,
            };
            // Of two fields of one name the last one counts.
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
}

/// The tokens of a model by id.
fn tokens(model: &Value) -> Result<BTreeMap<u32, String>, VocabularyError> {
    let vocab = model
        .get("vocab")
        .ok_or_else(|| format("the model has no vocabulary"))?;
    let kind = model.get("type").and_then(Value::as_str).unwrap_or("BPE");
    match (kind, vocab) {
        ("BPE" | "WordLevel", Value::Object(vocab)) => {
            let entry = |(token, id): (&String, &Value)| {
                let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                Some((id?, token.clone()))
            };
            let tokens: Option<BTreeMap<u32, String>> = vocab.iter().map(entry).collect();
            let tokens = tokens.ok_or_else(|| format("the id of a token is not a number"))?;
            match tokens.len() == vocab.len() {
                true => Ok(tokens),
                false => Err(format("two tokens have the same id")),
            }
        }
        ("Unigram", Value::Array(pieces)) => {
            let entry = |(id, piece): (usize, &Value)| {
                let token = piece.get(0).and_then(Value::as_str)?;
                Some((u32::try_from(id).ok()?, token.to_owned()))
            };
            let tokens: Option<_> = pieces.iter().enumerate().map(entry).collect();
            tokens.ok_or_else(|| format("a piece of the vocabulary has no text"))
        }
        ("BPE" | "WordLevel" | "Unigram", _) => Err(format("the vocabulary is not one")),
        (name, _) => Err(VocabularyError::Unknown {
            what: "model",
            name: name.to_owned(),
        }),
    }
}

/// Appends the steps of a decoder.
fn read_steps(decoder: &Value, steps: &mut Vec<Step>) -> Result<(), VocabularyError> {
    let kind = decoder.get("type").and_then(Value::as_str);
    let kind = kind.ok_or_else(|| format("a decoder has no type"))?;
    if kind == "Sequence" {
        let list = decoder.get("decoders").and_then(Value::as_array);
        let list = list.ok_or_else(|| format("a sequence of decoders has none"))?;
        return list.iter().try_for_each(|decoder| read_steps(decoder, steps));
    }
    steps.push(Step::read(kind, decoder)?);
    match steps.len() > STEPS {
        true => Err(format(format!("the decoder has more than {STEPS} steps"))),
        false => Ok(()),
    }
}

impl Step {
    fn read(kind: &str, step: &Value) -> Result<Self, VocabularyError> {
        let text = |name: &str| step.get(name).and_then(Value::as_str);
        let one = |name: &str| {
            let mut chars = text(name)?.chars();
            let first = chars.next()?;
            chars.next().is_none().then_some(first)
        };
        let number = |name: &str| usize::try_from(step.get(name)?.as_u64()?).ok();
        let known = match kind {
            "ByteLevel" => Some(Self::ByteLevel),
            "ByteFallback" => Some(Self::ByteFallback),
            "Fuse" => Some(Self::Fuse),
            "Metaspace" => one("replacement").and_then(|space| {
                let keep_first = match (text("prepend_scheme"), step.get("add_prefix_space")) {
                    (Some("never"), _) => true,
                    (Some("always" | "first"), _) => false,
                    (None, None | Some(Value::Bool(true))) => false,
                    _ => return None,
                };
                Some(Self::Metaspace { space, keep_first })
            }),
            "Replace" => step.get("pattern").and_then(|pattern| {
                // An empty pattern is found everywhere.
                let pattern = pattern.get("String")?.as_str().filter(|p| !p.is_empty())?;
                let (pattern, with) = (pattern.to_owned(), text("content")?.to_owned());
                Some(Self::Replace { pattern, with })
            }),
            "Strip" => one("content").and_then(|content| {
                let (start, stop) = (number("start")?, number("stop")?);
                Some(Self::Strip { content, start, stop })
            }),
            _ => None,
        };
        known.ok_or_else(|| VocabularyError::Unknown {
            what: "decoder",
            name: kind.to_owned(),
        })
    }

    fn apply(&self, tokens: Vec<String>) -> Result<Vec<String>, VocabularyError> {
        let after: Vec<String> = match self {
            Self::ByteLevel => {
                let bytes: Vec<u8> = tokens.iter().flat_map(|token| byte_level(token)).collect();
                vec![String::from_utf8_lossy(&bytes).into_owned()]
            }
            Self::ByteFallback => byte_fallback(tokens),
            Self::Fuse => vec![tokens.concat()],
            Self::Metaspace { space, keep_first } => {
                let replaced = |(i, token): (usize, &String)| -> String {
                    let shown = |c: char| match (c == *space, i == 0 && !keep_first) {
                        (false, _) => Some(c),
                        (true, true) => None,
                        (true, false) => Some(' '),
                    };
                    token.chars().filter_map(shown).collect()
                };
                tokens.iter().enumerate().map(replaced).collect()
            }
            Self::Replace { pattern, with } => {
                let grown = tokens.iter().map(|token| {
                    let found = token.matches(pattern.as_str()).count();
                    token.len().saturating_add(found.saturating_mul(with.len()))
                });
                if grown.fold(0, usize::saturating_add) > 2 * TEXT_BYTES {
                    return Err(VocabularyError::TooLong);
                }
                tokens
                    .iter()
                    .map(|token| token.replace(pattern.as_str(), with))
                    .collect()
            }
            Self::Strip { content, start, stop } => tokens
                .iter()
                .map(|token| stripped(token, *content, *start, *stop).to_owned())
                .collect(),
        };
        Ok(after)
    }
}

/// A token without up to `start` and `stop` times the same character at its ends.
fn stripped(token: &str, content: char, start: usize, stop: usize) -> &str {
    let mut rest = token;
    for _ in 0..start {
        let Some(shorter) = rest.strip_prefix(content) else {
            break;
        };
        rest = shorter;
    }
    for _ in 0..stop {
        let Some(shorter) = rest.strip_suffix(content) else {
            break;
        };
        rest = shorter;
    }
    rest
}

/// Tokens such as `<0x0A>` are bytes; neighbours that are no text together are unreadable one by one.
fn byte_fallback(tokens: Vec<String>) -> Vec<String> {
    let byte = |token: &str| {
        let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
        (digits.len() == 2)
            .then(|| u8::from_str_radix(digits, 16).ok())
            .flatten()
    };
    let mut out = Vec::with_capacity(tokens.len());
    let mut bytes = Vec::new();
    let flush = |bytes: &mut Vec<u8>, out: &mut Vec<String>| match String::from_utf8(std::mem::take(bytes)) {
        Ok(text) if text.is_empty() => {}
        Ok(text) => out.push(text),
        Err(error) => out.extend(error.as_bytes().iter().map(|_| REPLACEMENT.to_owned())),
    };
    for token in tokens {
        match byte(&token) {
            Some(byte) => bytes.push(byte),
            None => {
                flush(&mut bytes, &mut out);
                out.push(token);
            }
        }
    }
    flush(&mut bytes, &mut out);
    out
}

/// The bytes that the characters of a token stand for; a token with any other character stands for itself.
fn byte_level(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// Bytes that are graphic in Latin-1 stand for themselves, the others have characters from U+0100 on, in order.
fn byte_of(c: char) -> Option<u8> {
    let graphic = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let code = u32::from(c);
    match u8::try_from(code) {
        Ok(byte) => graphic(byte).then_some(byte),
        Err(_) => {
            let nth = usize::try_from(code.checked_sub(0x100)?).ok()?;
            (0..=u8::MAX).filter(|b| !graphic(*b)).nth(nth)
        }
    }
}

#[cfg(test)]
mod tests;
