//! Prompts that somebody may have meant in the place of the expected one.

use tessera_text::chat::{question, Choice, Conversation};
use tessera_text::jinja::Json;

use super::options::Spelling;
use super::Prompt;
use crate::key::Key;

/// Another prompt, and what to do about it if a proof has it.
#[derive(Clone, Debug)]
pub(super) struct Hint {
    pub ids: Vec<u32>,
    pub help: String,
}

/// Other prompts than the given one. What cannot be encoded is left out.
pub(super) fn of_prompt(prompt: &Prompt, key: &Key, spelling: Spelling) -> Vec<Hint> {
    let Ok(encoder) = key.encoder() else {
        return Vec::new();
    };
    let hint = |(prompt, help): (Prompt, String)| {
        let ids = prompt.ids(key.model_key(), encoder).ok()?.ids;
        Some(Hint { ids, help })
    };
    others(prompt, spelling).into_iter().filter_map(hint).collect()
}

fn others(prompt: &Prompt, spelling: Spelling) -> Vec<(Prompt, String)> {
    match prompt {
        Prompt::Ids(_) => Vec::new(),
        Prompt::Text(text) => {
            let chat = spelling.flag("chat");
            let help = format!("the proof's prompt is the chat rendering of this text: add {chat}");
            let mut others = vec![(Prompt::question(None, text), help)];
            others.extend(edges(text).map(|(text, help)| (Prompt::Text(text), help)));
            others
        }
        Prompt::Chat { conversation, template } => of_chat(conversation, template, spelling),
        Prompt::Pair { query, document } => {
            let pair = |query: &str, document: &str| Prompt::Pair {
                query: query.to_owned(),
                document: document.to_owned(),
            };
            let swapped = "the proof's query and document are the other way round".to_owned();
            let mut others = vec![(pair(document, query), swapped)];
            others.extend(edges(query).map(|(query, help)| (pair(&query, document), format!("of the query: {help}"))));
            others.extend(
                edges(document).map(|(document, help)| (pair(query, &document), format!("of the document: {help}"))),
            );
            others
        }
    }
}

/// The same conversation with another end, and its question without a chat.
fn of_chat(conversation: &Conversation, template: &Choice, spelling: Spelling) -> Vec<(Prompt, String)> {
    let mut others = Vec::new();
    let Some(Json::Text(content)) = conversation.messages.last().and_then(|last| last.field("content")) else {
        return others;
    };
    let plain = match conversation.messages.len() {
        1 => format!(
            "the proof's prompt is this text without the chat template: leave {} out",
            spelling.name("chat")
        ),
        _ => "the proof's prompt is the last message alone, without the chat template".to_owned(),
    };
    others.push((Prompt::Text(content.clone()), plain));
    let alone = Conversation {
        messages: question(None, content).messages,
        ..conversation.clone()
    };
    let of = |conversation| Prompt::Chat {
        conversation,
        template: template.clone(),
    };
    let system = "the proof's prompt is the last message alone, without the ones before it".to_owned();
    others.push((of(alone), system));
    others.extend(edges(content).map(|(text, help)| {
        let mut conversation = conversation.clone();
        if let Some(Json::Map(fields)) = conversation.messages.last_mut() {
            for (_, value) in fields.iter_mut().filter(|(name, _)| name == "content") {
                *value = Json::Text(text.clone());
            }
        }
        (of(conversation), help)
    }));
    others
}

/// The same text with other white space at its ends, and what to say if a proof has it.
fn edges(text: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let line = text.trim_end_matches(['\r', '\n']);
    let end = |own: &str| format!("the proof's prompt {own}");
    [
        (
            line.to_owned(),
            end("has no line end at its end, and the expected text has one"),
        ),
        (
            format!("{text}\n"),
            end("ends with a line end, which the expected text does not have"),
        ),
        (
            format!("{text}\r\n"),
            end("ends with a line end, which the expected text does not have"),
        ),
        (
            text.trim().to_owned(),
            end("has no white space at its ends, and the expected text has some"),
        ),
        (
            format!("{text} "),
            end("ends with a space, which the expected text does not have"),
        ),
        (
            format!(" {text}"),
            end("begins with a space, which the expected text does not have"),
        ),
    ]
    .into_iter()
    .filter(move |(other, _)| other != text)
}
