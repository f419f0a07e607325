//! How a model was made, and how close it is to the checkpoint that it was made from: what a key says beside what it
//! proves. Nothing here is part of the model id or decides about a proof. It can be checked by making the model again.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use tessera_verifier::codec::{decode_part, encode_part, CodecError, FileKind};
use tessera_verifier::key::ModelKey;
use thiserror::Error;

use crate::list;

/// Longest text in a recipe, in bytes.
const MAX_TEXT: usize = 4096;
/// Most entries of a list in a recipe.
pub(crate) const MAX_ENTRIES: usize = 4096;

/// All that the computation and the commitment of a key follow from. What its owner does not want to tell is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Program and version that made the model.
    pub tool: String,
    /// The strategy and every option of the quantisation, by name.
    #[serde(deserialize_with = "list::list")]
    pub settings: Vec<Setting>,
    /// The text that fixed the scales.
    pub calibration: Calibration,
    /// The files of the checkpoint, unless they are left out.
    #[serde(deserialize_with = "list::optional")]
    pub files: Option<Vec<SourceFile>>,
    /// How close the model is to its checkpoint, unless it is left out.
    pub fidelity: Option<Fidelity>,
}

/// An option with its value, as the command line has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The option.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The text that fixed the scales.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// Name of a text that is bundled with the program, or `file`.
    pub text: String,
    /// SHA-256 of the text, unless it is left out.
    pub sha256: Option<[u8; 32]>,
    /// Tokens of it that were used.
    pub tokens: u64,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// The file, without its directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its digest.
    pub sha256: [u8; 32],
}

/// The distance between the integer model and its checkpoint, or why it is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fidelity {
    /// The figures.
    Measured(Figures),
    /// Why there are none.
    NotMeasured(String),
    /// The figures of an encoder.
    Vectors(VectorFigures),
    /// Of a reranker.
    Scores(ScoreFigures),
}

impl Fidelity {
    /// Whether two measurements are of the same texts and model, as far as floating-point sums say.
    pub fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Measured(own), Self::Measured(other)) => own.agrees(other),
            (Self::Vectors(own), Self::Vectors(other)) => own.agrees(other) && own.class() == other.class(),
            (Self::Scores(own), Self::Scores(other)) => own.0.agrees(&other.0) && own.class() == other.class(),
            _ => false,
        }
    }
}

/// Vectors of an encoder and of the float model, of the same texts: distances are one less the cosine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VectorFigures {
    /// Name of a text that is bundled with the program, or `file`.
    pub text: String,
    /// Texts, each of which has a vector.
    pub texts: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Mean distance.
    pub mean: f64,
    /// What half of the texts do not exceed.
    pub median: f64,
    /// What 90 % of them do not exceed.
    pub p90: f64,
    /// What 99 % of them do not exceed.
    pub p99: f64,
    /// The largest distance.
    pub worst: f64,
    /// Values of the integer model that were clamped.
    pub saturated: u64,
    /// Mean and largest distance of the float model in bfloat16.
    pub mean_bfloat16: f64,
    /// The largest.
    pub worst_bfloat16: f64,
}

impl VectorFigures {
    /// The class that follows from the largest distance.
    pub fn class(&self) -> Class {
        if self.worst <= 1e-4 {
            Class::Faithful
        } else if self.worst <= 1e-3 {
            Class::Close
        } else {
            Class::Unfaithful
        }
    }

    fn distances(&self) -> [(&'static str, f64); 7] {
        [
            ("mean", self.mean),
            ("median", self.median),
            ("p90", self.p90),
            ("p99", self.p99),
            ("worst", self.worst),
            ("mean_bfloat16", self.mean_bfloat16),
            ("worst_bfloat16", self.worst_bfloat16),
        ]
    }

    fn agrees(&self, other: &Self) -> bool {
        let whole = |f: &Self| (f.text.clone(), f.texts, f.tokens, f.saturated);
        let near = |((_, a), (_, b)): ((&str, f64), (&str, f64))| (a - b).abs() <= 1e-6 + 0.01 * a.abs().max(b.abs());
        whole(self) == whole(other) && self.distances().into_iter().zip(other.distances()).all(near)
    }

    fn check(&self, most: f64) -> Result<(), RecipeError> {
        text("fidelity text", &self.text)?;
        let wrong = self.distances().into_iter().find(|(_, v)| !(0.0..=most).contains(v));
        wrong.map_or(Ok(()), |(what, _)| Err(RecipeError::Figure { what }))
    }
}

/// Scores of a reranker and of the float model, of the same pairs of texts: distances are the largest difference of two logits of a pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoreFigures(pub VectorFigures);

impl ScoreFigures {
    /// The class that follows from the largest difference: a logit that differs by 0.01 changes no probability by more than 0.0025.
    pub fn class(&self) -> Class {
        if self.0.worst <= 0.01 {
            Class::Faithful
        } else if self.0.worst <= 0.1 {
            Class::Close
        } else {
            Class::Unfaithful
        }
    }
}

/// Integer model and float model on the same text. Divergences are in nats, from the float model's distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Name of a text that is bundled with the program, or `file`.
    pub text: String,
    /// Windows of text, and token positions in them.
    pub windows: u64,
    /// Positions that were compared.
    pub tokens: u64,
    /// Mean over all positions, the value that 99 % of them do not exceed, and the largest.
    pub kl: f64,
    /// The value that 99 % of the positions do not exceed.
    pub kl_p99: f64,
    /// The largest value.
    pub kl_worst: f64,
    /// Part of the positions with the same most likely token.
    pub top1: f64,
    /// Mean negative log-likelihood of the following token, in nats.
    pub nll_float: f64,
    /// The same of the integer model.
    pub nll_integer: f64,
    /// Values of the integer model that were clamped.
    pub saturated: u64,
    /// The float model in bfloat16, compared in the same way.
    pub kl_bfloat16: f64,
    /// Part of the positions with the same most likely token, in bfloat16.
    pub top1_bfloat16: f64,
    /// Mean negative log-likelihood, in bfloat16.
    pub nll_bfloat16: f64,
}

/// What the figures of a model amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// Mean divergence up to 0.001 nats, and at least 98 % of the most likely tokens are the same; of encoders, no distance above
    /// 0.0001.
    Faithful,
    /// Up to 0.01 nats, and at least 95 %; up to 0.001.
    Close,
    /// Anything else.
    Unfaithful,
}

impl Class {
    /// As reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Faithful => "faithful",
            Self::Close => "close",
            Self::Unfaithful => "unfaithful",
        }
    }
}

impl Figures {
    /// The class that follows from divergence and agreement.
    pub fn class(&self) -> Class {
        if self.kl <= 1e-3 && self.top1 >= 0.98 {
            Class::Faithful
        } else if self.kl <= 1e-2 && self.top1 >= 0.95 {
            Class::Close
        } else {
            Class::Unfaithful
        }
    }

    /// Whether two measurements are of the same text and model: equal but for the order of floating-point sums.
    pub fn agrees(&self, other: &Self) -> bool {
        let whole = |f: &Self| (f.text.clone(), f.windows, f.tokens, f.saturated, f.class());
        let values = |f: &Self| {
            [
                f.kl,
                f.kl_p99,
                f.kl_worst,
                f.nll_float,
                f.nll_integer,
                f.kl_bfloat16,
                f.nll_bfloat16,
            ]
        };
        let near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-6 + 0.01 * a.abs().max(b.abs());
        let tops = (self.top1 - other.top1).abs() + (self.top1_bfloat16 - other.top1_bfloat16).abs();
        whole(self) == whole(other) && values(self).into_iter().zip(values(other)).all(near) && tops <= 0.01
    }

    /// Perplexities of the float, integer and bfloat16 models.
    pub fn perplexities(&self) -> [f64; 3] {
        [self.nll_float, self.nll_integer, self.nll_bfloat16].map(f64::exp)
    }
}

/// A recipe that no program writes. The messages are about the key that has it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum RecipeError {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("model key: the recipe's {what} has {got} entries or bytes, at most {limit} are allowed")]
    TooLong {
        what: &'static str,
        got: usize,
        limit: usize,
    },
    #[error("model key: the recipe's {what} holds a control character")]
    Control { what: &'static str },
    #[error("model key: the recipe's fidelity figure {what} is not a number that can be")]
    Figure { what: &'static str },
}

impl Recipe {
    /// Reads the recipe of a key.
    ///
    /// # Errors
    /// As of [`Recipe::from_bytes`].
    pub fn of(key: &ModelKey) -> Result<Self, RecipeError> {
        Self::from_bytes(&key.recipe)
    }

    /// Reads and checks a recipe as it stands at the end of a key. Total on hostile bytes.
    ///
    /// # Errors
    /// One variant of [`RecipeError`] per cause: the bytes are not the canonical encoding of a recipe, or [`Recipe::check`] refuses it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecipeError> {
        let recipe: Self = decode_part(FileKind::Key, bytes)?;
        recipe.check()?;
        Ok(recipe)
    }

    /// The canonical encoding, as it stands at the end of a key.
    ///
    /// # Errors
    /// If [`Recipe::check`] refuses it: nobody could read it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, RecipeError> {
        self.check()?;
        Ok(encode_part(self)?)
    }

    /// Checks that texts can be shown and figures are numbers. Total on hostile input.
    pub fn check(&self) -> Result<(), RecipeError> {
        text("tool", &self.tool)?;
        entries("settings", self.settings.len())?;
        for setting in &self.settings {
            text("setting", &setting.name)?;
            text("setting", &setting.value)?;
        }
        text("calibration text", &self.calibration.text)?;
        let files = self.files.as_deref().unwrap_or_default();
        entries("files", files.len())?;
        files.iter().try_for_each(|file| text("file name", &file.name))?;
        match &self.fidelity {
            Some(Fidelity::Measured(figures)) => figures.check(),
            // A cosine is in -1..=1.
            Some(Fidelity::Vectors(figures)) => figures.check(2.0),
            Some(Fidelity::Scores(figures)) => figures.0.check(f64::MAX),
            Some(Fidelity::NotMeasured(why)) => text("reason", why),
            None => Ok(()),
        }
    }

    /// The distance to the checkpoint, if it was measured and is not left out.
    pub fn measured(&self) -> Option<&Fidelity> {
        let measured = |fidelity: &&Fidelity| !matches!(fidelity, Fidelity::NotMeasured(_));
        self.fidelity.as_ref().filter(measured)
    }
}

impl Figures {
    fn check(&self) -> Result<(), RecipeError> {
        text("fidelity text", &self.text)?;
        let at_least_zero = [
            ("kl_p99", self.kl_p99),
            ("kl_worst", self.kl_worst),
            ("nll_float", self.nll_float),
            ("nll_integer", self.nll_integer),
            ("nll_bfloat16", self.nll_bfloat16),
            ("kl", self.kl),
            ("kl_bfloat16", self.kl_bfloat16),
        ];
        let parts = [("top1", self.top1), ("top1_bfloat16", self.top1_bfloat16)];
        let wrong = at_least_zero
            .into_iter()
            .find(|(_, v)| !(0.0..f64::INFINITY).contains(v));
        let wrong = wrong.or_else(|| parts.into_iter().find(|(_, v)| !(0.0..=1.0).contains(v)));
        match wrong {
            Some((what, _)) => Err(RecipeError::Figure { what }),
            None => Ok(()),
        }
    }
}

fn entries(what: &'static str, got: usize) -> Result<(), RecipeError> {
    let limit = MAX_ENTRIES;
    match got > limit {
        true => Err(RecipeError::TooLong { what, got, limit }),
        false => Ok(()),
    }
}

fn text(what: &'static str, text: &str) -> Result<(), RecipeError> {
    let (got, limit) = (text.len(), MAX_TEXT);
    if got > limit {
        return Err(RecipeError::TooLong { what, got, limit });
    }
    match text.chars().any(char::is_control) {
        true => Err(RecipeError::Control { what }),
        false => Ok(()),
    }
}
