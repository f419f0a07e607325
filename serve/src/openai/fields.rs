//! Fields of requests: which are honoured, and at which values the others change nothing.

use tessera::text::chat::Json;

use super::error::Refusal;

/// A field that is not honoured, and the values at which it changes nothing.
pub struct Neutral {
    name: &'static str,
    is: fn(&Json) -> bool,
    /// These values, for people.
    only: &'static str,
    /// Why no others, if there is a reason of interest.
    because: &'static str,
}

const fn neutral(name: &'static str, is: fn(&Json) -> bool, only: &'static str) -> Neutral {
    Neutral {
        name,
        is,
        only,
        because: "",
    }
}

const fn greedy(name: &'static str, is: fn(&Json) -> bool, only: &'static str) -> Neutral {
    Neutral {
        because: ", because only greedy decoding is proved: each token is the most likely one",
        ..neutral(name, is, only)
    }
}

fn zero(value: &Json) -> bool {
    matches!(value, Json::Int(0)) || matches!(value, Json::Float(v) if *v == 0.0)
}

fn one(value: &Json) -> bool {
    matches!(value, Json::Int(1)) || matches!(value, Json::Float(v) if *v == 1.0)
}

fn no(value: &Json) -> bool {
    *value == Json::Bool(false)
}

fn flag(value: &Json) -> bool {
    matches!(value, Json::Bool(_))
}

fn empty(value: &Json) -> bool {
    matches!(value, Json::List(list) if list.is_empty())
}

fn nothing_mapped(value: &Json) -> bool {
    matches!(value, Json::Map(map) if map.is_empty())
}

fn never(_: &Json) -> bool {
    false
}

fn is_text(value: &Json, text: &str) -> bool {
    matches!(value, Json::Text(own) if own == text)
}

fn plain_text(value: &Json) -> bool {
    matches!(value, Json::Map(map) if map.len() == 1) && value.field("type").is_some_and(|kind| is_text(kind, "text"))
}

fn text_alone(value: &Json) -> bool {
    matches!(value, Json::List(list) if list.len() == 1 && is_text(&list[0], "text"))
}

fn automatic(value: &Json) -> bool {
    is_text(value, "auto")
}

fn usual(value: &Json) -> bool {
    is_text(value, "auto") || is_text(value, "default")
}

fn no_text(value: &Json) -> bool {
    is_text(value, "")
}

/// Fields of all requests for texts.
const SAMPLING: [Neutral; 7] = [
    greedy("temperature", zero, "0"),
    greedy("top_p", one, "1"),
    greedy("presence_penalty", zero, "0"),
    greedy("frequency_penalty", zero, "0"),
    greedy("logit_bias", nothing_mapped, "{}"),
    greedy("n", one, "1"),
    neutral("stop", empty, "[]"),
];

/// Fields of a chat that are not honoured.
pub const CHAT: [&[Neutral]; 2] = [
    &SAMPLING,
    &[
        neutral("logprobs", no, "false"),
        neutral("top_logprobs", zero, "0"),
        neutral("response_format", plain_text, "{\"type\": \"text\"}"),
        neutral("modalities", text_alone, "[\"text\"]"),
        neutral("tool_choice", automatic, "\"auto\""),
        neutral(
            "parallel_tool_calls",
            flag,
            "a truth value: the model alone decides how it calls tools",
        ),
        neutral("service_tier", usual, "\"auto\" or \"default\""),
        neutral("store", no, "false"),
        neutral("functions", empty, "[]: tools has their place"),
        neutral("function_call", never, "null: tools has its place"),
        neutral("audio", never, "null"),
        neutral("prediction", never, "null"),
        neutral("reasoning_effort", never, "null"),
        neutral("verbosity", never, "null"),
        neutral("web_search_options", never, "null"),
        neutral("metadata", nothing_mapped, "{}"),
        neutral("user", never, "null"),
        neutral("safety_identifier", never, "null"),
        neutral("prompt_cache_key", never, "null"),
        neutral("prompt_cache_retention", never, "null"),
    ],
];

/// Fields of a completion that are not honoured.
pub const COMPLETION: [&[Neutral]; 2] = [
    &SAMPLING,
    &[
        neutral("best_of", one, "1"),
        neutral("echo", no, "false"),
        neutral("logprobs", never, "null"),
        neutral("suffix", no_text, "\"\""),
        neutral("user", never, "null"),
    ],
];

/// Fields of a request for embeddings that are not honoured.
pub const EMBEDDING: [&[Neutral]; 1] = [&[neutral("user", never, "null")]];

/// The fields of a request.
pub struct Fields<'a>(&'a Json);

impl<'a> Fields<'a> {
    /// Reads an object, and refuses every field that is neither `used` nor at a value at which it changes nothing.
    ///
    /// # Errors
    /// The first field that is refused.
    pub fn of(body: &'a Json, used: &[&str], neutral: &[&[Neutral]]) -> Result<Self, Refusal> {
        let Json::Map(fields) = body else {
            return Err(Refusal::invalid("the request is no JSON object"));
        };
        for (name, value) in fields {
            if used.contains(&name.as_str()) {
                continue;
            }
            let Some(own) = neutral.iter().copied().flatten().find(|own| own.name == name) else {
                let shown: String = name.chars().take(64).collect();
                let message = format!("this server has no field {shown}: leave it out");
                return Err(Refusal::unsupported(&shown, message));
            };
            if *value != Json::Null && !(own.is)(value) {
                let Neutral {
                    name, only, because, ..
                } = own;
                let message = format!("{name} is not supported: leave it out, or set it to {only}{because}");
                return Err(Refusal::unsupported(name, message));
            }
        }
        Ok(Self(body))
    }

    /// A field that is there and not null.
    pub fn get(&self, name: &str) -> Option<&'a Json> {
        self.0.field(name).filter(|value| **value != Json::Null)
    }

    fn read<T>(&self, name: &str, what: &str, read: impl Fn(&'a Json) -> Option<T>) -> Result<Option<T>, Refusal> {
        let wrong = || Refusal::field(name, format!("{name} is not {what}"));
        self.get(name).map(|value| read(value).ok_or_else(wrong)).transpose()
    }

    /// A text.
    ///
    /// # Errors
    /// If the field has another value.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        self.read(name, "a text", |value| match value {
            Json::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A truth value.
    ///
    /// # Errors
    /// If the field has another value.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        self.read(name, "true or false", |value| match value {
            Json::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// An integer from `least` on.
    ///
    /// # Errors
    /// If the field has another value.
    pub fn integer(&self, name: &str, least: i64) -> Result<Option<i64>, Refusal> {
        self.read(name, &format!("an integer from {least} on"), |value| match value {
            Json::Int(n) => i64::try_from(*n).ok().filter(|n| *n >= least),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> Option<(String, String)> {
        let body = Json::parse(json).unwrap();
        let refusal = Fields::of(&body, &["model", "messages"], &CHAT).err()?;
        Some((refusal.param.unwrap_or_default(), refusal.message))
    }

    #[test]
    fn a_field_that_would_change_the_answer_is_refused_by_name() {
        for field in [
            "\"temperature\": 0.7",
            "\"temperature\": \"0\"",
            "\"top_p\": 0.9",
            "\"n\": 2",
            "\"stop\": [\"x\"]",
            "\"stop\": \"x\"",
            "\"logprobs\": true",
            "\"response_format\": {\"type\": \"json_object\"}",
            "\"tool_choice\": \"required\"",
            "\"logit_bias\": {\"5\": 1}",
            "\"user\": \"me\"",
            "\"no_such_field\": null",
        ] {
            let name = field.split('"').nth(1).unwrap();
            let (param, message) = refused(&format!("{{\"model\": \"m\", {field}}}")).unwrap();
            assert!(param == name && message.contains(name), "{field}: {message}");
        }
        assert_eq!(refused("[]").unwrap().0, "");
    }

    #[test]
    fn a_field_that_changes_nothing_is_accepted() {
        for field in [
            "\"temperature\": 0",
            "\"temperature\": 0.0",
            "\"temperature\": null",
            "\"top_p\": 1",
            "\"n\": 1",
            "\"presence_penalty\": 0",
            "\"stop\": null",
            "\"response_format\": {\"type\": \"text\"}",
            "\"logit_bias\": {}",
            "\"store\": false",
            "\"user\": null",
        ] {
            assert_eq!(refused(&format!("{{{field}, \"messages\": 1}}")), None, "{field}");
        }
    }
}
