//! Token ids for `fixtures/sweeps/ids.py`: reads lines of JSON with the `directory` of a checkpoint and `texts`, each a text or a
//! list of messages, and writes a line for each: `ids` of every text and the `notes`, or the `error`.

use std::io::{self, BufRead, Write};
use std::path::Path;

use serde_json::{json, Value};
use tessera_text::chat::{messages, ChatTemplate, Choice, Conversation};
use tessera_text::tokenizer::{IdFiles, Tokenizer};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let job: Value = serde_json::from_str(&line?)?;
        let result = ids(&job).unwrap_or_else(|problem| json!({ "error": problem }));
        writeln!(out, "{result}")?;
    }
    Ok(())
}

fn ids(job: &Value) -> Result<Value, String> {
    let directory = job["directory"].as_str().ok_or("a line has no directory")?;
    let texts = job["texts"].as_array().ok_or("a line has no texts")?;
    let made = IdFiles::read(Path::new(directory)).map_err(|e| e.to_string())?;
    let tokenizer = made.files.parse().map_err(|e| e.to_string())?;
    let tokenizer = tokenizer.ok_or_else(|| format!("no tokenizer: {}", made.notes.join("; ")))?;
    let config = made.files.config.unwrap_or_default();
    let (mut all, mut notes) = (Vec::new(), made.notes);
    for text in texts {
        let (ids, said) = match text {
            Value::String(text) => {
                let encoded = tokenizer.encode_text(text).map_err(|e| e.to_string())?;
                (encoded.ids, encoded.notes)
            }
            conversation => chat(conversation, &config, &tokenizer)?,
        };
        all.push(ids);
        notes.extend(said);
    }
    notes.dedup();
    Ok(json!({ "ids": all, "notes": notes }))
}

fn chat(conversation: &Value, config: &[u8], tokenizer: &Tokenizer) -> Result<(Vec<u32>, Vec<String>), String> {
    let template = ChatTemplate::new(config, Choice::Own, false).map_err(|e| e.to_string())?;
    let messages = messages(&conversation.to_string()).map_err(|e| e.to_string())?;
    let made = template.prompt(
        &Conversation {
            messages,
            tools: None,
            date: None,
        },
        tokenizer,
    );
    let made = made.map_err(|e| e.to_string())?;
    let spelled = made.spelled.into_iter();
    Ok((made.ids, spelled.map(|name| format!("spelled: {name}")).collect()))
}
