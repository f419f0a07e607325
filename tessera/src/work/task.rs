//! The task of proving a chunk.

use tessera_circuits::chunk::{Boundary, Chunk, Ends};
use tessera_circuits::statement::Statement;
use tessera_verifier::context::Context;

use crate::model::Model;
use tessera_prover::{prove_chunk, ProveError, ProvedChunk};
use tessera_support::progress::Progress;

/// A chunk to prove, with all that its proof depends on.
pub struct ChunkTask<'a> {
    /// The model.
    pub model: &'a Model,
    /// Prompt and output of the whole text.
    pub statement: &'a Statement,
    /// The layers to prove.
    pub chunk: Chunk,
    /// Activations that enter and leave the chunk.
    pub ends: Ends<&'a Boundary>,
    /// The context of the proof, if it has one.
    pub context: Option<Context>,
}

impl ChunkTask<'_> {
    /// Proves the chunk on the rayon threads of the caller.
    pub fn prove(&self, progress: &dyn Progress) -> Result<ProvedChunk, ProveError> {
        let Self {
            model,
            statement,
            chunk,
            ends,
            context,
        } = self;
        prove_chunk(&model.prover(), statement, chunk, *ends, *context, progress)
    }
}
