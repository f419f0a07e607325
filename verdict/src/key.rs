use std::sync::OnceLock;

use tessera_circuits::statement::Statement;
use tessera_recipe::{KeyFileError, Recipe};
use tessera_text::tokenizer::Tokenizer;
use tessera_verifier::key::{KeyError, ModelId, ModelKey};
use tessera_verifier::verify::verify_revealed;

use crate::claim::Claim;
use crate::text::{Decode, Texts};
use crate::verdict::{Outcome, Verdict};
use crate::vocabulary::{Vocabulary, VocabularyError};

/// A model key, read and checked once, with what shows its ids as text.
#[derive(Clone, Debug)]
pub struct Key {
    key: ModelKey,
    id: ModelId,
    recipe: Recipe,
    decoder: Decoder,
    /// The whole tokenizer, which is read when something needs it: a large one takes a second. None if the model has none; or why it
    /// cannot be used.
    encoder: OnceLock<Result<Option<Tokenizer>, String>>,
}

/// The way in which a key makes texts of ids.
#[derive(Clone, Debug)]
enum Decoder {
    /// Nothing: the model has no tokenizer.
    None,
    /// The small half of the tokenizer.
    Small(Box<Vocabulary>),
    /// The whole tokenizer, because the small half does not know the way it decodes.
    Whole,
    /// Nothing, for this reason.
    Unusable(String),
}

impl Key {
    /// Reads a key. It is refused if its recipe cannot be shown, though no verdict depends on it. A tokenizer that cannot be used makes no key unusable: ids are what is proved.
    ///
    /// # Errors
    /// If the bytes are no usable model key, or if no program writes its recipe: one variant per cause.
    ///
    /// ```
    /// let error = tessera_verdict::Key::from_bytes(b"TESSKEY").unwrap_err();
    /// assert_eq!(error.to_string(), "model key file ends early");
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyFileError> {
        let (key, recipe) = tessera_recipe::read_key(bytes)?;
        let decoder = match key.tokenizer.is_empty() {
            true => Decoder::None,
            false => match Vocabulary::from_bytes(&key.tokenizer) {
                Ok(vocabulary) => Decoder::Small(Box::new(vocabulary)),
                Err(VocabularyError::Unknown { .. }) => Decoder::Whole,
                Err(error) => Decoder::Unusable(error.to_string()),
            },
        };
        Ok(Self {
            id: key.id().map_err(KeyError::from)?,
            key,
            recipe,
            decoder,
            encoder: OnceLock::new(),
        })
    }

    /// The model that the key is of.
    pub const fn id(&self) -> ModelId {
        self.id
    }

    /// All that the key says.
    pub const fn model_key(&self) -> &ModelKey {
        &self.key
    }

    /// The recipe: how the model was made, as the key says it.
    pub const fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The verdict on the bytes of a proof.
    pub fn verify(&self, proof: &[u8]) -> Verdict {
        self.verify_revealed(proof, &[])
    }

    /// The verdict on the bytes of a proof that hides ids, together with reveals of some of them: the statement has these ids. A reveal that is not true
    /// of this proof is a reason to reject.
    pub fn verify_revealed(&self, proof: &[u8], reveals: &[&[u8]]) -> Verdict {
        let found = verify_revealed(&self.key, proof, reveals);
        Verdict::new(self.id, proof.len(), found, |statement| self.claim(statement))
    }

    /// What a statement about the model says.
    pub fn claim(&self, statement: &Statement) -> Claim {
        let texts = self.texts(&statement.prompt, statement.generated_ids());
        Claim::new(statement, &self.key, texts, |id| self.token(id))
    }

    /// The texts of a prompt and an output.
    fn texts(&self, prompt: &[u32], output: &[u32]) -> Result<Texts, String> {
        match &self.decoder {
            Decoder::None => Err(NO_TOKENIZER.to_owned()),
            Decoder::Small(vocabulary) => Texts::of(vocabulary.as_ref(), prompt, output).map_err(|e| e.to_string()),
            Decoder::Whole => {
                let tokenizer = self.encoder()?.ok_or_else(|| NO_TOKENIZER.to_owned())?;
                tokenizer.texts(prompt, output).map_err(|e| e.to_string())
            }
            Decoder::Unusable(reason) => Err(reason.clone()),
        }
    }

    /// The text of a prompt, without special tokens; `None` if there is none.
    pub fn prompt_text(&self, ids: &[u32]) -> Option<String> {
        Some(self.texts(ids, &[]).ok()?.prompt.text)
    }

    /// The token of an id, as the vocabulary spells it.
    pub fn token(&self, id: u32) -> Option<String> {
        match &self.decoder {
            Decoder::Small(vocabulary) => vocabulary.token(id),
            Decoder::Whole => self.encoder().ok().flatten()?.token(id),
            Decoder::None | Decoder::Unusable(_) => None,
        }
    }

    /// The token in the place of text that no other token stands for, if there is one.
    pub fn unknown(&self) -> Option<u32> {
        match &self.decoder {
            Decoder::Small(vocabulary) => vocabulary.unknown(),
            Decoder::Whole => self.encoder().ok().flatten()?.unknown(),
            Decoder::None | Decoder::Unusable(_) => None,
        }
    }

    /// Whether ids of the model have text.
    ///
    /// # Errors
    /// If its tokenizer cannot be used.
    pub fn tokenizer(&self) -> Result<bool, &str> {
        match &self.decoder {
            Decoder::None => Ok(false),
            Decoder::Small(_) => Ok(true),
            Decoder::Whole => self.encoder().map(|tokenizer| tokenizer.is_some()),
            Decoder::Unusable(reason) => Err(reason),
        }
    }

    /// The whole tokenizer of the key, which makes ids of texts, too; `None` if the model has none. It is read by the first call.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn encoder(&self) -> Result<Option<&Tokenizer>, &str> {
        let read = || {
            if self.key.tokenizer.is_empty() {
                return Ok(None);
            }
            let config = Some(self.key.tokenizer_config.as_slice()).filter(|config| !config.is_empty());
            let tokenizer = Tokenizer::from_bytes(&self.key.tokenizer, config);
            tokenizer.map(Some).map_err(|e| e.to_string())
        };
        match self.encoder.get_or_init(read) {
            Ok(tokenizer) => Ok(tokenizer.as_ref()),
            Err(reason) => Err(reason),
        }
    }
}

/// Why ids of a model without tokenizer have no text.
pub(crate) const NO_TOKENIZER: &str = "the model has no tokenizer";

impl Outcome {
    /// Whether the proof is accepted.
    pub const fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted(_))
    }
}
