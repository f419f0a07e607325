//! Prompts, and the token ids that a model gets for them.

use tessera_circuits::model::Output;
use tessera_circuits::statement::HiddenPrompt;
use tessera_text::chat::{question, ChatError, ChatTemplate, Choice, Conversation, Date, Json};
use tessera_text::tokenizer::{Tokenizer, TokenizerError};
use tessera_verifier::key::ModelKey;
use thiserror::Error;

use crate::shown;

/// The input of a model.
///
/// ```
/// use tessera_verdict::prompt::Prompt;
///
/// let text: Prompt = "Once upon a time".into();
/// let ids: Prompt = [1, 80, 147].into();
/// let question = Prompt::question(Some("Answer in one word."), "What is the capital of France?");
/// # let _ = (text, ids, question);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// A text, encoded as `transformers` encodes it, special tokens around it included.
    Text(String),
    /// Token ids, taken as they are.
    Ids(Vec<u32>),
    /// Messages, brought into a prompt by a chat template.
    Chat {
        /// The messages, and the tools that the model may call.
        conversation: Conversation,
        /// The template: the model's own, one of its named templates, or a given one.
        template: Choice,
    },
    /// A query and a document, which a reranker scores.
    Pair {
        /// The query.
        query: String,
        /// The document.
        document: String,
    },
}

impl Prompt {
    /// A question in a chat, perhaps after a system message, by the model's own template.
    pub fn question(system: Option<&str>, user: &str) -> Self {
        question(system, user).into()
    }

    /// The same prompt on this date, if it is a chat that has none.
    #[must_use]
    pub fn dated(mut self, date: Date) -> Self {
        if let Self::Chat { conversation, .. } = &mut self {
            conversation.date.get_or_insert(date);
        }
        self
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&[u32]> for Prompt {
    fn from(ids: &[u32]) -> Self {
        Self::Ids(ids.to_vec())
    }
}

impl<const N: usize> From<[u32; N]> for Prompt {
    fn from(ids: [u32; N]) -> Self {
        Self::Ids(ids.to_vec())
    }
}

impl From<Vec<u32>> for Prompt {
    fn from(ids: Vec<u32>) -> Self {
        Self::Ids(ids)
    }
}

impl From<Conversation> for Prompt {
    fn from(conversation: Conversation) -> Self {
        let template = Choice::Own;
        Self::Chat { conversation, template }
    }
}

/// A prompt as token ids, and the facts about it that a user should see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptIds {
    /// The ids.
    pub ids: Vec<u32>,
    /// Special tokens that messages spell; they were encoded as text.
    pub spelled: Vec<String>,
    /// Notes about the ids, for example that a text was cut.
    pub notes: Vec<String>,
    /// The parts of the texts that the tokenizer does not know. A text with others in their place has the same ids.
    pub unknown: Vec<String>,
    /// The date of a chat, if the template has asked for it: whoever wants to make the same ids has to know it.
    pub dated: Option<Date>,
}

impl From<Vec<u32>> for PromptIds {
    fn from(ids: Vec<u32>) -> Self {
        Self { ids, ..Self::default() }
    }
}

/// Parts of a text that are named at most, and their characters.
const NAMED: usize = 5;
const LONGEST: usize = 28;

impl PromptIds {
    /// Says that other texts have the same ids, if so. The parts are escaped.
    pub fn unknown_note(&self) -> Option<String> {
        let shown = |part: &String| match part.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}..", shown::quoted(part.get(..end).unwrap_or_default())),
            None => shown::quoted(part),
        };
        let parts: Vec<String> = self.unknown.iter().take(NAMED).map(shown).collect();
        let more = match self.unknown.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!parts.is_empty()).then(|| {
            format!(
                "the tokenizer does not know {}{more}: a prompt with something else there has the same ids",
                parts.join(", ")
            )
        })
    }
}

/// A prompt that a model cannot be given.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The text cannot be encoded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The messages cannot be brought into a prompt.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The model has no tokenizer.
    #[error("the model has no tokenizer, so texts must be given as token ids")]
    NoTokenizer,
    /// The model generates tokens.
    #[error("the model is no encoder: it generates tokens and makes no vectors")]
    NoEncoder,
    /// The model makes vectors, but no scores.
    #[error("the model is no reranker: it makes no scores of a query and a document")]
    NoReranker,
    /// The model makes scores, but no vectors.
    #[error("the model is a reranker: it makes scores of a query and a document, and no embeddings")]
    NoEmbedding,
    /// Ids of the text cannot be told from those around it.
    #[error(
        "a text begins or ends in a token of what is around it, so it is not clear which ids are \
         not the text's: say how many are shown"
    )]
    NoBorder,
    /// The prompt has no ids.
    #[error("the prompt has no tokens: its text encodes to nothing, and a model needs a token to go on from")]
    Empty,
    /// An id that the model does not have.
    #[error(
        "the prompt has the token id {id} at position {position} (counted from 0), but the model's vocabulary ends at {}",
        vocab.saturating_sub(1)
    )]
    UnknownId {
        /// The id.
        id: u32,
        /// The position, counted from 0.
        position: usize,
        /// Number of ids that the model has.
        vocab: usize,
    },
}

impl Prompt {
    /// The ids of the prompt for the model of a key, with the tokenizer of that key.
    ///
    /// # Errors
    /// If the model has no tokenizer and the prompt is no ids, if the prompt cannot be encoded, or as [`check`].
    pub fn ids(&self, key: &ModelKey, tokenizer: Option<&Tokenizer>) -> Result<PromptIds, PromptError> {
        let tokenizer = || tokenizer.ok_or(PromptError::NoTokenizer);
        let ids = match self {
            Self::Ids(ids) => ids.clone().into(),
            Self::Text(text) => {
                let encoded = tokenizer()?.encode_text(text)?;
                PromptIds {
                    ids: encoded.ids,
                    notes: encoded.notes,
                    unknown: tokenizer()?.unknown_parts(text)?,
                    ..PromptIds::default()
                }
            }
            Self::Chat { conversation, template } => {
                let has_tools = conversation.tools.is_some();
                let template = ChatTemplate::new(&key.tokenizer_config, template.clone(), has_tools)?;
                let prompt = template.prompt(conversation, tokenizer()?)?;
                PromptIds {
                    ids: prompt.ids,
                    spelled: prompt.spelled,
                    unknown: tokenizer()?.unknown_parts(&prompt.text)?,
                    dated: prompt.dated,
                    ..PromptIds::default()
                }
            }
            Self::Pair { query, document } => {
                check_reranker(key)?;
                let mut unknown = tokenizer()?.unknown_parts(query)?;
                unknown.extend(tokenizer()?.unknown_parts(document)?);
                PromptIds {
                    ids: tokenizer()?.encode_pair(query, document, &key.config)?,
                    unknown,
                    ..PromptIds::default()
                }
            }
        };
        check(&ids.ids, key)?;
        Ok(ids)
    }

    /// The ids before and behind a text, whatever it says: special tokens of the tokenizer, or what a chat template puts around the messages. They can be shown of a
    /// prompt whose text is hidden. No ids of a prompt of ids, of a pair, or of a chat with tools or with messages that have more than a role and a text.
    ///
    /// # Errors
    /// As [`Self::ids`], of the same prompt on the same date, whose ids these are; and [`PromptError::NoBorder`].
    pub fn around_text(
        &self,
        key: &ModelKey,
        tokenizer: Option<&Tokenizer>,
        ids: &[u32],
    ) -> Result<HiddenPrompt, PromptError> {
        // Two texts that have no character in common.
        let others = ["a", "Z"].map(|text| self.saying(text));
        let [Some(first), Some(second)] = others else {
            return Ok(HiddenPrompt::default());
        };
        let [first, second] = [first.ids(key, tokenizer)?.ids, second.ids(key, tokenizer)?.ids];
        let same = |a: &[u32], b: &[u32]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let back = |ids: &[u32]| ids.iter().rev().copied().collect::<Vec<_>>();
        let prefix = same(&first, &second);
        let suffix = same(&back(&first), &back(&second));
        let fits =
            prefix + suffix <= ids.len() && same(&first, ids) >= prefix && same(&back(&first), &back(ids)) >= suffix;
        match fits {
            true => Ok(HiddenPrompt { prefix, suffix }),
            false => Err(PromptError::NoBorder),
        }
    }
}

impl Prompt {
    /// The same prompt with a text in the place of every text of its own; `None` if there is more in it than texts.
    fn saying(&self, text: &str) -> Option<Self> {
        match self {
            Self::Text(_) => Some(text.into()),
            Self::Chat { conversation, template } if conversation.tools.is_none() => {
                let messages = conversation.messages.iter().map(|own| saying(own, text));
                let conversation = Conversation {
                    messages: messages.collect::<Option<_>>()?,
                    ..conversation.clone()
                };
                let template = template.clone();
                Some(Self::Chat { conversation, template })
            }
            _ => None,
        }
    }
}

/// A message that says a text in the place of its own; `None` if it says more than a text.
fn saying(message: &Json, text: &str) -> Option<Json> {
    let Json::Map(fields) = message else { return None };
    let field = |(name, value): &(String, Json)| match (name.as_str(), value) {
        ("role", _) => Some((name.clone(), value.clone())),
        ("content", Json::Text(_)) => Some((name.clone(), Json::Text(text.to_owned()))),
        _ => None,
    };
    fields.iter().map(field).collect::<Option<_>>().map(Json::Map)
}

/// Refuses ids that the model of a key cannot be given.
///
/// # Errors
/// If there are none, or if the model does not have one of them.
pub fn check(ids: &[u32], key: &ModelKey) -> Result<(), PromptError> {
    let vocab = key.config.vocab;
    match ids.iter().position(|id| *id as usize >= vocab) {
        Some(position) => Err(PromptError::UnknownId {
            id: ids.get(position).copied().unwrap_or_default(),
            position,
            vocab,
        }),
        None if ids.is_empty() => Err(PromptError::Empty),
        None => Ok(()),
    }
}

/// Refuses a model that makes no vectors of texts.
///
/// # Errors
/// If the model generates tokens, or scores pairs.
pub fn check_encoder(key: &ModelKey) -> Result<(), PromptError> {
    match key.config.blocks.output {
        Output::Tokens => Err(PromptError::NoEncoder),
        Output::Scores(_) => Err(PromptError::NoEmbedding),
        Output::Vector(_) => Ok(()),
    }
}

/// Refuses a model that makes no scores of pairs.
///
/// # Errors
/// If the model is no reranker.
pub fn check_reranker(key: &ModelKey) -> Result<(), PromptError> {
    key.config.reranker().map(|_| ()).ok_or(PromptError::NoReranker)
}
