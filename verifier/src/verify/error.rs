//! Why a proof is rejected.

use tessera_circuits::chunk::{BoundaryError, ChunkError};
use tessera_circuits::statement::StatementError;
use tessera_circuits::statistics::StatisticsError;
use thiserror::Error;

use crate::codec::CodecError;
use crate::gkr::GkrError;
use crate::key::{KeyError, ModelId};
use crate::message::{NoWork, NotCanonical};
use crate::opening::OpeningError;
use crate::reveal::RevealError;
use crate::stark::StarkError;
use crate::sumcheck::SumcheckError;
use crate::tables::TablesError;

/// Why a proof is rejected.
#[derive(Debug, Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum VerifyError {
    #[error("malformed proof: {0}")]
    Malformed(#[from] CodecError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the proof is about model {got}, the key is of model {expected}")]
    OtherModel { got: ModelId, expected: ModelId },
    #[error("impossible statement: {0}")]
    Statement(#[from] StatementError),
    #[error("{0}")]
    Chunks(#[from] ChunkError),
    #[error("{0}")]
    Boundaries(#[from] BoundaryError),
    #[error("statistics: {0}")]
    Statistics(#[from] StatisticsError),
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    #[error("{0}")]
    Sumcheck(#[from] SumcheckError),
    #[error("operands of {got} products, expected {expected}")]
    Products { got: usize, expected: usize },
    #[error("a value of a boundary is said that the chunk does not have")]
    NoBoundary,
    #[error("the matmul sumcheck does not end in its operands")]
    Matmuls,
    #[error("the embedding's operand is not the one-hot matrix of the prompt and output")]
    Embedding,
    #[error(transparent)]
    Work(#[from] NoWork),
    #[error(transparent)]
    Gkr(#[from] GkrError),
    #[error("lookups: numerators of tree {tree} are not one")]
    Numerators { tree: usize },
    #[error("opening: {0}")]
    Opening(#[from] OpeningError),
    #[error("a proof that hides activations lists {got} clipped values: a list says what it should hide")]
    HiddenClips { got: usize },
    #[error("a proof in {got} chunks hides its activations, but only proofs in one piece can")]
    HiddenChunks { got: usize },
    #[error("hidden ids: {got} messages about the product of their digits, expected {expected}")]
    Digits { got: usize, expected: usize },
    #[error("a proof hides activations that are too many for a code with a tape")]
    HiddenCode,
    #[error("a proof leaves room for {got} reveals, but under this key it can for {most} at most")]
    MostReveals { got: usize, most: usize },
    #[error("reveal {number}: {error}")]
    Reveal { number: usize, error: RevealError },
    #[error("{0}")]
    Tables(TablesError),
    #[error("{0}")]
    Stark(#[from] StarkError),
    #[error("this statement's ledger gives at most {:.1} bits, below the minimum of {min:.1}", (got * 10.0).floor() / 10.0)]
    Security { got: f64, min: f64 },
}

impl From<TablesError> for VerifyError {
    fn from(error: TablesError) -> Self {
        match error {
            TablesError::Stark(error) => Self::Stark(error),
            other => Self::Tables(other),
        }
    }
}
