//! The verdict on a proof as one page, to read, to print and to hand on.
//!
//! The page is a single file of HTML. It fetches nothing and runs no script; its content security policy forbids both.
//! Everything that comes from key, proof or file names is hostile: it is escaped twice, as on a terminal ([`crate::shown`])
//! and for HTML. What is proved stands in the box of the verdict. What only the maker of the key says, such as the fidelity,
//! stands in a box of its own that says so.

mod chart;
mod html;

use sha2::{Digest, Sha256};
use tessera_circuits::chunk::Chunk;
use tessera_recipe::Recipe;
use tessera_verifier::key::ModelKey;
use tessera_verifier::ledger::{hidden_ledger, ledger, Term};
use tessera_verifier::policy::MIN_BITS;
use tessera_verifier::proof::Proof;

use self::html::Html;
use crate::conversation;
use crate::describe::{dimensions, recipe_rows};
use crate::policy::{Expectations, Output};
use crate::rows::{bytes, Rows};
use crate::shown;
use crate::text::Piece;
use crate::verdict::{hides, mode_text, proves, Outcome, Proved, Verdict, BUT_NOT};

/// More ids than these are not written into the commands of a page.
const IDS: usize = 1024;
const STYLE: &str = include_str!("page/style.css");

/// A file that a page is about.
#[derive(Clone, Debug)]
pub struct File<'a> {
    /// The name, as the caller knows it.
    pub name: &'a str,
    /// The content.
    pub bytes: &'a [u8],
}

/// All that a page says.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// The verdict on the proof.
    pub verdict: &'a Verdict,
    /// The key that it was made with, and the recipe in it.
    pub key: (&'a ModelKey, &'a Recipe),
    /// The file of the key.
    pub key_file: File<'a>,
    /// The file of the proof.
    pub proof_file: File<'a>,
    /// Times and sizes, for the part about costs.
    pub costs: &'a Rows,
    /// The expectations that the verdict was made with; the page repeats them in its command.
    pub expected: &'a Expectations<'a>,
    /// The program that made the page, and when.
    pub made_by: &'a str,
}

impl Page<'_> {
    /// The page.
    pub fn html(&self) -> String {
        let mut html = Html::default();
        html.raw("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-");
        html.text(&base64(&Sha256::digest(STYLE)));
        html.raw(
            "'; base-uri 'none'; form-action 'none'\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
        );
        html.text(self.word());
        html.raw(": a Tessera proof</title>\n<style>");
        html.raw(STYLE);
        html.raw("</style>\n<main>\n");
        self.verdict(&mut html);
        if let Some(proved) = self.verdict.proved() {
            self.said(proved, &mut html);
            self.security(proved, &mut html);
            // Beside a proof that is not valid, good figures would only mislead.
            self.claimed(&mut html);
        }
        self.costs(&mut html);
        self.again(&mut html);
        html.raw("<footer>");
        html.text(self.made_by);
        html.raw("</footer>\n</main>\n</html>\n");
        html.done()
    }

    const fn word(&self) -> &'static str {
        match self.verdict.outcome {
            Outcome::Accepted(_) => "Accepted",
            Outcome::Rejected { .. } => "REJECTED",
            Outcome::OtherModel { .. } => "Undecided",
        }
    }

    /// The verdict with all that is proved, and nothing else.
    fn verdict(&self, html: &mut Html) {
        html.raw(match self.verdict.outcome {
            Outcome::Accepted(_) => "<section class=\"verdict good\">\n<h1>",
            Outcome::Rejected { .. } => "<section class=\"verdict bad\">\n<h1>",
            Outcome::OtherModel { .. } => "<section class=\"verdict open\">\n<h1>",
        });
        html.text(self.word());
        html.raw("</h1>\n");
        if let Some(reason) = self.verdict.reason(self.proof_file.name, self.key_file.name) {
            html.paragraph(&reason);
        }
        if let Some(help) = self.verdict.help() {
            html.paragraph(&format!("What may help: {help}."));
        }
        let rows = match &self.verdict.outcome {
            Outcome::Accepted(proved) => {
                let claim = proved.claim();
                html.paragraph(&format!("Proved: {}.", proves(claim)));
                let rows = Rows::default().row("model", self.verdict.key);
                let rows = match claim.vector() {
                    Some(vector) => vector.rows(rows),
                    None => rows.row("end", claim.finish_text()),
                };
                rows.maybe("context", proved.context())
                    .row("mode", mode_text(proved.chunks()))
                    .maybe("hides", proved.hides_activations().then(|| hides(proved.statement())))
                    .row(
                        "security",
                        format!("{:.1} bits, proven (unique decoding)", proved.security_bits()),
                    )
            }
            Outcome::Rejected { proved, .. } => {
                html.paragraph(match proved {
                    Some(_) => "The proof is valid, but it is about something else than what was expected.",
                    None => {
                        "Nothing is proved. Do not rely on this file, and do not rely on an answer that came with it."
                    }
                });
                Rows::default().row("key of model", self.verdict.key)
            }
            Outcome::OtherModel { about } => Rows::default()
                .row("key of model", self.verdict.key)
                .row("proof about", about),
        };
        html.rows(&self.verdict.expected(rows));
        html.raw("</section>\n");
        if matches!(self.verdict.outcome, Outcome::Accepted(_)) {
            html.raw("<p class=\"note\">Not proved: ");
            html.text(BUT_NOT);
            html.raw(".</p>\n");
        }
    }

    /// Prompt and output, as they read and as ids.
    fn said(&self, proved: &Proved, html: &mut Html) {
        let claim = proved.claim();
        let statement = proved.statement();
        let turns = conversation::turns(claim);
        html.raw("<section>\n<h2>");
        html.raw(match (claim.vector(), &turns) {
            (Some(_), _) => "Input",
            (None, Some(_)) => "Conversation",
            (None, None) => "Prompt and output",
        });
        html.raw("</h2>\n<p class=\"note\">");
        html.raw(match &turns {
            Some(_) => {
                "Special tokens in the prompt divide it into these messages. The last one is the output, which the model generated. \
                 All others are the prompt: somebody chose them, earlier answers too."
            }
            None => "The proof is about the ids; the tokenizer of the key shows them as this text.",
        });
        html.raw("</p>\n");
        match (&turns, claim.texts()) {
            (Some(turns), Ok(texts)) => {
                for turn in turns.iter().filter(|turn| !turn.generated) {
                    let name = match turn.role.as_str() {
                        "assistant" => "assistant, as given in the prompt",
                        "" => "outside of any message",
                        role => role,
                    };
                    html.said(name, "given", &[Piece::Text(turn.text.clone())]);
                }
                html.said("output of the model", "output", &texts.output.pieces);
            }
            (None, Ok(texts)) => {
                html.said("prompt", "given", &texts.prompt.pieces);
                if claim.vector().is_none() {
                    html.said("output of the model", "output", &texts.output.pieces);
                }
            }
            (_, Err(reason)) => html.paragraph(&format!("There is no text: {reason}.")),
        }
        let rows = Rows::default().ids("prompt ids", &statement.prompt);
        let rows = match (&turns, claim.texts()) {
            (Some(_), Ok(texts)) => rows.row("prompt as it is", shown::pieces(&texts.prompt.pieces)),
            _ => rows,
        };
        let rows = match claim.vector() {
            Some(vector) => {
                let integers: Vec<String> = vector.integers.iter().map(i32::to_string).collect();
                rows.row("integers", integers.join(" "))
            }
            None => rows.ids("output ids", &statement.output),
        };
        html.rows(&rows);
        html.raw("</section>\n");
    }

    /// The soundness ledger.
    fn security(&self, proved: &Proved, html: &mut Html) {
        let terms = self.terms(proved);
        let sum: f64 = terms.iter().map(|term| (-term.bits).exp2()).sum();
        html.raw("<section>\n<h2>Security</h2>\n<p>");
        html.text(&format!(
            "To make the verifier accept a false statement, somebody needs about 2^{:.1} hash computations. The ledger adds up \
             every source of error; a term with fewer bits contributes more. The verifier accepts nothing below {MIN_BITS} bits.",
            proved.security_bits()
        ));
        html.raw("</p>\n");
        chart::draw(html, &terms, proved.security_bits());
        html.raw("<div class=\"scroll\"><table>\n<tr><th>term</th><th>bits</th><th>share</th><th>error</th></tr>\n");
        for term in &terms {
            html.raw("<tr><td>");
            html.text(&term.name);
            html.raw("</td><td class=\"number\">");
            html.text(&format!("{:.1}", term.bits));
            html.raw("</td><td class=\"number\">");
            html.text(&share((-term.bits).exp2() / sum));
            html.raw("</td><td>");
            html.text(&term.formula);
            html.raw("</td></tr>\n");
        }
        html.raw("</table></div>\n");
        if proved.chunks() > 1 {
            html.raw("<p class=\"note\">Each term is the sum over all chunks; its error is the one of the weakest chunk.</p>\n");
        }
        html.raw("</section>\n");
    }

    /// The terms of all chunks, the weakest first.
    fn terms(&self, proved: &Proved) -> Vec<Term> {
        let (key, _) = self.key;
        let proof = Proof::from_bytes(self.proof_file.bytes).ok();
        let layers = proof.iter().flat_map(|proof| &proof.chunks);
        let layers: Vec<usize> = layers.map(|chunk| chunk.layers as usize).collect();
        // Those of the proof: reveals leave fewer ids hidden, but do not change what was proved.
        let statement = proof
            .as_ref()
            .map_or_else(|| proved.statement(), |proof| &proof.statement);
        let lengths = statement.lengths();
        let chunks = Chunk::partition(layers, key.config.layers).unwrap_or_default();
        let all: Vec<Term> = match proved.hides_activations() {
            true => hidden_ledger(key, lengths, proved.reveals()).map_or_else(Vec::new, |own| own.terms),
            false => chunks
                .iter()
                .flat_map(|chunk| ledger(key, chunk, lengths).terms)
                .collect(),
        };
        let mut terms: Vec<(Term, f64)> = Vec::new();
        for term in all {
            let error = (-term.bits).exp2();
            match terms.iter_mut().find(|(known, _)| known.name == term.name) {
                Some((known, sum)) => {
                    *sum += error;
                    if term.bits < known.bits {
                        *known = term;
                    }
                }
                None => terms.push((term, error)),
            }
        }
        let whole = terms.into_iter().map(|(term, error)| Term {
            bits: 0.0 - error.log2(),
            ..term
        });
        let mut whole: Vec<Term> = whole.collect();
        whole.sort_by(|a, b| a.bits.total_cmp(&b.bits));
        whole
    }

    /// What the key says beside what proofs are about.
    fn claimed(&self, html: &mut Html) {
        let (key, recipe) = self.key;
        html.raw("<section class=\"claimed\">\n<h2>What the maker of the key claims</h2>\n<p class=\"note\">");
        html.raw(
            "Nothing in this box is proved, and no proof can prove it. It says how the key was made, and how close the integer model is \
             to its checkpoint. Whoever has the checkpoint can make the key again and compare.",
        );
        html.raw("</p>\n");
        html.rows(&recipe_rows(Rows::default(), key, recipe));
        html.raw("</section>\n");
    }

    fn costs(&self, html: &mut Html) {
        html.raw("<section>\n<h2>Costs</h2>\n");
        let size = |file: &File<'_>| bytes(file.bytes.len() as u64);
        let sizes = Rows::default()
            .prose("model", dimensions(&self.key.0.config))
            .row("proof", size(&self.proof_file))
            .row("key", size(&self.key_file));
        html.rows(&sizes);
        html.rows(self.costs);
        html.raw("</section>\n");
    }

    /// How anybody comes to the same verdict without this page.
    fn again(&self, html: &mut Html) {
        let files = [
            (&self.key_file, "key", "model.key"),
            (&self.proof_file, "proof", "a.proof"),
        ];
        let [key, proof] = files.map(|(file, _, other)| if in_commands(file.name) { file.name } else { other });
        html.raw("<section>\n<h2>Check it again</h2>\n<p>");
        html.raw(
            "This page is only a picture of a verdict, and anybody can paint one. With the two files, you need not believe it. First \
             compare the files, then verify the proof:",
        );
        html.raw("</p>\n");
        for (_, what, other) in files.iter().filter(|(file, ..)| !in_commands(file.name)) {
            html.paragraph(&format!(
                "Here the {what} is called {other}, because its own name cannot stand in a command."
            ));
        }
        let sum = |file: &File<'_>, name: &str| format!("{}  {name}", hex::encode(Sha256::digest(file.bytes)));
        html.code(&format!(
            "sha256sum --check <<'END'\n{}\n{}\nEND",
            sum(&self.key_file, key),
            sum(&self.proof_file, proof)
        ));
        let [key, proof] = [key, proof].map(quoted);
        let (options, left_out) = self.options();
        html.code(&format!("tessera verify --key {key} {proof}{options}"));
        for option in left_out {
            html.paragraph(&format!(
                "The verdict depends on {option}, too, which is left out of the command, because its value cannot stand in one."
            ));
        }
        html.raw("<p>");
        html.raw(
            "The small program tessera-verify takes the same arguments and needs no model. A second verifier, which shares no code with \
             the first one, is in the repository of Tessera",
        );
        html.raw(match self.expected.policy().is_empty() {
            true => ":</p>\n",
            false => "; it knows no expectations:</p>\n",
        });
        html.code(&format!("python3 fixtures/verify.py {key} {proof}"));
        html.paragraph(&format!(
            "Whoever chooses the key chooses the model. Compare its id, {}, with one that you trust, or make the key again from the \
             checkpoint:",
            self.verdict.key
        ));
        html.code(&format!("tessera inspect {key} --against CHECKPOINT"));
        html.raw("</section>\n");
    }

    /// The options that make `verify` come to this verdict: the expectations, and beyond them what this page shows. Expectations that
    /// cannot stand in a command are named after them.
    fn options(&self) -> (String, Vec<String>) {
        let policy = self.expected.policy();
        let proved = self.verdict.proved();
        let statement = proved.map(Proved::statement);
        let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let short = |ids: &&[u32]| ids.len() <= IDS;
        let (mut options, mut left_out) = (String::new(), Vec::new());
        let mut add = |name: &str, value: Option<String>| match value {
            Some(value) => options += &format!(" \\\n  --{name} {value}"),
            None => left_out.push(format!("--{name}")),
        };
        if let Some(context) = policy.context.or_else(|| proved?.context()) {
            add("expect-context", Some(context.to_string()));
        }
        match (self.expected.prompt_ids(), statement) {
            (Some(ids), _) => add("expect-prompt-ids", Some(ids).filter(short).map(list)),
            (None, Some(statement)) if statement.prompt.len() <= IDS && !statement.hides_prompt() => {
                add("expect-prompt-ids", Some(list(&statement.prompt)));
            }
            _ => {}
        }
        let generated = proved.filter(|proved| proved.claim().vector().is_none());
        match (&policy.output, generated) {
            (Some(Output::Ids(ids)), _) => add("expect-output-ids", Some(ids.as_slice()).filter(short).map(list)),
            (Some(Output::Text(text)), _) => {
                add(
                    "expect-output",
                    Some(text)
                        .filter(|text| shown::line(text) == **text)
                        .map(|text| word(text)),
                );
            }
            (None, Some(proved)) if proved.statement().output.len() <= IDS && !proved.statement().hides_output() => {
                add("expect-output-ids", Some(list(&proved.statement().output)));
            }
            _ => {}
        }
        if let Some(model) = policy.model {
            add("expect-model", Some(model.to_string()));
        }
        if let Some(bits) = policy.min_bits {
            add("min-bits", Some(bits.to_string()));
        }
        if policy.complete {
            options += " \\\n  --expect-complete";
        }
        (options, left_out)
    }
}

/// Whether a name can stand in a command, in quotes if need be, and in what `sha256sum` reads.
fn in_commands(name: &str) -> bool {
    !["", "-", "standard input"].contains(&name) && !name.contains('\\') && shown::line(name) == name
}

/// A name as a shell takes it for one word that is no option.
fn quoted(name: &str) -> String {
    let path = if name.starts_with('-') { "./" } else { "" };
    word(&format!("{path}{name}"))
}

/// A text as a shell takes it for one word.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-' | '+');
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A part of the whole error.
fn share(part: f64) -> String {
    match 100.0 * part {
        percent if percent < 0.1 => "< 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// Bytes as content security policies have digests.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let letter = LETTERS
                .get((word >> (18 - 6 * at)) as usize & 63)
                .copied()
                .unwrap_or(b'=');
            out.push(if at > group.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader copies checks the file that the page is about, or says that it has another name there.
    #[test]
    fn commands_name_the_files_that_were_checked() {
        for (name, word) in [
            ("a.proof", "a.proof"),
            ("in a/b c.proof", "'in a/b c.proof'"),
            ("\u{e4}.proof", "'\u{e4}.proof'"),
            ("it's $(x).proof", r"'it'\''s $(x).proof'"),
            ("-a.proof", "./-a.proof"),
            ("- a.proof", "'./- a.proof'"),
        ] {
            assert!(in_commands(name), "{name}");
            assert_eq!(quoted(name), word);
        }
        for name in ["", "-", "standard input", "a\\b", "a\nb", "\u{1b}[2J", "\u{202e}a"] {
            assert!(!in_commands(name), "{name:?}");
        }
    }
}
