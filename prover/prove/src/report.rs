//! Proofs, and how they were made.

use tessera_circuits::statement::Statement;
use tessera_model::forward::Saturations;
use tessera_model::passes::Traffic;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::Digest;

use crate::hiding::KeptOnce;

/// A finished proof and how it was made.
#[derive(Clone, Debug)]
pub struct ProveReport {
    pub proof: Proof,
    /// The statement with all of its ids: a secret if the proof hides any.
    pub statement: Statement,
    pub bytes: Vec<u8>,
    /// The digest of the bytes, to which reveals are bound.
    pub digest: Digest,
    /// The secret that reveals need, if the proof leaves room for any. It is taken once.
    pub kept: Option<KeptOnce>,
    /// Seconds of each phase, in order.
    pub phases: Vec<(String, f64)>,
    /// Bytes of the weights that the phases have read.
    pub weights: Vec<(String, Traffic)>,
    /// Saturated values by tensor, over all rows.
    pub saturated: Saturations,
    /// Bits of the soundness ledger.
    pub security_bits: f64,
}

/// A chunk, proved.
#[derive(Clone, Debug)]
pub struct ProvedChunk {
    pub proof: ChunkProof,
    /// Seconds of each phase, in order.
    pub phases: Vec<(String, f64)>,
    /// Saturated values by tensor, over all rows.
    pub saturated: Saturations,
}
