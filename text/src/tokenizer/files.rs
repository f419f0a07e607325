//! The files of a checkpoint that decide ids, and what becomes of them: the two tokenizer files of a key.
//!
//! The norm is transformers 5.24 (`AutoTokenizer`), and for encoders sentence-transformers 6.2. Every file that either program
//! would read is read here, and recorded with the fields that were used.

use std::path::Path;

use serde::de::IgnoredAny;
use serde_json::{json, Map, Value};

use super::added::{self, ADDED_TOKENS_FILE};
use super::class::{self, Class};
use super::error::TokenizerError;
use super::fields::Fields;
use super::sentence::{Sentence, SENTENCE};
use super::sources::{optional, IdFile, Sources, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE};
use super::{templates, Tokenizer};
use crate::json;

/// Special tokens of older checkpoints.
const SPECIAL_TOKENS_FILE: &str = "special_tokens_map.json";
/// The vocabulary and the merges of checkpoints without `tokenizer.json`.
const VOCAB_FILE: &str = "vocab.json";
const MERGES_FILE: &str = "merges.txt";
const MODEL_CONFIG_FILE: &str = "config.json";
const GENERATION_FILE: &str = "generation_config.json";
/// Fields of `config.json` that matter for ids.
const MODEL_FIELDS: [&str; 6] = [
    "model_type",
    "tokenizer_class",
    "bos_token_id",
    "eos_token_id",
    "sep_token_id",
    "max_position_embeddings",
];
/// Tokenizers of other programs, from which a `tokenizer.json` can be made.
const OTHER_TOKENIZERS: [&str; 6] = [
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    "vocab.txt",
    "tiktoken.model",
];

/// The tokenizer files of a model, in the hub layout. An empty file says as much as none: a key does not tell the two apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// `tokenizer.json`.
    pub tokenizer: Option<Vec<u8>>,
    /// `tokenizer_config.json`, with the chat template of the checkpoint, if that has one.
    pub config: Option<Vec<u8>>,
}

impl TokenizerFiles {
    /// Reads the files that set-up has written into a model directory, as they are.
    pub fn stored(dir: &Path) -> Result<Self, TokenizerError> {
        Ok(Self {
            tokenizer: optional(&dir.join(TOKENIZER_FILE))?,
            config: optional(&dir.join(TOKENIZER_CONFIG_FILE))?,
        })
    }

    /// The two files, in the order of their fields.
    pub fn both(&self) -> [Option<&[u8]>; 2] {
        [self.tokenizer.as_deref(), self.config.as_deref()]
    }

    /// The tokenizer, within the limits on hostile files; `None` if there is none.
    pub fn parse(&self) -> Result<Option<Tokenizer>, TokenizerError> {
        let tokenizer = self.tokenizer.as_ref();
        let parsed = tokenizer.map(|bytes| Tokenizer::from_bytes(bytes, self.config.as_deref()));
        parsed.transpose()
    }

    /// The tokenizer of `tokenizer.json` alone, whatever its class. Calibration uses it, because scales only need texts that
    /// are like those in use, and a set-up that is repeated with a later version must find the same ones.
    pub fn parse_alone(&self) -> Result<Option<Tokenizer>, TokenizerError> {
        let tokenizer = self.tokenizer.as_ref();
        tokenizer.map(|bytes| Tokenizer::from_bytes(bytes, None)).transpose()
    }
}

/// The files of a checkpoint that decide ids, read and brought into the two files of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdFiles {
    /// The two tokenizer files for the key.
    pub files: TokenizerFiles,
    /// The files that were read, with their digests and fields.
    pub record: Vec<IdFile>,
    /// Notes for the user, for example about files that contradict each other.
    pub notes: Vec<String>,
}

/// The state while the files are read.
struct Reading<'a> {
    sources: Sources<'a>,
    /// `config.json` of the model.
    hub: Map<String, Value>,
    /// `tokenizer_config.json`, and what other files add to it.
    config: Map<String, Value>,
    /// Whether that is no longer what the file holds.
    changed: bool,
    made: IdFiles,
}

impl IdFiles {
    /// Reads the files of a checkpoint directory. Errors name the file, and the field or token, that cannot be followed.
    pub fn read(checkpoint: &Path) -> Result<Self, TokenizerError> {
        let sources = Sources { dir: checkpoint };
        let mut reading = Reading {
            hub: Map::new(),
            config: Map::new(),
            changed: false,
            made: Self::default(),
            sources,
        };
        reading.model_files()?;
        let given = reading.config_file()?;
        let Some((tokenizer, mut document)) = reading.tokenizer_file()? else {
            reading.templates()?;
            reading.others();
            reading.made.files.config = reading.written(given)?;
            return Ok(reading.made);
        };
        let class = reading.class(&document)?;
        let added = reading.added(class, &document)?;
        reading.templates()?;
        if reading.is_encoder() {
            let Reading {
                sources,
                hub,
                config,
                made,
                ..
            } = &mut reading;
            let sentence = Sentence::read(sources, hub, config, &mut made.record, &mut made.notes)?;
            if let Some(field) = sentence.field() {
                reading.insert(SENTENCE, field);
            }
        }
        reading.made.files.config = reading.written(given)?;
        reading.made.files.tokenizer = Some(match (added, tokenizer) {
            // What is JSON for Python alone is written anew.
            (None, Some(bytes)) if is_json(&bytes) => bytes,
            (added, _) => {
                if let Some(list) = added {
                    document["added_tokens"] = list;
                }
                serde_json::to_vec(&document).map_err(|e| TokenizerError::Format(e.to_string()))?
            }
        });
        reading.compare(&document)?;
        Ok(reading.made)
    }
}

impl Reading<'_> {
    fn insert(&mut self, field: &str, value: Value) {
        self.changed = true;
        self.config.insert(field.to_owned(), value);
    }

    /// `config.json` and `generation_config.json`.
    fn model_files(&mut self) -> Result<(), TokenizerError> {
        // What is wrong with them is said where the model is read.
        if let Ok(Some((fields, digest))) = self.sources.object(MODEL_CONFIG_FILE) {
            self.made.record.push(IdFile {
                ignored: Vec::new(),
                ..IdFile::of(MODEL_CONFIG_FILE, digest, &fields, &MODEL_FIELDS)
            });
            self.hub = fields;
        }
        if let Ok(Some((fields, digest))) = self.sources.object(GENERATION_FILE) {
            self.made
                .record
                .push(IdFile::of(GENERATION_FILE, digest, &fields, &["eos_token_id"]));
        }
        Ok(())
    }

    fn model_type(&self) -> &str {
        self.hub.get("model_type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the model makes vectors or scores of whole texts, as sentence-transformers runs it.
    fn is_encoder(&self) -> bool {
        matches!(self.model_type(), "bert" | "distilbert" | "roberta" | "xlm-roberta")
    }

    /// `tokenizer_config.json` and the special tokens of older checkpoints. Returns the bytes of the former.
    fn config_file(&mut self) -> Result<Option<Vec<u8>>, TokenizerError> {
        let given = self.sources.bytes(TOKENIZER_CONFIG_FILE)?;
        if let Some((bytes, digest)) = &given {
            let value = json::parse(bytes).map_err(TokenizerError::Config)?;
            let Value::Object(fields) = value else {
                return Err(TokenizerError::Config("the file holds no JSON object".to_owned()));
            };
            self.config = fields;
            // Sorted when the class is known.
            self.made
                .record
                .push(IdFile::of(TOKENIZER_CONFIG_FILE, digest.clone(), &Map::new(), &[]));
        }
        if let Some((fields, digest)) = self.sources.object(SPECIAL_TOKENS_FILE)? {
            let counts = !self.config.contains_key("added_tokens_decoder");
            let used: Vec<&str> = fields.keys().map(String::as_str).filter(|_| counts).collect();
            self.made
                .record
                .push(IdFile::of(SPECIAL_TOKENS_FILE, digest, &fields, &used));
            for (name, value) in fields.into_iter().filter(|_| counts) {
                let same = added::same_token(self.config.get(&name), &value);
                if !same {
                    self.insert(&name, value);
                }
            }
        }
        Ok(given.map(|(bytes, _)| bytes))
    }

    /// `tokenizer.json` and its bytes, or one made of a vocabulary and merges; `None` if there is neither.
    #[allow(clippy::type_complexity)]
    fn tokenizer_file(&mut self) -> Result<Option<(Option<Vec<u8>>, Value)>, TokenizerError> {
        if let Some((bytes, digest)) = self.sources.bytes(TOKENIZER_FILE)? {
            let document = json::parse(&bytes).map_err(TokenizerError::Format)?;
            if !document.is_object() {
                return Err(TokenizerError::Format("the file holds no JSON object".to_owned()));
            }
            let fields = document.as_object().cloned().unwrap_or_default();
            let ignored = ["decoder", "padding", "truncation", "version"];
            let used: Vec<&str> = fields
                .keys()
                .map(String::as_str)
                .filter(|name| !ignored.contains(name))
                .collect();
            self.made
                .record
                .push(IdFile::of(TOKENIZER_FILE, digest, &fields, &used));
            return Ok(Some((Some(bytes), document)));
        }
        let Some((vocab, vocab_digest)) = self.sources.object(VOCAB_FILE)? else {
            return Ok(None);
        };
        let Some((merges, merges_digest)) = self.sources.text(MERGES_FILE)? else {
            return Err(TokenizerError::Beside(
                VOCAB_FILE,
                format!("{MERGES_FILE} is missing, which belongs to it"),
            ));
        };
        self.made
            .record
            .push(IdFile::whole(VOCAB_FILE, vocab_digest, "vocabulary"));
        self.made
            .record
            .push(IdFile::whole(MERGES_FILE, merges_digest, "merges"));
        Ok(Some((None, self.made_of(vocab, &merges)?)))
    }

    /// A `tokenizer.json` of a vocabulary and merges; the class adds everything else.
    fn made_of(&self, vocab: Map<String, Value>, merges: &str) -> Result<Value, TokenizerError> {
        let mut list = Vec::new();
        for line in merges
            .lines()
            .filter(|line| !line.starts_with("#version") && !line.is_empty())
        {
            match line.split_once(' ') {
                Some((left, right)) if !right.contains(' ') => list.push(json!([left, right])),
                _ => {
                    let problem = format!("the line {line:?} is not two tokens");
                    return Err(TokenizerError::Beside(MERGES_FILE, problem));
                }
            }
        }
        let document = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": {
                "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true,
            },
            "model": {"type": "BPE", "vocab": vocab, "merges": list},
        });
        let adds = ["add_bos_token", "add_eos_token"];
        let on = |name: &&&str| self.config.get(**name).and_then(Value::as_bool) == Some(true);
        if let Some(name) = adds.iter().find(on) {
            let problem =
                format!("{name} is true, which is not supported without {TOKENIZER_FILE}: make one with transformers");
            return Err(TokenizerError::Config(problem));
        }
        Ok(document)
    }

    /// The class of the tokenizer, which the config names from now on.
    fn class(&mut self, document: &Value) -> Result<Class, TokenizerError> {
        let named = self
            .config
            .get("tokenizer_class")
            .or_else(|| self.hub.get("tokenizer_class"));
        let picked = class::pick(self.model_type(), named.and_then(Value::as_str), document);
        let class = Class::named(&picked.name).unwrap_or(Class::Stored);
        let own = self
            .config
            .get("tokenizer_class")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if Class::named(own).unwrap_or(Class::Stored) != class {
            self.insert("tokenizer_class", json!(picked.name));
        }
        if !picked.known {
            self.made.notes.push(format!(
                "{TOKENIZER_CONFIG_FILE}: transformers 5.24 builds {} by rules that this program does not have: \
                 {TOKENIZER_FILE} decides as it stands, and ids may differ",
                picked.name
            ));
        }
        if class == Class::Stored && document["model"].get("vocab").is_some() && document["pre_tokenizer"].is_null() {
            let made = self.made.record.iter().any(|file| file.name == VOCAB_FILE);
            if made {
                let problem = format!("nothing says how a text is split: make a {TOKENIZER_FILE} with transformers");
                return Err(TokenizerError::Beside(VOCAB_FILE, problem));
            }
        }
        let fields = Fields::of(&self.config, class, self.is_encoder())?;
        self.made.notes.extend(fields.notes);
        if let Some(own) = self
            .made
            .record
            .iter_mut()
            .find(|file| file.name == TOKENIZER_CONFIG_FILE)
        {
            (own.used, own.ignored) = (fields.used, fields.ignored);
        }
        Ok(class)
    }

    /// The list of added tokens for `tokenizer.json`, where it is another one.
    fn added(&mut self, class: Class, document: &Value) -> Result<Option<Value>, TokenizerError> {
        let beside = self.sources.object(ADDED_TOKENS_FILE)?;
        if let Some((fields, digest)) = &beside {
            let counts = !self.config.contains_key("added_tokens_decoder");
            let used: Vec<&str> = fields.keys().map(String::as_str).filter(|_| counts).collect();
            self.made
                .record
                .push(IdFile::of(ADDED_TOKENS_FILE, digest.clone(), fields, &used));
        }
        let sources = added::Sources {
            class,
            document,
            config: &self.config,
            beside: beside.as_ref().map(|(fields, _)| fields),
        };
        sources.list()
    }

    /// Chat templates in files of their own, which count in place of those in the config.
    fn templates(&mut self) -> Result<(), TokenizerError> {
        let has_other = self.config.get("chat_template").is_some_and(|value| !value.is_null());
        let found = templates::read(&self.sources, has_other, &mut self.made.record, &mut self.made.notes)?;
        if let Some(template) = found {
            self.insert("chat_template", template);
        }
        Ok(())
    }

    /// Says what is there in place of a tokenizer.
    fn others(&mut self) {
        let there = OTHER_TOKENIZERS
            .iter()
            .find(|name| self.sources.dir.join(name).exists());
        if let Some(name) = there {
            self.made.notes.push(format!(
                "{name} is not read: make a {TOKENIZER_FILE} of it, with AutoTokenizer.from_pretrained(\"DIR\").save_pretrained(\"DIR\") \
                 in Python; without one, prompts are given as ids"
            ));
        }
    }

    /// The config for a key: the bytes of the file where nothing changed.
    fn written(&self, given: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, TokenizerError> {
        match (self.changed, given) {
            (false, given)
                if given
                    .as_ref()
                    .is_none_or(|bytes| serde_json::from_slice::<Value>(bytes).is_ok()) =>
            {
                Ok(given)
            }
            _ => {
                let written = serde_json::to_vec_pretty(&self.config);
                written.map(Some).map_err(|e| TokenizerError::Config(e.to_string()))
            }
        }
    }

    /// Compares what the tokenizer does with what other fields say.
    fn compare(&mut self, document: &Value) -> Result<(), TokenizerError> {
        let Some(tokenizer) = self.made.files.parse()? else {
            return Ok(());
        };
        let around = tokenizer.run_empty()?;
        let class = Class::of(&self.config, document);
        for (flag, name) in [("add_bos_token", "bos_token"), ("add_eos_token", "eos_token")] {
            let asked = self.config.get(flag).and_then(Value::as_bool);
            let text = class.token(&self.config, name);
            let id = text.as_deref().and_then(|text| tokenizer.id(text));
            let added = id.is_some_and(|id| around.contains(&id));
            match asked {
                Some(asked) if asked != added => {
                    let does = if added { "does" } else { "does not" };
                    self.made.notes.push(format!(
                        "{TOKENIZER_CONFIG_FILE}: {flag} is {asked}, but {TOKENIZER_FILE} {does} put {name} around a text: \
                         {TOKENIZER_FILE} decides, as in transformers 5 (before, the field did)"
                    ));
                }
                _ => {}
            }
            let stated = self.hub.get(&format!("{name}_id"));
            let stated: Vec<u64> = match stated {
                Some(Value::Array(list)) => list.iter().filter_map(Value::as_u64).collect(),
                Some(one) => one.as_u64().into_iter().collect(),
                None => Vec::new(),
            };
            if let (Some(id), Some(text), false) = (id, text, stated.is_empty()) {
                if !stated.contains(&u64::from(id)) {
                    self.made.notes.push(format!(
                        "{MODEL_CONFIG_FILE}: {name}_id is {stated:?}, but {name} {text:?} of the tokenizer has the id {id}: \
                         generation ends by the former, texts and templates have the latter"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}
