//! What the commands say of a proof that they have made: the answer first, then what it cost.

use std::path::Path;

use serde_json::{json, Map, Value};
use tessera::circuits::statement::Statement;
use tessera::quantised::forward::Saturations;
use tessera::text::shown::{Piece, Side};
use tessera::{Awaited, Difference, Model, NamedToken, Proof};
use tessera_verdict::claim::Claim;
use tessera_verdict::rows::{bytes, count, seconds, Rows};
use tessera_verdict::{add_context, add_hidden, hidden_parts, shown};

use super::claim::claim_of;
use super::report::{float_rows, saturated_rows, warnings};
use crate::printer::{error_columns, peak_rss_bytes, report_columns, Report, Status};

/// The kind of comparison with an expected answer.
const EXACT: &str = "exact";

/// A proof that was made.
pub struct Proved<'a> {
    model: &'a Model,
    proof: &'a Proof,
    path: &'a Path,
    /// Seconds that it took.
    seconds: f64,
    /// Whether an answer was expected.
    expected: bool,
    claim: Claim,
    /// The claim with the ids that the proof hides, if it hides any.
    secret: Option<Claim>,
    /// The file to which the secret of the proof was written, if it has one.
    secret_path: Option<&'a Path>,
}

impl<'a> Proved<'a> {
    /// A proof that was written to a path; `expected` says whether it had to be about a given answer.
    pub fn new(model: &'a Model, proof: &'a Proof, path: &'a Path, seconds: f64, expected: bool) -> Self {
        Self {
            claim: claim(model, proof.statement()),
            secret: (*proof.statement() != proof.report.statement).then(|| claim(model, &proof.report.statement)),
            model,
            proof,
            path,
            seconds,
            expected,
            secret_path: None,
        }
    }

    /// The same, of a proof whose secret was written to a file.
    pub fn with_secret(self, path: Option<&'a Path>) -> Self {
        Self {
            secret_path: path,
            ..self
        }
    }

    /// For how many reveals the proof leaves room.
    fn reveals(&self) -> u32 {
        let hidden = self.proof.report.proof.hidden.as_ref();
        hidden.map_or(0, |own| own.reveals)
    }

    /// For programs.
    pub fn json(&self) -> Map<String, Value> {
        let report = &self.proof.report;
        let mut json = Map::new();
        json.insert("model_id".to_owned(), json!(self.model.id.to_string()));
        add_context(report.proof.context, &mut json);
        add_hidden(report.proof.hidden.is_some(), self.proof.statement(), &mut json);
        self.claim.add_to(&mut json);
        if report.proof.hidden.is_some() {
            json.insert("reveals_left".to_owned(), json!(self.reveals()));
        }
        if let Some(path) = self.secret_path {
            json.insert("secret_file".to_owned(), json!(path.display().to_string()));
        }
        // They are about prompt and answer, which may be hidden.
        let notes = [
            ("answer", answer_json(self.expected, self.proof.other_from)),
            ("spelled_special_tokens", json!(self.proof.prompt.spelled)),
            ("prompt_notes", json!(self.proof.prompt.notes)),
        ];
        let notes = notes.map(|(key, value)| (key.to_owned(), value));
        match &self.secret {
            None => json.extend(notes),
            Some(secret) => {
                let mut own = Map::from_iter(notes);
                secret.add_to(&mut own);
                json.insert("secret".to_owned(), Value::Object(own));
            }
        }
        for (key, value) in [
            ("prove_seconds", json!(self.seconds)),
            ("proof_bytes", json!(report.bytes.len())),
            ("security_bits", json!(report.security_bits)),
            // Whether the float model gives the same text: nobody has run it.
            ("same_as_float_model", Value::Null),
            ("proof", json!(self.path.display().to_string())),
        ] {
            json.insert(key.to_owned(), value);
        }
        if let Some(saturated) = saturated(self.proof) {
            json.insert("saturated".to_owned(), json!(saturated));
            json.insert("warnings".to_owned(), json!(warnings(saturated)));
        }
        json
    }

    /// The answer and how it ends, what the proof is, and what it took in all.
    pub fn brief(&self, columns: usize) -> String {
        let report = &self.proof.report;
        let size = bytes(report.bytes.len() as u64);
        // The text alone does not show where the model ended it and went on.
        let inside = match (self.claim.vector(), self.own().texts()) {
            (None, Ok(texts)) => more_than_text(&texts.output),
            _ => None,
        };
        let rows = self
            .ending()
            .maybe("output", inside)
            .row(
                "proof",
                format!("{}, {size}, {:.1} bits", shown::path(self.path), report.security_bits),
            )
            .row(
                "cost",
                format!("{}, {}", seconds(self.seconds), bytes(peak_rss_bytes())),
            );
        format!(
            "{}{}",
            answer(self.own(), columns),
            warned(rows, self.proof).render(columns)
        )
    }

    /// The answer, what it is an answer to, what the proof is, and what `cost` adds.
    pub fn text(&self, columns: usize, notes: impl Fn(Rows) -> Rows, cost: impl Fn(Rows) -> Rows) -> String {
        let report = &self.proof.report;
        let rows = notes(statement(self.ending(), &self.claim))
            .digest("model", &self.model.id.0)
            .maybe("context", report.proof.context)
            .maybe("hides", self.hides())
            .maybe("secret", self.secret_text())
            .row(
                "proof",
                format!("{}, {}", shown::path(self.path), bytes(report.bytes.len() as u64)),
            )
            .row("security", format!("{:.1} bits", report.security_bits))
            .row("time", seconds(self.seconds));
        let mut rows = cost(rows);
        if let Some(saturated) = saturated(self.proof) {
            rows = float_rows(saturated_rows(rows, saturated), saturated, self.expected);
        }
        format!("{}{}", answer(self.own(), columns), rows.render(columns))
    }

    /// The claim with all of its ids: for whoever has made the proof.
    fn own(&self) -> &Claim {
        self.secret.as_ref().unwrap_or(&self.claim)
    }

    /// Names the file with the secret.
    fn secret_text(&self) -> Option<String> {
        let path = self.secret_path?;
        let room = count(self.reveals() as usize, "reveal");
        Some(format!(
            "{}, for {room}: keep it to yourself, and do not copy it",
            shown::path(path)
        ))
    }

    /// Names what the proof hides, and says of a hidden answer that the report shows it to its reader alone.
    fn hides(&self) -> Option<String> {
        let statement = self.proof.statement();
        let above = match statement.hides_output() {
            true => "; the output above is for you alone",
            false => "",
        };
        let hidden = self.proof.report.proof.hidden.as_ref();
        hidden.map(|_| format!("{}{above}", hidden_parts(statement)))
    }

    /// How the answer ends, and that it is the expected one.
    fn ending(&self) -> Rows {
        let end = self.claim.vector().is_none().then(|| self.own().finish_text());
        let rows = Rows::default().maybe("end", end);
        match (self.expected, self.proof.other_from) {
            (false, _) => rows,
            (true, None) => rows.row("expected", "the model gives exactly this answer"),
            (true, Some(at)) => rows.row(
                "expected",
                format!(
                    "the model gives exactly this text, from token {at} on in other tokens than the text's encoding"
                ),
            ),
        }
    }
}

/// A statement of a model with its texts.
fn claim(model: &Model, statement: &Statement) -> Claim {
    claim_of(statement, &model.key, Ok(model.tokenizer.as_ref()))
}

/// The text that was generated, as people read it; nothing for a vector. Its further lines are indented, so that none looks like a row.
fn answer(claim: &Claim, columns: usize) -> String {
    match (claim.vector(), claim.texts()) {
        (None, Ok(texts)) => {
            let story = shown::story(&texts.output.text, columns.saturating_sub(1));
            format!("{}\n\n", story.replace('\n', "\n "))
        }
        _ => String::new(),
    }
}

/// Prompt and output as ids; texts only where they are not shown already.
fn statement(rows: Rows, claim: &Claim) -> Rows {
    let said = claim.statement();
    if claim.vector().is_some() {
        return claim.rows(rows);
    }
    let (prompt, output) = match claim.texts() {
        Ok(texts) => (shown::pieces(&texts.prompt.pieces), more_than_text(&texts.output)),
        Err(reason) => (format!("(no text: {reason})"), None),
    };
    rows.ids("prompt", &said.prompt)
        .row("", prompt)
        .ids("output", &said.output)
        .maybe("", output)
}

/// The pieces of an output that is more than a text and the token that ends it.
fn more_than_text(side: &Side) -> Option<String> {
    let plain = matches!(
        side.pieces[..],
        [Piece::Text(_)] | [Piece::Text(_), Piece::Special { .. }]
    );
    (!plain).then(|| shown::pieces(&side.pieces))
}

/// The values that saturated, unless the proof hides them.
fn saturated(proof: &Proof) -> Option<&Saturations> {
    let report = &proof.report;
    report.proof.hidden.is_none().then_some(&report.saturated)
}

/// Only what could make somebody doubt the answer.
fn warned(rows: Rows, proof: &Proof) -> Rows {
    let saturated = saturated(proof).map(warnings);
    saturated
        .unwrap_or_default()
        .into_iter()
        .fold(rows, |rows, text| rows.row("WARNING", text))
}

/// What became of an expected answer; null if any answer would have done.
pub fn answer_json(expected: bool, other_from: Option<usize>) -> Value {
    match expected {
        true => json!({"comparison": EXACT, "differs_at": null, "other_tokens_from": other_from}),
        false => Value::Null,
    }
}

/// Where an answer differs, for programs.
pub fn difference_json(difference: &Difference) -> Value {
    let (expected, text) = match &difference.expected {
        Awaited::Token(NamedToken { id, text }) => (Some(*id), text.clone()),
        Awaited::Text(text) => (None, Some(text.clone())),
        _ => (None, None),
    };
    json!({
        "comparison": EXACT,
        "differs_at": difference.position,
        "expected_id": expected,
        "expected_text": text,
        "expected_end": difference.expected == Awaited::End,
        "model_id": difference.model.id,
        "model_text": difference.model.text,
        "margin_nats": difference.margin_nats,
        "beginning": difference.beginning.map(|own| json!({"tokens": own.tokens, "ends_inside_token": own.inside})),
        "unknown_characters": (!difference.unknown.is_empty()).then_some(&difference.unknown),
    })
}

/// The report of a model that gives another answer.
pub fn differs(difference: &Difference) -> Report {
    let message = difference.to_string();
    Report {
        status: Status::Differs,
        text: shown::message(&message, error_columns(&[])),
        json: json!({"error": message, "answer": difference_json(difference)}),
    }
}

/// The report of a proof as somebody wants it: in full, in brief, or none.
pub fn shown_as(quiet: bool, brief: bool, proved: &Proved<'_>, full: impl FnOnce(usize) -> String) -> String {
    match (quiet, brief) {
        (true, _) => String::new(),
        (_, true) => proved.brief(report_columns()),
        _ => full(report_columns()),
    }
}
