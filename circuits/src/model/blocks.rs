//! How the blocks of a model follow each other, and what comes out of it.

use std::fmt;

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a block adds to, and what attention sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blocks {
    /// Norms are before attention and MLP, each of which adds to the state before. A token sees itself and those before it. Tokens
    /// are generated.
    Sequential,
    /// The same, but that the MLP reads the state that attention reads, not the one that attention writes.
    Parallel,
    /// Norms are after attention and MLP: each adds to the normed state before, and the sum is normed. All tokens of the text see each
    /// other. Nothing is generated: a vector is made of the normed last states.
    Encoder(Pooling),
    /// As sequential ones, but that what attention and MLP add is normed, too, each channel times a gain.
    PostNormed,
    /// As these, and scores of attention are capped.
    Capped(ScoreCap),
    /// As an encoder whose vector is the first row, of which scores are made in clear ([`crate::reranker`]).
    Reranker(Reranker),
}

/// What a reranker has that other encoders have not (docs/protocol.md, section 16.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reranker {
    /// The token that ends the first text, where the tokens after it are of another type; `None` if there is one type.
    pub separator: Option<u32>,
    /// Whether a score is the sigmoid of its logit.
    pub sigmoid: bool,
}

/// What stands in keys for no separator.
const NO_SEPARATOR: u32 = u32::MAX;

/// What scores of attention stay below: a score `s` becomes `c tanh(s / c)`, `c` the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScoreCap {
    /// `256 c`.
    pub units: u32,
}

/// Units of a cap in 1.
const CAP_UNITS: f64 = 256.0;

impl ScoreCap {
    /// Caps that a key may have, in their units: up to 1024.
    pub const RANGE: std::ops::RangeInclusive<u32> = 1..=1 << 18;

    /// This number, if a key may have it.
    pub fn new(cap: f64) -> Option<Self> {
        let units = cap * CAP_UNITS;
        let exact = units.fract() == 0.0 && units >= 1.0 && units <= f64::from(*Self::RANGE.end());
        exact.then_some(Self { units: units as u32 })
    }

    /// The number.
    pub fn value(self) -> f64 {
        f64::from(self.units) / CAP_UNITS
    }
}

/// How an encoder makes one vector of the last states of all token rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The sum over the rows of the text, of which the mean is a multiple.
    Mean,
    /// The first row.
    First,
}

/// The number of capped ones; the cap follows it.
const CAPPED: u8 = 5;
/// The number of rerankers; separator and sigmoid follow it.
const RERANKER: u8 = 6;

impl Blocks {
    /// The number that keys have for it.
    pub const fn number(self) -> u8 {
        match self {
            Self::Sequential => 0,
            Self::Parallel => 1,
            Self::Encoder(Pooling::Mean) => 2,
            Self::Encoder(Pooling::First) => 3,
            Self::PostNormed => 4,
            Self::Capped(_) => CAPPED,
            Self::Reranker(_) => RERANKER,
        }
    }

    /// How the vector of an encoder is made; `None` of models that generate tokens.
    pub const fn pooling(self) -> Option<Pooling> {
        match self {
            Self::Encoder(pooling) => Some(pooling),
            Self::Reranker(_) => Some(Pooling::First),
            Self::Sequential | Self::Parallel | Self::PostNormed | Self::Capped(_) => None,
        }
    }

    /// What a reranker has beside; `None` of other models.
    pub const fn reranker(self) -> Option<Reranker> {
        match self {
            Self::Reranker(own) => Some(own),
            _ => None,
        }
    }

    /// Whether what attention and MLP add is normed before.
    pub const fn is_post_normed(self) -> bool {
        matches!(self, Self::PostNormed | Self::Capped(_))
    }

    /// The cap of scores, if they are capped.
    pub const fn score_cap(self) -> Option<ScoreCap> {
        match self {
            Self::Capped(cap) => Some(cap),
            _ => None,
        }
    }
}

impl TryFrom<u8> for Blocks {
    type Error = String;

    /// Those that are a number alone.
    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            0 => Ok(Self::Sequential),
            1 => Ok(Self::Parallel),
            2 => Ok(Self::Encoder(Pooling::Mean)),
            3 => Ok(Self::Encoder(Pooling::First)),
            4 => Ok(Self::PostNormed),
            other => Err(format!("{other} is no order of blocks")),
        }
    }
}

/// A number; in keys with a cap the cap follows, in those of rerankers separator and sigmoid. In model directories such are a list.
impl Serialize for Blocks {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Capped(cap) => (self.number(), cap.units).serialize(to),
            Self::Reranker(own) => {
                let separator = own.separator.unwrap_or(NO_SEPARATOR);
                (self.number(), separator, own.sigmoid).serialize(to)
            }
            _ => self.number().serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Blocks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match from.is_human_readable() {
            true => from.deserialize_any(Numbers),
            // What is not read of the three is left.
            false => from.deserialize_tuple(3, Numbers),
        }
    }
}

/// A number, or a number and what follows it.
struct Numbers;

impl<'de> Visitor<'de> for Numbers {
    type Value = Blocks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an order of blocks")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Blocks, E> {
        let small = u8::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
        Blocks::try_from(small).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Blocks, A::Error> {
        let missing = || A::Error::custom("an order of blocks ends early");
        let number: u8 = list.next_element()?.ok_or_else(missing)?;
        match number {
            CAPPED => {
                let units = list.next_element()?.ok_or_else(missing)?;
                Ok(Blocks::Capped(ScoreCap { units }))
            }
            RERANKER => {
                let separator: u32 = list.next_element()?.ok_or_else(missing)?;
                Ok(Blocks::Reranker(Reranker {
                    separator: (separator != NO_SEPARATOR).then_some(separator),
                    sigmoid: list.next_element()?.ok_or_else(missing)?,
                }))
            }
            other => Blocks::try_from(other).map_err(A::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_blocks_are_numbers_and_caps_follow_theirs() {
        for number in 0..5 {
            let blocks = Blocks::try_from(number).expect("a number of an order");
            let text = serde_json::to_string(&blocks).expect("JSON");
            assert_eq!((text.as_str(), blocks.number()), (number.to_string().as_str(), number));
            assert_eq!(serde_json::from_str::<Blocks>(&text).expect("an order"), blocks);
            assert_eq!(blocks.score_cap(), None);
        }
        let capped = Blocks::Capped(ScoreCap::new(50.0).expect("a cap"));
        assert_eq!(serde_json::to_string(&capped).expect("JSON"), "[5,12800]");
        assert_eq!(serde_json::from_str::<Blocks>("[5,12800]").expect("an order"), capped);
        for (separator, sigmoid, text) in [(Some(102), false, "[6,102,false]"), (None, true, "[6,4294967295,true]")] {
            let reranker = Blocks::Reranker(Reranker { separator, sigmoid });
            assert_eq!(serde_json::to_string(&reranker).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<Blocks>(text).expect("an order"), reranker);
        }
        for wrong in [
            "5",
            "[5]",
            "[9,1]",
            "300",
            "-1",
            "\"5\"",
            "[5,12800,1]",
            "6",
            "[6,102]",
            "[6,102,2]",
            "[6,102,true,1]",
        ] {
            assert!(serde_json::from_str::<Blocks>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn caps_are_numbers_of_units() {
        for cap in [50.0, 30.0, 0.5, 1024.0, 1.0 / 256.0] {
            assert_eq!(ScoreCap::new(cap).map(ScoreCap::value), Some(cap));
        }
        for none in [0.0, -50.0, 50.001, 1024.5, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(ScoreCap::new(none), None, "{none}");
        }
    }
}
