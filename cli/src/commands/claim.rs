//! What a statement says: prompt and output as ids and as text, and how the output ends.

use serde_json::{json, Map, Value};
use tessera_circuits::model::ModelConfig;
use tessera_circuits::statement::{Finish, Statement};
use tessera_prover::intake::tokenizer::{Piece, Side, Texts, Tokenizer};

use crate::printer::Rows;
use crate::shown;

/// Positions that are named at most.
const NAMED: usize = 5;

/// A statement about a model, with its texts.
pub struct Claim<'a> {
    statement: &'a Statement,
    config: &'a ModelConfig,
    tokenizer: Option<&'a Tokenizer>,
    /// Or why there are none.
    texts: Result<Texts, String>,
}

impl<'a> Claim<'a> {
    /// A statement about a model with this tokenizer, or with none for a reason. How it ends follows from its ids and
    /// the config of the key.
    pub fn new(
        statement: &'a Statement,
        config: &'a ModelConfig,
        tokenizer: Result<Option<&'a Tokenizer>, String>,
    ) -> Self {
        let texts = match &tokenizer {
            Ok(Some(tokenizer)) => {
                let texts = tokenizer.texts(&statement.prompt, &statement.output);
                texts.map_err(|e| e.to_string())
            }
            Ok(None) => Err("the model has no tokenizer".to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        Self {
            statement,
            config,
            tokenizer: tokenizer.ok().flatten(),
            texts,
        }
    }

    /// The texts, or why there are none.
    pub fn texts(&self) -> Result<&Texts, &str> {
        self.texts.as_ref().map_err(String::as_str)
    }

    /// `complete: ended with <|im_end|>` or `cut after 12 tokens`, and where the output went on past an end.
    pub fn finish(&self) -> String {
        let mut text = match self.statement.finish(self.config) {
            Finish::Stop { id } => format!("complete: ended with {}", self.name(id)),
            Finish::Length { tokens } => {
                let none = match self.config.eos.is_empty() {
                    true => " (the model names no token that ends a text)",
                    false => "",
                };
                let s = if tokens == 1 { "" } else { "s" };
                format!("cut after {tokens} token{s}{none}")
            }
        };
        let inside = self.statement.ends_inside(self.config);
        for position in inside.iter().take(NAMED) {
            let id = self.statement.output[*position];
            text.push_str(&format!(
                "\nbut it went on past {} at output position {position}",
                self.name(id)
            ));
        }
        if inside.len() > NAMED {
            text.push_str(&format!("\nand past {} more", inside.len() - NAMED));
        }
        text
    }

    /// A token in words.
    fn name(&self, id: u32) -> String {
        match self.tokenizer.and_then(|t| t.token(id)) {
            Some(text) => shown::name(&text),
            None => format!("id {id}"),
        }
    }

    /// Ids first, then what they read like.
    pub fn rows(&self, rows: Rows) -> Rows {
        let text = |side: fn(&Texts) -> &Side| match &self.texts {
            Ok(texts) => shown::pieces(&side(texts).pieces),
            Err(reason) => format!("(no text: {reason})"),
        };
        rows.ids("prompt", &self.statement.prompt)
            .row("", text(|t| &t.prompt))
            .ids("output", &self.statement.output)
            .row("", text(|t| &t.output))
            .row("end", self.finish())
    }

    /// The same for programs.
    pub fn add_to(&self, json: &mut Map<String, Value>) {
        let texts = self.texts.as_ref().ok();
        let text = |side: fn(&Texts) -> &Side| json!(texts.map(|t| &side(t).text));
        let specials = |side: fn(&Texts) -> &Side| json!(texts.map(|t| specials(side(t))));
        let finish = self.statement.finish(self.config);
        let end = match finish {
            Finish::Stop { id } => Some(id),
            Finish::Length { .. } => None,
        };
        for (key, value) in [
            ("prompt_ids", json!(self.statement.prompt)),
            ("prompt_text", text(|t| &t.prompt)),
            ("prompt_special_tokens", specials(|t| &t.prompt)),
            ("output_ids", json!(self.statement.output)),
            ("output_text", text(|t| &t.output)),
            ("output_special_tokens", specials(|t| &t.output)),
            ("finish_reason", json!(finish.reason())),
            ("end_token", json!(end)),
            ("end_tokens_inside", json!(self.statement.ends_inside(self.config))),
        ] {
            json.insert(key.to_owned(), value);
        }
        if let Err(reason) = &self.texts {
            json.insert("no_text".to_owned(), json!(reason));
        }
    }
}

/// The special tokens of a side, by position.
fn specials(side: &Side) -> Value {
    let special = |piece: &Piece| match piece {
        Piece::Special { position, id, name } => Some(json!({"position": position, "id": id, "name": name})),
        Piece::Text(_) => None,
    };
    side.pieces.iter().filter_map(special).collect()
}
