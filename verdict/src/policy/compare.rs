//! Prompts and outputs beside the expected ones: where they differ, and what may help.

use tessera_circuits::statement::{Finish, HIDDEN};

use super::hints;
use super::{Expectations, Output, Prompt};
use crate::check::Finding;
use crate::claim::Claim;
use crate::prompt::PromptIds;
use crate::rows::count;
use crate::shown;
use crate::text::Piece;

/// Characters that are shown of a text before and behind the place where it begins to differ.
const BEFORE: usize = 12;
const BEHIND: usize = 28;

impl Expectations<'_> {
    pub(super) fn prompt(&self, expected: &PromptIds, claim: &Claim) -> Finding {
        let got = &claim.statement().prompt;
        let warnings: Vec<String> = expected.notes.iter().cloned().chain(expected.unknown_note()).collect();
        if let Some(reason) = self.hidden("prompt", got, &expected.ids) {
            return Finding::unmet(reason, None);
        }
        if *got == expected.ids {
            return Finding::Met { warnings };
        }
        let mut reason = self.difference("prompt", got, &expected.ids);
        let Some(prompt) = &self.policy.prompt else {
            return Finding::unmet(reason, None);
        };
        let texts = match prompt {
            Prompt::Ids(_) => None,
            _ => self.key.prompt_text(&expected.ids).zip(claim.texts().ok()),
        };
        if let Some((expected, texts)) = texts.filter(|(expected, texts)| *expected != texts.prompt.text) {
            reason.push_str("; ");
            reason.push_str(&apart(&texts.prompt.text, &expected));
        }
        let hints = || hints::of_prompt(prompt, self.key, self.policy.spelling);
        let hints = self.hints.get_or_init(hints);
        let own = hints.iter().find(|hint| hint.ids == *got);
        let help = own.map(|hint| hint.help.clone());
        Finding::Unmet {
            reason,
            help: help.or_else(|| self.general(prompt, expected, claim)),
            warnings,
        }
    }

    /// What may help if nothing that is known to help does.
    fn general(&self, prompt: &Prompt, expected: &PromptIds, claim: &Claim) -> Option<String> {
        let got = &claim.statement().prompt;
        let name = |option: &str| self.policy.spelling.name(option);
        match prompt {
            Prompt::Ids(ids) => {
                let (first, rest) = got.split_first()?;
                (rest == ids.as_slice()).then(|| {
                    let first = self.named(*first);
                    format!("the expected ids follow id {first}, with which the proof's prompt begins: add it")
                })
            }
            Prompt::Text(text) => {
                let texts = claim.texts().ok()?;
                let specials = texts
                    .prompt
                    .pieces
                    .iter()
                    .filter(|piece| matches!(piece, Piece::Special { .. }));
                let inside = texts.prompt.text != text.trim() && texts.prompt.text.contains(text.trim());
                (inside && !text.trim().is_empty() && specials.count() > 1).then(|| {
                    let chat = self.policy.spelling.flag("chat");
                    let [system, date, messages] = ["system", "date", "expect-messages"].map(name);
                    format!(
                        "the proof's prompt has this text inside of a chat: add {chat}, with {system} and {date} if the chat has a \
                         system message or a date, or give the whole conversation with {messages}"
                    )
                })
            }
            Prompt::Chat { .. } => {
                let date = expected.dated?;
                Some(format!(
                    "the chat template writes the day into the prompt: if the chat took place on another day than {date}, say so with {}",
                    name("date")
                ))
            }
            Prompt::Pair { .. } => None,
        }
    }

    pub(super) fn output(&self, expected: &Output, claim: &Claim) -> Finding {
        if let Some(vector) = claim.vector() {
            let integers = count(vector.integers.len(), "integer");
            return Finding::unmet(
                format!("the output is not the expected one: it is a vector of {integers}"),
                None,
            );
        }
        let got = claim.statement().output.as_slice();
        if claim.statement().hides_output() {
            let ids = match expected {
                Output::Ids(ids) => ids.as_slice(),
                Output::Text(_) => &[],
            };
            let reason = self.hidden("output", got, ids);
            return Finding::unmet(reason.unwrap_or_default(), None);
        }
        match expected {
            Output::Ids(ids) if got == ids.as_slice() => Finding::MET,
            Output::Ids(ids) => Finding::unmet(self.difference("output", got, ids), self.other_ids(got, ids, claim)),
            Output::Text(text) => match claim.texts() {
                Err(reason) => Finding::Open {
                    reason: format!("the output has no text to compare: {reason}"),
                },
                Ok(texts) if texts.output.text == *text => Finding::Met {
                    warnings: self.unseen(&texts.output.pieces, text, claim),
                },
                Ok(texts) => {
                    let apart = apart(&texts.output.text, text);
                    Finding::unmet(
                        format!("the output is not the expected text: {apart}"),
                        other_text(&texts.output.text, text, claim.finish()),
                    )
                }
            },
        }
    }

    /// What may help if an output has other ids than expected.
    fn other_ids(&self, got: &[u32], expected: &[u32], claim: &Claim) -> Option<String> {
        let ends = |id: &u32| self.key.model_key().config.eos.contains(id);
        if expected.starts_with(got) {
            return Some(truncated(claim.finish()));
        }
        match got.strip_prefix(expected)? {
            [end] if ends(end) => Some(format!(
                "the proof's output has id {} in addition, which ends the text: add it",
                self.named(*end)
            )),
            more => Some(format!(
                "the proof's output goes on after the expected one, with {} more",
                count(more.len(), "id")
            )),
        }
    }

    /// What an output has that its text does not show.
    fn unseen(&self, pieces: &[Piece], text: &str, claim: &Claim) -> Vec<String> {
        let statement = claim.statement();
        let mut warnings = Vec::new();
        let unknown = self.key.unknown();
        let unknowns = statement.output.iter().filter(|id| Some(**id) == unknown).count();
        if unknowns > 0 {
            warnings.push(format!(
                "the output has {}: outputs of other models may read like this, too, and ids tell them apart ({})",
                count(unknowns, "unknown token"),
                self.policy.spelling.name("expect-output-ids")
            ));
        }
        let last = statement.output.len().saturating_sub(1);
        let ended = matches!(claim.finish(), Finish::Stop { .. });
        let hidden = |piece: &&Piece| match piece {
            Piece::Special { position, id, .. } => !(ended && *position == last) && Some(*id) != unknown,
            Piece::Text(_) | Piece::Hidden(_) => false,
        };
        match pieces.iter().filter(hidden).count() {
            0 => {}
            hidden => warnings.push(format!(
                "the output has {} that its text does not show",
                count(hidden, "special token")
            )),
        }
        if text.contains('\u{fffd}') {
            warnings.push(
                "the expected text has the sign for bytes that are no text: other bytes read like this, too".to_owned(),
            );
        }
        warnings
    }

    pub(super) fn complete(&self, claim: &Claim) -> Finding {
        if claim.vector().is_some() {
            return Finding::unmet("the output is not complete: it is a vector, which has no end", None);
        }
        let config = &self.key.model_key().config;
        let statement = claim.statement();
        match (claim.finish(), statement.ends_inside(config).first()) {
            (_, Some(position)) => {
                let id = statement.output.get(*position).copied().unwrap_or_default();
                Finding::unmet(
                    format!(
                        "the output is not complete: the model ended its text with id {} at output position {position}, and the proof \
                         goes on",
                        self.named(id)
                    ),
                    None,
                )
            }
            (Finish::Stop { .. }, None) => Finding::MET,
            (Finish::Hidden { .. }, None) => Finding::unmet(
                "the output is not shown to be complete: the proof hides how it ends",
                None,
            ),
            (Finish::Length { .. }, None) if config.eos.is_empty() => Finding::unmet(
                "the output is not complete: the model names no token that ends a text, so none of its outputs is",
                None,
            ),
            (Finish::Length { tokens }, None) => Finding::unmet(
                format!("the output is not complete: cut after {}", count(tokens, "token")),
                Some("the proof is truncated: ask for one with more tokens".to_owned()),
            ),
        }
    }

    /// That ids are not shown to be the expected ones, because some of them are hidden; `None` if none is hidden.
    fn hidden(&self, what: &str, got: &[u32], expected: &[u32]) -> Option<String> {
        let hidden = got.iter().filter(|id| **id == HIDDEN).count();
        if hidden == 0 {
            return None;
        }
        let ids = count(got.len(), "id");
        let reason = format!("the {what} is not shown to be the expected one: the proof hides {hidden} of its {ids}");
        // Of those that are shown, the first one that is another.
        let mut pairs = got.iter().zip(expected).enumerate();
        let other = pairs.find(|(_, (got, expected))| **got != HIDDEN && got != expected);
        Some(match other {
            Some((at, (got, expected))) => {
                let [got, expected] = [got, expected].map(|id| self.named(*id));
                format!("{reason}, and it shows id {got} at position {at}, expected {expected}")
            }
            None => reason,
        })
    }

    /// The first difference of two id lists.
    fn difference(&self, what: &str, got: &[u32], expected: &[u32]) -> String {
        let differing = |(_, (g, e)): &(usize, (&u32, &u32))| g != e;
        let found = got.iter().zip(expected).enumerate().find(differing);
        let difference = match found {
            Some((at, (got, expected))) => {
                let [got, expected] = [got, expected].map(|id| self.named(*id));
                format!("id {got} at position {at}, expected {expected}")
            }
            None => format!("{}, expected {}", count(got.len(), "id"), expected.len()),
        };
        format!("the {what} is not the expected one: {difference}")
    }

    /// An id, with its token if it has one.
    fn named(&self, id: u32) -> String {
        match self.key.token(id) {
            Some(token) => format!("{id} ({})", shown::name(&token)),
            None => id.to_string(),
        }
    }
}

/// Two texts from where they begin to differ.
fn apart(got: &str, expected: &str) -> String {
    let at = got.chars().zip(expected.chars()).take_while(|(g, e)| g == e).count();
    let start = at.saturating_sub(BEFORE);
    let common: String = expected.chars().skip(start).take(at - start).collect();
    let after = match at {
        0 => String::new(),
        _ => format!(
            " (after {}{})",
            if start > 0 { ".." } else { "" },
            shown::quoted(&common)
        ),
    };
    let [got, expected] = [got, expected].map(|text| excerpt(text, at));
    format!("from character {at} on{after} it reads {got}, expected {expected}")
}

/// A text from a character on, between quotation marks, with dots where it goes on.
fn excerpt(text: &str, at: usize) -> String {
    let shown: String = text.chars().skip(at).take(BEHIND).collect();
    let more = text.chars().nth(at + BEHIND).is_some();
    format!("{}{}", shown::quoted(&shown), if more { ".." } else { "" })
}

/// What may help if an output reads otherwise than expected.
fn other_text(got: &str, expected: &str, finish: Finish) -> Option<String> {
    let line = |text: &str| text.trim_end_matches(['\r', '\n']).len() < text.len();
    let help = if got.trim_end() == expected.trim_end() {
        match (line(got), line(expected)) {
            (false, true) => "the expected text ends with a line end that the output does not have",
            (true, false) => "the output ends with a line end that the expected text does not have",
            _ => "the two differ in white space at the end alone",
        }
    } else if got.trim() == expected.trim() {
        "the two differ in white space at the beginning and at the end alone"
    } else if expected.starts_with(got) {
        return Some(truncated(finish));
    } else if got.starts_with(expected) {
        "the expected text is the beginning of the output, which goes on"
    } else if got.to_lowercase() == expected.to_lowercase() {
        "the two differ in capital letters alone"
    } else {
        return None;
    };
    Some(help.to_owned())
}

/// Of an output that is a prefix of the expected one.
fn truncated(finish: Finish) -> String {
    match finish {
        Finish::Length { tokens } => format!(
            "the output is a prefix of the expected one: the proof is truncated, cut after {}",
            count(tokens, "token")
        ),
        Finish::Hidden { .. } => "the output is a prefix of the expected one, and how it ends is hidden".to_owned(),
        Finish::Stop { .. } => {
            "the output is a prefix of the expected one, and the model ended the text there".to_owned()
        }
    }
}
