//! What a statement says: prompt and output as ids and as text, and how the output ends.

use serde_json::{json, Map, Value};
use tessera_circuits::model::ModelConfig;
use tessera_circuits::statement::{Finish, Statement, HIDDEN};
use tessera_verifier::key::ModelKey;

use crate::rows::{count, Rows};
use crate::shown;
use crate::text::{Piece, Side, Texts};
use crate::vector::Vector;

/// Positions that are named at most.
const NAMED: usize = 5;

/// A statement about a model, with its texts.
#[derive(Clone, Debug)]
pub struct Claim {
    statement: Statement,
    /// Or why there are none.
    texts: Result<Texts, String>,
    finish: Finish,
    finish_text: String,
    ends_inside: Vec<usize>,
    leading: usize,
    vector: Option<Vector>,
}

impl Claim {
    /// A statement about the model of a key, with its texts or why there are none; `token` names a token. How the
    /// output ends follows from its ids and the config of the key.
    pub fn new(
        statement: &Statement,
        key: &ModelKey,
        texts: Result<Texts, String>,
        token: impl Fn(u32) -> Option<String>,
    ) -> Self {
        let config = &key.config;
        let name = |id: u32| match token(id) {
            Some(text) => shown::name(&text),
            None => format!("id {id}"),
        };
        Self {
            statement: statement.clone(),
            texts,
            finish: statement.finish(config),
            finish_text: finish(statement, config, name),
            ends_inside: statement.ends_inside(config),
            leading: statement.leading(&key.params.leading),
            vector: Vector::of(statement, key),
        }
    }

    /// What an encoder made of the prompt, if the statement says that.
    pub const fn vector(&self) -> Option<&Vector> {
        self.vector.as_ref()
    }

    /// The statement itself.
    pub const fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The texts.
    ///
    /// # Errors
    /// Why there are none.
    pub fn texts(&self) -> Result<&Texts, &str> {
        self.texts.as_ref().map_err(String::as_str)
    }

    /// How the output ends.
    pub const fn finish(&self) -> Finish {
        self.finish
    }

    /// `complete: ended with <|im_end|>` or `cut after 12 tokens`, and where the output went on past an end.
    pub fn finish_text(&self) -> &str {
        &self.finish_text
    }

    /// Ids first, then what they read like.
    pub fn rows(&self, rows: Rows) -> Rows {
        let text = |side: fn(&Texts) -> &Side| match &self.texts {
            Ok(texts) => shown::pieces(&side(texts).pieces),
            Err(reason) => format!("(no text: {reason})"),
        };
        let rows = rows.ids("prompt", &self.statement.prompt).row("", text(|t| &t.prompt));
        if let Some(vector) = &self.vector {
            return vector.rows(rows);
        }
        rows.ids("output", &self.statement.output)
            .row("", text(|t| &t.output))
            .row("end", &self.finish_text)
    }

    /// The same for programs.
    pub fn add_to(&self, json: &mut Map<String, Value>) {
        let texts = self.texts.as_ref().ok();
        let said = &self.statement;
        // A text with gaps is none.
        let whole = |ids: &[u32]| texts.filter(|_| !ids.contains(&HIDDEN));
        let [prompt, output] = [&*said.prompt, said.generated_ids()].map(whole);
        let text = |texts: Option<&Texts>, side: fn(&Texts) -> &Side| json!(texts.map(|t| &side(t).text));
        let specials = |side: fn(&Texts) -> &Side| json!(texts.map(|t| specials(side(t))));
        let end = match self.finish {
            Finish::Stop { id } => Some(id),
            Finish::Length { .. } | Finish::Hidden { .. } => None,
        };
        for (key, value) in [
            ("prompt_ids", ids(&said.prompt)),
            ("prompt_text", text(prompt, |t| &t.prompt)),
            ("prompt_special_tokens", specials(|t| &t.prompt)),
        ] {
            json.insert(key.to_owned(), value);
        }
        if said.hides_prompt() || said.hides_output() {
            let shown = |ids: &[u32]| ids.iter().filter(|id| **id != HIDDEN).count();
            let tokens = said.generated_ids();
            for (key, value) in [
                ("lengths", json!({"prompt": said.prompt.len(), "output": tokens.len()})),
                ("leading_rows", json!(self.leading)),
                (
                    "public_tokens",
                    json!({"prompt": shown(&said.prompt), "output": shown(tokens)}),
                ),
            ] {
                json.insert(key.to_owned(), value);
            }
        }
        if let Err(reason) = &self.texts {
            json.insert("no_text".to_owned(), json!(reason));
        }
        if let Some(vector) = &self.vector {
            return vector.add_to(json);
        }
        let inside = match self.finish {
            Finish::Hidden { .. } => Value::Null,
            _ => json!(self.ends_inside),
        };
        for (key, value) in [
            ("output_ids", ids(&said.output)),
            ("output_text", text(output, |t| &t.output)),
            ("output_special_tokens", specials(|t| &t.output)),
            ("finish_reason", json!(self.finish.reason())),
            ("end_token", json!(end)),
            ("end_tokens_inside", inside),
        ] {
            json.insert(key.to_owned(), value);
        }
    }
}

fn finish(statement: &Statement, config: &ModelConfig, name: impl Fn(u32) -> String) -> String {
    let mut text = match statement.finish(config) {
        Finish::Stop { id } => format!("complete: ended with {}", name(id)),
        Finish::Length { tokens } => {
            let none = match config.eos.is_empty() {
                true => " (the model names no token that ends a text)",
                false => "",
            };
            format!("cut after {}{none}", count(tokens, "token"))
        }
        Finish::Hidden { tokens } => format!("hidden, after {}", count(tokens, "token")),
    };
    let inside = statement.ends_inside(config);
    for position in inside.iter().take(NAMED) {
        let id = statement.output.get(*position).copied().unwrap_or_default();
        text.push_str(&format!(
            "\nbut it went on past {} at output position {position}",
            name(id)
        ));
    }
    if inside.len() > NAMED {
        text.push_str(&format!("\nand past {} more", inside.len() - NAMED));
    }
    text
}

/// Ids for programs: null in the place of one that is hidden.
pub fn ids(ids: &[u32]) -> Value {
    let id = |id: &u32| match *id {
        HIDDEN => Value::Null,
        id => json!(id),
    };
    ids.iter().map(id).collect()
}

/// The special tokens of a side, by position.
fn specials(side: &Side) -> Value {
    let special = |piece: &Piece| match piece {
        Piece::Special { position, id, name } => Some(json!({"position": position, "id": id, "name": name})),
        Piece::Text(_) | Piece::Hidden(_) => None,
    };
    side.pieces.iter().filter_map(special).collect()
}
