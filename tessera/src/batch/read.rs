//! Requests of a batch, read and checked before any work.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use tessera_model::generate::GenerateOptions;
use tessera_text::chat::{self, question, Choice, Json};
use tessera_verdict::shown;

use super::request::{BatchError, BatchRequest, Wish};
use crate::expected::{take_answer, ExpectedAnswer};
use crate::plan::Budget;
use crate::prompt::Prompt;
use crate::Options;

/// Fields of a request.
const FIELDS: [&str; 18] = [
    "id",
    "prompt",
    "prompt_ids",
    "messages",
    "chat",
    "system",
    "tools",
    "chat_template_name",
    "date",
    "embed",
    "embed_ids",
    "rank",
    "rank_ids",
    "tokens",
    "ignore_eos",
    "answer",
    "answer_ids",
    "context",
];
/// The fields of which a request has one.
const PROMPTS: [&str; 7] = [
    "prompt",
    "prompt_ids",
    "messages",
    "embed",
    "embed_ids",
    "rank",
    "rank_ids",
];
/// Settings of other programs that make the choice of a token depend on chance or on earlier tokens.
const SAMPLING: [&str; 15] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "seed",
    "do_sample",
    "n",
    "best_of",
    "num_beams",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "stop",
];
/// The most characters of an id.
const ID: usize = 100;

/// Why a setting of the choice of tokens is refused; `None` for every other name. `option` is how the user gave it.
pub fn sampling(name: &str, option: &str) -> Option<String> {
    SAMPLING.contains(&name).then(|| {
        format!(
            "sampling is not proved: a proof says that every token is the most likely one (greedy decoding, which is \
             temperature 0 without penalties). Leave out {option}; to prove answers that you serve, serve greedy ones"
        )
    })
}

/// Reads requests: one JSON object per line. Blank lines are skipped.
///
/// # Errors
/// If a line is no request, or if two requests would have the same proof: nothing is done then.
pub fn read(text: &str, memory: Option<Budget>) -> Result<Vec<BatchRequest>, BatchError> {
    let (mut requests, mut lines) = (Vec::new(), HashMap::new());
    for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = at + 1;
        let failed = |problem: String| BatchError::Line { line, problem };
        let mut request = request(text, line).map_err(failed)?;
        request.options.memory = memory;
        // Some file systems do not tell capital letters from small ones.
        if let Some(first) = lines.insert(request.id.to_ascii_lowercase(), line) {
            let problem = format!("the id {:?} is the same as that of line {first}", request.id);
            return Err(failed(problem));
        }
        requests.push(request);
    }
    match requests.is_empty() {
        true => Err(BatchError::Empty),
        false => Ok(requests),
    }
}

/// Names of the fields of an object, in order.
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// The fields of a request, by name and with the types that they should have.
struct Fields(Json);

impl Fields {
    fn get<'a, T>(&'a self, name: &str, what: &str, read: impl Fn(&'a Json) -> Option<T>) -> Result<Option<T>, String> {
        match self.0.field(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(value) => Ok(Some(value)),
                None => Err(format!("{name:?} is not {what}")),
            },
        }
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        self.get(name, "a text", |value| match value {
            Json::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        let flag = self.get(name, "true or false", |value| match value {
            Json::Bool(flag) => Some(*flag),
            _ => None,
        });
        Ok(flag?.unwrap_or(false))
    }

    fn ids(&self, name: &str) -> Result<Option<Vec<u32>>, String> {
        let id = |value: &Json| match value {
            Json::Int(id) => u32::try_from(*id).ok(),
            _ => None,
        };
        self.get(name, "a list of token ids", |value| match value {
            Json::List(ids) if !ids.is_empty() => ids.iter().map(id).collect(),
            _ => None,
        })
    }

    /// A value of any type; nothing if it is null.
    fn json(&self, name: &str) -> Option<&Json> {
        self.0.field(name).filter(|value| **value != Json::Null)
    }

    /// Whether there is such a field, and it is not null.
    fn has(&self, name: &str) -> bool {
        self.json(name).is_some()
    }
}

fn request(text: &str, line: usize) -> Result<BatchRequest, String> {
    let Names(names) = serde_json::from_str(text).map_err(|e| format!("no JSON object: {e}"))?;
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(format!("{} is there twice", shown::quoted(name)));
        }
        if let Some(problem) = sampling(name, &format!("{name:?}")) {
            return Err(problem);
        }
        if !FIELDS.contains(&&**name) {
            let known = FIELDS.join(", ");
            return Err(format!(
                "no request has a field {}: there are {known}",
                shown::quoted(name)
            ));
        }
    }
    let fields = Fields(Json::parse(text)?);
    let mut prompt = prompt(&fields)?;
    let options = options(&fields, &mut prompt)?;
    Ok(BatchRequest {
        id: id(&fields, line)?,
        line,
        wish: wish(&fields),
        prompt,
        options,
    })
}

/// The id of a request, which is the name of a file.
fn id(fields: &Fields, line: usize) -> Result<String, String> {
    let text = |value: &Json| match value {
        Json::Text(text) => Some(text.clone()),
        Json::Int(number) if *number >= 0 => Some(number.to_string()),
        _ => None,
    };
    let id = fields.get("id", "a text or a number from 0 on", text)?;
    let id = id.unwrap_or_else(|| line.to_string());
    let safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let bad = match id.chars().next() {
        None => "it is empty",
        Some('.' | '-') => "it begins with a dot or a hyphen",
        _ if !id.chars().all(safe) => "it has other characters than letters from a to z, digits, '.', '_' and '-'",
        _ if id.len() > ID => "it is longer than 100 characters",
        _ => return Ok(id),
    };
    Err(format!(
        "the id {} cannot be the name of a proof: {bad}",
        shown::quoted(&id)
    ))
}

fn prompt(fields: &Fields) -> Result<Prompt, String> {
    let given: Vec<&str> = PROMPTS.into_iter().filter(|name| fields.has(name)).collect();
    match given[..] {
        [_] => {}
        [] => return Err(format!("no prompt: give one of {}", PROMPTS.join(", "))),
        [first, second, ..] => return Err(format!("{first:?} and {second:?} are both prompts: give one")),
    }
    let chat = fields.flag("chat")? || fields.has("messages");
    let in_chats = ["system", "tools", "chat_template_name", "date"];
    if let Some(name) = in_chats.into_iter().find(|name| !chat && fields.has(name)) {
        return Err(format!("{name:?} needs \"chat\": true"));
    }
    let texts = fields.get("rank", "a list of query and document", |value| match value {
        Json::List(texts) => match &texts[..] {
            [Json::Text(query), Json::Text(document)] => Some((query.clone(), document.clone())),
            _ => None,
        },
        _ => None,
    })?;
    let ids = [
        fields.ids("prompt_ids")?,
        fields.ids("embed_ids")?,
        fields.ids("rank_ids")?,
    ];
    let text = fields.text("prompt")?;
    let other = match (texts, ids.into_iter().flatten().next(), fields.text("embed")?) {
        (Some((query, document)), ..) => Some(Prompt::Pair { query, document }),
        (_, Some(ids), _) => Some(Prompt::Ids(ids)),
        (.., Some(text)) => Some(Prompt::Text(text)),
        _ => None,
    };
    match (other, chat) {
        (Some(_), true) => return Err("\"chat\" goes with \"prompt\" and \"messages\" only".to_owned()),
        (Some(prompt), false) => return Ok(prompt),
        (None, false) => return Ok(Prompt::Text(text.unwrap_or_default())),
        (None, true) => {}
    }
    let system = fields.text("system")?;
    let (messages, tools) = (fields.json("messages"), fields.json("tools"));
    if let (Some(_), Some(_)) = (messages, &system) {
        return Err("\"system\" is a message of \"messages\"".to_owned());
    }
    let mut conversation = question(system.as_deref(), &text.unwrap_or_default());
    if let Some(messages) = messages {
        conversation.messages = chat::messages_of(messages.clone()).map_err(|e| e.to_string())?;
    }
    let tools = tools.cloned().map(chat::tools_of).transpose();
    conversation.tools = tools.map_err(|e| e.to_string())?;
    conversation.date = fields.text("date")?.map(|date| date.parse()).transpose()?;
    let template = fields.text("chat_template_name")?.map_or(Choice::Own, Choice::Named);
    Ok(Prompt::Chat { conversation, template })
}

fn wish(fields: &Fields) -> Wish {
    let has = |names: [&str; 2]| names.into_iter().any(|name| fields.has(name));
    match (has(["embed", "embed_ids"]), has(["rank", "rank_ids"])) {
        (true, _) => Wish::Vector,
        (_, true) => Wish::Scores,
        _ => Wish::Text,
    }
}

fn options(fields: &Fields, prompt: &mut Prompt) -> Result<Options, String> {
    let vector = wish(fields) != Wish::Text;
    let given = match (fields.text("answer")?, fields.ids("answer_ids")?) {
        (Some(_), Some(_)) => return Err("\"answer\" and \"answer_ids\" are both answers: give one".to_owned()),
        (Some(text), None) => Some(ExpectedAnswer::Text(text)),
        (None, ids) => ids.map(ExpectedAnswer::Ids),
    };
    let said = take_answer(prompt).map_err(|e| e.to_string())?;
    let answer = match (given, said) {
        (Some(_), Some(_)) => return Err("the last message is an answer, too: give one".to_owned()),
        (given, said) => given.or(said.map(ExpectedAnswer::Text)),
    };
    let tokens = fields.get("tokens", "a number from 1 on", |value| match value {
        Json::Int(tokens @ 1..) => usize::try_from(*tokens).ok(),
        _ => None,
    })?;
    if vector && (tokens.is_some() || answer.is_some()) {
        return Err("vectors and scores have neither \"tokens\" nor an answer".to_owned());
    }
    let tokens = match (tokens, &answer) {
        (Some(tokens), _) => tokens,
        (None, Some(_)) => usize::MAX,
        (None, None) if vector => 1,
        (None, None) => return Err("\"tokens\", the most tokens to generate, is missing".to_owned()),
    };
    let context = fields.text("context")?.map(|text| text.parse()).transpose();
    let mut options = Options::at_most(tokens);
    options.generate = GenerateOptions {
        tokens,
        ignore_eos: fields.flag("ignore_eos")?,
    };
    options.context = context.map_err(|e| format!("\"context\": {e}"))?;
    options.answer = answer;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        read(text, None).unwrap_err().to_string()
    }

    #[test]
    fn a_request_has_what_the_command_has() {
        let text = r#"
{"id": "a", "prompt": "Once", "tokens": 3, "context": "0x0000000000000000000000000000000000000000000000000000000000000007"}
{"prompt_ids": [1, 2], "answer_ids": [5]}

{"id": "q", "messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}], "date": "2026-11-26"}
{"prompt": "Why?", "chat": true, "system": "Be good.", "answer": "", "ignore_eos": false}
{"embed": "x"}"#;
        let requests = read(text, Some(Budget(5))).unwrap();
        let ids: Vec<(&str, usize)> = requests.iter().map(|r| (r.id.as_str(), r.line)).collect();
        assert_eq!(ids, [("a", 2), ("3", 3), ("q", 5), ("6", 6), ("7", 7)]);
        let [tied, ids, chat, empty, vector] = &requests[..] else {
            panic!("{requests:?}")
        };
        assert!(tied.options.context.is_some() && tied.options.memory == Some(Budget(5)));
        assert_eq!(tied.options.generate, GenerateOptions::at_most(3));
        assert_eq!(ids.prompt, [1, 2].into());
        assert_eq!(ids.options.answer, Some(ExpectedAnswer::Ids(vec![5])));
        assert_eq!(chat.options.answer, Some("So.".into()));
        assert_eq!(
            chat.prompt,
            Prompt::question(None, "Why?").dated("2026-11-26".parse().unwrap())
        );
        assert_eq!(empty.options.answer, Some("".into()));
        assert_eq!(empty.prompt, Prompt::question(Some("Be good."), "Why?"));
        assert_eq!((&vector.prompt, vector.wish), (&"x".into(), Wish::Vector));
    }

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        for id in [
            "../a",
            "a/b",
            "a\\\\b",
            "",
            ".",
            "..",
            ".a",
            "-a",
            "a\\u0000",
            "a b",
            "\\u001b[2J",
            "\u{e9}",
            &"a".repeat(101),
        ] {
            let text = format!("{{\"id\": \"{id}\", \"prompt\": \"x\", \"tokens\": 1}}");
            let problem = problem(&text);
            assert!(
                problem.starts_with("line 1: the id ") && problem.contains("cannot be the name"),
                "{problem}"
            );
            assert!(problem.chars().all(|c| c == ' ' || !c.is_control()), "{problem:?}");
        }
    }

    #[test]
    fn lines_that_are_no_requests_say_what_is_wrong() {
        for (text, words) in [
            ("", "no request"),
            ("[1]", "JSON object"),
            ("{\"prompt\": \"x\"", "JSON object"),
            (
                r#"{"prompt": "x", "tokens": 1, "temperatur": 1}"#,
                "no request has a field \"temperatur\"",
            ),
            (
                r#"{"prompt": "x", "tokens": 1, "temperature": 0}"#,
                "sampling is not proved",
            ),
            (
                r#"{"prompt": "x", "tokens": 1, "prompt": "y"}"#,
                "\"prompt\" is there twice",
            ),
            (r#"{"prompt": "x"}"#, "\"tokens\""),
            (
                r#"{"prompt": "x", "tokens": 0}"#,
                "\"tokens\" is not a number from 1 on",
            ),
            (r#"{"prompt": "x", "prompt_ids": [1], "tokens": 1}"#, "both prompts"),
            (r#"{"tokens": 1}"#, "no prompt"),
            (r#"{"prompt_ids": [1, -2], "tokens": 1}"#, "a list of token ids"),
            (r#"{"prompt": 5, "tokens": 1}"#, "\"prompt\" is not a text"),
            (r#"{"prompt": "x", "answer": "y", "answer_ids": [1]}"#, "both answers"),
            (r#"{"prompt": "x", "system": "y", "tokens": 1}"#, "needs \"chat\""),
            (
                r#"{"prompt": "x", "date": "2026-11-26", "tokens": 1}"#,
                "needs \"chat\"",
            ),
            (
                r#"{"prompt": "x", "chat": true, "date": "today", "tokens": 1}"#,
                "no date",
            ),
            (r#"{"prompt": "x", "tokens": 1, "context": "12"}"#, "\"context\""),
            (r#"{"messages": [{"content": "x"}], "tokens": 1}"#, "role"),
            (r#"{"embed": "x", "tokens": 1}"#, "neither \"tokens\""),
        ] {
            let problem = problem(text);
            assert!(problem.contains(words), "{text}: {problem}");
        }
        let twice =
            "{\"id\": \"A\", \"prompt\": \"x\", \"tokens\": 1}\n{\"id\": \"a\", \"prompt\": \"y\", \"tokens\": 1}";
        assert_eq!(problem(twice), "line 2: the id \"a\" is the same as that of line 1");
        let numbered = "{\"prompt\": \"x\", \"tokens\": 1}\n{\"id\": 1, \"prompt\": \"y\", \"tokens\": 1}";
        assert!(problem(numbered).contains("that of line 1"));
    }
}
