//! Committing to the weights and opening them (docs/protocol.md, sections 3 and 10; the statement and the
//! proof format are in `tessera_verifier::opening`).

mod behind;
mod codeword;
mod combine;
mod commit;
mod fft;
mod fold;
mod merkle;
mod packed;
mod prove;
mod rows;
#[cfg(test)]
mod tests;
mod tree;

use std::path::PathBuf;

use tessera_verifier::opening::{CommitmentParams, OpeningError};
use thiserror::Error;

pub use self::codeword::Codeword;
pub use self::combine::combine_columns;
pub use self::commit::{commit, Split};
pub use self::prove::{open, value};
pub use self::tree::Tree;
pub use crate::model::tiles::TileSource;

/// Number of weights of a tile.
pub const TILE_AREA: usize = 1 << tessera_verifier::opening::TILE_AREA_LOG;

/// Why weights cannot be committed to or opened.
#[derive(Debug, Error)]
pub enum OpeningProverError {
    #[error(transparent)]
    Invalid(#[from] OpeningError),
    #[error("{what}: {got} entries, expected {expected}")]
    Length {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error("writing the codeword: {0}")]
    Write(#[source] std::io::Error),
    #[error("cannot read {path}: {source}")]
    Open {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} has {got} bytes, expected {expected}")]
    CacheLength { path: PathBuf, got: u64, expected: u64 },
    #[error("the codeword has parameters {got:?}, the opening {expected:?}")]
    CodewordParams {
        got: CommitmentParams,
        expected: CommitmentParams,
    },
    #[error("{path} belongs to root {got}, expected {expected}")]
    CacheRoot {
        path: PathBuf,
        got: String,
        expected: String,
    },
    #[error("{path} is corrupted: the values from leaf {leaf} on are not those that were committed to")]
    CodewordValues { path: PathBuf, leaf: usize },
    #[error("the weights are not those that were committed to")]
    OtherWeights,
}

fn length(what: &'static str, got: usize, expected: usize) -> Result<(), OpeningProverError> {
    match got == expected {
        true => Ok(()),
        false => Err(OpeningProverError::Length { what, got, expected }),
    }
}
