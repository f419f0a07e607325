//! From a proof to what contracts are sent.

use tessera_circuits::chunk::Chunk;
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::{Digest, Suite};
use tessera_verifier::verify::{verify, verify_conversation, ChunkStatement, Conversation, VerifyError};
use thiserror::Error;

use super::bytes::{Bytes, Part};
use super::opening::opening;
use crate::hash::keccak;
use crate::plan::{NoPlan, Plan};

/// Why a proof cannot be sent to contracts.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError {
    /// The key is of another suite than Keccak-256.
    #[error("contracts verify proofs of keys of Keccak-256: tessera setup --hash keccak")]
    Suite,
    /// It hides activations.
    #[error("the proof hides its activations; contracts verify proofs that hide nothing (prove without --hide)")]
    Hidden,
    /// The proof is refused.
    #[error("the proof is refused: {0}")]
    Refused(#[from] VerifyError),
    /// It is one of several chunks.
    #[error("the proof has {0} chunks; contracts verify proofs of one")]
    Chunks(usize),
    /// It has clipped values, and so many.
    #[error("the proof has {0} clipped values; contracts verify proofs without any")]
    Clipped(usize),
    /// There is no plan of such a statement.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// The key cannot be encoded.
    #[error(transparent)]
    Key(#[from] CodecError),
}

/// A proof as what contracts are sent.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The plan of the proof's model and lengths.
    pub plan: Plan,
    /// Its header.
    pub header: Vec<u8>,
    /// Its digest, which the fact names.
    pub id: Digest,
    /// Digests of prompt and output, which the fact names.
    pub statement: [Digest; 2],
    /// The context of the proof, which the fact names: zeros if there is none.
    pub context: Digest,
    /// All that is said before the opening, with the statement.
    pub said: Vec<u8>,
    /// The opening of weights and activations.
    pub opening: Part,
}

impl Packed {
    /// Verifies a proof and packs it. `key` must be valid.
    pub fn new(key: &ModelKey, proof: &Proof) -> Result<Self, PackError> {
        if key.header.hash_suite != Suite::Keccak {
            return Err(PackError::Suite);
        }
        if proof.hidden.is_some() {
            return Err(PackError::Hidden);
        }
        verify(key, proof)?;
        let [own] = proof.chunks.as_slice() else {
            return Err(PackError::Chunks(proof.chunks.len()));
        };
        if !own.statistics.clips.is_empty() {
            return Err(PackError::Clipped(own.statistics.clips.len()));
        }
        let (statement, outputs) = (&proof.statement, proof.statement.output.len());
        let plan = Plan::new(key, statement.rows(), outputs)?;
        let whole = Chunk::whole(key.config.layers);
        let claim = ChunkStatement::whole(key, &proof.model, statement, &whole, proof.context);
        let conversation = verify_conversation(&claim, own)?;
        let ids = |ids: &[u32]| keccak(&ids.iter().flat_map(|id| id.to_be_bytes()).collect::<Vec<u8>>());
        Ok(Self {
            header: plan.header(key)?,
            id: plan.id(key)?,
            plan,
            statement: [ids(&statement.prompt), ids(&statement.output)],
            context: context(proof),
            said: said(proof, own, &conversation),
            opening: opening(
                &own.opening,
                [key.weights.columns(), conversation.activations.columns()],
            ),
        })
    }
}

/// The context of a proof; zeros, which are no context, if it has none.
fn context(proof: &Proof) -> Digest {
    proof.context.map_or([0; 32], Into::into)
}

/// Statement, context, the root of the activations, then the messages up to the opening; the value of the linear claims is among them.
fn said(proof: &Proof, own: &ChunkProof, conversation: &Conversation) -> Vec<u8> {
    let (statement, mut bytes) = (&proof.statement, Bytes::default());
    bytes.words([statement.prompt.len() as u32, statement.output.len() as u32, 0]);
    bytes.0.extend(context(proof));
    bytes.words(statement.prompt.iter().chain(&statement.output).copied());
    bytes.0.extend(own.activations);
    bytes.nonces(&[own.lookup_work]);
    for group in &own.lookups {
        bytes.elements(group.roots.as_flattened());
        for layer in &group.layers {
            bytes.elements(layer.rounds.as_flattened());
            bytes.elements(layer.children.as_flattened());
        }
    }
    bytes.nonces(&[own.points_work]);
    bytes.elements(&[own.matmuls.claim]);
    bytes.elements(own.matmuls.sumcheck.rounds.as_flattened());
    bytes.elements(own.matmuls.operands.as_flattened());
    bytes.elements(&[conversation.outputs.value]);
    bytes.elements(own.linear.rounds.as_flattened());
    bytes.nonces(&[own.linear_work]);
    bytes.0
}
