//! Counts the texts on which a proof that hides anything would be refused, because a value is clipped: `clips MODEL TEXTS TOKENS [TEMPLATE]`. TEXTS has a
//! JSON object with `text` on each line. Of each text, and of a chat that begins with it, the first TOKENS ids are a prompt. TEMPLATE is a chat template for
//! a model that has none. With fixtures/windows.jsonl and 64 it gives the numbers of docs/privacy.md.

use serde_json::Value;
use tessera::prover::{count_clips, generate_statement, ProveError};
use tessera::quantised::generate::GenerateOptions;
use tessera::text::chat::{self, Choice};
use tessera::{Model, Prompt, Silent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, texts, tokens, template @ ..] = &args[..] else {
        return Err("usage: clips MODEL TEXTS TOKENS [TEMPLATE]".into());
    };
    let template = match template.first() {
        Some(path) => Choice::Given(std::fs::read_to_string(path)?),
        None => Choice::Own,
    };
    let chat = |text: &str| Prompt::Chat {
        conversation: chat::question(None, text),
        template: template.clone(),
    };
    let (model, tokens) = (Model::open(model)?, tokens.parse::<usize>()?);
    let lines = std::fs::read_to_string(texts)?;
    let texts = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line)?;
        let text = line["text"].as_str().ok_or("a line has no text")?;
        Ok(text.to_owned())
    });
    let texts = texts.collect::<Result<Vec<String>, Box<dyn std::error::Error>>>()?;
    for name in ["text", "chat"] {
        let prompt = |own: &str| if name == "chat" { chat(own) } else { Prompt::from(own) };
        let (mut refused, mut ids) = (Vec::new(), 0);
        for (at, text) in texts.iter().enumerate() {
            let mut own = model.ids(&prompt(text))?.ids;
            own.truncate(tokens);
            ids += own.len();
            let statement = generate_statement(&model.prover(), &own, &GenerateOptions::exactly(1), &Silent)?;
            let clips = match count_clips(&model.prover(), &statement) {
                // So many that no proof may list them.
                Err(ProveError::Clipped(_)) => usize::MAX,
                other => other?,
            };
            if clips > 0 {
                refused.push(at + 1);
            }
        }
        println!(
            "{name}: {} of {} refused, {ids} ids; lines {refused:?}",
            refused.len(),
            texts.len()
        );
    }
    Ok(())
}
