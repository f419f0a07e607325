//! A chunk that is to be proved.

use tessera_circuits::chunk::{Chunk, Ends};
use tessera_circuits::statement::Statement;
use tessera_verifier::context::Context;

use crate::loaded::Model;
use tessera_prover::{prove_chunk, ProveError, ProvedChunk};
use tessera_support::progress::Progress;

/// A chunk to prove.
pub struct ChunkTask<'a> {
    pub model: &'a Model,
    pub statement: &'a Statement,
    pub chunk: Chunk,
    pub ends: Ends<'a>,
    pub context: Option<Context>,
}

impl ChunkTask<'_> {
    /// Proves it on the threads of the caller.
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
