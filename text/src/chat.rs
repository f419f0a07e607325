//! Messages as a prompt, by the chat template of the checkpoint, as `transformers` 5.24 does it (docs/format.md).
//!
//! A template is a program that comes with the checkpoint: it gets no files, a limit of steps, and a limit of output;
//! `crate::tokenizer::guard` limits time and memory.

mod date;
mod error;
#[cfg(test)]
mod goldens;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::Value;

pub use self::date::Date;
pub use self::error::ChatError;
pub use crate::jinja::Json;

use crate::jinja::{self, Rendered, Variable};
use crate::tokenizer::guard::guarded;
use crate::tokenizer::{special_tokens, token_text, Tokenizer, TokenizerError, IN_CHATS};

/// The most time for a prompt.
const TIME: Duration = Duration::from_secs(10);
/// The most bytes of a rendered prompt.
pub const RENDERED_BYTES: usize = 1 << 20;

/// A chat template, and the tokens that it names.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    source: String,
    tokens: Vec<(String, Variable)>,
    /// Tokens that go before and behind every chat, unless the template has put them there.
    around: (Option<String>, Option<String>),
}

/// Which template a chat uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The model's own: of several the one that `transformers` picks.
    Own,
    /// The model's own of this name.
    Named(String),
    /// This one (Jinja) in place of the model's.
    Given(String),
}

/// The messages of a conversation, and the tools that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    pub messages: Vec<Json>,
    /// Descriptions of functions, as OpenAI's interface has them.
    pub tools: Option<Vec<Json>>,
    /// When the conversation takes place; a template that writes the day into the prompt is refused without it.
    pub date: Option<Date>,
}

/// A conversation as a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatPrompt {
    /// What the template made of the messages.
    pub text: String,
    pub ids: Vec<u32>,
    /// Special tokens that the prompt spells, but not the template alone. They were encoded as text, not as these tokens.
    pub spelled: Vec<String>,
    /// The date of the conversation, if the template has asked for it.
    pub dated: Option<Date>,
}

/// Where a message may have what the model thought, by the names that are in use.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

impl ChatTemplate {
    /// The template in a `tokenizer_config.json` (which may be empty), or the given one in its place. The tokens that
    /// the template may name are the ones in that file, or else of its class: `config.json` adds none.
    pub fn new(tokenizer_config: &[u8], choice: Choice, has_tools: bool) -> Result<Self, ChatError> {
        let fields: Value = match tokenizer_config {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes).map_err(|e| TokenizerError::Config(e.to_string()))?,
        };
        let source = match choice {
            Choice::Given(source) => source,
            other => of_field(fields.get("chat_template").unwrap_or(&Value::Null), &other, has_tools)?,
        };
        let tokens = fields.as_object().map(special_tokens).unwrap_or_default();
        let set = |name: &str| fields.get(name).and_then(Value::as_bool) == Some(true);
        let end = |flag: &str, name: &str| {
            let added = set(IN_CHATS) && set(flag);
            fields.get(name).filter(|_| added).and_then(token_text)
        };
        let around = (end("add_bos_token", "bos_token"), end("add_eos_token", "eos_token"));
        let own = |(name, text): (String, String)| (name, Variable::Own(text));
        Ok(Self {
            source,
            tokens: tokens.into_iter().map(own).collect(),
            around,
        })
    }

    /// The prompt that asks for an answer to the conversation.
    pub fn prompt(&self, conversation: &Conversation, tokenizer: &Tokenizer) -> Result<ChatPrompt, ChatError> {
        let (this, conversation, tokenizer) = (self.clone(), conversation.clone(), tokenizer.clone());
        guarded(TIME, move || {
            let date = conversation.date;
            let Rendered { text, dated } = this.render(conversation)?;
            let (mut ids, spelled) = tokenizer.encode_rendered(text.as_str(), text.user())?;
            let end = |token: &Option<String>| token.as_deref().and_then(|token| tokenizer.id(token));
            if let Some(bos) = end(&this.around.0).filter(|bos| ids.first() != Some(bos)) {
                ids.insert(0, bos);
            }
            if let Some(eos) = end(&this.around.1).filter(|eos| ids.last() != Some(eos)) {
                ids.push(eos);
            }
            Ok(ChatPrompt {
                text: text.as_str().to_owned(),
                ids,
                spelled,
                dated: date.filter(|_| dated),
            })
        })?
    }

    /// Renders the template for a conversation, with the variables that `transformers` gives it.
    fn render(&self, conversation: Conversation) -> Result<Rendered, ChatError> {
        let now = conversation.date.map(Date::seconds);
        let messages = conversation.messages.into_iter().map(normalised).collect();
        let mut variables = self.tokens.clone();
        let mut set = |name: &str, value| variables.push((name.to_owned(), value));
        set("messages", Variable::User(Json::List(messages)));
        set(
            "tools",
            Variable::User(conversation.tools.map_or(Json::Null, Json::List)),
        );
        set("documents", Variable::User(Json::Null));
        set("add_generation_prompt", Variable::Flag(true));
        jinja::render(&self.source, variables, now, RENDERED_BYTES).map_err(|error| match error {
            jinja::Error::Raised(message) => ChatError::Refused(message),
            jinja::Error::NoTime => ChatError::NoDate,
            other => ChatError::Template(other.to_string()),
        })
    }
}

/// A message as `transformers` gives it to templates: without fields that are null, and with what the model thought
/// under all names.
fn normalised(message: Json) -> Json {
    let Json::Map(mut fields) = message else {
        return message;
    };
    fields.retain(|(_, value)| *value != Json::Null);
    let find = |name: &&str| fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    let Some(reasoning) = REASONING.iter().find_map(find) else {
        return Json::Map(fields);
    };
    let thinking = fields.iter().position(|(name, _)| name == REASONING[1]);
    let thinking = thinking.map_or_else(|| (REASONING[1].to_owned(), reasoning.clone()), |at| fields.remove(at));
    fields.insert(0, thinking);
    match fields.iter_mut().find(|(name, _)| name == REASONING[0]) {
        Some(field) => field.1 = reasoning,
        None => fields.push((REASONING[0].to_owned(), reasoning)),
    }
    Json::Map(fields)
}

/// A template, or several with names: then the one of the given name, or else the one called `tool_use` if there are
/// tools, or else `default`.
fn of_field(field: &Value, choice: &Choice, has_tools: bool) -> Result<String, ChatError> {
    let malformed = || ChatError::Field("neither a text nor a list of named templates".to_owned());
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let named: Vec<(String, String)> = match (field, choice) {
        (Value::Null, _) => return Err(ChatError::NoTemplate),
        (Value::String(_), Choice::Named(name)) if name != "default" => {
            let problem = format!("it is one template without a name, so none is named {name:?}");
            return Err(ChatError::Field(problem));
        }
        (Value::String(source), _) => return Ok(source.clone()),
        (Value::Array(list), _) => {
            let one = |t: &Value| Some((text(t, "name")?, text(t, "template")?));
            list.iter()
                .map(|t| one(t).ok_or_else(malformed))
                .collect::<Result<_, _>>()?
        }
        (Value::Object(fields), _) => {
            let one = |(name, t): (&String, &Value)| Some((name.clone(), t.as_str()?.to_owned()));
            fields
                .iter()
                .map(|t| one(t).ok_or_else(malformed))
                .collect::<Result<_, _>>()?
        }
        _ => return Err(malformed()),
    };
    // Of a name that is there twice, the last one counts.
    let find = |name: &str| {
        named
            .iter()
            .rev()
            .find(|(n, _)| n == name)
            .map(|(_, template)| template.clone())
    };
    let found = match choice {
        Choice::Named(name) => find(name),
        _ => has_tools
            .then(|| find("tool_use"))
            .flatten()
            .or_else(|| find("default")),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
        let wanted = match choice {
            Choice::Named(name) => name,
            _ => "default",
        };
        ChatError::Field(format!(
            "none of the templates is named {wanted}: name one of {} with --chat-template-name",
            names.join(", ")
        ))
    })
}

/// One question, and what precedes a conversation.
pub fn question(system: Option<&str>, user: &str) -> Conversation {
    let field = |name: &str, text: &str| (name.to_owned(), Json::Text(text.to_owned()));
    let message = |role: &str, content: &str| Json::Map(vec![field("role", role), field("content", content)]);
    let system = system.map(|text| message("system", text));
    Conversation {
        messages: system.into_iter().chain([message("user", user)]).collect(),
        tools: None,
        date: None,
    }
}

/// Reads messages: a JSON list of objects with `role` and `content`. The content is a text or a list of parts; where a
/// message has tool calls, it may be null or missing.
pub fn messages(json: &str) -> Result<Vec<Json>, ChatError> {
    messages_of(Json::parse(json).map_err(ChatError::Messages)?)
}

/// The same, of what is read already.
pub fn messages_of(json: Json) -> Result<Vec<Json>, ChatError> {
    let wrong = |problem: String| Err(ChatError::Messages(problem));
    let Json::List(list) = json else {
        return wrong("not a JSON list of {\"role\", \"content\"}".to_owned());
    };
    if list.is_empty() {
        return wrong("the list is empty".to_owned());
    }
    for (at, message) in list.iter().enumerate() {
        if !matches!(message.field("role"), Some(Json::Text(_))) {
            return wrong(format!("message {at} has no text \"role\""));
        }
        let has = |name: &&str| message.field(name).is_some_and(|value| *value != Json::Null);
        let instead = REASONING.into_iter().chain(["tool_calls", "function_call"]);
        if !has(&"content") && !instead.collect::<Vec<_>>().iter().any(has) {
            return wrong(format!("message {at} has no \"content\", nor tool calls in its place"));
        }
    }
    Ok(list)
}

/// Reads tools: a JSON list of objects that describe functions.
pub fn tools(json: &str) -> Result<Vec<Json>, ChatError> {
    tools_of(Json::parse(json).map_err(ChatError::Tools)?)
}

/// The same, of what is read already.
pub fn tools_of(json: Json) -> Result<Vec<Json>, ChatError> {
    match json {
        Json::List(list) if list.iter().all(|tool| matches!(tool, Json::Map(_))) => Ok(list),
        _ => Err(ChatError::Tools("not a JSON list of objects".to_owned())),
    }
}
