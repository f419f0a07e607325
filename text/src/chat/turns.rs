//! The messages of a prompt, found again in its ids.
//!
//! Four small conversations show what the template writes between messages. The prompt is cut there, and the template
//! then makes a prompt of the messages that were found: only if it has the very same ids, they are the messages of the
//! prompt. So a cut in the wrong place shows no false messages, but none.

use super::{ChatTemplate, Conversation, Json, TIME};
use crate::jinja::time;
use crate::shown::{Piece, Turn};
use crate::tokenizer::guard::guarded;
use crate::tokenizer::Tokenizer;

/// Days of a prompt that are tried as the day on which it was made.
const DAYS: usize = 8;
const SYSTEM: &str = "system";
const USER: &str = "user";
const ASSISTANT: &str = "assistant";

/// A character of a text, or a special token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Char(char),
    Special(u32),
}

/// What the template writes before, between and behind messages.
struct Layout {
    first: Vec<Sign>,
    /// Before a system message, and between it and the first question.
    system: Option<[Vec<Sign>; 2]>,
    /// Between question and answer, and between answer and question; none if it takes no answers.
    between: Option<[Vec<Sign>; 2]>,
    last: Vec<Sign>,
}

impl ChatTemplate {
    /// The messages of which the template makes a prompt with exactly these ids. `None` if none are found: the ids are no chat
    /// of this template, or one with tools or other roles.
    ///
    /// The day of a template that names the present day is looked for in the prompt. If what stands between messages is mere
    /// text, and a message has it, too, the message is cut there, because the ids do not tell the two apart.
    pub fn turns(&self, ids: &[u32], tokenizer: &Tokenizer) -> Option<Vec<Turn>> {
        let (this, ids, tokenizer) = (self.clone(), ids.to_vec(), tokenizer.clone());
        guarded(TIME, move || this.turns_here(&ids, &tokenizer)).ok()?
    }

    fn turns_here(&self, ids: &[u32], tokenizer: &Tokenizer) -> Option<Vec<Turn>> {
        let signs = signs(ids, tokenizer)?;
        let text: String = signs.iter().map(|sign| sign.char().unwrap_or('\n')).collect();
        let days = time::days_in(&text).into_iter().take(DAYS);
        let mut times: Vec<u64> = [time::now()].into_iter().chain(days).collect();
        times.dedup();
        times.into_iter().find_map(|now| {
            let layout = Layout::of(self, tokenizer, now)?;
            let same = |turns: &Vec<Turn>| {
                let again = self.prompt_at(conversation(turns), tokenizer, now);
                again.is_ok_and(|again| again.ids == ids)
            };
            layout.readings(&signs).into_iter().flatten().find(same)
        })
    }
}

fn conversation(turns: &[Turn]) -> Conversation {
    let field = |name: &str, text: &str| (name.to_owned(), Json::Text(text.to_owned()));
    let message = |turn: &Turn| Json::Map(vec![field("role", turn.role), field("content", &turn.content)]);
    Conversation {
        messages: turns.iter().map(message).collect(),
        tools: None,
    }
}

impl Sign {
    const fn char(&self) -> Option<char> {
        match self {
            Self::Char(c) => Some(*c),
            Self::Special(_) => None,
        }
    }
}

/// The text of ids with its special tokens; `None` if it has none.
fn signs(ids: &[u32], tokenizer: &Tokenizer) -> Option<Vec<Sign>> {
    let texts = tokenizer.texts_here(ids, &[]).ok()?;
    let signs = texts.prompt.pieces.iter().flat_map(|piece| match piece {
        Piece::Text(text) => text.chars().map(Sign::Char).collect(),
        Piece::Special { id, .. } => vec![Sign::Special(*id)],
    });
    Some(signs.collect())
}

/// The signs of a text that is nothing but text.
fn text(signs: &[Sign]) -> Option<String> {
    signs.iter().map(Sign::char).collect()
}

/// The parts before and behind the first place of `mark`, which is not empty.
fn cut<'a>(signs: &'a [Sign], mark: &[Sign]) -> Option<[&'a [Sign]; 2]> {
    let first = mark.first()?;
    let starts = signs.iter().enumerate().filter(|(_, sign)| *sign == first);
    let at = starts.map(|(at, _)| at).find(|at| signs[*at..].starts_with(mark))?;
    Some([&signs[..at], &signs[at + mark.len()..]])
}

impl Layout {
    /// What a template writes around messages at a time; `None` if it takes no question.
    fn of(template: &ChatTemplate, tokenizer: &Tokenizer, now: u64) -> Option<Self> {
        let around = |roles: &[&'static str]| {
            let content = |i: usize| format!("Zq{i}Xj");
            let turns = roles.iter().enumerate().map(|(i, role)| Turn {
                role,
                content: content(i),
            });
            let turns: Vec<Turn> = turns.collect();
            let prompt = template.prompt_at(conversation(&turns), tokenizer, now).ok()?;
            let signs = signs(&prompt.ids, tokenizer)?;
            let (mut rest, mut parts) = (signs.as_slice(), Vec::new());
            for turn in &turns {
                let mark: Vec<Sign> = turn.content.chars().map(Sign::Char).collect();
                let [before, behind] = cut(rest, &mark)?;
                parts.push(before.to_vec());
                rest = behind;
            }
            parts.push(rest.to_vec());
            Some(parts)
        };
        let [first, last] = around(&[USER])?.try_into().ok()?;
        let system = around(&[SYSTEM, USER]).and_then(|parts| <[_; 3]>::try_from(parts).ok());
        let between = around(&[USER, ASSISTANT, USER]).and_then(|parts| <[_; 4]>::try_from(parts).ok());
        Some(Self {
            first,
            system: system.map(|[before, behind, _]| [before, behind]),
            between: between.map(|[_, answer, question, _]| [answer, question]),
            last,
        })
    }

    /// The messages as they may have been, the likelier ones first. A system message goes first if a special token ends it: then no
    /// part of a question looks like one.
    fn readings(&self, signs: &[Sign]) -> [Option<Vec<Turn>>; 2] {
        let plain = || self.reading(signs, None);
        let system = || self.reading(signs, self.system.as_ref());
        let marked = self
            .system
            .as_ref()
            .is_some_and(|[_, behind]| behind.iter().any(|sign| sign.char().is_none()));
        match marked {
            true => [system(), plain()],
            false => [plain(), system()],
        }
    }

    fn reading(&self, signs: &[Sign], system: Option<&[Vec<Sign>; 2]>) -> Option<Vec<Turn>> {
        let mut turns = Vec::new();
        let mut add = |role, signs: &[Sign]| {
            let content = text(signs)?;
            turns.push(Turn { role, content });
            Some(())
        };
        let mut rest = match system {
            None => signs.strip_prefix(self.first.as_slice())?,
            Some([before, behind]) => {
                let [system, rest] = cut(signs.strip_prefix(before.as_slice())?, behind)?;
                add(SYSTEM, system)?;
                rest
            }
        };
        rest = rest.strip_suffix(self.last.as_slice())?;
        if let Some([answer, question]) = &self.between {
            while let Some([asked, behind]) = cut(rest, answer) {
                add(USER, asked)?;
                let [answered, behind] = cut(behind, question)?;
                add(ASSISTANT, answered)?;
                rest = behind;
            }
        }
        add(USER, rest)?;
        Some(turns)
    }
}

#[cfg(test)]
mod tests;
