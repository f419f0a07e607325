//! Text to token ids and back, by the checkpoint's own `tokenizer.json`.

use std::panic::{catch_unwind, AssertUnwindSafe};

use serde_json::Value;
use thiserror::Error;
use tokenizers::Tokenizer as Inner;

/// Why text and token ids could not be converted.
#[derive(Debug, Error)]
pub enum TokenizerError {
    #[error("tokenizer.json: {0}")]
    Format(String),
    #[error("tokenizer_config.json: {0}")]
    Config(String),
    #[error("text cannot be encoded: {0}")]
    Encode(String),
    #[error("token ids cannot be decoded: {0}")]
    Decode(String),
    #[error("the tokenizer library gave up on this tokenizer: {0}")]
    Panicked(String),
}

/// A tokenizer of the hub.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: Inner,
    /// Prepended by [`Tokenizer::encode`] because the tokenizer itself does not.
    bos: Option<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, and `tokenizer_config.json` where there is one: if that has
    /// `add_bos_token` set and the post-processor adds no such token, [`Tokenizer::encode`] does.
    pub fn from_bytes(tokenizer: &[u8], config: Option<&[u8]>) -> Result<Self, TokenizerError> {
        // The library panics on files that are not JSON inside of their decoder.
        serde_json::from_slice::<Value>(tokenizer).map_err(|e| TokenizerError::Format(e.to_string()))?;
        let inner = guarded(|| Inner::from_bytes(tokenizer))?;
        let mut inner = inner.map_err(|e| TokenizerError::Format(e.to_string()))?;
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|e| TokenizerError::Format(e.to_string()))?;
        let mut tokenizer = Self { inner, bos: None };
        if let Some(bos) = config.map(bos_token).transpose()?.flatten() {
            let id = tokenizer.inner.token_to_id(&bos);
            let id = id.ok_or_else(|| TokenizerError::Config(format!("bos_token {bos:?} is not in the vocabulary")))?;
            if !tokenizer.encode("")?.contains(&id) {
                tokenizer.bos = Some(id);
            }
        }
        Ok(tokenizer)
    }

    /// Token ids of a text, with the special tokens that the model expects around it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let encoding = guarded(|| self.inner.encode(text, true))?.map_err(|e| TokenizerError::Encode(e.to_string()))?;
        Ok(self.bos.into_iter().chain(encoding.get_ids().iter().copied()).collect())
    }

    /// Text of token ids; special tokens are left out on request.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        guarded(|| self.inner.decode(ids, skip_special))?.map_err(|e| TokenizerError::Decode(e.to_string()))
    }

    /// Number of tokens, added ones included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }
}

/// Runs the library, whose panics on unusual tokenizers are errors: keys hold tokenizers, and `verify` shows text.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, TokenizerError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        TokenizerError::Panicked(text.unwrap_or("no reason given").to_string())
    })
}

/// The text of the BOS token, if the config asks for it to be added.
fn bos_token(config: &[u8]) -> Result<Option<String>, TokenizerError> {
    let config: Value = serde_json::from_slice(config).map_err(|e| TokenizerError::Config(e.to_string()))?;
    if config.get("add_bos_token").and_then(Value::as_bool) != Some(true) {
        return Ok(None);
    }
    // Either the text or an object with the text and flags.
    let bos = config.get("bos_token").map(|t| t.get("content").unwrap_or(t));
    match bos.and_then(Value::as_str) {
        Some(text) => Ok(Some(text.to_string())),
        None => Err(TokenizerError::Config(
            "add_bos_token is set, but bos_token is missing".to_string(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, FIXTURE};

    fn file(name: &str) -> Vec<u8> {
        std::fs::read(std::path::Path::new(FIXTURE).join(name)).unwrap()
    }

    #[test]
    fn golden_texts_round_trip() {
        let tokenizer = Tokenizer::from_bytes(&file("tokenizer.json"), Some(&file("tokenizer_config.json"))).unwrap();
        assert_eq!(tokenizer.vocab_size(), 2048);
        for sample in golden() {
            // The sampler that made the texts put a space between special tokens.
            let text = sample.text.replace("> <", "><");
            assert_eq!(tokenizer.decode(&sample.ids, false).unwrap(), text);
        }
        let ids = tokenizer.encode("Once upon a time").unwrap();
        assert_eq!(ids[0], 1);
        assert_eq!(ids.iter().filter(|id| **id == 1).count(), 1);
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), "Once upon a time");
    }

    #[test]
    fn bos_is_added_once() {
        let mut json: Value = serde_json::from_slice(&file("tokenizer.json")).unwrap();
        json["post_processor"] = Value::Null;
        let bare = json.to_string();
        let config = file("tokenizer_config.json");
        let with = Tokenizer::from_bytes(bare.as_bytes(), Some(&config))
            .unwrap()
            .encode("hello")
            .unwrap();
        let without = Tokenizer::from_bytes(bare.as_bytes(), None)
            .unwrap()
            .encode("hello")
            .unwrap();
        assert_eq!((with[0], &with[1..]), (1, without.as_slice()));
        assert_ne!(without[0], 1);
    }

    /// Both were found by the fuzzer.
    #[test]
    fn tokenizers_that_the_library_gives_up_on_are_errors() {
        let empty = r#""version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
            "pre_tokenizer":null,"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}"#;
        let bad_escape = format!(r#"{{{empty},"post_processor":null,"decoder":{{"type":"\ud800\u0041"}}}}"#);
        let error = Tokenizer::from_bytes(bad_escape.as_bytes(), None).unwrap_err();
        assert!(matches!(error, TokenizerError::Format(_)), "{error}");
        let template = r#"{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"k","type_id":0}}],"pair":[],
            "special_tokens":{}}"#;
        let unknown = format!(r#"{{{empty},"post_processor":{template},"decoder":null}}"#);
        let tokenizer = Tokenizer::from_bytes(unknown.as_bytes(), None);
        let error = tokenizer.and_then(|t| t.encode("a")).unwrap_err();
        assert!(matches!(error, TokenizerError::Panicked(_)), "{error}");
    }

    #[test]
    fn errors_name_the_file() {
        assert!(matches!(
            Tokenizer::from_bytes(b"{}", None),
            Err(TokenizerError::Format(_))
        ));
        let good = file("tokenizer.json");
        for config in [
            &b"x"[..],
            br#"{"add_bos_token": true}"#,
            br#"{"add_bos_token": true, "bos_token": "none"}"#,
        ] {
            assert!(matches!(
                Tokenizer::from_bytes(&good, Some(config)),
                Err(TokenizerError::Config(_))
            ));
        }
    }
}
