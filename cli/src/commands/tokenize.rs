//! `tessera tokenize`: the ids of a text, by the tokenizer and the chat template of a key.

use serde_json::json;
use tessera::quantised::directory::KEY_FILE;
use tessera::{given, Prompt};
use tessera_verdict::command::read_key;
use tessera_verdict::input;

use super::prompt::{encoded, notes, text_or_chat, text_or_input};
use crate::args::TokenizeArgs;
use crate::printer::{Failure, Report};

pub fn run(args: &TokenizeArgs, quiet: bool) -> Result<Report, Failure> {
    let path = match (&args.key, &args.model) {
        (Some(key), _) => key.clone(),
        (None, Some(dir)) => {
            given::model_dir(dir)?;
            dir.join(KEY_FILE)
        }
        (None, None) => return Err(Failure("neither --key nor --model is given".to_owned())),
    };
    if !input::is_stdin(&path) {
        given::key(&path)?;
    }
    args.chat.check(args.messages.is_some()).map_err(Failure)?;
    let key = read_key(&path).map_err(Failure)?;
    let prompt = match args.pair.as_deref() {
        Some([query, document]) => Prompt::Pair {
            query: query.clone(),
            document: document.clone(),
        },
        _ => text_or_chat(args.messages.as_deref(), &args.chat, || {
            text_or_input(args.text.as_deref().unwrap_or_default())
        })?,
    };
    let tokenizer = key.encoder().map_err(|reason| Failure(reason.to_owned()))?;
    let prompt = encoded(&prompt, key.model_key(), tokenizer, "")?;
    let notes = notes(&prompt);
    if !quiet {
        // Beside the ids, which a script takes from standard output.
        for note in &notes {
            eprintln!("note: {note}");
        }
    }
    let tokens: Vec<Option<String>> = prompt.ids.iter().map(|id| key.token(*id)).collect();
    let words: Vec<String> = prompt.ids.iter().map(u32::to_string).collect();
    let json = json!({
        "model_id": key.id().to_string(),
        "ids": prompt.ids,
        "tokens": tokens,
        "spelled_special_tokens": prompt.spelled,
        "unknown": prompt.unknown,
        "date": prompt.dated.map(|date| date.to_string()),
        "notes": notes,
    });
    Ok(Report::done(words.join(" "), json))
}
