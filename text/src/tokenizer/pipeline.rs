//! The parts of a tokenizer that look for regular expressions, run by our own engine.
//!
//! All other parts are the library's. These are not, because the official library has another engine than the one that
//! the library can have here, and because that one ends a search that takes too long as if there were no further match.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::tokenizer::pattern::Invert;
use tokenizers::{
    DecoderWrapper, ModelWrapper, NormalizedString, NormalizerWrapper, PostProcessorWrapper, PreTokenizedString,
    PreTokenizerWrapper, Result, SplitDelimiterBehavior, TokenizerImpl,
};

use super::regex::Regex;

/// A tokenizer with these parts.
pub type Inner = TokenizerImpl<ModelWrapper, Normalizer, PreTokenizer, PostProcessorWrapper, DecoderWrapper>;

/// How GPT-2 splits a text; `ByteLevel` does so, too, unless its file says not to.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A step that changes a text before it is split.
#[derive(Clone, Debug)]
pub enum Normalizer {
    Sequence(Vec<Normalizer>),
    Replace { regex: Regex, content: String },
    Library(NormalizerWrapper),
}

/// How a text is split.
#[derive(Clone, Debug)]
pub enum PreTokenizer {
    Sequence(Vec<PreTokenizer>),
    Split {
        regex: Regex,
        behavior: SplitDelimiterBehavior,
        invert: bool,
    },
    Bytes {
        prefix: bool,
        regex: Regex,
        bytes: ByteLevel,
    },
    Library(PreTokenizerWrapper),
}

/// The pattern of a part, if it is a regular expression.
fn regex_of(part: &Value) -> std::result::Result<Option<Regex>, String> {
    let pattern = part.get("pattern").and_then(|pattern| pattern.get("Regex"));
    pattern.and_then(Value::as_str).map(Regex::new).transpose()
}

/// The parts of a sequence.
fn list<T>(
    part: &Value,
    name: &str,
    read: impl Fn(&Value) -> std::result::Result<T, String>,
) -> std::result::Result<Vec<T>, String> {
    let parts = part.get(name).and_then(Value::as_array);
    let parts = parts.ok_or_else(|| format!("a sequence has no {name}"))?;
    parts.iter().map(read).collect()
}

/// A field of a part, or what the library takes where it is missing.
fn flag(part: &Value, name: &str, missing: bool) -> std::result::Result<bool, String> {
    match part.get(name) {
        None => Ok(missing),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| format!("{name} is neither true nor false")),
    }
}

impl Normalizer {
    fn read(part: &Value) -> std::result::Result<Self, String> {
        let library = || NormalizerWrapper::deserialize(part).map_err(|e| e.to_string());
        match part.get("type").and_then(Value::as_str) {
            Some("Sequence") => list(part, "normalizers", Self::read).map(Self::Sequence),
            Some("Replace") => match regex_of(part)? {
                Some(regex) => {
                    let content = part.get("content").and_then(Value::as_str);
                    let content = content.ok_or("a Replace has no content")?.to_owned();
                    Ok(Self::Replace { regex, content })
                }
                None => library().map(Self::Library),
            },
            _ => library().map(Self::Library),
        }
    }
}

impl PreTokenizer {
    fn read(part: &Value) -> std::result::Result<Self, String> {
        let library = || PreTokenizerWrapper::deserialize(part).map_err(|e| e.to_string());
        match part.get("type").and_then(Value::as_str) {
            Some("Sequence") => list(part, "pretokenizers", Self::read).map(Self::Sequence),
            Some("Split") => match regex_of(part)? {
                Some(regex) => {
                    let behavior = part.get("behavior").ok_or("a Split has no behavior")?;
                    let behavior = SplitDelimiterBehavior::deserialize(behavior).map_err(|e| e.to_string())?;
                    let invert = flag(part, "invert", false)?;
                    Ok(Self::Split {
                        regex,
                        behavior,
                        invert,
                    })
                }
                None => library().map(Self::Library),
            },
            Some("ByteLevel") if flag(part, "use_regex", true)? => {
                let regex = Regex::new(GPT2)?;
                let prefix = flag(part, "add_prefix_space", true)?;
                let bytes = ByteLevel::new(false, flag(part, "trim_offsets", true)?, false);
                Ok(Self::Bytes { prefix, regex, bytes })
            }
            _ => library().map(Self::Library),
        }
    }
}

impl<'de> Deserialize<'de> for Normalizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::read(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for PreTokenizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::read(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl tokenizers::Normalizer for Normalizer {
    fn normalize(&self, text: &mut NormalizedString) -> Result<()> {
        match self {
            Self::Sequence(parts) => parts.iter().try_for_each(|part| part.normalize(text)),
            Self::Replace { regex, content } => text.replace(regex, content),
            Self::Library(part) => part.normalize(text),
        }
    }
}

impl tokenizers::PreTokenizer for PreTokenizer {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> Result<()> {
        match self {
            Self::Sequence(parts) => parts.iter().try_for_each(|part| part.pre_tokenize(text)),
            Self::Split {
                regex,
                behavior,
                invert: true,
            } => text.split(|_, part| part.split(Invert(regex), *behavior)),
            Self::Split { regex, behavior, .. } => text.split(|_, part| part.split(regex, *behavior)),
            Self::Bytes { prefix, regex, bytes } => {
                text.split(|_, mut part| {
                    if *prefix && !part.get().starts_with(' ') {
                        part.prepend(" ");
                    }
                    part.split(regex, SplitDelimiterBehavior::Isolated)
                })?;
                bytes.pre_tokenize(text)
            }
            Self::Library(part) => part.pre_tokenize(text),
        }
    }
}

/// Refuses a model whose ids are drawn by chance: the official library applies these fields, and has no one answer.
pub fn check_chance(tokenizer: &Value) -> std::result::Result<(), String> {
    let model = tokenizer.get("model").unwrap_or(&Value::Null);
    for name in ["dropout", "alpha", "nbest_size"] {
        match model.get(name) {
            None | Some(Value::Null) => {}
            Some(value) if value.as_f64() == Some(0.0) => {}
            Some(value) => {
                return Err(format!(
                    "its model has \"{name}\": {value}, by which the ids of a text are drawn by chance; set {name} to null for \
                     the tokenizer without chance"
                ));
            }
        }
    }
    Ok(())
}
