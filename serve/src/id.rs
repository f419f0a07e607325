//! Ids of requests and proofs: 128 random bits in hexadecimal, which nobody can guess.

use std::fmt;
use std::str::FromStr;

/// The id of a request, and of its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u128);

/// Hexadecimal digits of an id.
const DIGITS: usize = 32;

impl Id {
    /// A new id.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A text that is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoId;

impl FromStr for Id {
    type Err = NoId;

    /// Takes exactly the digits that [`Id`] is written with, so that an id has one spelling and is no path.
    fn from_str(text: &str) -> Result<Self, NoId> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.len() == DIGITS && text.bytes().all(digit) {
            true => u128::from_str_radix(text, 16).map(Self).map_err(|_| NoId),
            false => Err(NoId),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let id = Id::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("0".repeat(32).parse(), Ok(Id(0)));
        let long = "0".repeat(33);
        let upper = id.to_string().to_uppercase();
        for other in [
            "",
            "..",
            "../../etc/passwd",
            "+0000000000000000000000000000000",
            &long,
            "é234567890123456789012345678901",
        ] {
            assert_eq!(other.parse::<Id>(), Err(NoId), "{other}");
        }
        assert!(upper == id.to_string() || upper.parse::<Id>().is_err());
    }
}
