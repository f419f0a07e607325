//! The tokenizer of the metadata as the hub's `tokenizer.json` and `tokenizer_config.json`.

mod byte_level;
mod parts;
mod sentencepiece;
#[cfg(test)]
mod tests;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{json, Map, Value as Json};

use self::parts::{
    Added, Kind, Parts, Vocabulary, MAX_BYTES, MAX_MERGES, MAX_TOKENS, MERGES, PRE, SCORES, SPACE_PREFIX,
};
use super::value::{Metadata, Problem};
use tessera_text::tokenizer::{TokenizerFiles, IN_CHATS};

const MODEL: &str = "tokenizer.ggml.model";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const CHAT_TEMPLATE: &str = "tokenizer.chat_template";

/// The files that were made, and the number of tokens.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) files: TokenizerFiles,
    pub(super) tokens: usize,
}

/// Reads the tokenizer; `None` if the file has none. Errors say what is not supported.
pub(super) fn read(metadata: &Metadata<'_>) -> Result<Option<Made>, Problem> {
    let parts = match metadata.text(MODEL)? {
        None | Some("none" | "no_vocab") => return Ok(None),
        Some("gpt2") => byte_level::parts,
        Some("llama") => sentencepiece::parts,
        Some(other) => {
            return Err(format!(
                "{MODEL} is {other:?}, only \"gpt2\" and \"llama\" are supported"
            ))
        }
    };
    let vocabulary = Vocabulary::read(metadata)?;
    let parts = parts(metadata, &vocabulary)?;
    let special = Special::read(metadata, &vocabulary, parts.adds_bos)?;
    let document = Document {
        version: "1.0",
        truncation: None,
        padding: None,
        added_tokens: vocabulary.added(),
        normalizer: parts.normalizer,
        pre_tokenizer: parts.pre_tokenizer,
        post_processor: special.template(),
        decoder: parts.decoder,
        model: Bpe {
            kind: "BPE",
            dropout: None,
            unk_token: special.unk.filter(|_| parts.byte_fallback).map(|(_, text)| text),
            continuing_subword_prefix: None,
            end_of_word_suffix: None,
            fuse_unk: parts.byte_fallback,
            byte_fallback: parts.byte_fallback,
            ignore_merges: parts.ignore_merges,
            vocab: Vocab(&vocabulary.tokens),
            merges: parts.merges,
        },
    };
    let written = |json: serde_json::Result<Vec<u8>>| json.map_err(|e| e.to_string());
    let tokenizer = written(serde_json::to_vec(&document))?;
    let config = written(serde_json::to_vec_pretty(&special.config(metadata)?))?;
    Ok(Some(Made {
        files: TokenizerFiles {
            tokenizer: Some(tokenizer),
            config: Some(config),
        },
        tokens: vocabulary.tokens.len(),
    }))
}

/// Tokens with a part to play, with their ids.
struct Special<'a> {
    bos: Option<(usize, &'a str)>,
    eos: Option<(usize, &'a str)>,
    unk: Option<(usize, &'a str)>,
    pad: Option<(usize, &'a str)>,
    add_bos: bool,
    add_eos: bool,
}

impl<'a> Special<'a> {
    fn read(metadata: &Metadata<'_>, vocabulary: &Vocabulary<'a>, adds_bos: bool) -> Result<Self, Problem> {
        let at = |name: &str| vocabulary.at(metadata, &format!("tokenizer.ggml.{name}_token_id"));
        let special = Self {
            bos: at("bos")?,
            eos: at("eos")?,
            unk: at("unknown")?.or_else(|| vocabulary.unknown()),
            pad: at("padding")?,
            add_bos: metadata.flag(ADD_BOS)?.unwrap_or(adds_bos),
            add_eos: metadata.flag(ADD_EOS)?.unwrap_or(false),
        };
        for (added, token, name) in [
            (special.add_bos, special.bos, "bos"),
            (special.add_eos, special.eos, "eos"),
        ] {
            if added && token.is_none() {
                return Err(format!(
                    "texts get a token {name}, but tokenizer.ggml.{name}_token_id is missing"
                ));
            }
        }
        Ok(special)
    }

    /// The post-processor, which puts BOS and EOS around a text.
    fn template(&self) -> Json {
        let bos = self.bos.filter(|_| self.add_bos);
        let eos = self.eos.filter(|_| self.add_eos);
        if bos.is_none() && eos.is_none() {
            return Json::Null;
        }
        let piece = |(_, text): (usize, &str), side: usize| json!({"SpecialToken": {"id": text, "type_id": side}});
        let sequence = |name: &str, side: usize| {
            let text = json!({"Sequence": {"id": name, "type_id": side}});
            let before = bos.map(|t| piece(t, side));
            before
                .into_iter()
                .chain([text])
                .chain(eos.map(|t| piece(t, side)))
                .collect::<Vec<_>>()
        };
        let pair = [sequence("A", 0), sequence("B", 1)].concat();
        let tokens = bos.into_iter().chain(eos);
        let tokens = tokens.map(|(id, text)| (text.to_string(), json!({"id": text, "ids": [id], "tokens": [text]})));
        json!({
            "type": "TemplateProcessing",
            "single": sequence("A", 0),
            "pair": pair,
            "special_tokens": tokens.collect::<Map<_, _>>(),
        })
    }

    /// `tokenizer_config.json`.
    fn config(&self, metadata: &Metadata<'_>) -> Result<Json, Problem> {
        let mut config = Map::from_iter([
            ("add_bos_token".to_string(), self.add_bos.into()),
            ("add_eos_token".to_string(), self.add_eos.into()),
        ]);
        for (name, token) in [
            ("bos_token", self.bos),
            ("eos_token", self.eos),
            ("unk_token", self.unk),
            ("pad_token", self.pad),
        ] {
            config.extend(token.map(|(_, text)| (name.to_string(), text.into())));
        }
        if self.add_bos || self.add_eos {
            config.insert(IN_CHATS.to_string(), true.into());
        }
        let template = metadata.text(CHAT_TEMPLATE)?;
        config.extend(template.map(|text| ("chat_template".to_string(), text.into())));
        Ok(config.into())
    }
}

/// `tokenizer.json`.
#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    truncation: Option<()>,
    padding: Option<()>,
    added_tokens: Vec<Added<'a>>,
    normalizer: Json,
    pre_tokenizer: Json,
    post_processor: Json,
    decoder: Json,
    model: Bpe<'a>,
}

#[derive(Serialize)]
struct Bpe<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    dropout: Option<()>,
    unk_token: Option<&'a str>,
    continuing_subword_prefix: Option<()>,
    end_of_word_suffix: Option<()>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    vocab: Vocab<'a>,
    merges: Vec<(&'a str, &'a str)>,
}

/// Ids by tokens, in the order of the ids.
struct Vocab<'a>(&'a [&'a str]);

impl Serialize for Vocab<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (id, token) in self.0.iter().enumerate() {
            map.serialize_entry(token, &id)?;
        }
        map.end()
    }
}
