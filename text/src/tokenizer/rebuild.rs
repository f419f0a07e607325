//! A tokenizer as its class builds it: `tokenizer.json` with the parts that the class takes from elsewhere.
//!
//! This happens whenever a tokenizer is read, so a key holds the two files as the hub has them. Decoders are left as they are,
//! because they decide only how ids are shown.

use serde_json::{json, Map, Value};

use super::class::Class;
use super::error::TokenizerError;

/// How Qwen2 splits a text.
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Changes a parsed `tokenizer.json` to what the class in the config makes of it. Errors if the two files do not fit
/// together.
pub(super) fn rebuild(document: &mut Value, config: &Map<String, Value>) -> Result<(), TokenizerError> {
    let class = Class::of(config, document);
    let Some(model) = class.model() else {
        return Ok(());
    };
    let found = document["model"]["type"].as_str().unwrap_or("BPE");
    if found != model {
        let name = config
            .get("tokenizer_class")
            .and_then(Value::as_str)
            .unwrap_or_default();
        return Err(TokenizerError::Config(format!(
            "tokenizer_class is {name:?}, which is made of a {model} model, but tokenizer.json has a {found} model"
        )));
    }
    let parts = Parts {
        class,
        config,
        document,
    };
    let made = (
        parts.model(),
        parts.normalizer(),
        parts.pre_tokenizer(),
        parts.post_processor()?,
    );
    let (model, normalizer, pre_tokenizer, post_processor) = made;
    let Some(own) = document["model"].as_object_mut() else {
        return Err(TokenizerError::Format("its model is no object".to_owned()));
    };
    own.retain(|name, _| matches!(name.as_str(), "type" | "vocab" | "merges"));
    own.extend(model);
    document["normalizer"] = normalizer;
    document["pre_tokenizer"] = pre_tokenizer;
    if let Some(around) = post_processor {
        document["post_processor"] = around;
    }
    Ok(())
}

impl Class {
    /// The kind of model that the class is made of; `None` for the one that takes any.
    const fn model(self) -> Option<&'static str> {
        match self {
            Self::Stored => None,
            Self::Bert => Some("WordPiece"),
            Self::XlmRoberta => Some("Unigram"),
            _ => Some("BPE"),
        }
    }
}

/// Makes the parts of a tokenizer from its class and its two files.
struct Parts<'a> {
    class: Class,
    config: &'a Map<String, Value>,
    document: &'a Value,
}

impl Parts<'_> {
    /// Everything of the model but its vocabulary and merges.
    fn model(&self) -> Map<String, Value> {
        let unknown = self.class.token(self.config, "unk_token");
        let fields = match self.class {
            Class::Bert => json!({
                "type": "WordPiece", "unk_token": unknown.unwrap_or_default(), "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
            }),
            Class::XlmRoberta => json!({"type": "Unigram", "unk_id": 3, "byte_fallback": false}),
            class => {
                let pieces = matches!(class, Class::Llama | Class::Gemma);
                json!({
                    "type": "BPE", "dropout": null, "unk_token": unknown.filter(|_| class == Class::Gemma),
                    "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": pieces,
                    "byte_fallback": pieces, "ignore_merges": false,
                })
            }
        };
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    fn normalizer(&self) -> Value {
        match self.class {
            Class::Qwen2 | Class::Cohere | Class::GptNeoX => json!({"type": "NFC"}),
            Class::Gemma => json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
            Class::Bert => json!({
                "type": "BertNormalizer", "clean_text": true,
                "handle_chinese_chars": self.flag("tokenize_chinese_chars", true),
                "strip_accents": self.config.get("strip_accents").and_then(Value::as_bool),
                "lowercase": self.flag("do_lower_case", true),
            }),
            Class::XlmRoberta => precompiled(&self.document["normalizer"]).unwrap_or(Value::Null),
            Class::Stored | Class::Llama | Class::Gpt2 | Class::Roberta => Value::Null,
        }
    }

    fn pre_tokenizer(&self) -> Value {
        let metaspace = |scheme: &str, split: bool| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
        let bytes = |use_regex: bool| {
            json!({
                "type": "ByteLevel", "add_prefix_space": self.flag("add_prefix_space", false), "trim_offsets": true,
                "use_regex": use_regex,
            })
        };
        let sequence = |list: [Value; 2]| json!({"type": "Sequence", "pretokenizers": list});
        match self.class {
            Class::Stored => Value::Null,
            Class::Llama => metaspace(
                match (self.flag("add_prefix_space", true), self.flag("legacy", false)) {
                    (false, _) => "never",
                    (true, true) => "always",
                    (true, false) => "first",
                },
                false,
            ),
            Class::Gpt2 | Class::GptNeoX | Class::Roberta => bytes(true),
            Class::Qwen2 => sequence([
                json!({"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": false}),
                bytes(false),
            ]),
            Class::Gemma => {
                json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false})
            }
            Class::Cohere => sequence([json!({"type": "Digits", "individual_digits": true}), bytes(true)]),
            Class::Bert => json!({"type": "BertPreTokenizer"}),
            Class::XlmRoberta => sequence([
                json!({"type": "WhitespaceSplit"}),
                metaspace(
                    match self.flag("add_prefix_space", true) {
                        true => "always",
                        false => "never",
                    },
                    true,
                ),
            ]),
        }
    }

    /// Makes the post-processor of the class; `None` where the class leaves it to `tokenizer.json`.
    fn post_processor(&self) -> Result<Option<Value>, TokenizerError> {
        let end = |name: &str| self.numbered(name);
        Ok(Some(match self.class {
            // Neither token is added, as `tokenizer.json` is there.
            Class::GptNeoX => Value::Null,
            Class::Bert => {
                let (cls, sep) = (end("cls_token")?, end("sep_token")?);
                let single = [cls.piece(0), text("A", 0), sep.piece(0)];
                let pair = [&single[..], &[text("B", 1), sep.piece(1)]].concat();
                template(&single, &pair, &[&cls, &sep])
            }
            Class::Roberta => {
                let (cls, sep) = (end("cls_token")?, end("sep_token")?);
                json!({
                    "type": "RobertaProcessing", "sep": [sep.text, sep.id], "cls": [cls.text, cls.id],
                    "trim_offsets": self.flag("trim_offsets", true),
                    "add_prefix_space": self.flag("add_prefix_space", false),
                })
            }
            Class::XlmRoberta => {
                let (bos, eos) = (end("bos_token")?, end("eos_token")?);
                let single = [bos.piece(0), text("A", 0), eos.piece(0)];
                let pair = [&single[..], &[eos.piece(0), text("B", 0), eos.piece(0)]].concat();
                template(&single, &pair, &[&bos, &eos])
            }
            _ => return Ok(None),
        }))
    }

    /// A field that is true or false; a null counts as none.
    fn flag(&self, name: &str, default: bool) -> bool {
        self.config.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// A special token and its id.
    fn numbered(&self, name: &str) -> Result<Numbered, TokenizerError> {
        let missing = |problem: String| TokenizerError::Config(problem);
        let text = self.class.token(self.config, name);
        let text = text.ok_or_else(|| missing(format!("{name} is missing, which goes around every text")))?;
        let id = id_of(self.document, &text);
        let id = id.ok_or_else(|| missing(format!("{name} {text:?} is not in the vocabulary")))?;
        Ok(Numbered { text, id })
    }
}

/// A token with its id.
struct Numbered {
    text: String,
    id: u32,
}

impl Numbered {
    fn piece(&self, side: usize) -> Value {
        json!({"SpecialToken": {"id": self.text, "type_id": side}})
    }
}

fn text(name: &str, side: usize) -> Value {
    json!({"Sequence": {"id": name, "type_id": side}})
}

fn template(single: &[Value], pair: &[Value], tokens: &[&Numbered]) -> Value {
    let tokens = tokens.iter().map(|t| {
        let token = json!({"id": t.text, "ids": [t.id], "tokens": [t.text]});
        (t.text.clone(), token)
    });
    json!({
        "type": "TemplateProcessing", "single": single, "pair": pair,
        "special_tokens": tokens.collect::<Map<_, _>>(),
    })
}

/// Puts lower case before everything else that happens to a text, unless the tokenizer lowers the case already, as
/// sentence-transformers does.
pub(super) fn lower(document: &mut Value) {
    let normalizer = &mut document["normalizer"];
    let parts = normalizer["normalizers"].as_array().into_iter().flatten();
    if [&*normalizer]
        .into_iter()
        .chain(parts)
        .any(|part| part["type"].as_str() == Some("Lowercase"))
    {
        return;
    }
    let first = json!({"type": "Lowercase"});
    *normalizer = match normalizer.take() {
        Value::Null => first,
        Value::Object(mut own) if own.get("type").and_then(Value::as_str) == Some("Sequence") => {
            if let Some(list) = own.get_mut("normalizers").and_then(Value::as_array_mut) {
                list.insert(0, first);
            }
            Value::Object(own)
        }
        own => json!({"type": "Sequence", "normalizers": [first, own]}),
    };
}

/// The first normalizer of a chain that is a compiled table of characters.
fn precompiled(normalizer: &Value) -> Option<Value> {
    match normalizer["type"].as_str()? {
        "Precompiled" => Some(normalizer.clone()),
        "Sequence" => normalizer["normalizers"].as_array()?.iter().find_map(precompiled),
        _ => None,
    }
}

/// The id of a token: an added one, or one of the vocabulary.
pub(super) fn id_of(document: &Value, token: &str) -> Option<u32> {
    let added = document["added_tokens"].as_array().into_iter().flatten();
    let mut added = added.filter(|own| own["content"].as_str() == Some(token));
    let id = match added.next() {
        Some(own) => own["id"].as_u64(),
        None => vocabulary_id(&document["model"]["vocab"], token),
    };
    id.and_then(|id| u32::try_from(id).ok())
}

/// The id of a token of the model's own: in a map, or by its place in a list.
pub(super) fn vocabulary_id(vocab: &Value, token: &str) -> Option<u64> {
    match vocab {
        Value::Object(ids) => ids.get(token)?.as_u64(),
        Value::Array(list) => {
            let at = list.iter().position(|entry| entry[0].as_str() == Some(token))?;
            Some(at as u64)
        }
        _ => None,
    }
}
