//! Why a server does not start, or stops.

use std::net::SocketAddr;

use thiserror::Error;

use crate::keys::KeysError;
use crate::proofs::store::StoreError;
use crate::served::OpenError;

/// Why a server does not start, or stops.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The model cannot be served.
    #[error(transparent)]
    Model(#[from] OpenError),
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
}
