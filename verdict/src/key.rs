use tessera_circuits::statement::Statement;
use tessera_recipe::{KeyFileError, Recipe};
use tessera_verifier::key::{KeyError, ModelId, ModelKey};
use tessera_verifier::verify::verify_bytes;

use crate::claim::Claim;
use crate::expected::Expected;
use crate::text::{Decode, Texts};
use crate::verdict::{Outcome, Verdict};
use crate::vocabulary::Vocabulary;

/// A model key, read and checked once, with what shows its ids as text.
#[derive(Clone, Debug)]
pub struct Key {
    key: ModelKey,
    id: ModelId,
    recipe: Recipe,
    /// None if the model has no tokenizer; or why it cannot be used.
    vocabulary: Result<Option<Vocabulary>, String>,
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
        let vocabulary = match key.tokenizer.is_empty() {
            true => Ok(None),
            false => Vocabulary::from_bytes(&key.tokenizer)
                .map(Some)
                .map_err(|e| e.to_string()),
        };
        Ok(Self {
            id: key.id().map_err(KeyError::from)?,
            key,
            recipe,
            vocabulary,
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
        Verdict::new(self.id, proof.len(), verify_bytes(&self.key, proof), |statement| {
            self.claim(statement)
        })
    }

    /// The verdict on a proof that has to be about something.
    ///
    /// # Errors
    /// If the proof holds, but whether it is about that cannot be decided: its output has no text.
    ///
    /// ```no_run
    /// use tessera_verdict::{expected::Expected, Key};
    ///
    /// let key = Key::from_bytes(&std::fs::read("model.key")?)?;
    /// let expected = Expected {
    ///     prompt: Some(vec![1, 80, 147, 201, 282, 57]),
    ///     ..Expected::default()
    /// };
    /// let verdict = key.verify_expecting(&std::fs::read("story.proof")?, &expected)?;
    /// println!("{}", verdict.text("story.proof", "model.key", None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify_expecting(&self, proof: &[u8], expected: &Expected) -> Result<Verdict, String> {
        self.verify(proof).expecting(expected)
    }

    /// What a statement about the model says.
    pub fn claim(&self, statement: &Statement) -> Claim {
        let texts = match &self.vocabulary {
            Ok(Some(vocabulary)) => {
                let texts = Texts::of(vocabulary, &statement.prompt, statement.generated_ids());
                texts.map_err(|e| e.to_string())
            }
            Ok(None) => Err(NO_TOKENIZER.to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        let vocabulary = self.vocabulary.as_ref().ok().and_then(Option::as_ref);
        Claim::new(statement, &self.key, texts, |id| vocabulary?.token(id))
    }

    /// Whether ids of the model have text; or why not.
    pub fn tokenizer(&self) -> Result<bool, &str> {
        match &self.vocabulary {
            Ok(vocabulary) => Ok(vocabulary.is_some()),
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
