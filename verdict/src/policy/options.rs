//! The options that say what a proof has to be about: their names, as every front end spells them, and their values.

use std::str::FromStr;

use serde_json::{json, Value as Object};
use tessera_text::jinja::Json;

/// Token ids: numbers between commas or white space, or a JSON list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids(pub Vec<u32>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        let words = inside
            .split(|c: char| c == ',' || c.is_whitespace())
            .filter(|word| !word.is_empty());
        let ids = words.map(|word| word.parse().map_err(|_| format!("{word:?} is not a token id")));
        let ids: Vec<u32> = ids.collect::<Result<_, _>>()?;
        match ids.is_empty() {
            true => Err("no token ids are given".to_owned()),
            false => Ok(Self(ids)),
        }
    }
}

/// The kind of value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: the option is given or not; true or false in a program.
    Flag,
    /// A text; on a command line as it is.
    Text,
    /// A text; on a command line the name of a file with the text.
    TextFile,
    /// A value of JSON; on a command line the name of a file with its text.
    JsonFile,
    /// Two texts.
    Pair,
    /// A list of token ids.
    Ids,
    /// A number.
    Number,
}

impl Kind {
    /// The kind as programs read it.
    const fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Text | Self::TextFile => "text",
            Self::JsonFile => "json",
            Self::Pair => "pair",
            Self::Ids => "ids",
            Self::Number => "number",
        }
    }
}

/// An option of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyOption {
    /// The name on a command line, without the two hyphens.
    pub name: &'static str,
    /// The kind of value that the option takes.
    pub kind: Kind,
    /// The names of its values in help texts.
    pub values: &'static [&'static str],
    /// The name of its field on a page.
    pub label: &'static str,
    /// What it asks for, in a sentence without a full stop.
    pub help: &'static str,
}

/// All options, in the order of help texts.
pub const OPTIONS: [PolicyOption; 16] = [
    PolicyOption {
        name: "expect-prompt",
        kind: Kind::Text,
        values: &["TEXT"],
        label: "prompt",
        help: "Reject unless the prompt's ids are the encoding of this text; with --chat, of the chat that asks it",
    },
    PolicyOption {
        name: "expect-messages",
        kind: Kind::JsonFile,
        values: &["FILE"],
        label: "conversation",
        help: "Reject unless the prompt is this conversation in the words of the key's chat template: a JSON list of \
               {\"role\", \"content\"}",
    },
    PolicyOption {
        name: "chat",
        kind: Kind::Flag,
        values: &[],
        label: "as a chat",
        help: "The expected prompt is what a user says in a chat",
    },
    PolicyOption {
        name: "system",
        kind: Kind::Text,
        values: &["TEXT"],
        label: "system message",
        help: "System message that goes before the expected chat",
    },
    PolicyOption {
        name: "date",
        kind: Kind::Text,
        values: &["YYYY-MM-DD"],
        label: "date of the chat",
        help: "The day on which the expected chat took place (UTC), where the chat template writes it into the prompt; with a time of the \
               day as 2026-11-26T17:00:05",
    },
    PolicyOption {
        name: "tools",
        kind: Kind::JsonFile,
        values: &["FILE"],
        label: "tools",
        help: "Tools that the model may call in the expected chat: a JSON list of functions as in OpenAI's interface",
    },
    PolicyOption {
        name: "chat-template",
        kind: Kind::TextFile,
        values: &["FILE"],
        label: "chat template",
        help: "Chat template (Jinja) of the expected chat, in place of the key's own",
    },
    PolicyOption {
        name: "chat-template-name",
        kind: Kind::Text,
        values: &["NAME"],
        label: "name of the chat template",
        help: "Name of the chat template, where the key has several",
    },
    PolicyOption {
        name: "expect-pair",
        kind: Kind::Pair,
        values: &["QUERY", "DOCUMENT"],
        label: "query and document",
        help: "Reject unless the prompt's ids are the encoding of this query and this document, for a reranker",
    },
    PolicyOption {
        name: "expect-prompt-ids",
        kind: Kind::Ids,
        values: &["IDS"],
        label: "prompt ids",
        help: "Reject unless the prompt has these ids",
    },
    PolicyOption {
        name: "expect-output",
        kind: Kind::Text,
        values: &["TEXT"],
        label: "output",
        help: "Reject unless the output reads exactly like this (special tokens are not shown in a text)",
    },
    PolicyOption {
        name: "expect-output-ids",
        kind: Kind::Ids,
        values: &["IDS"],
        label: "output ids",
        help: "Reject unless the output has these ids",
    },
    PolicyOption {
        name: "expect-complete",
        kind: Kind::Flag,
        values: &[],
        label: "complete",
        help: "Reject unless the output is complete: its last id, and no id before, is one by which the model ends a text",
    },
    PolicyOption {
        name: "expect-model",
        kind: Kind::Text,
        values: &["ID"],
        label: "model",
        help: "Reject unless the proof is about the model with this id, 64 hexadecimal digits",
    },
    PolicyOption {
        name: "expect-context",
        kind: Kind::Text,
        values: &["HEX"],
        label: "context",
        help: "Reject unless the proof was made in this context, 32 bytes",
    },
    PolicyOption {
        name: "min-bits",
        kind: Kind::Number,
        values: &["N"],
        label: "least bits of security",
        help: "Reject unless the proof has at least so many bits of security; no proof is accepted below 93.5",
    },
];

impl PolicyOption {
    /// The option of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.name == name)
    }
}

/// How a front end spells options, so that messages name them as its users do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// `--expect-prompt`, on a command line.
    #[default]
    Command,
    /// `expect_prompt`, in Python and in JSON.
    Snake,
    /// `expectPrompt`, in JavaScript.
    Camel,
    /// `"prompt"`, the label of a field on a page.
    Page,
}

impl Spelling {
    /// The name of an option.
    pub fn name(self, option: &str) -> String {
        match self {
            Self::Command => format!("--{option}"),
            Self::Snake => option.replace('-', "_"),
            Self::Camel => {
                let mut words = option.split('-');
                let first = words.next().unwrap_or_default().to_owned();
                words.fold(first, |name, word| {
                    let (head, rest) = word.split_at_checked(1).unwrap_or_default();
                    name + &head.to_uppercase() + rest
                })
            }
            Self::Page => {
                let label = PolicyOption::named(option).map_or(option, |option| option.label);
                format!("\"{label}\"")
            }
        }
    }

    /// The text that gives a flag.
    pub fn flag(self, option: &str) -> String {
        let name = self.name(option);
        match self {
            Self::Command | Self::Page => name,
            Self::Snake => format!("{name}=True"),
            Self::Camel => format!("{name}: true"),
        }
    }

    /// The option that this front end calls by a name.
    fn option(self, name: &str) -> Option<&'static PolicyOption> {
        let own = |option: &&PolicyOption| match self {
            // A page has the fields by their names in programs.
            Self::Page => Self::Camel.name(option.name) == name,
            _ => self.name(option.name) == name,
        };
        OPTIONS.iter().find(own)
    }

    /// The options as this front end calls them, with what they take, for programs that make their own interface of them.
    pub fn options(self) -> Object {
        let names = match self {
            Self::Page => Self::Camel,
            other => other,
        };
        let option = |option: &PolicyOption| json!({"name": names.name(option.name), "kind": option.kind.name(), "label": option.label, "help": option.help});
        OPTIONS.iter().map(option).collect()
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A flag is given.
    Given,
    /// A text, or the text of a file.
    Text(String),
    /// Two texts.
    Pair(String, String),
    /// Token ids.
    Ids(Vec<u32>),
    /// A number.
    Number(f64),
    /// A value of JSON.
    Json(Json),
}

impl Value {
    /// The value of an option that takes one text, as somebody has typed it.
    ///
    /// # Errors
    /// If the text is no such value.
    pub fn of_text(kind: Kind, text: &str) -> Result<Self, String> {
        Ok(match kind {
            Kind::Ids => Self::Ids(text.parse::<Ids>()?.0),
            Kind::Number => match text.trim().parse::<f64>() {
                Ok(number) => Self::Number(number),
                Err(_) => return Err(format!("{text:?} is not a number")),
            },
            Kind::JsonFile => Self::Json(Json::parse(text)?),
            Kind::Flag | Kind::Pair => return Err("a text is no value of it".to_owned()),
            Kind::Text | Kind::TextFile => Self::Text(text.to_owned()),
        })
    }

    /// The value of an option in JSON; `None` where it says that the option is not given.
    fn of_json(kind: Kind, json: &Json) -> Result<Option<Self>, String> {
        let wrong = |what: &str| Err(format!("it has to be {what}"));
        Ok(Some(match (kind, json) {
            (_, Json::Null) | (Kind::Flag, Json::Bool(false)) => return Ok(None),
            (Kind::Flag, Json::Bool(true)) => Self::Given,
            (Kind::Flag, _) => return wrong("true or false"),
            (Kind::JsonFile, json) if !matches!(json, Json::Text(_)) => Self::Json(json.clone()),
            (Kind::Pair, Json::List(list)) => match list.as_slice() {
                [Json::Text(query), Json::Text(document)] => Self::Pair(query.clone(), document.clone()),
                _ => return wrong("a list of two texts"),
            },
            (Kind::Pair, _) => return wrong("a list of two texts"),
            (Kind::Number, Json::Int(number)) => Self::Number(*number as f64),
            (Kind::Number, Json::Float(number)) => Self::Number(*number),
            (Kind::Ids, Json::List(list)) => {
                let id = |id: &Json| match id {
                    Json::Int(id) => u32::try_from(*id).ok(),
                    _ => None,
                };
                match list.iter().map(id).collect::<Option<Vec<u32>>>() {
                    Some(ids) if ids.is_empty() => return Err("no token ids are given".to_owned()),
                    Some(ids) => Self::Ids(ids),
                    None => return wrong("a list of token ids, integers from 0 to 4294967295"),
                }
            }
            (kind, Json::Text(text)) => Self::of_text(kind, text)?,
            (Kind::Number, _) => return wrong("a number"),
            (Kind::Ids, _) => return wrong("a list of token ids"),
            _ => return wrong("a text"),
        }))
    }
}

/// Options that are given, each once.
#[derive(Clone, Debug, Default)]
pub struct Given(Vec<(&'static str, Value)>);

impl Given {
    /// Reads a JSON object whose fields are options in this spelling.
    ///
    /// # Errors
    /// If the text is no such object: the error names the option.
    pub fn parse(json: &str, spelling: Spelling) -> Result<Self, String> {
        let Json::Map(fields) = Json::parse(json)? else {
            return Err("a policy is an object of options".to_owned());
        };
        let mut given = Self::default();
        for (name, json) in fields {
            let Some(option) = spelling.option(&name) else {
                let names: Vec<String> = OPTIONS.iter().map(|option| spelling.name(option.name)).collect();
                return Err(format!("{name:?} is no option: there are {}", names.join(", ")));
            };
            let value = Value::of_json(option.kind, &json);
            if let Some(value) = value.map_err(|problem| format!("{}: {problem}", spelling.name(option.name)))? {
                given.add(option.name, value);
            }
        }
        Ok(given)
    }

    /// Adds an option, by its name on a command line.
    pub fn add(&mut self, name: &'static str, value: Value) {
        self.0.push((name, value));
    }

    /// Takes the value of an option out.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(own, _)| *own == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Whether an option is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| *own == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_front_end_spells_an_option_in_its_own_way() {
        let names = |name| [Spelling::Command, Spelling::Snake, Spelling::Camel, Spelling::Page].map(|s| s.name(name));
        assert_eq!(
            names("expect-prompt-ids"),
            [
                "--expect-prompt-ids",
                "expect_prompt_ids",
                "expectPromptIds",
                "\"prompt ids\""
            ]
        );
        assert_eq!(names("chat"), ["--chat", "chat", "chat", "\"as a chat\""]);
        for spelling in [Spelling::Command, Spelling::Snake, Spelling::Camel] {
            for option in OPTIONS {
                let found = spelling.option(&spelling.name(option.name)).expect("the option");
                assert_eq!(found.name, option.name);
            }
        }
    }

    #[test]
    fn no_option_is_misspelt_or_mistyped_without_a_word() {
        let error = |json| Given::parse(json, Spelling::Snake).expect_err(json);
        for (json, words) in [
            (
                "{\"expectPrompt\": \"a\"}",
                "\"expectPrompt\" is no option: there are expect_prompt, ",
            ),
            ("{\"prompt\": \"a\"}", "is no option"),
            ("[]", "is an object"),
            ("{", "a name in quotes should be here"),
            ("{\"expect_prompt\": 7}", "expect_prompt: it has to be a text"),
            (
                "{\"expect_prompt_ids\": [1, 2.0]}",
                "expect_prompt_ids: it has to be a list of token ids, integers",
            ),
            ("{\"expect_prompt_ids\": [true]}", "list of token ids, integers"),
            ("{\"expect_prompt_ids\": [4294967296]}", "list of token ids, integers"),
            ("{\"expect_prompt_ids\": []}", "no token ids"),
            (
                "{\"expect_pair\": [\"a\"]}",
                "expect_pair: it has to be a list of two texts",
            ),
            ("{\"expect_pair\": \"ab\"}", "list of two texts"),
            ("{\"chat\": \"yes\"}", "chat: it has to be true or false"),
            ("{\"min_bits\": \"many\"}", "min_bits: \"many\" is not a number"),
            ("{\"min_bits\": true}", "min_bits: it has to be a number"),
        ] {
            let error = error(json);
            assert!(error.contains(words), "{json}: {error}");
        }
        // What is not given is not expected.
        let none = Given::parse("{\"chat\": false, \"expect_prompt\": null}", Spelling::Snake).expect("options");
        assert!(none.0.is_empty());
    }
}
