//! Requests as they are read.

use tessera::text::chat::{messages_of, tools_of, Conversation, Json};
use tessera::verifier::context::Context;
use tessera::Prompt;

use super::error::Refusal;
use super::fields::{Fields, CHAT, COMPLETION, EMBEDDING};

/// Tokens of a completion where the request does not say, as in OpenAI's interface.
const COMPLETION_TOKENS: usize = 16;

/// What a request says of its proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proving {
    /// Whether the answer is to be proved; `None` if the request does not say.
    pub proof: Option<bool>,
    /// The context that the proof is tied to.
    pub context: Option<Context>,
    /// Lower numbers are proved earlier.
    pub priority: i32,
}

/// How an answer is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streaming {
    /// Whether the client asks for the answer token by token.
    pub stream: bool,
    /// Whether it asks for a last chunk that says how many tokens there were.
    pub usage: bool,
}

/// A request for a text.
#[derive(Clone, Debug, PartialEq)]
pub struct TextRequest {
    /// The name or id of the model.
    pub model: String,
    /// The prompt.
    pub prompt: Prompt,
    /// The most tokens; `None` for as many as an answer may have.
    pub tokens: Option<usize>,
    /// How the answer is sent.
    pub streaming: Streaming,
    /// What it says of its proof.
    pub proving: Proving,
}

/// A request for embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingRequest {
    /// The name or id of the model.
    pub model: String,
    /// The texts.
    pub inputs: Vec<Prompt>,
    /// Whether numbers are sent as base64 of 32-bit floats.
    pub base64: bool,
    /// The length that the vectors must have.
    pub dimensions: Option<usize>,
    /// What it says of its proofs.
    pub proving: Proving,
}

/// Reads the text of a request.
///
/// # Errors
/// If it is no JSON.
pub fn parse(body: &[u8]) -> Result<Json, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::invalid("the request is not UTF-8"))?;
    Json::parse(text).map_err(|problem| Refusal::invalid(format!("the request is no JSON: {problem}")))
}

fn model(fields: &Fields<'_>) -> Result<String, Refusal> {
    let missing = || Refusal::field("model", "model is missing: /v1/models names it");
    Ok(fields.text("model")?.ok_or_else(missing)?.to_owned())
}

fn proving(fields: &Fields<'_>) -> Result<Proving, Refusal> {
    let proof = fields.flag("proof")?;
    let wrong = |e| Refusal::field("context", format!("context: {e}"));
    let context = fields
        .text("context")?
        .map(|text| text.parse().map_err(wrong))
        .transpose()?;
    if context.is_some() && proof == Some(false) {
        return Err(Refusal::field(
            "context",
            "a context is that of a proof, and proof is false",
        ));
    }
    let priority = fields.integer("priority", i32::MIN.into())?.unwrap_or(0);
    let priority = i32::try_from(priority).map_err(|_| Refusal::field("priority", "priority is too large"))?;
    Ok(Proving {
        proof,
        context,
        priority,
    })
}

fn streaming(fields: &Fields<'_>) -> Result<Streaming, Refusal> {
    let stream = fields.flag("stream")?.unwrap_or(false);
    let Some(options) = fields.get("stream_options") else {
        let usage = false;
        return Ok(Streaming { stream, usage });
    };
    if !stream {
        return Err(Refusal::field(
            "stream_options",
            "stream_options needs \"stream\": true",
        ));
    }
    let options = Fields::of(options, &["include_usage"], &[]).map_err(|refusal| Refusal {
        param: refusal.param.map(|name| format!("stream_options.{name}")),
        ..refusal
    })?;
    Ok(Streaming {
        stream,
        usage: options.flag("include_usage")?.unwrap_or(false),
    })
}

/// The most tokens. The two names are those of older and newer clients.
fn tokens(fields: &Fields<'_>, names: &[&str]) -> Result<Option<usize>, Refusal> {
    let mut found = None;
    for name in names {
        let Some(n) = fields.integer(name, 1)? else { continue };
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        if found.is_some_and(|other| other != n) {
            return Err(Refusal::field(*name, "max_tokens and max_completion_tokens differ"));
        }
        found = Some(n);
    }
    Ok(found)
}

/// Fields of texts that are honoured. Decoding is greedy, so every seed gives the same answer.
const TEXT: [&str; 7] = [
    "model",
    "stream",
    "stream_options",
    "seed",
    "proof",
    "context",
    "priority",
];

impl TextRequest {
    /// Reads a request for a chat.
    ///
    /// # Errors
    /// What is refused of it.
    pub fn chat(body: &Json) -> Result<Self, Refusal> {
        let own = ["messages", "tools", "max_tokens", "max_completion_tokens"];
        let fields = Fields::of(body, &[&TEXT[..], &own].concat(), &CHAT)?;
        let list = fields.get("messages").cloned();
        let list = list.ok_or_else(|| Refusal::field("messages", "messages is missing"))?;
        let messages = messages_of(list).map_err(|e| Refusal::field("messages", e.to_string()))?;
        for (at, message) in messages.iter().enumerate() {
            check_message(at, message)?;
        }
        if messages.last().and_then(|last| last.field("role")) == Some(&Json::Text("assistant".to_owned())) {
            let problem = "the last message is of the assistant: a chat asks for its answer, so it ends with another one's message";
            return Err(Refusal::unsupported("messages", problem));
        }
        let tools = fields.get("tools").filter(|tools| **tools != Json::List(Vec::new()));
        let tools = tools.cloned().map(tools_of).transpose();
        let tools = tools.map_err(|e| Refusal::field("tools", e.to_string()))?;
        let date = None;
        Self::of(
            &fields,
            Conversation { messages, tools, date }.into(),
            tokens(&fields, &["max_tokens", "max_completion_tokens"])?,
        )
    }

    /// Reads a request for the continuation of a text.
    ///
    /// # Errors
    /// What is refused of it.
    pub fn completion(body: &Json) -> Result<Self, Refusal> {
        let fields = Fields::of(body, &[&TEXT[..], &["prompt", "max_tokens"]].concat(), &COMPLETION)?;
        let prompt = fields.get("prompt");
        let mut prompts = inputs(
            "prompt",
            prompt.ok_or_else(|| Refusal::field("prompt", "prompt is missing"))?,
        )?;
        let (Some(prompt), true) = (prompts.pop(), prompts.is_empty()) else {
            return Err(Refusal::unsupported(
                "prompt",
                "one prompt at a time: send a request for each",
            ));
        };
        let tokens = tokens(&fields, &["max_tokens"])?.unwrap_or(COMPLETION_TOKENS);
        Self::of(&fields, prompt, Some(tokens))
    }

    fn of(fields: &Fields<'_>, prompt: Prompt, tokens: Option<usize>) -> Result<Self, Refusal> {
        fields.integer("seed", i64::MIN)?;
        Ok(Self {
            model: model(fields)?,
            prompt,
            tokens,
            streaming: streaming(fields)?,
            proving: proving(fields)?,
        })
    }
}

impl EmbeddingRequest {
    /// Reads a request for embeddings.
    ///
    /// # Errors
    /// What is refused of it.
    pub fn read(body: &Json) -> Result<Self, Refusal> {
        let used = [
            "model",
            "input",
            "encoding_format",
            "dimensions",
            "proof",
            "context",
            "priority",
        ];
        let fields = Fields::of(body, &used, &EMBEDDING)?;
        let input = fields.get("input");
        let base64 = match fields.text("encoding_format")? {
            None | Some("float") => false,
            Some("base64") => true,
            Some(_) => {
                return Err(Refusal::field(
                    "encoding_format",
                    "encoding_format is neither float nor base64",
                ))
            }
        };
        let dimensions = fields.integer("dimensions", 1)?;
        Ok(Self {
            model: model(&fields)?,
            inputs: inputs(
                "input",
                input.ok_or_else(|| Refusal::field("input", "input is missing"))?,
            )?,
            base64,
            dimensions: dimensions.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            proving: proving(&fields)?,
        })
    }
}

/// A text, ids, or a list of one of them.
fn inputs(name: &str, value: &Json) -> Result<Vec<Prompt>, Refusal> {
    let one = |value: &Json| match value {
        Json::Text(text) => Some(Prompt::Text(text.clone())),
        Json::List(_) => ids(value).map(Prompt::Ids),
        _ => None,
    };
    let all = match value {
        Json::List(list) if !list.is_empty() && ids(value).is_none() => list.iter().map(one).collect(),
        other => one(other).map(|one| vec![one]),
    };
    all.ok_or_else(|| {
        Refusal::field(
            name,
            format!("{name} is neither a text, nor a list of token ids, nor a list of these"),
        )
    })
}

fn ids(value: &Json) -> Option<Vec<u32>> {
    let id = |value: &Json| match value {
        Json::Int(id) => u32::try_from(*id).ok(),
        _ => None,
    };
    match value {
        Json::List(list) if !list.is_empty() => list.iter().map(id).collect(),
        _ => None,
    }
}

/// Fields of a message that templates may use.
const MESSAGE: [&str; 8] = [
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "reasoning_content",
    "thinking",
    "reasoning",
];

/// Refuses what no template sees: parts that are no texts, and fields that are not those of a message.
fn check_message(at: usize, message: &Json) -> Result<(), Refusal> {
    let Json::Map(fields) = message else { return Ok(()) };
    for (name, value) in fields {
        let is_empty = *value == Json::List(Vec::new());
        let known = MESSAGE.contains(&name.as_str()) || name == "annotations" && is_empty;
        if !known && *value != Json::Null {
            let shown: String = name.chars().take(64).collect();
            let param = format!("messages[{at}].{shown}");
            return Err(Refusal::unsupported(
                &param,
                format!("{param} is not supported: leave it out"),
            ));
        }
    }
    let param = format!("messages[{at}].content");
    match message.field("content") {
        None | Some(Json::Null | Json::Text(_)) => Ok(()),
        Some(Json::List(parts)) if !parts.is_empty() && parts.iter().all(|part| part_text(part).is_some()) => Ok(()),
        Some(_) => {
            let message = format!("{param} is neither a text nor a list of parts {{\"type\": \"text\", \"text\": ..}}");
            Err(Refusal::unsupported(&param, message))
        }
    }
}

/// The text of a part that has nothing else.
fn part_text(part: &Json) -> Option<&str> {
    match (part, part.field("type"), part.field("text")) {
        (Json::Map(fields), Some(Json::Text(kind)), Some(Json::Text(text))) if kind == "text" && fields.len() == 2 => {
            Some(text)
        }
        _ => None,
    }
}

/// Something in a chat that a template may leave out without saying so, or write in a form that nobody expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The tools.
    Tools,
    /// A field of a message: its number, and the name of the field.
    Field(usize, &'static str),
    /// The content of a message as a list of parts.
    Parts(usize),
}

/// Fields of messages that are in doubt.
const DOUBTFUL: [&str; 3] = ["name", "tool_calls", "tool_call_id"];

impl Doubt {
    /// What is in doubt of a prompt.
    pub fn of(prompt: &Prompt) -> Vec<Self> {
        let Prompt::Chat { conversation, .. } = prompt else {
            return Vec::new();
        };
        let mut list: Vec<Self> = conversation.tools.iter().map(|_| Self::Tools).collect();
        for (at, message) in conversation.messages.iter().enumerate() {
            let there = |name: &&str| message.field(name).is_some_and(|value| *value != Json::Null);
            list.extend(DOUBTFUL.into_iter().filter(there).map(|name| Self::Field(at, name)));
            if let Some(Json::List(_)) = message.field("content") {
                list.push(Self::Parts(at));
            }
        }
        list
    }

    /// The field, as a request has it.
    pub fn param(self) -> String {
        match self {
            Self::Tools => "tools".to_owned(),
            Self::Field(at, name) => format!("messages[{at}].{name}"),
            Self::Parts(at) => format!("messages[{at}].content"),
        }
    }

    /// Whether the prompt should be the same without it: lists of parts say nothing that a text does not say.
    pub const fn is_form(self) -> bool {
        matches!(self, Self::Parts(_))
    }

    /// The prompts without it. A template puts the texts of parts together in one of two ways.
    pub fn without(self, prompt: &Prompt) -> Vec<Prompt> {
        let with = |change: &dyn Fn(&mut Conversation)| {
            let mut prompt = prompt.clone();
            if let Prompt::Chat { conversation, .. } = &mut prompt {
                change(conversation);
            }
            prompt
        };
        match self {
            Self::Tools => vec![with(&|own| own.tools = None)],
            Self::Field(at, name) => vec![with(&|own| remove(&mut own.messages[at], name))],
            Self::Parts(at) => ["", "\n"].map(|by| with(&|own| join(&mut own.messages[at], by))).into(),
        }
    }
}

fn remove(message: &mut Json, name: &str) {
    if let Json::Map(fields) = message {
        fields.retain(|(own, _)| own != name);
        // A message that had tool calls in the place of its content needs one.
        if !fields.iter().any(|(own, _)| own == "content") {
            fields.push(("content".to_owned(), Json::Text(String::new())));
        }
    }
}

/// Puts the texts of the parts of a message together.
fn join(message: &mut Json, by: &str) {
    if let Json::Map(fields) = message {
        for (_, value) in fields.iter_mut().filter(|(name, _)| name == "content") {
            if let Json::List(parts) = value {
                let texts: Vec<&str> = parts.iter().filter_map(part_text).collect();
                *value = Json::Text(texts.join(by));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(json: &str) -> Result<TextRequest, Refusal> {
        TextRequest::chat(&parse(json.as_bytes())?)
    }

    #[test]
    fn a_chat_is_read() {
        let read = chat(
            r#"{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 5, "stream": true,
                "stream_options": {"include_usage": true}, "seed": 7, "temperature": 0, "proof": true, "priority": -2,
                "context": "00000000000000000000000000001111222233334444555566667777888899990"}"#,
        );
        // One digit too many.
        assert_eq!(read.unwrap_err().param.as_deref(), Some("context"));
        let read = chat(
            r#"{"model": "m", "messages": [{"role": "user", "content": "Hi", "refusal": null}], "max_completion_tokens": 5,
                "stream": true, "stream_options": {"include_usage": true}, "seed": 7, "temperature": 0, "proof": true, "priority": -2}"#,
        )
        .unwrap();
        assert_eq!(
            (read.tokens, read.streaming.usage, read.proving.proof),
            (Some(5), true, Some(true))
        );
        assert_eq!(read.proving.priority, -2);
        assert!(Doubt::of(&read.prompt).is_empty());
    }

    #[test]
    fn what_a_chat_cannot_say_is_refused_by_name() {
        let user = r#"{"role": "user", "content": "Hi"}"#;
        for (json, param) in [
            (format!(r#"{{"messages": [{user}]}}"#), "model"),
            (r#"{"model": "m"}"#.to_owned(), "messages"),
            (r#"{"model": "m", "messages": []}"#.to_owned(), "messages"),
            (r#"{"model": "m", "messages": [{"role": "assistant", "content": "Hi"}]}"#.to_owned(), "messages"),
            (
                r#"{"model": "m", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}"#.to_owned(),
                "messages[0].content",
            ),
            (r#"{"model": "m", "messages": [{"role": "user", "content": "a", "weight": 1}]}"#.to_owned(), "messages[0].weight"),
            (format!(r#"{{"model": "m", "messages": [{user}], "max_tokens": 0}}"#), "max_tokens"),
            (format!(r#"{{"model": "m", "messages": [{user}], "max_tokens": 1, "max_completion_tokens": 2}}"#), "max_completion_tokens"),
            (format!(r#"{{"model": "m", "messages": [{user}], "stream_options": {{}}}}"#), "stream_options"),
            (format!(r#"{{"model": "m", "messages": [{user}], "stream": true, "stream_options": {{"x": 1}}}}"#), "stream_options.x"),
            (format!(r#"{{"model": "m", "messages": [{user}], "seed": "x"}}"#), "seed"),
            (format!(r#"{{"model": "m", "messages": [{user}], "tools": "x"}}"#), "tools"),
            (
                format!(r#"{{"model": "m", "messages": [{user}], "proof": false, "context": "{}1"}}"#, "0".repeat(63)),
                "context",
            ),
        ] {
            assert_eq!(chat(&json).unwrap_err().param.as_deref(), Some(param), "{json}");
        }
        for json in ["", "{", "[1, 2]", "{} {}"] {
            assert_eq!(chat(json).unwrap_err().status, 400, "{json}");
        }
        assert!(parse(b"\xff\xfe{").is_err());
    }

    #[test]
    fn an_input_is_a_text_or_ids_or_a_list_of_them() {
        let read = |input: &str| {
            let body = parse(format!(r#"{{"model": "m", "input": {input}}}"#).as_bytes()).unwrap();
            EmbeddingRequest::read(&body).map(|read| read.inputs)
        };
        assert_eq!(read("\"a\"").unwrap(), [Prompt::from("a")]);
        assert_eq!(read("[1, 2]").unwrap(), [Prompt::from([1, 2])]);
        assert_eq!(read("[\"a\", [3]]").unwrap(), [Prompt::from("a"), Prompt::from([3])]);
        for wrong in ["[]", "7", "[\"a\", 1]", "[-1]", "{}", "[[]]"] {
            assert_eq!(read(wrong).unwrap_err().param.as_deref(), Some("input"), "{wrong}");
        }
    }

    #[test]
    fn tools_names_and_parts_are_doubtful() {
        let read = chat(
            r#"{"model": "m", "tools": [{"type": "function"}], "messages": [{"role": "user", "name": "Ann",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}"#,
        )
        .unwrap();
        let doubts = Doubt::of(&read.prompt);
        let names: Vec<(String, bool)> = doubts.iter().map(|own| (own.param(), own.is_form())).collect();
        let expected = [
            ("tools", false),
            ("messages[0].name", false),
            ("messages[0].content", true),
        ];
        assert_eq!(names, expected.map(|(name, same)| (name.to_owned(), same)));
        let without = doubts[2].without(&read.prompt);
        let [Prompt::Chat { conversation, .. }, _] = &without[..] else {
            panic!()
        };
        assert_eq!(
            conversation.messages[0].field("content"),
            Some(&Json::Text("ab".to_owned()))
        );
        let without = doubts[1].without(&without[1]);
        let Prompt::Chat { conversation, .. } = &without[0] else {
            panic!()
        };
        let plain = Json::parse(r#"{"role": "user", "content": "a\nb"}"#).unwrap();
        assert_eq!(conversation.messages[0], plain);
    }
}
