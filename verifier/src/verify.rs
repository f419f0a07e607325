//! The verifier (docs/protocol.md).

mod boundaries;
mod chunk;
mod digits;
mod error;
mod hidden;
mod matmuls;

use tessera_circuits::chunk::{ends, Chunk};
use tessera_circuits::shape::LeafLimits;
use tessera_circuits::statement::Statement;

use crate::codec::CodecError;
use crate::context::Context;
use crate::key::{ModelId, ModelKey};
use crate::ledger::{hidden_security_bits, security_bits};
use crate::length::most_bytes;
use crate::policy::MIN_BITS;
use crate::proof::Proof;
pub use crate::public::{linear_variables, products_form, unit_coefficients};
use crate::reveal::verify_reveal;

pub use self::boundaries::BoundaryClaim;
pub use self::chunk::{
    absorb_statistics, open_transcript, verify_chunk, verify_chunk_with, verify_conversation, ChunkStatement,
    Conversation, PROTOCOL,
};
pub use self::error::VerifyError;
use self::hidden::check_reveals;
pub use self::hidden::{hear, hidden_code, verify_heard, verify_hidden};
pub use self::matmuls::{weight_claim, weight_families};

/// What an accepted proof proves.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The model that it is about.
    pub model: ModelId,
    /// What is proved.
    pub statement: Statement,
    /// Number of chunks that the model was proved in.
    pub chunks: usize,
    /// Bits of the soundness ledger that were enforced.
    pub security_bits: f64,
    /// The context that the proof is tied to, if any.
    pub context: Option<Context>,
    /// Whether the proof is of the kind that hides its activations. It does if its prover drew the pads at random, which nobody else can see.
    pub hides_activations: bool,
    /// For how many reveals of ids that it hides the proof leaves room.
    pub reveals: usize,
    /// How many different ones were verified with it.
    pub reveals_seen: usize,
    /// The positions of ids that the proof hides and reveals say, ascending. The statement has these ids.
    pub revealed: Vec<usize>,
}

/// Verifies an encoded proof against a key. One that is longer than any proof of the key can be is not decoded: whoever reads a
/// file may stop a byte after [`most_bytes`].
pub fn verify_bytes(key: &ModelKey, bytes: &[u8]) -> Result<Verified, VerifyError> {
    verify_revealed(key, bytes, &[])
}

/// Verifies an encoded proof as [`verify_bytes`] does, with encoded reveals of ids that it hides, of which none is decoded either that is longer than
/// [`crate::length::most_reveal_bytes`]. The statement of what is verified has the ids that are revealed.
pub fn verify_revealed(key: &ModelKey, bytes: &[u8], reveals: &[&[u8]]) -> Result<Verified, VerifyError> {
    key.check()?;
    let most = most_bytes(key);
    if bytes.len() <= most {
        let proof = Proof::from_bytes(bytes)?;
        let verified = verify_with_checked(key, &proof)?;
        return verified.revealing(key, &proof, bytes, reveals);
    }
    let (got, expected) = (Proof::model_of(bytes)?, key.id()?);
    match got == expected {
        true => Err(CodecError::TooLong { most }.into()),
        false => Err(VerifyError::OtherModel { got, expected }),
    }
}

impl Verified {
    /// The same with the ids of these reveals of the proof, which was encoded as `bytes`.
    fn revealing(
        mut self,
        key: &ModelKey,
        proof: &Proof,
        bytes: &[u8],
        reveals: &[&[u8]],
    ) -> Result<Self, VerifyError> {
        let mut error = (-self.security_bits).exp2();
        let mut seen: Vec<&[u8]> = Vec::new();
        for (number, &reveal) in (1..).zip(reveals) {
            if seen.contains(&reveal) {
                continue;
            }
            seen.push(reveal);
            let refused = |error| VerifyError::Reveal { number, error };
            let found = verify_reveal(key, proof, bytes, reveal).map_err(refused)?;
            self.statement = self.statement.revealing(&found.ids);
            self.revealed.extend(found.ids.iter().map(|(position, _)| *position));
            error += (-found.security_bits).exp2();
        }
        self.revealed.sort_unstable();
        self.revealed.dedup();
        self.reveals_seen = seen.len();
        self.security_bits = 0.0 - error.log2();
        enough(self.security_bits)?;
        Ok(self)
    }
}

/// Refuses what has too few bits of security.
const fn enough(got: f64) -> Result<(), VerifyError> {
    match got < MIN_BITS {
        true => Err(VerifyError::Security { got, min: MIN_BITS }),
        false => Ok(()),
    }
}

/// Verifies a proof against a key. Total on hostile proofs: no panic, bounded work.
pub fn verify(key: &ModelKey, proof: &Proof) -> Result<Verified, VerifyError> {
    key.check()?;
    verify_with_checked(key, proof)
}

/// The key has passed its check.
fn verify_with_checked(key: &ModelKey, proof: &Proof) -> Result<Verified, VerifyError> {
    let model = key.id()?;
    if proof.model != model {
        return Err(VerifyError::OtherModel {
            got: proof.model,
            expected: model,
        });
    }
    let (config, statement) = (&key.config, &proof.statement);
    match proof.hidden {
        None => statement.check(config)?,
        Some(_) => statement.check_hiding(config, &key.params.leading)?,
    }
    let chunks = Chunk::partition(proof.chunks.iter().map(|c| c.layers as usize), config.layers)?;
    let ends = ends(&proof.boundaries, chunks.len())?;
    for (index, boundary) in proof.boundaries.iter().enumerate() {
        boundary.check(index, statement.rows(), config.hidden)?;
    }
    let got = chunks.len();
    let security_bits = match &proof.hidden {
        None => security_bits(key, &chunks, statement.lengths()),
        Some(_) if got > 1 => return Err(VerifyError::HiddenChunks { got }),
        Some(hidden) => {
            check_reveals(key, hidden.reveals as usize)?;
            let bits = hidden_security_bits(key, statement.lengths(), hidden.reveals as usize);
            bits.ok_or(VerifyError::HiddenCode)?
        }
    };
    enough(security_bits)?;
    let (context, hidden) = (proof.context, &proof.hidden);
    for ((chunk, ends), proof) in chunks.iter().zip(ends).zip(&proof.chunks) {
        let part = ChunkStatement {
            key,
            model: &model,
            statement,
            chunk,
            ends,
            context,
        };
        match hidden {
            None => verify_chunk(&part, proof)?,
            Some(hidden) => verify_hidden(&part, LeafLimits::OF_STATEMENTS, proof, hidden)?,
        }
    }
    Ok(Verified {
        hides_activations: hidden.is_some(),
        reveals: hidden.as_ref().map_or(0, |own| own.reveals as usize),
        reveals_seen: 0,
        revealed: Vec::new(),
        model,
        statement: statement.clone(),
        chunks: chunks.len(),
        security_bits,
        context,
    })
}
