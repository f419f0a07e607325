//! Why a server does not start, or stops.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use crate::keys::KeysError;
use crate::proofs::store::StoreError;

/// Why a server does not start, or stops.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The model cannot be opened.
    #[error(transparent)]
    Model(#[from] tessera::Error),
    /// The model makes neither texts nor embeddings.
    #[error("{}: the model is a reranker, and a server has no request for scores: it serves models that generate, and encoders", .0.display())]
    Reranker(PathBuf),
    /// The file with API keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// Other machines would reach a server that asks nobody for a key.
    #[error(
        "{0} can be reached from other machines, and nobody would need a key: give the API keys with --keys FILE, listen on \
         127.0.0.1 behind a proxy that asks for them, or say --without-keys"
    )]
    Open(SocketAddr),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Threads cannot be started.
    #[error("cannot start the threads of the server: {0}")]
    Threads(String),
    /// A worker needs a core of its own.
    #[error(transparent)]
    Devices(#[from] tessera::work::WorkerError),
    /// There is too little memory to generate a token.
    #[error("a memory budget of {budget} bytes is too small: a fourth of it is for answers that are being made, and a token takes {row} bytes")]
    Memory {
        /// The budget.
        budget: u64,
        /// Bytes of the keys and values of a token.
        row: u64,
    },
}
