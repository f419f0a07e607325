//! Answers that exist already: whether the model gives exactly the same ones, which is found out before anything is proved.

mod difference;
mod error;

use tessera_circuits::model::ModelConfig;
use tessera_circuits::semantics::arg_max;
use tessera_model::forward::{ForwardError, ForwardState};
use tessera_model::generate::GenerateOptions;
use tessera_model::QuantisedModel;
use tessera_support::progress::Progress;
use tessera_text::chat::Json;
use tessera_text::shown::{Piece, Texts};
use tessera_text::tokenizer::{Tokenizer, TokenizerError};

pub use self::difference::{Awaited, Beginning, Difference, NamedToken};
pub use self::error::AnswerError;

use crate::prompt::Prompt;

/// Tokens of the answer that pass through the model at once.
const BLOCK: usize = 64;
/// The most characters that are named as unknown.
const NAMED: usize = 5;

/// An answer that somebody has given already, for example a service, and that a proof has to be about.
///
/// The answer is complete: after it the model has to end the text. It is cut only if it has as many tokens as the options allow
/// ([`Options::generate`](crate::Options::generate)) or as fit the context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpectedAnswer {
    /// The text of the answer. Special tokens are not part of a text, and two lists of ids that read alike are the same answer.
    Text(String),
    /// The token ids of the answer, with or without the one that ends the text.
    Ids(Vec<u32>),
}

impl From<&str> for ExpectedAnswer {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for ExpectedAnswer {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u32>> for ExpectedAnswer {
    fn from(ids: Vec<u32>) -> Self {
        Self::Ids(ids)
    }
}

impl From<&[u32]> for ExpectedAnswer {
    fn from(ids: &[u32]) -> Self {
        Self::Ids(ids.to_vec())
    }
}

/// Takes the answer off a conversation that ends with one: the text of its last message, if an assistant has said that.
///
/// # Errors
/// If the message has more than a text, because how a model says that depends on its template.
pub fn take_answer(prompt: &mut Prompt) -> Result<Option<String>, AnswerError> {
    let Prompt::Chat { conversation, .. } = prompt else {
        return Ok(None);
    };
    let is_answer = |message: &&Json| message.field("role") == Some(&Json::Text("assistant".to_owned()));
    let Some(message) = conversation.messages.last().filter(is_answer) else {
        return Ok(None);
    };
    let text = spoken(message).map_err(AnswerError::Message)?;
    conversation.messages.pop();
    match conversation.messages.is_empty() {
        true => Err(AnswerError::Message("nobody has asked for it".to_owned())),
        false => Ok(Some(text)),
    }
}

/// The text of a message that has nothing else.
fn spoken(message: &Json) -> Result<String, String> {
    let Json::Map(fields) = message else {
        return Err("it is no message".to_owned());
    };
    let other =
        |(name, value): &&(String, Json)| !["role", "content", "name"].contains(&&**name) && *value != Json::Null;
    if let Some((name, _)) = fields.iter().find(other) {
        return Err(format!("it has {name:?} beside its text"));
    }
    let part = |part: &Json| match (part.field("type"), part.field("text")) {
        (Some(Json::Text(kind)), Some(Json::Text(text))) if kind == "text" => Some(text.clone()),
        _ => None,
    };
    let text = match message.field("content") {
        Some(Json::Text(text)) => Some(text.clone()),
        Some(Json::List(parts)) => parts.iter().map(part).collect(),
        _ => None,
    };
    text.ok_or_else(|| "its content is no text".to_owned())
}

/// Why a model was not followed to the end of an expected answer.
#[derive(Debug)]
pub(crate) enum Unfollowed {
    /// It gives another answer.
    Differs(Box<Difference>),
    /// The answer cannot be compared.
    Answer(AnswerError),
    /// The model cannot be run.
    Forward(ForwardError),
}

impl From<AnswerError> for Unfollowed {
    fn from(error: AnswerError) -> Self {
        Self::Answer(error)
    }
}

impl From<TokenizerError> for Unfollowed {
    fn from(error: TokenizerError) -> Self {
        Self::Answer(error.into())
    }
}

impl From<ForwardError> for Unfollowed {
    fn from(error: ForwardError) -> Self {
        Self::Forward(error)
    }
}

/// An expected answer as the tokens that the model should give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sought {
    /// The ids; of a text its encoding, or nothing if no encoding reads like it.
    ids: Vec<u32>,
    /// The text of the answer, if ids do not matter.
    text: Option<String>,
    /// Whether the model has to end the text after it.
    end: bool,
    /// Whether only the beginning of the text's encoding is in `ids`, because there is room for no more. The model may say the text in
    /// fewer tokens.
    cut: bool,
    /// The most tokens.
    most: usize,
    /// Characters of the text that no token reads like. The model is followed all the same, to say where it goes on otherwise.
    unknown: String,
}

/// A model's own answer that is the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The ids, with the one that ends the text.
    pub output: Vec<u32>,
    /// The position from which on the ids are others than those of the text's encoding.
    pub other_from: Option<usize>,
}

impl Sought {
    /// The tokens of an answer after a prompt.
    pub fn new(
        answer: &ExpectedAnswer,
        prompt: &[u32],
        options: &GenerateOptions,
        config: &ModelConfig,
        tokenizer: Option<&Tokenizer>,
    ) -> Result<Self, AnswerError> {
        let mut unknown = String::new();
        let (mut ids, text) = match answer {
            ExpectedAnswer::Ids(ids) => (ids.clone(), None),
            ExpectedAnswer::Text(_) if options.ignore_eos => return Err(AnswerError::NoEnds),
            ExpectedAnswer::Text(text) => {
                let tokenizer = tokenizer.ok_or(AnswerError::NoTokenizer)?;
                let ids = match encoding(tokenizer, prompt, text)? {
                    Ok(ids) => ids,
                    Err(characters) => {
                        unknown = characters;
                        Vec::new()
                    }
                };
                (ids, Some(text.clone()))
            }
        };
        let vocab = config.vocab;
        if let Some(position) = ids.iter().position(|id| *id as usize >= vocab) {
            let id = ids[position];
            return Err(AnswerError::UnknownId { id, position, vocab });
        }
        let ends = |id: &u32| !options.ignore_eos && config.eos.contains(id);
        if let Some(position) = ids.iter().rev().skip(1).rev().position(ends) {
            let id = ids[position];
            return Err(AnswerError::GoesOn { id, position });
        }
        let (answer, tokens) = (ids.len(), options.tokens);
        // The last token is not run, so prompt and answer may exceed the context by one.
        let (prompt, context) = (prompt.len(), config.context);
        let room = (context + 1).saturating_sub(prompt);
        // Nothing is proved of what no model says, so that no limit of tokens matters.
        let most = if unknown.is_empty() { tokens.min(room) } else { room };
        match text {
            Some(_) => ids.truncate(most),
            None if answer > tokens => return Err(AnswerError::TooLong { answer, tokens }),
            None if answer > room => {
                return Err(AnswerError::Context {
                    prompt,
                    answer,
                    context,
                })
            }
            None => {}
        }
        let never = options.ignore_eos || config.eos.is_empty();
        let end = !never && answer < most && !ids.last().is_some_and(ends);
        let cut = answer > most;
        match answer == 0 && never && text.as_ref().is_none_or(String::is_empty) {
            true => Err(AnswerError::Empty),
            false => Ok(Self {
                ids,
                text,
                end,
                cut,
                most,
                unknown,
            }),
        }
    }

    /// Tokens of the answer and its end; the most that there can be if no encoding reads like the text, up to a character that the model
    /// never says.
    pub fn tokens(&self) -> usize {
        let said = |text: &str| text.find(|c| self.unknown.contains(c)).unwrap_or(text.len());
        let ids = match (&self.text, self.ids.is_empty()) {
            (Some(text), true) => said(text),
            _ => self.ids.len(),
        };
        (ids + usize::from(self.end)).min(self.most)
    }

    /// Whether an output that the model is known to generate is this answer.
    pub fn is(&self, output: &[u32], prompt: &[u32], config: &ModelConfig, tokenizer: Option<&Tokenizer>) -> bool {
        let ended = output.split_last().filter(|(last, _)| config.eos.contains(last));
        match (&self.text, tokenizer) {
            (Some(text), Some(tokenizer)) => {
                let (said, complete) = match ended {
                    Some((_, said)) => (said, true),
                    None => (output, output.len() == self.most || config.eos.is_empty()),
                };
                let reads = |texts: Texts| texts.output.text == *text;
                complete && tokenizer.texts(prompt, said).is_ok_and(reads)
            }
            _ if self.end => ended.is_some_and(|(_, said)| said == self.ids),
            _ => output == self.ids,
        }
    }

    /// Lets the model answer as long as it answers as expected. Ids are compared in few passes, because the model is given what it
    /// should say; a model that goes another way may still say the same text in other tokens.
    pub fn follow(
        &self,
        model: &QuantisedModel,
        prompt: &[u32],
        tokenizer: Option<&Tokenizer>,
        progress: &dyn Progress,
    ) -> Result<Followed, Unfollowed> {
        let (agreed, logits) = self.agreed(model, prompt, progress)?;
        let Some(logits) = logits else {
            if self.cut {
                return Err(AnswerError::CutOff { tokens: self.most }.into());
            }
            let (output, other_from) = (self.ids.clone(), None);
            return Ok(Followed { output, other_from });
        };
        let model_id = arg_max(&logits) as u32;
        // Without an encoding, nothing of the text is said yet.
        let encoded = !self.ids.is_empty() || self.text.as_ref().is_none_or(String::is_empty);
        if encoded && agreed == self.ids.len() && self.end && model.config.eos.contains(&model_id) {
            let output = [&self.ids[..], &[model_id]].concat();
            return Ok(Followed {
                output,
                other_from: None,
            });
        }
        let said = [prompt, &self.ids[..agreed]].concat();
        let differs = || {
            let expected = match self.ids.get(agreed) {
                Some(id) => Awaited::Token(named(tokenizer, &said, *id)),
                None if self.end && !self.ids.is_empty() => Awaited::End,
                None => match &self.text {
                    Some(text) if !text.is_empty() => Awaited::Text(text.clone()),
                    _ => Awaited::End,
                },
            };
            Difference {
                position: agreed,
                margin_nats: margin(model, &logits, &expected),
                beginning: (expected == Awaited::End && agreed > 0).then_some(Beginning {
                    tokens: agreed,
                    inside: false,
                }),
                expected,
                model: named(tokenizer, &said, model_id),
                unknown: self.unknown.clone(),
            }
        };
        let other = match (&self.text, tokenizer) {
            (Some(text), Some(tokenizer)) => {
                let first = (self.ids[..agreed].to_vec(), model_id);
                self.in_other_tokens(model, prompt, first, (text, tokenizer), progress)?
            }
            _ => Err(None),
        };
        match other {
            Ok(output) => Ok(Followed {
                output,
                other_from: Some(agreed),
            }),
            // Where nothing encodes to the text, the first token that reads otherwise is the one that differs.
            Err(Some(other)) if self.ids.is_empty() && matches!(other.expected, Awaited::Text(_)) => {
                Err(Unfollowed::Differs(Box::new(other)))
            }
            // The model says the text in other tokens, and goes on.
            Err(Some(other)) if agreed < self.ids.len() && other.expected == Awaited::End => {
                Err(Unfollowed::Differs(Box::new(other)))
            }
            Err(other) => {
                let mut own = differs();
                own.beginning = own.beginning.or(other.and_then(|other| other.beginning));
                Err(Unfollowed::Differs(Box::new(own)))
            }
        }
    }

    /// How many of the ids are the model's own, and the logits of the next token; none if all are, and nothing has to follow.
    fn agreed(
        &self,
        model: &QuantisedModel,
        prompt: &[u32],
        progress: &dyn Progress,
    ) -> Result<(usize, Option<Vec<i16>>), ForwardError> {
        let (ids, mut at) = (&self.ids[..], 0);
        // The last token is run only if something has to follow it.
        let run = ids.len() - usize::from(!self.end && !ids.is_empty());
        let mut state = ForwardState::new(model);
        let mut logits = state.run_last(prompt)?;
        loop {
            let matches = ids.get(at).is_some_and(|id| *id == arg_max(&logits) as u32);
            if matches && at == run {
                return Ok((ids.len(), None));
            }
            if !matches {
                return Ok((at, Some(logits)));
            }
            let block = &ids[at..run.min(at + BLOCK)];
            let all = state.run(block, None)?;
            progress.advance(block.len() as u64);
            for row in all.chunks_exact(model.config.vocab) {
                at += 1;
                logits = row.to_vec();
                if ids.get(at).is_none_or(|id| *id != arg_max(&logits) as u32) {
                    break;
                }
            }
        }
    }

    /// Goes on token by token from where the model leaves the encoding of a text: the output if it reads like the text, or else where
    /// it does not.
    fn in_other_tokens(
        &self,
        model: &QuantisedModel,
        prompt: &[u32],
        (mut output, mut next): (Vec<u32>, u32),
        (text, tokenizer): (&str, &Tokenizer),
        progress: &dyn Progress,
    ) -> Result<Result<Vec<u32>, Option<Difference>>, Unfollowed> {
        let read = |output: &[u32]| Ok::<_, Unfollowed>(tokenizer.texts(prompt, output)?.output.text);
        let (eos, mut state) = (&model.config.eos, ForwardState::new(model));
        let mut before = read(&output)?;
        loop {
            let differs = |output: &[u32], before: &str| {
                let rest = text.strip_prefix(before).unwrap_or_default();
                let said = [prompt, output].concat();
                Some(Difference {
                    position: output.len(),
                    expected: match rest {
                        "" => Awaited::End,
                        rest => Awaited::Text(rest.to_owned()),
                    },
                    model: named(Some(tokenizer), &said, next),
                    margin_nats: None,
                    beginning: (rest.is_empty() && !output.is_empty()).then_some(Beginning {
                        tokens: output.len(),
                        inside: false,
                    }),
                    unknown: self.unknown.clone(),
                })
            };
            if eos.contains(&next) {
                return Ok(match before == text {
                    true => Ok([&output[..], &[next]].concat()),
                    false => Err(differs(&output, &before)),
                });
            }
            let longer = [&output[..], &[next]].concat();
            let said = read(&longer)?;
            let last = longer.len() == self.most;
            if said == text && (last || eos.is_empty()) {
                return Ok(Ok(longer));
            }
            if !begins(text, &said) {
                let inside = said.starts_with(text).then_some(Beginning {
                    tokens: longer.len(),
                    inside: true,
                });
                let difference = differs(&output, &before).map(|own| Difference {
                    beginning: own.beginning.or(inside),
                    ..own
                });
                return Ok(Err(difference));
            }
            if last {
                return Err(AnswerError::CutOff { tokens: self.most }.into());
            }
            let logits = match state.rows() {
                0 => state.run_last(&[prompt, &longer].concat())?,
                _ => state.run_last(&[next])?,
            };
            progress.advance(1);
            (output, before, next) = (longer, said, arg_max(&logits) as u32);
        }
    }
}

/// Whether a text can begin like this. Bytes that are no character yet are shown as replacement characters.
fn begins(text: &str, said: &str) -> bool {
    text.starts_with(said) || text.starts_with(said.trim_end_matches(char::REPLACEMENT_CHARACTER))
}

/// The ids of a text that goes on after a prompt, or none if there are none that read like it there; or the characters of the text that
/// no token reads like.
fn encoding(tokenizer: &Tokenizer, prompt: &[u32], text: &str) -> Result<Result<Vec<u32>, String>, AnswerError> {
    if text.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let plain = tokenizer.encode_inside(text)?;
    // Some tokenizers put a space before every text, but not behind a line end.
    let line = tokenizer.encode_inside("\n")?;
    let behind = tokenizer.encode_inside(&format!("\n{text}"))?;
    let behind = behind.strip_prefix(&line[..]).map(<[u32]>::to_vec);
    for ids in [Some(plain), behind].into_iter().flatten() {
        if tokenizer.texts(prompt, &ids)?.output.text == text {
            return Ok(Ok(ids));
        }
    }
    let mut characters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    characters.sort_unstable();
    characters.dedup();
    let mut unknown = String::new();
    for character in characters {
        let ids = tokenizer.encode_inside(character.encode_utf8(&mut [0; 4]))?;
        if !tokenizer.decode(&ids, true)?.contains(character) {
            unknown.push(character);
        }
        if unknown.chars().count() == NAMED {
            break;
        }
    }
    Ok(match unknown.is_empty() {
        true => Ok(Vec::new()),
        false => Err(unknown),
    })
}

/// A token as it reads behind others.
fn named(tokenizer: Option<&Tokenizer>, before: &[u32], id: u32) -> NamedToken {
    let pieces = tokenizer.and_then(|tokenizer| tokenizer.texts(before, &[id]).ok());
    let text = pieces.and_then(|texts| match texts.output.pieces.into_iter().next()? {
        Piece::Text(text) => Some(text),
        Piece::Special { name, .. } => name,
        Piece::Hidden(_) => None,
    });
    NamedToken { id, text }
}

/// By how much a model prefers its own token to the expected one.
fn margin(model: &QuantisedModel, logits: &[i16], expected: &Awaited) -> Option<f64> {
    let of = |id: &u32| logits.get(*id as usize).copied();
    let other = match expected {
        Awaited::Token(token) => of(&token.id)?,
        Awaited::End => model.config.eos.iter().filter_map(of).max()?,
        Awaited::Text(_) => return None,
    };
    let most = logits.iter().copied().max()?;
    let unit = f64::from(-model.params.logit_bits).exp2();
    Some((f64::from(most) - f64::from(other)) * unit)
}
