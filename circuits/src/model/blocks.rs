//! How the blocks of a model follow each other, and what comes out of it.

use std::fmt;

use super::{range, ModelError};
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the blocks of a model are built and what comes out of the last one: facts that are independent of each other. The
/// format of keys can express seven combinations ([`Self::number`]); [`ModelConfig::check`](super::ModelConfig::check) refuses
/// all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Whether the residual stream is normed before it is read, or where it is added to.
    pub order: Order,
    /// Whether the MLP reads the state that attention reads, not the one that attention writes.
    pub parallel: bool,
    /// Which tokens a token sees.
    pub mask: Mask,
    /// Whether the outputs of attention and MLP are normed before they are added, each channel times a gain.
    pub norm_outputs: bool,
    /// The cap of the scores of attention, if they are capped.
    pub score_cap: Option<ScoreCap>,
    /// The result that is made of the last states.
    pub output: Output,
}

/// Where the norms of the residual stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Attention and MLP read normed states, and each adds to the state before, as it is (pre-norm).
    NormFirst,
    /// Attention and MLP add to the normed state before, and the sum is normed (post-norm).
    SumFirst,
}

/// Which tokens a token sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    /// Itself and those before it.
    Causal,
    /// All tokens of the text.
    Full,
}

/// The result that is made of the last states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Logits, of which tokens are generated.
    Tokens,
    /// A vector, made of the normed last states.
    Vector(Pooling),
    /// The normed last state of the first row, of which scores are made in clear ([`crate::reranker`]).
    Scores(Reranker),
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
    /// The facts of most models that generate tokens.
    pub const DECODER: Self = Self {
        order: Order::NormFirst,
        parallel: false,
        mask: Mask::Causal,
        norm_outputs: false,
        score_cap: None,
        output: Output::Tokens,
    };
    /// The combinations that a key writes as a single number, indexed by that number. Before a key can say that sums are normed and
    /// outputs, too, it has to say which of their gains take off a mean.
    const NUMBERED: [Self; 5] = [
        Self::DECODER,
        Self {
            parallel: true,
            ..Self::DECODER
        },
        Self::encoder(Output::Vector(Pooling::Mean)),
        Self::encoder(Output::Vector(Pooling::First)),
        Self {
            norm_outputs: true,
            ..Self::DECODER
        },
    ];

    /// The facts of encoders such as BERT.
    pub const fn encoder(output: Output) -> Self {
        Self {
            order: Order::SumFirst,
            mask: Mask::Full,
            output,
            ..Self::DECODER
        }
    }

    /// The number that keys and model directories have for these facts. `None` for a combination that they cannot say.
    pub fn number(self) -> Option<u8> {
        let plain = Self {
            score_cap: None,
            ..self
        };
        let at = Self::NUMBERED.iter().position(|own| *own == plain);
        match (at, self.score_cap, self.output) {
            (Some(4), Some(_), _) => Some(CAPPED),
            (Some(at), None, _) => u8::try_from(at).ok(),
            (None, None, Output::Scores(_)) if self == Self::encoder(self.output) => Some(RERANKER),
            _ => None,
        }
    }

    /// Checks that keys can say these facts.
    pub(super) fn check(self) -> Result<(), ModelError> {
        if self.number().is_none() {
            return Err(ModelError::Blocks(self.to_string()));
        }
        self.score_cap.map_or(Ok(()), |cap| {
            let (least, most) = (*ScoreCap::RANGE.start(), *ScoreCap::RANGE.end());
            range("cap of scores", cap.units.into(), least.into(), most.into())
        })
    }

    /// How the vector of an encoder is made; `None` of models that generate tokens.
    pub const fn pooling(self) -> Option<Pooling> {
        match self.output {
            Output::Vector(pooling) => Some(pooling),
            Output::Scores(_) => Some(Pooling::First),
            Output::Tokens => None,
        }
    }

    /// What a reranker has beside; `None` of other models.
    pub const fn reranker(self) -> Option<Reranker> {
        match self.output {
            Output::Scores(own) => Some(own),
            _ => None,
        }
    }
}

/// The facts in words: "norms first, parallel, causal, tokens".
impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.order {
            Order::NormFirst => "norms first",
            Order::SumFirst => "sums first",
        })?;
        f.write_str(if self.parallel { ", parallel" } else { "" })?;
        f.write_str(match self.mask {
            Mask::Causal => ", causal",
            Mask::Full => ", all tokens seen",
        })?;
        f.write_str(if self.norm_outputs { ", outputs normed" } else { "" })?;
        if let Some(cap) = self.score_cap {
            write!(f, ", scores capped at {}", cap.value())?;
        }
        f.write_str(match self.output {
            Output::Tokens => ", tokens",
            Output::Vector(Pooling::Mean) => ", the mean of vectors",
            Output::Vector(Pooling::First) => ", the first vector",
            Output::Scores(_) => ", scores of pairs",
        })
    }
}

impl TryFrom<u8> for Blocks {
    type Error = String;

    /// Those that are a number alone.
    fn try_from(number: u8) -> Result<Self, String> {
        let own = Self::NUMBERED.get(usize::from(number));
        own.copied().ok_or_else(|| format!("{number} is no order of blocks"))
    }
}

/// Written as a number. A cap follows it where scores are capped, separator and sigmoid follow it in rerankers. In JSON these are
/// lists.
impl Serialize for Blocks {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Some(number) = self.number() else {
            return Err(serde::ser::Error::custom(format!(
                "blocks that keys cannot say: {self}"
            )));
        };
        match (self.score_cap, self.output) {
            (Some(cap), _) => (number, cap.units).serialize(to),
            (None, Output::Scores(own)) => {
                let separator = own.separator.unwrap_or(NO_SEPARATOR);
                (number, separator, own.sigmoid).serialize(to)
            }
            (None, _) => number.serialize(to),
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
                Ok(Blocks {
                    norm_outputs: true,
                    score_cap: Some(ScoreCap { units }),
                    ..Blocks::DECODER
                })
            }
            RERANKER => {
                let separator: u32 = list.next_element()?.ok_or_else(missing)?;
                Ok(Blocks::encoder(Output::Scores(Reranker {
                    separator: (separator != NO_SEPARATOR).then_some(separator),
                    sigmoid: list.next_element()?.ok_or_else(missing)?,
                })))
            }
            other => Blocks::try_from(other).map_err(A::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capped() -> Blocks {
        Blocks {
            norm_outputs: true,
            score_cap: ScoreCap::new(50.0),
            ..Blocks::DECODER
        }
    }

    /// All combinations of facts, with one number of every kind.
    fn all() -> Vec<Blocks> {
        let reranker = |separator, sigmoid| Output::Scores(Reranker { separator, sigmoid });
        let outputs = [
            Output::Tokens,
            Output::Vector(Pooling::Mean),
            Output::Vector(Pooling::First),
            reranker(Some(102), false),
            reranker(None, true),
        ];
        let mut all = Vec::new();
        for bits in 0..32u32 {
            let bit = |at: u32| bits >> at & 1 == 1;
            all.extend(outputs.map(|output| Blocks {
                order: if bit(0) { Order::SumFirst } else { Order::NormFirst },
                parallel: bit(1),
                mask: if bit(2) { Mask::Full } else { Mask::Causal },
                norm_outputs: bit(3),
                score_cap: bit(4).then_some(ScoreCap { units: 12_800 }),
                output,
            }));
        }
        all
    }

    /// Seven combinations can be written, one of them with two rerankers here, and each is read as itself; the others are refused by name.
    #[test]
    fn a_combination_is_written_as_itself_or_refused() {
        let (mut written, mut seen) = (0, std::collections::HashSet::new());
        for blocks in all() {
            match (blocks.number(), serde_json::to_string(&blocks)) {
                (Some(_), Ok(text)) => {
                    written += 1;
                    assert_eq!(serde_json::from_str::<Blocks>(&text).expect("blocks"), blocks);
                    assert!(seen.insert(text), "{blocks}");
                }
                (None, Err(error)) => assert!(error.to_string().contains(&blocks.to_string())),
                (number, text) => panic!("{blocks}: {number:?} {text:?}"),
            }
        }
        assert_eq!(written, 8);
    }

    #[test]
    fn orders_of_blocks_are_numbers_and_caps_follow_theirs() {
        for number in 0..5 {
            let blocks = Blocks::try_from(number).expect("a number of an order");
            let text = serde_json::to_string(&blocks).expect("JSON");
            assert_eq!((text, blocks.number()), (number.to_string(), Some(number)));
            assert_eq!(blocks.score_cap, None);
        }
        assert_eq!(serde_json::to_string(&capped()).expect("JSON"), "[5,12800]");
        for (separator, sigmoid, text) in [(Some(102), false, "[6,102,false]"), (None, true, "[6,4294967295,true]")] {
            let reranker = Blocks::encoder(Output::Scores(Reranker { separator, sigmoid }));
            assert_eq!(serde_json::to_string(&reranker).expect("JSON"), text);
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
