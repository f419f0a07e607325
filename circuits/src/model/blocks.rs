//! How the blocks of a model follow each other, and what comes out of it.

use std::fmt;
use std::ops::Range;

use super::{range, ModelError, Windows};
use serde::{Deserialize, Serialize};

/// How the blocks of a model are built and what comes out of the last one: facts that are independent of each other. A key can
/// say any of them together; [`ModelConfig::check`](super::ModelConfig::check) refuses combinations that this program does not prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Attention and MLP read normed states, and each adds to the state before, as it is (pre-norm).
    NormFirst,
    /// Attention and MLP add to the normed state before, and the sum is normed (post-norm).
    SumFirst,
}

/// Which tokens a token sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mask {
    /// Itself and those before it.
    Causal,
    /// All tokens of the text.
    Full,
    /// Itself and those before it, of which some layers see the last ones alone.
    Windows(Windows),
}

/// The result that is made of the last states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Output {
    /// Logits, of which tokens are generated.
    Tokens,
    /// A vector, made of the normed last states.
    Vector(Pooling),
    /// The normed last state of the first row, of which scores are made in clear ([`crate::reranker`]).
    Scores(Reranker),
}

/// What a reranker has that other encoders have not (docs/protocol.md, section 16.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reranker {
    /// The token that ends the first text, where the tokens after it are of another type; `None` if there is one type.
    pub separator: Option<u32>,
    /// Whether a score is the sigmoid of its logit.
    pub sigmoid: bool,
}

/// What scores of attention stay below: a score `s` becomes `c tanh(s / c)`, `c` the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pooling {
    /// The sum over the rows of the text, of which the mean is a multiple.
    Mean,
    /// The first row.
    First,
}

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

    /// The facts of encoders such as BERT.
    pub const fn encoder(output: Output) -> Self {
        Self {
            order: Order::SumFirst,
            mask: Mask::Full,
            output,
            ..Self::DECODER
        }
    }

    /// Whether this program proves models with these facts. Before sums can be normed and outputs, too, a key has to say which of
    /// their gains take off a mean.
    fn is_proved(self) -> bool {
        let parallel = Self {
            parallel: true,
            ..Self::DECODER
        };
        let normed = Self {
            norm_outputs: true,
            score_cap: self.score_cap,
            ..Self::DECODER
        };
        // Windows change nothing but how far layers look back.
        let own = Self {
            mask: match self.mask {
                Mask::Windows(_) => Mask::Causal,
                other => other,
            },
            ..self
        };
        match self.output {
            Output::Tokens => [Self::DECODER, parallel, normed].contains(&own),
            Output::Vector(_) | Output::Scores(_) => self == Self::encoder(self.output),
        }
    }

    /// Checks that this program proves these facts together, and that the cap is in its range.
    pub(super) fn check(self) -> Result<(), ModelError> {
        if !self.is_proved() {
            return Err(ModelError::Blocks(self.to_string()));
        }
        self.score_cap.map_or(Ok(()), |cap| {
            let (least, most) = (*ScoreCap::RANGE.start(), *ScoreCap::RANGE.end());
            range("cap of scores", cap.units.into(), least.into(), most.into())
        })
    }

    /// The window of the model, where some of its layers have one.
    pub const fn windows(&self) -> Option<&Windows> {
        match &self.mask {
            Mask::Windows(own) => Some(own),
            Mask::Causal | Mask::Full => None,
        }
    }

    /// The facts of some of the layers alone.
    pub(crate) fn within(self, layers: Range<usize>) -> Self {
        let mask = match self.mask {
            Mask::Windows(own) => own.within(layers).map_or(Mask::Causal, Mask::Windows),
            other => other,
        };
        Self { mask, ..self }
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
        match self.mask {
            Mask::Causal => f.write_str(", causal")?,
            Mask::Full => f.write_str(", all tokens seen")?,
            Mask::Windows(own) => {
                let layers = crate::wording::count(own.layers().count(), "layer");
                write!(
                    f,
                    ", causal, a window of {} in {layers}",
                    crate::wording::count(own.keys as usize, "key")
                )?;
            }
        }
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

    /// This program proves seven of all combinations, and refuses the others by name. The list has eight that pass, because it has two
    /// rerankers.
    #[test]
    fn a_combination_is_proved_or_refused_by_name() {
        let mut proved = 0;
        for blocks in all() {
            match blocks.check() {
                Ok(()) => proved += 1,
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with("this program does not prove"), "{text}");
                    assert!(text.ends_with(&blocks.to_string()), "{text}");
                }
            }
        }
        assert_eq!(proved, 8);
    }

    /// Keys say every combination, also those that are refused, and no two in the same way.
    #[test]
    fn every_combination_is_written_and_read_as_itself() {
        let mut seen = std::collections::HashSet::new();
        for blocks in all() {
            let text = serde_json::to_string(&blocks).expect("JSON");
            assert_eq!(serde_json::from_str::<Blocks>(&text).expect("blocks"), blocks);
            assert!(seen.insert(text), "{blocks}");
        }
    }

    #[test]
    fn caps_out_of_range_are_refused() {
        for (units, fits) in [
            (0, false),
            (1, true),
            (1 << 18, true),
            ((1 << 18) + 1, false),
            (u32::MAX, false),
        ] {
            let blocks = Blocks {
                score_cap: Some(ScoreCap { units }),
                ..capped()
            };
            assert_eq!(blocks.check().is_ok(), fits, "{units}");
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
