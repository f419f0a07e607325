//! Messages as a prompt, by the chat template of the checkpoint (docs/format.md).
//!
//! A template is a program in Jinja that comes with the checkpoint: it gets no files, a limit of steps, and a limit of
//! output; `crate::intake::tokenizer::guard` limits time and memory.

mod error;
mod template;
#[cfg(test)]
mod tests;
mod time;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{json, Map, Value};
use tessera_circuits::model::ModelConfig;

pub use self::error::ChatError;
pub use self::template::RENDERED_BYTES;

use self::template::Variables;
use crate::intake::tokenizer::guard::guarded;
use crate::intake::tokenizer::rendered::Marks;
use crate::intake::tokenizer::{token_text, Tokenizer, TokenizerError};

/// The most time for a prompt.
const TIME: Duration = Duration::from_secs(10);

/// A chat template, and the tokens that it names.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    source: String,
    tokens: Map<String, Value>,
}

/// A conversation as a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatPrompt {
    /// What the template made of the messages.
    pub text: String,
    pub ids: Vec<u32>,
    /// Special tokens that messages spell. They were encoded as text, not as these tokens.
    pub spelled: Vec<String>,
}

/// The variables of templates that stand for a token.
const TOKENS: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "pad_token",
    "sep_token",
    "cls_token",
    "mask_token",
];

impl ChatTemplate {
    /// The template in a `tokenizer_config.json` (which may be empty), or the given one in its place.
    pub fn new(
        tokenizer_config: &[u8],
        given: Option<String>,
        config: &ModelConfig,
        tokenizer: &Tokenizer,
    ) -> Result<Self, ChatError> {
        let fields: Value = match tokenizer_config {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes).map_err(|e| TokenizerError::Config(e.to_string()))?,
        };
        let source = match given {
            Some(source) => source,
            None => of_field(fields.get("chat_template").unwrap_or(&Value::Null))?,
        };
        let mut tokens = Map::new();
        for name in TOKENS {
            let id = match name {
                "bos_token" => config.bos,
                "eos_token" => config.eos.first().copied(),
                _ => None,
            };
            let text = fields.get(name).and_then(token_text).or_else(|| tokenizer.token(id?));
            tokens.extend(text.map(|text| (name.to_owned(), json!(text))));
        }
        Ok(Self { source, tokens })
    }

    /// The prompt that asks for an answer to the messages.
    pub fn prompt(&self, messages: &[Value], tokenizer: &Tokenizer) -> Result<ChatPrompt, ChatError> {
        let (this, messages, tokenizer) = (self.clone(), messages.to_vec(), tokenizer.clone());
        guarded(TIME, move || this.prompt_here(messages, &tokenizer))?
    }

    fn prompt_here(&self, messages: Vec<Value>, tokenizer: &Tokenizer) -> Result<ChatPrompt, ChatError> {
        let messages = Value::Array(messages);
        let mut texts = vec![self.source.as_str()];
        strings(&messages, &mut texts);
        let marks = Marks::absent_from(&texts);
        let marks = marks.ok_or_else(|| ChatError::Messages("they have all noncharacters of Unicode".to_owned()))?;
        let mut spelled = BTreeSet::new();
        let marked = map_strings(&messages, &mut |text| tokenizer.mark(text, marks, &mut spelled));
        let rendered = template::render(
            &self.source,
            &Variables {
                messages: &marked,
                tokens: &self.tokens,
                now: time::now(),
            },
        )?;
        let (text, ids) = tokenizer.encode_marked(&rendered, marks)?;
        Ok(ChatPrompt {
            text,
            ids,
            spelled: spelled.into_iter().collect(),
        })
    }
}

/// A template, or several with names, of which the one named default is for conversations.
fn of_field(field: &Value) -> Result<String, ChatError> {
    let named = match field {
        Value::Null => return Err(ChatError::NoTemplate),
        Value::String(source) => return Ok(source.clone()),
        Value::Array(list) => list,
        _ => {
            return Err(ChatError::Field(
                "neither a text nor a list of named templates".to_owned(),
            ))
        }
    };
    let text = |template: &Value, name: &str| template.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_default = |t: &&Value| text(t, "name").as_deref() == Some("default");
    let one = match named.as_slice() {
        [one] => Some(one),
        many => many.iter().find(is_default),
    };
    one.and_then(|t| text(t, "template")).ok_or_else(|| {
        let names: Vec<String> = named.iter().filter_map(|t| text(t, "name")).collect();
        ChatError::Field(format!("none of the templates is named default: {}", names.join(", ")))
    })
}

/// One question, and what precedes a conversation.
pub fn question(system: Option<&str>, user: &str) -> Vec<Value> {
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let system = system.map(|text| message("system", text));
    system.into_iter().chain([message("user", user)]).collect()
}

/// Reads a conversation: a JSON list of objects with `role` and `content`.
pub fn messages(json: &[u8]) -> Result<Vec<Value>, ChatError> {
    let wrong = |problem: String| Err(ChatError::Messages(problem));
    let list: Vec<Value> = match serde_json::from_slice(json) {
        Ok(Value::Array(list)) => list,
        Ok(_) => return wrong("not a JSON list of {\"role\", \"content\"}".to_owned()),
        Err(error) => return wrong(error.to_string()),
    };
    if list.is_empty() {
        return wrong("the list is empty".to_owned());
    }
    for (at, message) in list.iter().enumerate() {
        for field in ["role", "content"] {
            if !message.get(field).is_some_and(Value::is_string) {
                return wrong(format!("message {at} has no text {field:?}"));
            }
        }
    }
    Ok(list)
}

/// All strings of a value, names of fields included.
fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(list) => list.iter().for_each(|v| strings(v, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, v)| {
            found.push(name);
            strings(v, found);
        }),
        _ => {}
    }
}

/// The value with all strings changed, names of fields included.
fn map_strings(value: &Value, change: &mut impl FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(list) => list.iter().map(|v| map_strings(v, change)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, v)| (change(name), map_strings(v, change)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}
