//! Chats as `transformers` renders them (`fixtures/chats.py`).

use std::path::Path;

use super::*;

/// The day on which `fixtures/chats.py` renders: 2026-11-22.
const NOW: u64 = 1_795_305_600;

fn list(json: Option<&Json>) -> Option<Vec<Json>> {
    match json {
        Some(Json::List(list)) => Some(list.clone()),
        _ => None,
    }
}

fn fields(json: Option<&Json>) -> &[(String, Json)] {
    match json {
        Some(Json::Map(fields)) => fields,
        _ => panic!("no map"),
    }
}

#[test]
fn chats_are_rendered_as_transformers_renders_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let goldens = Json::parse(&std::fs::read_to_string(folder.join("chats.json")).unwrap()).unwrap();
    let tokens = fields(goldens.field("tokens")).iter().map(|(name, token)| match token {
        Json::Text(text) => (name.clone(), Value::from(text.as_str())),
        _ => (name.clone(), Value::Null),
    });
    let config = Value::Object(tokens.collect()).to_string();
    let (mut rendered, mut refused) = (0, 0);
    for (name, chats) in fields(goldens.field("templates")) {
        let source = std::fs::read_to_string(folder.join("chats").join(format!("{name}.jinja"))).unwrap();
        let template = ChatTemplate::new(config.as_bytes(), Choice::Given(source), false).unwrap();
        for (chat, expected) in fields(Some(chats)) {
            let given = goldens.field("chats").unwrap().field(chat).unwrap();
            let conversation = Conversation {
                messages: list(given.field("messages")).unwrap(),
                tools: list(given.field("tools")),
                date: Some(Date::of_seconds(NOW)),
            };
            let result = template.render(conversation).map(|made| made.text);
            match (expected.field("rendered"), expected.field("error")) {
                (Some(Json::Text(text)), _) => {
                    let got = result.unwrap_or_else(|e| panic!("{name}, {chat}: {e}"));
                    assert_eq!(got.as_str(), text, "{name}, {chat}");
                    rendered += 1;
                }
                (_, Some(Json::Text(problem))) => {
                    match result.map(|text| text.as_str().to_owned()).unwrap_err() {
                        ChatError::Refused(message) => assert_eq!(&message, problem, "{name}, {chat}"),
                        ChatError::Template(_) => {}
                        other => panic!("{name}, {chat}: {other}"),
                    }
                    refused += 1;
                }
                _ => panic!("{name}, {chat}: no result"),
            }
        }
    }
    assert!(rendered > 150 && refused > 20, "{rendered} {refused}");
}
