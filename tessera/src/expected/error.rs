//! Answers that are refused.

use tessera_circuits::wording::count;
use tessera_text::tokenizer::TokenizerError;
use thiserror::Error;

/// An answer that no model could be compared with.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The text cannot be encoded.
    #[error("the answer: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// The model has no tokenizer.
    #[error("the model has no tokenizer, so the answer must be given as token ids (--answer-ids)")]
    NoTokenizer,
    /// An id that the model does not have.
    #[error(
        "the answer has the token id {id} at position {position} (counted from 0), but the model's vocabulary ends at {}",
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
    /// The answer goes on where the model ends a text.
    #[error(
        "the answer goes on after the token {id} at position {position} (counted from 0), which ends a text: leave out what \
         follows it, or prove past the end with --ignore-eos"
    )]
    GoesOn {
        /// The token that ends a text.
        id: u32,
        /// The position, counted from 0.
        position: usize,
    },
    /// A text does not say where tokens that end a text are in it.
    #[error("--ignore-eos needs the ids of the answer (--answer-ids): a text does not show the tokens that end one")]
    NoEnds,
    /// The answer is longer than was allowed.
    #[error("the answer has {}, more than the {tokens} that --tokens allows", count(*answer, "token"))]
    TooLong {
        /// Tokens of the answer.
        answer: usize,
        /// The most tokens.
        tokens: usize,
    },
    /// The context has no room for prompt and answer.
    #[error(
        "a prompt of {} and an answer of {} exceed the context of {context}: the model cannot have given this answer in one piece",
        count(*prompt, "token"),
        count(*answer, "token")
    )]
    Context {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens of the answer.
        answer: usize,
        /// The model's context.
        context: usize,
    },
    /// The last message of a conversation is an assistant's, but no plain text.
    #[error("the last message is the answer to prove, but {0}: give the ids that the model said with --answer-ids")]
    Message(String),
    /// The text of the answer goes on where no more tokens are allowed.
    #[error(
        "the model gives this answer so far, but --tokens or the context of the model allow only {}, and the answer goes on",
        count(*tokens, "token")
    )]
    CutOff {
        /// The most tokens.
        tokens: usize,
    },
    /// The answer is empty, and the model cannot say nothing.
    #[error("the answer is empty, but the model names no token that ends a text: it never answers nothing")]
    Empty,
    /// The model gives the text in more tokens than its encoding has.
    #[error(
        "the model gives this text in {got} where its encoding has {}, which needs a larger proof than was planned: give the \
         model's own ids with --answer-ids",
        count(*planned, "token"),
        got = count(*got, "token")
    )]
    OtherTokens {
        /// Tokens of the encoding.
        planned: usize,
        /// The model's own tokens.
        got: usize,
    },
}
