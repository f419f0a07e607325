//! Steps that sentence-transformers adds to the tokenizer of an encoder: a prompt in front of the text, lower case, and a
//! greatest length.

use serde_json::{json, Map, Value};

use super::error::TokenizerError;
use super::sources::{IdFile, Sources};

/// The field of the config in a key where set-up writes these settings.
pub(super) const SENTENCE: &str = "sentence_transformers";
/// Settings of the first module, under the names that it had for the families of encoders.
const MODULE_FILES: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
/// Settings of all modules together.
const CONFIG_FILE: &str = "config_sentence_transformers.json";
/// The modules and what makes a vector of states; `config.json`'s reader reads these.
const MODULES_FILES: [(&str, &[&str]); 4] = [
    ("modules.json", &["type"]),
    ("1_Pooling/config.json", &["pooling_mode", "include_prompt"]),
    ("2_Dense/config.json", &[]),
    ("2_Normalize/config.json", &[]),
];

/// The steps for one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sentence {
    /// The most tokens, special ones included.
    pub max_seq_length: Option<usize>,
    /// Whether a text becomes lower case before anything else.
    pub lower: bool,
    /// The default prompt, which goes before every text.
    pub prompt: String,
}

impl Sentence {
    /// As a key has them.
    pub fn of_config(config: &Map<String, Value>) -> Self {
        let Some(fields) = config.get(SENTENCE) else {
            return Self::default();
        };
        Self {
            max_seq_length: fields["max_seq_length"].as_u64().and_then(|n| usize::try_from(n).ok()),
            lower: fields["do_lower_case"].as_bool() == Some(true),
            prompt: fields["prompt"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// The field for a key; `None` if there is nothing to be done.
    pub fn field(&self) -> Option<Value> {
        if *self == Self::default() {
            return None;
        }
        let mut fields = Map::new();
        if let Some(most) = self.max_seq_length {
            fields.insert("max_seq_length".to_owned(), json!(most));
        }
        if self.lower {
            fields.insert("do_lower_case".to_owned(), json!(true));
        }
        if !self.prompt.is_empty() {
            fields.insert("prompt".to_owned(), json!(self.prompt));
        }
        Some(Value::Object(fields))
    }

    /// Reads the files of an encoder or a reranker.
    pub fn read(
        sources: &Sources<'_>,
        hub: &Map<String, Value>,
        tokenizer_config: &Map<String, Value>,
        record: &mut Vec<IdFile>,
        notes: &mut Vec<String>,
    ) -> Result<Self, TokenizerError> {
        let number = |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let mut made = Self::default();
        let mut most = None;
        // sentence-transformers takes the first of them that is there.
        for name in MODULE_FILES {
            let Some((fields, digest)) = sources.object(name)? else {
                continue;
            };
            let known = ["max_seq_length", "do_lower_case"];
            for (field, value) in &fields {
                let harmless = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if !known.contains(&field.as_str()) && !harmless {
                    notes.push(format!("{name}: {field} is {value}, which is not used"));
                }
            }
            most = number(fields.get("max_seq_length"));
            made.lower = fields.get("do_lower_case").and_then(Value::as_bool) == Some(true);
            record.push(IdFile::of(name, digest, &fields, &known));
            break;
        }
        let positions = number(hub.get("max_position_embeddings"));
        let longest = number(tokenizer_config.get("model_max_length"));
        let most = most.or_else(|| [positions, longest].into_iter().flatten().min());
        made.max_seq_length = most.filter(|most| positions.is_none_or(|positions| *most < positions));
        if let Some((fields, digest)) = sources.object(CONFIG_FILE)? {
            made.prompt = prompt(&fields, notes)?;
            record.push(IdFile::of(
                CONFIG_FILE,
                digest,
                &fields,
                &["prompts", "default_prompt_name"],
            ));
        }
        for (name, used) in MODULES_FILES {
            if let Some((value, digest)) = sources.json(name)? {
                let fields = value.as_object().cloned().unwrap_or_default();
                if !made.prompt.is_empty() && fields.get("include_prompt").and_then(Value::as_bool) == Some(false) {
                    return Err(TokenizerError::Beside(
                        "1_Pooling/config.json",
                        "include_prompt is false: the tokens of the default prompt would not be pooled, which is not supported"
                            .to_owned(),
                    ));
                }
                record.push(match name {
                    "modules.json" => IdFile {
                        name: name.to_owned(),
                        sha256: Some(digest),
                        used: vec!["type".to_owned()],
                        ignored: Vec::new(),
                    },
                    _ => IdFile::starting(name, digest, &fields, used),
                });
            }
        }
        Ok(made)
    }
}

/// The prompt that goes before every text.
fn prompt(fields: &Map<String, Value>, notes: &mut Vec<String>) -> Result<String, TokenizerError> {
    let prompts = fields.get("prompts").and_then(Value::as_object);
    let text = |name: &str| prompts.and_then(|all| all.get(name)).and_then(Value::as_str);
    let default = match fields.get("default_prompt_name").and_then(Value::as_str) {
        None => None,
        Some(name) => Some((
            name,
            text(name).ok_or_else(|| {
                let problem = format!("default_prompt_name is {name:?}, which is none of prompts");
                TokenizerError::Beside(CONFIG_FILE, problem)
            })?,
        )),
    };
    let filled = prompts
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.as_str().is_some_and(|text| !text.is_empty()));
    let others: Vec<&str> = filled
        .map(|(name, _)| name.as_str())
        .filter(|name| default.is_none_or(|(own, _)| own != *name))
        .collect();
    if let Some((name, text)) = default {
        notes.push(format!(
            "{CONFIG_FILE}: default_prompt_name is {name:?}, so every text begins with {text:?}"
        ));
    }
    if !others.is_empty() {
        notes.push(format!(
            "{CONFIG_FILE}: the prompts {} are not put before a text: write them there where you want them",
            others.join(", ")
        ));
    }
    Ok(default.map(|(_, text)| text.to_owned()).unwrap_or_default())
}
