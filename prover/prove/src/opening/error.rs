//! Why weights cannot be committed to or opened.

use std::error::Error;
use std::path::PathBuf;

use tessera_kernels::device::DeviceError;
use tessera_verifier::opening::{CommitmentParams, OpeningError};

/// Why weights cannot be committed to or opened.
#[derive(Debug, thiserror::Error)]
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
    /// The verifier's part of a proof that hides activations, which its prover takes, too.
    #[error("internal error: the conversation is not one that a verifier follows: {0}")]
    Equations(#[source] Box<dyn Error + Send + Sync>),
    #[error("the weights are not those that were committed to")]
    OtherWeights,
    #[error(transparent)]
    Device(#[from] DeviceError),
}

pub(super) fn length(what: &'static str, got: usize, expected: usize) -> Result<(), OpeningProverError> {
    match got == expected {
        true => Ok(()),
        false => Err(OpeningProverError::Length { what, got, expected }),
    }
}
