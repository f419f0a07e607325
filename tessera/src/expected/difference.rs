//! How an expected answer differs from what the model says, in words.

use std::fmt::{self, Display, Formatter};

use tessera_verdict::shown;

/// A token with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedToken {
    /// The token's id.
    pub id: u32,
    /// The token's text after the tokens before it, or its name if it is a special one; `None` if nothing is known of it.
    pub text: Option<String>,
}

impl Display for NamedToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "{} (id {})", shown::quoted(text), self.id),
            None => write!(f, "id {}", self.id),
        }
    }
}

/// The continuation that was expected of the model at some position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// This token.
    Token(NamedToken),
    /// Any token that ends a text.
    End,
    /// Tokens that read like the beginning of this text.
    Text(String),
}

/// An answer that is only the beginning of the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The fewest tokens of the model that say the whole answer.
    pub tokens: usize,
    /// Whether the answer ends inside the last of them, so that no number of tokens says it alone.
    pub inside: bool,
}

impl Display for Beginning {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { tokens, inside } = self;
        f.write_str("the answer is only the beginning of what the model says")?;
        match inside {
            false => write!(f, ": to prove the beginning alone, allow no more tokens (--tokens {tokens})"),
            true => write!(
                f,
                ", and ends inside one of its tokens: without the answer, --tokens {tokens} proves a text that begins like it"
            ),
        }
    }
}

/// Where the model's own answer differs from the expected one.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The position in the answer, counted from 0: all tokens before it agree.
    pub position: usize,
    /// How the expected answer goes on.
    pub expected: Awaited,
    /// How the model goes on.
    pub model: NamedToken,
    /// How much more likely the model finds its own token than the expected one: the difference of their log-probabilities, in nats.
    /// It is 0 on a tie, which the lower id wins. `None` if no single token was expected.
    pub margin_nats: Option<f64>,
    /// Characters of the expected answer that no token of the vocabulary reads like, so that the model never says them.
    pub unknown: String,
    /// Whether the model says the expected answer, and goes on instead of ending it.
    pub beginning: Option<Beginning>,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "differs at token {} (counted from 0): the answer ", self.position)?;
        match &self.expected {
            Awaited::Token(token) => write!(f, "has {token}")?,
            Awaited::End => f.write_str("ends")?,
            Awaited::Text(text) => write!(f, "goes on with {}", shown::quoted(text))?,
        }
        write!(f, ", the model says {}", self.model)?;
        match (self.margin_nats, &self.expected) {
            (Some(margin), Awaited::End) => write!(f, ", which it prefers to ending by {margin:.3} nats")?,
            (Some(margin), _) => write!(f, ", which it prefers by {margin:.3} nats")?,
            (None, _) => {}
        }
        if !self.unknown.is_empty() {
            let unknown = shown::quoted(&self.unknown);
            write!(
                f,
                "; no tokens of this model read like {unknown} in the answer: it never says that"
            )?;
        }
        match &self.beginning {
            Some(beginning) => write!(f, "; {beginning}"),
            None if self.only_blank() => {
                f.write_str("; the model's answer begins with white space, which services often remove")
            }
            None => Ok(()),
        }
    }
}

impl Difference {
    /// Whether the model begins with white space and the answer does not.
    fn only_blank(&self) -> bool {
        let blank = |text: &Option<String>| text.as_ref().is_some_and(|text| text.starts_with(char::is_whitespace));
        let expected = match &self.expected {
            Awaited::Token(token) => blank(&token.text),
            Awaited::Text(text) => text.starts_with(char::is_whitespace),
            Awaited::End => true,
        };
        self.position == 0 && blank(&self.model.text) && !expected
    }
}
