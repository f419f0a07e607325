//! How close a model is to the float model of its checkpoint.

use std::path::Path;

use tessera_checkpoint::Checkpoint;
use tessera_quantise::comparison::FidelityReport;
use tessera_quantise::texts::{TextReader, HELD_OUT, OWN_TEXT, RANDOM_IDS};
use tessera_quantise::vectors::VectorReport;
use tessera_support::heap;
use tessera_support::progress::Progress;
use tessera_text::tokenizer::TokenizerFiles;

use crate::setup::SetupError;
use crate::{given, Error, Model};

/// How close a model is to the float model of its checkpoint: the distance of their predictions, or of their vectors.
#[derive(Clone, Debug)]
pub enum Fidelity {
    /// A model that generates tokens.
    Predictions(Box<FidelityReport>),
    /// An encoder or a reranker.
    Vectors(Box<VectorReport>),
}

impl Model {
    /// Measures how close the model is to the float model of its checkpoint: on the text of a file, or on texts that no set-up
    /// calibrates on, whose name is returned, too.
    ///
    /// # Errors
    /// If the checkpoint or the text cannot be read, or if the checkpoint has other dimensions than the model.
    pub fn fidelity(
        &self,
        checkpoint: impl AsRef<Path>,
        text: Option<&Path>,
        progress: &dyn Progress,
    ) -> Result<(Fidelity, &'static str), Error> {
        let dir = checkpoint.as_ref();
        given::checkpoint(dir)?;
        let checkpoint = Checkpoint::open(dir).map_err(|source| SetupError::Checkpoint {
            dir: dir.to_owned(),
            source,
        })?;
        // Set-up reads texts in this way, too, so that the figures of a key can be measured again.
        let tokenizer = TokenizerFiles::stored(&self.dir)?.parse_alone()?;
        heap::trim_heaps();
        let reader = TextReader {
            config: &self.key.config,
            tokenizer: tokenizer.as_ref(),
        };
        let (texts, name) = match text {
            Some(path) => (reader.read_whole(path)?, OWN_TEXT),
            None if self.tokenizer.is_none() => (reader.random_held_out(), RANDOM_IDS),
            None => (reader.held_out()?, HELD_OUT.name),
        };
        let measured = match self.key.config.generates() {
            true => Fidelity::Predictions(Box::new(self.compare(&checkpoint, &texts, progress)?)),
            false => Fidelity::Vectors(Box::new(self.compare_vectors(&checkpoint, &texts, progress)?)),
        };
        Ok((measured, name))
    }
}
