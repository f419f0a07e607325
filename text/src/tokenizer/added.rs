//! The added tokens of a tokenizer: which ones transformers 5.24 adds to it, in which order, and so with which ids.
//!
//! They stand in up to four files. `tokenizer_config.json` goes before the others where it has `added_tokens_decoder`; else
//! `special_tokens_map.json` and `added_tokens.json` count. Set-up writes the result into `tokenizer.json`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{json, Map, Value};

use super::class::{token_text, Class, NAMED};
use super::error::TokenizerError;
use super::rebuild::vocabulary_id;
use super::sources::{TOKENIZER_CONFIG_FILE, TOKENIZER_FILE};

/// Added tokens beside `tokenizer.json` and `tokenizer_config.json`, in the layout of transformers before 5.
pub(super) const ADDED_TOKENS_FILE: &str = "added_tokens.json";

/// An added token, without its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    special: bool,
}

impl Token {
    /// A special token of which only the text is known.
    fn special(content: &str) -> Self {
        Self {
            content: content.to_owned(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: true,
        }
    }

    /// A token as a file describes it: its text, or an object with the text and its flags. `special` is what the place of the
    /// description says.
    fn read(value: &Value, special: bool) -> Option<Self> {
        if let Some(text) = value.as_str() {
            return Some(Self {
                normalized: !special,
                special,
                ..Self::special(text)
            });
        }
        let flag = |name: &str, default: bool| value.get(name).and_then(Value::as_bool).unwrap_or(default);
        let special = flag("special", special);
        Some(Self {
            content: value.get("content")?.as_str()?.to_owned(),
            single_word: flag("single_word", false),
            lstrip: flag("lstrip", false),
            rstrip: flag("rstrip", false),
            normalized: flag("normalized", !special),
            special,
        })
    }

    fn json(&self, id: u32) -> Value {
        json!({
            "id": id, "content": self.content, "single_word": self.single_word, "lstrip": self.lstrip, "rstrip": self.rstrip,
            "normalized": self.normalized, "special": self.special,
        })
    }
}

/// The files that describe added tokens.
pub(super) struct Sources<'a> {
    pub class: Class,
    /// `tokenizer.json`.
    pub document: &'a Value,
    /// `tokenizer_config.json`, with what `special_tokens_map.json` adds to it.
    pub config: &'a Map<String, Value>,
    /// `added_tokens.json`: ids by tokens.
    pub beside: Option<&'a Map<String, Value>>,
}

/// The tokens that are added to the vocabulary of a model, as the library adds them.
struct Added<'a> {
    vocab: &'a Value,
    size: u32,
    ids: BTreeMap<String, u32>,
    tokens: BTreeMap<u32, Token>,
}

impl Added<'_> {
    fn id(&self, content: &str) -> Option<u32> {
        let own = || vocabulary_id(self.vocab, content).and_then(|id| u32::try_from(id).ok());
        self.ids.get(content).copied().or_else(own)
    }

    /// Adds tokens; one that is there already gets new flags.
    fn add(&mut self, tokens: &[Token]) {
        let mut next = self
            .tokens
            .keys()
            .last()
            .map_or(self.size, |last| match *last >= self.size {
                true => last.saturating_add(1),
                false => self.size,
            });
        let mut existing: BTreeSet<Token> = self.tokens.values().cloned().collect();
        for token in tokens {
            if token.content.is_empty() || !existing.insert(token.clone()) {
                continue;
            }
            let id = self.id(&token.content).unwrap_or_else(|| {
                next = next.saturating_add(1);
                next - 1
            });
            self.ids.insert(token.content.clone(), id);
            self.tokens.insert(id, token.clone());
        }
    }

    fn has(&self, content: &str) -> bool {
        self.ids.contains_key(content)
    }
}

/// Tokens with ids, as a file lists them, and the name of the file.
struct Listed {
    file: &'static str,
    tokens: Vec<(u32, Token)>,
}

impl Sources<'_> {
    /// The list for `added_tokens` of `tokenizer.json`; `None` if what stands there is what transformers makes of all files.
    /// Errors name a token whose ids contradict each other.
    pub fn list(&self) -> Result<Option<Value>, TokenizerError> {
        let own = self.own()?;
        let listed = self.listed(&own)?;
        let mut added = self.empty();
        let unordered: Vec<Token> = own.tokens.iter().map(|(_, token)| token.clone()).collect();
        added.add(&unordered);
        let stored = added.tokens.clone();
        if self.class != Class::Stored {
            // The class begins with the vocabulary alone.
            added = self.empty();
        }
        let there: BTreeSet<&Token> = added.tokens.values().collect();
        let listed_now = listed.tokens.iter().map(|(_, token)| token);
        let mut new: Vec<Token> = listed_now.filter(|token| !there.contains(token)).cloned().collect();
        let flagged: BTreeMap<&str, &Token> = listed.tokens.iter().map(|(_, t)| (t.content.as_str(), t)).collect();
        let (named, extra) = self.special();
        self.check_flags(&listed)?;
        for name in named.iter().chain(&extra) {
            if !added.has(name) && !new.iter().any(|own| own.content == *name) {
                new.push(
                    flagged
                        .get(name.as_str())
                        .map_or_else(|| self.named(name), |token| (*token).clone()),
                );
            }
        }
        for token in &mut new {
            token.special |= named.contains(&token.content);
        }
        added.add(&new);
        if self.class == Class::Qwen2 {
            let special = named.iter().chain(&extra).map(|name| Token::special(name));
            added.add(&special.collect::<Vec<_>>());
        }
        for list in [&own, &listed] {
            self.check(&added, list)?;
        }
        if added.tokens == stored {
            return Ok(None);
        }
        Ok(Some(added.tokens.iter().map(|(id, token)| token.json(*id)).collect()))
    }

    fn empty(&self) -> Added<'_> {
        let vocab = &self.document["model"]["vocab"];
        let size = match vocab {
            Value::Object(ids) => ids.len(),
            Value::Array(list) => list.len(),
            _ => 0,
        };
        Added {
            vocab,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            ids: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }

    /// The tokens of `tokenizer.json`.
    fn own(&self) -> Result<Listed, TokenizerError> {
        let list = self.document["added_tokens"].as_array().into_iter().flatten();
        let tokens = list.map(|value| {
            let id = value["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            let token = id.zip(Token::read(value, false));
            token.ok_or_else(|| TokenizerError::Format(format!("added_tokens has {value}, which is no token")))
        });
        Ok(Listed {
            file: TOKENIZER_FILE,
            tokens: tokens.collect::<Result<_, _>>()?,
        })
    }

    /// The tokens that are to be there, by id: of `tokenizer_config.json`, or of the older files and `tokenizer.json`.
    fn listed(&self, own: &Listed) -> Result<Listed, TokenizerError> {
        let wrong = |id: &str, value: &Value| {
            TokenizerError::Config(format!(
                "added_tokens_decoder has {id:?}: {value}, which is no token with an id"
            ))
        };
        let mut tokens = BTreeMap::new();
        let decoder = self.config.get("added_tokens_decoder").and_then(Value::as_object);
        if let Some(decoder) = decoder {
            for (id, value) in decoder {
                let token = id.parse().ok().zip(Token::read(value, false));
                let (number, token) = token.ok_or_else(|| wrong(id, value))?;
                tokens.insert(number, token);
            }
        } else {
            let (named, extra) = self.special();
            for (content, id) in self.beside.into_iter().flatten() {
                let number = id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| {
                    TokenizerError::Beside(ADDED_TOKENS_FILE, format!("{content:?} has the id {id}, which is none"))
                })?;
                let is_special = named.contains(content) || extra.contains(content);
                let token = Token {
                    special: is_special,
                    normalized: !is_special,
                    ..Token::special(content)
                };
                tokens.insert(number, token);
            }
            tokens.extend(own.tokens.iter().cloned());
        }
        Ok(Listed {
            file: match (decoder, self.beside) {
                (Some(_), _) => TOKENIZER_CONFIG_FILE,
                (None, Some(_)) => ADDED_TOKENS_FILE,
                (None, None) => TOKENIZER_FILE,
            },
            tokens: tokens.into_iter().collect(),
        })
    }

    /// A special token that only has a name, with the flags that its field gives it.
    fn named(&self, content: &str) -> Token {
        let extra = extra_tokens(self.config);
        let listed = extra.and_then(Value::as_array).into_iter().flatten();
        let models = extra.and_then(Value::as_object).into_iter().flat_map(Map::values);
        let mut all = self.config.values().chain(listed).chain(models);
        let found = all.find(|value| value.get("content").and_then(Value::as_str) == Some(content));
        found
            .and_then(|value| Token::read(value, true))
            .unwrap_or_else(|| Token::special(content))
    }

    /// The texts of special tokens: of those that have a name, and of the others.
    fn special(&self) -> (Vec<String>, Vec<String>) {
        fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
            texts.fold(Vec::new(), |mut list, text| {
                if !list.contains(&text) {
                    list.push(text);
                }
                list
            })
        }
        let known = NAMED.iter().filter_map(|name| self.class.token(self.config, name));
        let own = self.config.iter().filter(|(name, value)| {
            name.ends_with("_token") && !NAMED.contains(&name.as_str()) && (value.is_string() || value.is_object())
        });
        let extra = extra_tokens(self.config);
        let models = extra.and_then(Value::as_object).into_iter().flatten();
        let named = known.chain(own.chain(models).filter_map(|(_, value)| token_text(value)));
        let list = extra.and_then(Value::as_array).into_iter().flatten();
        (distinct(named), distinct(list.filter_map(token_text)))
    }

    /// Errors if a special token is described twice, with different flags: which ones count depends on the version.
    fn check_flags(&self, listed: &Listed) -> Result<(), TokenizerError> {
        let named = self
            .config
            .iter()
            .filter(|(name, _)| name.ends_with("_token"))
            .map(|(_, value)| value);
        let extra = extra_tokens(self.config);
        let list = extra.and_then(Value::as_array).into_iter().flatten();
        let models = extra.and_then(Value::as_object).into_iter().flat_map(Map::values);
        let described = named.filter(|value| value.is_object()).chain(list).chain(models);
        // This class gives the tokens of the list their own flags once more.
        let again = listed
            .tokens
            .iter()
            .filter(|_| self.class == Class::Cohere)
            .map(|(_, token)| token.clone());
        let mut known: BTreeMap<String, Token> = again.map(|token| (token.content.clone(), token)).collect();
        for token in described.filter_map(|value| Token::read(value, true)) {
            let listed = listed.tokens.iter().any(|(_, own)| own.content == token.content);
            let other = known.insert(token.content.clone(), token.clone());
            if other.is_some_and(|other| other != token && (!listed || self.class == Class::Cohere)) {
                let problem = format!("the token {:?} is described twice, with different flags", token.content);
                return Err(TokenizerError::Config(problem));
            }
        }
        Ok(())
    }

    fn check(&self, added: &Added<'_>, list: &Listed) -> Result<(), TokenizerError> {
        for (id, token) in &list.tokens {
            match added.id(&token.content) {
                Some(real) if real == *id => {}
                real => {
                    let real = real.map_or_else(|| "none".to_owned(), |id| id.to_string());
                    return Err(TokenizerError::Ids(format!(
                        "{} gives the added token {:?} the id {id}, but its place in the vocabulary has the id {real}: the \
                         files are not of one and the same tokenizer",
                        list.file, token.content
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The field that lists special tokens without a name of their own.
pub(super) fn extra_tokens(config: &Map<String, Value>) -> Option<&Value> {
    let filled = |name: &str| {
        let value = config.get(name)?;
        let empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
        (!value.is_null() && !empty).then_some(value)
    };
    filled("extra_special_tokens").or_else(|| filled("additional_special_tokens"))
}

/// Whether two files describe a special token, or a list of them, in the same way.
pub(super) fn same_token(own: Option<&Value>, other: &Value) -> bool {
    let Some(own) = own else { return false };
    match (own, other) {
        (Value::Array(own), Value::Array(other)) => {
            own.len() == other.len() && own.iter().zip(other).all(|(own, other)| same_token(Some(own), other))
        }
        (Value::Null, Value::Null) => true,
        _ => {
            let read = |value: &Value| Token::read(value, true).map(|token| Token { special: true, ..token });
            let (own, other) = (read(own), read(other));
            own.is_some() && own == other
        }
    }
}
