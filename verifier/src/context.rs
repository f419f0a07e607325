//! The context of a proof (docs/protocol.md, section 11): what whoever proves ties the proof to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// 32 bytes that are not all zero, absorbed before the first challenge. A proof holds in its own context only, so that a
/// copy of it cannot be passed off as made for somebody or something else. For example, whoever pays for a
/// proof asks for one in the context that names the payee.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "[u8; 32]", into = "[u8; 32]")]
pub struct Context([u8; 32]);

/// Why something is no context.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextError {
    /// Zeros say that there is no context.
    #[error("a context of zeros stands for no context; leave it out")]
    Zeros,
    /// Not 64 hexadecimal digits, with or without `0x`.
    #[error("expected 32 bytes as 64 hexadecimal digits; an address of 40 digits is written behind 24 zeros")]
    Digits,
}

impl Context {
    /// The number of bytes.
    pub const BYTES: usize = 32;

    /// The bytes as they are absorbed.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl TryFrom<[u8; 32]> for Context {
    type Error = ContextError;

    fn try_from(bytes: [u8; 32]) -> Result<Self, ContextError> {
        match bytes == [0; 32] {
            true => Err(ContextError::Zeros),
            false => Ok(Self(bytes)),
        }
    }
}

impl From<Context> for [u8; 32] {
    fn from(context: Context) -> Self {
        context.0
    }
}

impl FromStr for Context {
    type Err = ContextError;

    fn from_str(text: &str) -> Result<Self, ContextError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.strip_prefix("0x").unwrap_or(text), &mut bytes).map_err(|_| ContextError::Digits)?;
        Self::try_from(bytes)
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Context, ContextError};

    #[test]
    fn a_context_is_written_as_64_digits_and_is_not_zero() {
        let digits = "00000000000000000000000070997970c51812dc3a010c7d01b50e0d17dc79c8";
        let context: Context = digits.parse().expect("a context");
        assert_eq!(context.to_string(), digits);
        assert_eq!(format!("0x{}", digits.to_uppercase()).parse(), Ok(context));
        for other in [
            "",
            "0x",
            "70997970c51812dc3a010c7d01b50e0d17dc79c8",
            &digits[1..],
            &digits.replace('7', "g"),
        ] {
            assert_eq!(other.parse::<Context>(), Err(ContextError::Digits), "{other}");
        }
        assert_eq!("0".repeat(64).parse::<Context>(), Err(ContextError::Zeros));
    }
}
