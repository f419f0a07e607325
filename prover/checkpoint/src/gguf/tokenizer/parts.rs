//! The tokens of the metadata, and what the kinds of tokenizers differ in.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value as Json;
use tessera_circuits::model::MAX_VOCAB;

use crate::gguf::value::{Metadata, Problem};

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const TYPES: &str = "tokenizer.ggml.token_type";
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
pub(super) const SCORES: &str = "tokenizer.ggml.scores";
pub(super) const PRE: &str = "tokenizer.ggml.pre";
pub(super) const SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
/// As many tokens as a model may have that can be proved.
pub(super) const MAX_TOKENS: usize = MAX_VOCAB;
pub(super) const MAX_MERGES: usize = 1 << 22;
/// Bytes of `tokenizer.json` before escapes, so that a key can hold it.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// What the kinds of tokenizers differ in.
pub(super) struct Parts<'a> {
    pub(super) normalizer: Json,
    pub(super) pre_tokenizer: Json,
    pub(super) decoder: Json,
    /// Pairs of tokens that become one, the first first.
    pub(super) merges: Vec<(&'a str, &'a str)>,
    /// Whether a word that is a token is that token, whatever the merges say.
    pub(super) ignore_merges: bool,
    /// Whether characters that are no token become bytes.
    pub(super) byte_fallback: bool,
    /// Whether a text gets a BOS token if the metadata do not say.
    pub(super) adds_bos: bool,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// Tokens by their ids.
pub(super) struct Vocabulary<'a> {
    pub(super) tokens: Vec<&'a str>,
    pub(super) kinds: Vec<Kind>,
    pub(super) ids: HashMap<&'a str, usize>,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn read(metadata: &Metadata<'a>) -> Result<Self, Problem> {
        let tokens = metadata.strings(TOKENS, MAX_TOKENS)?;
        if tokens.iter().map(|t| t.len()).sum::<usize>() > MAX_BYTES {
            return Err(format!("{TOKENS} are longer than {MAX_BYTES} bytes"));
        }
        let kinds = metadata.numbers(TYPES, MAX_TOKENS)?;
        if kinds.len() != tokens.len() {
            return Err(format!(
                "{TYPES} has {} elements, but there are {} tokens",
                kinds.len(),
                tokens.len()
            ));
        }
        let kinds = kinds.iter().enumerate().map(|(id, kind)| match *kind as i64 {
            1 => Ok(Kind::Normal),
            2 => Ok(Kind::Unknown),
            3 => Ok(Kind::Control),
            4 => Ok(Kind::UserDefined),
            5 => Ok(Kind::Unused),
            6 => Ok(Kind::Byte),
            _ => Err(format!("{TYPES}: {kind} of token {id} is no type")),
        });
        let kinds = kinds.collect::<Result<_, _>>()?;
        let mut ids = HashMap::with_capacity(tokens.len());
        for (id, token) in tokens.iter().enumerate() {
            if let Some(first) = ids.insert(*token, id) {
                return Err(format!("{TOKENS}: {first} and {id} are the same token {token:?}"));
            }
        }
        Ok(Self { tokens, kinds, ids })
    }

    /// The token of an id that the metadata give.
    pub(super) fn at(&self, metadata: &Metadata<'_>, key: &str) -> Result<Option<(usize, &'a str)>, Problem> {
        let Some(id) = metadata.unsigned(key)? else {
            return Ok(None);
        };
        let token = usize::try_from(id)
            .ok()
            .and_then(|id| Some((id, *self.tokens.get(id)?)));
        let token = token.ok_or_else(|| format!("{key}: {id} is no token, there are {}", self.tokens.len()))?;
        Ok(Some(token))
    }

    /// The first token for what is unknown.
    pub(super) fn unknown(&self) -> Option<(usize, &'a str)> {
        let id = self.kinds.iter().position(|kind| *kind == Kind::Unknown)?;
        Some((id, self.tokens[id]))
    }

    /// Tokens that are found in a text before it is split: the special ones, and what users have defined.
    pub(super) fn added(&self) -> Vec<Added<'a>> {
        let entries = self.tokens.iter().zip(&self.kinds).enumerate();
        let added = entries.filter_map(|(id, (content, kind))| {
            let special = match kind {
                Kind::Unknown | Kind::Control => true,
                Kind::UserDefined => false,
                Kind::Normal | Kind::Unused | Kind::Byte => return None,
            };
            Some(Added {
                id,
                content,
                single_word: false,
                lstrip: false,
                rstrip: false,
                normalized: false,
                special,
            })
        });
        added.collect()
    }
}

#[derive(Serialize)]
pub(super) struct Added<'a> {
    pub(super) id: usize,
    pub(super) content: &'a str,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
}
