//! The model key: all that a verifier needs to know of a model (docs/format.md). It comes from someone the
//! verifier trusts, or from the verifier's own `setup`; it holds no weights.

use blake2::digest::Digest as _;
use blake2::Blake2s256;
use serde::{Deserialize, Serialize};
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, ModelError, ModelParams};
use thiserror::Error;

use crate::codec::{decode, encode, CodecError, FileKind};
use crate::opening::{CommitmentParams, OpenedColumns, OpeningError};
use crate::security::TracePolicy;

/// Commitment to the weights and to the lookup tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelKey {
    pub config: ModelConfig,
    pub params: ModelParams,
    /// Layout and rate of the weight commitment.
    pub weights: CommitmentParams,
    /// Merkle root of the weight codewords.
    pub weights_root: [u8; 32],
    /// Merkle roots of the preprocessed columns (the lookup tables), one for each code in [`TracePolicy::ALL`].
    pub tables_roots: [[u8; 32]; 2],
    /// `tokenizer.json`, empty if the model has none. Only used to show text; ids are what is proved.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`, empty if the model has none.
    pub tokenizer_config: Vec<u8>,
}

/// Digest of a model key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelId(pub [u8; 32]);

impl std::fmt::Display for ModelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Debug for ModelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// A file that is no usable model key.
#[derive(Debug, Error)]
pub enum KeyError {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("model key: {0}")]
    Model(#[from] ModelError),
    #[error("model key: {0}")]
    Commitment(OpeningError),
    #[error("model key: {got} tiles committed, the architecture has {expected}")]
    Tiles { got: usize, expected: usize },
}

impl ModelKey {
    /// Reads and checks a key. Total on hostile bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let key: Self = decode(FileKind::Key, bytes)?;
        key.check()?;
        Ok(key)
    }

    /// The canonical encoding.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        encode(FileKind::Key, self)
    }

    /// Checks that every dimension and parameter is one that the constraints were written for.
    pub fn check(&self) -> Result<(), KeyError> {
        self.params.check(&self.config)?;
        self.weights.check().map_err(KeyError::Commitment)?;
        let expected = self.config.total_tiles();
        if self.weights.tiles != expected {
            return Err(KeyError::Tiles {
                got: self.weights.tiles,
                expected,
            });
        }
        Ok(())
    }

    /// The columns of the commitment that hold the weights of a chunk, in the bands of the architecture.
    pub fn opened(&self, chunk: &Chunk) -> OpenedColumns {
        let (tiles, log_band) = (chunk.tiles(&self.config), self.config.band_log());
        self.weights.columns_of(&tiles, log_band)
    }

    /// Merkle root of the lookup tables in the code of `policy`.
    pub const fn tables_root(&self, policy: TracePolicy) -> &[u8; 32] {
        let [half, quarter] = &self.tables_roots;
        match policy.log_blowup {
            0 | 1 => half,
            _ => quarter,
        }
    }

    /// Blake2s-256 of the canonical encoding.
    pub fn id(&self) -> Result<ModelId, CodecError> {
        Ok(ModelId(Blake2s256::digest(self.to_bytes()?).into()))
    }
}
