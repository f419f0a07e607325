//! Chunks whose activations are hidden (docs/protocol.md, section 17).

use tessera_circuits::shape::LeafLimits;

use super::chunk::{conversation, ChunkStatement, Conversation};
use super::error::VerifyError;
use crate::hiding::{most_reveals, Hearing, HiddenCode, HiddenProof, TapeProof};
use crate::key::ModelKey;
use crate::message::Unread;
use crate::opening::{self, OpeningProof};
use crate::proof::ChunkProof;
use crate::tables::Tables;

/// Refuses more reveals than a proof under this key can leave room for.
pub(super) const fn check_reveals(key: &ModelKey, got: usize) -> Result<(), VerifyError> {
    let most = most_reveals(&key.weights);
    match got > most {
        true => Err(VerifyError::MostReveals { got, most }),
        false => Ok(()),
    }
}

/// The code of the activations of a chunk that a proof hides, with room for so many reveals. The chunk is the whole model.
pub fn hidden_code(claim: &ChunkStatement<'_>, limits: LeafLimits, reveals: usize) -> Result<HiddenCode, VerifyError> {
    let ChunkStatement {
        key, statement, chunk, ..
    } = *claim;
    if !(chunk.is_first() && chunk.is_last()) {
        return Err(VerifyError::HiddenChunks { got: chunk.of });
    }
    check_reveals(key, reveals)?;
    let shape = key.hidden_shape(statement.lengths()).with_leaf_limits(limits);
    HiddenCode::of(key, chunk, &shape, reveals).ok_or(VerifyError::HiddenCode)
}

/// Verifies what is said of a chunk whose activations are hidden before its opening.
pub fn hear<'a>(
    claim: &ChunkStatement<'_>,
    limits: LeafLimits,
    proof: &ChunkProof,
    code: &'a HiddenCode,
    hidden: &HiddenProof,
) -> Result<Conversation<Hearing<'a>>, VerifyError> {
    let listen = |transcript| Hearing::new(transcript, &code.tape);
    let mut said = conversation(claim, limits, proof, Some((code, Unread::of(hidden))), listen)?;
    // Before the opening: its equation is one of those that the opening proves.
    let tables = Unread::of(proof).part(|p| &p.tables);
    let tables = Tables::of(claim.key, claim.key.tables_of_proof(true), tables)?;
    tables.close(&said.balance, &mut said.transcript)?;
    Ok(said)
}

/// Verifies the proof of a chunk whose activations are hidden. Total on hostile proofs; the ledger of the statement must have been checked.
pub fn verify_hidden(
    claim: &ChunkStatement<'_>,
    limits: LeafLimits,
    proof: &ChunkProof,
    hidden: &HiddenProof,
) -> Result<(), VerifyError> {
    let code = hidden_code(claim, limits, hidden.reveals as usize)?;
    let said = hear(claim, limits, proof, &code, hidden)?;
    verify_heard(claim, &said, &proof.opening, &hidden.tape)
}

/// Verifies the opening of a chunk whose activations are hidden, which proves with the tape what was said before and could not be checked.
pub fn verify_heard(
    claim: &ChunkStatement<'_>,
    said: &Conversation<Hearing<'_>>,
    opening: &OpeningProof,
    tape: &TapeProof,
) -> Result<(), VerifyError> {
    let mut listener = said.transcript.opening(Unread::of(tape));
    let claims = said.claims(claim.key, claim.chunk);
    Ok(opening::verify(&claims, Unread::of(opening), &mut listener)?)
}
