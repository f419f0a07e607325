//! Why messages could not be turned into a prompt.

use thiserror::Error;

use crate::tokenizer::{GuardError, TokenizerError};

/// Why messages could not be turned into a prompt.
#[derive(Debug, Error)]
pub enum ChatError {
    /// Neither `tokenizer_config.json` nor `chat_template.jinja` of the checkpoint had one.
    #[error("the model has no chat template: write the prompt out without a chat, or give a template")]
    NoTemplate,
    #[error("tokenizer_config.json: chat_template: {0}")]
    Field(String),
    #[error("messages: {0}")]
    Messages(String),
    #[error("tools: {0}")]
    Tools(String),
    #[error("chat template: {0}")]
    Template(String),
    #[error("the chat template refuses these messages: {0}")]
    Refused(String),
    /// The template writes the day into the prompt.
    #[error("the chat template writes the day into the prompt: say which day it was made on")]
    NoDate,
    #[error("chat template: {0}")]
    Guard(#[from] GuardError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}
