//! Work done again. Whoever changes a proof can do its proofs of work again; a change must not be found by them alone.

use tessera_circuits::chunk::{ends, Chunk};
use tessera_prover::grind;
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{CLAIMS_WORK, COLUMN_WORK, FOLD_WORK, LOOKUP_WORK, POINTS_WORK, SUM_WORK};
use tessera_verifier::message::NoWork;
use tessera_verifier::opening::parts::parts_of_mut;
use tessera_verifier::opening::OpeningError;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::{Suite, SuiteChannel};
use tessera_verifier::sumcheck::SumcheckError;
use tessera_verifier::verify::{verify_chunk, ChunkStatement, VerifyError};

/// The proof with every proof of work done again that a verifier of one of its chunks misses, up to the one before the queries: until then
/// every change is found otherwise. As it is, if it has no such chunks.
pub fn reworked(key: &ModelKey, mut proof: Proof) -> Proof {
    let (config, statement) = (&key.config, &proof.statement);
    let layers = proof.chunks.iter().map(|chunk| chunk.layers as usize);
    let chunks = Chunk::partition(layers, config.layers).ok();
    let ends = chunks
        .as_ref()
        .and_then(|chunks| ends(&proof.boundaries, chunks.len()).ok());
    let (Ok(()), Some(chunks), Some(ends)) = (statement.check(config), chunks, ends) else {
        return proof;
    };
    let parts = chunks.iter().zip(ends).map(|(chunk, ends)| ChunkStatement {
        key,
        model: &proof.model,
        statement,
        chunk,
        ends,
        context: proof.context,
    });
    for (part, own) in parts.zip(proof.chunks.chunks_mut(1)) {
        rework(key.header.hash_suite, own, &|own| {
            own.iter().try_for_each(|own| verify_chunk(&part, own))
        });
    }
    proof
}

/// Does the work of some chunks again, of which a verifier has this verdict.
pub fn rework(suite: Suite, chunks: &mut [ChunkProof], verdict: &dyn Fn(&[ChunkProof]) -> Result<(), VerifyError>) {
    while let Some(own) = missing(verdict(chunks)) {
        if !redo(suite, chunks, &own, verdict) {
            break;
        }
    }
}

/// The proof of work that a verifier misses first, if that is why it refuses a proof.
fn missing(verdict: Result<(), VerifyError>) -> Option<NoWork> {
    match verdict {
        Err(
            VerifyError::Work(missing)
            | VerifyError::Sumcheck(SumcheckError::Work(missing))
            | VerifyError::Opening(OpeningError::Work(missing)),
        ) => Some(missing),
        _ => None,
    }
}

/// Does a proof of work. Several places may have its label and the nonce that does not do: with one behind the right one changed, the same
/// work is missing.
fn redo(
    suite: Suite,
    chunks: &mut [ChunkProof],
    own: &NoWork,
    verdict: &dyn Fn(&[ChunkProof]) -> Result<(), VerifyError>,
) -> bool {
    let nonce = grind::nonce(&SuiteChannel::at(suite, own.over), own.work.bits);
    let places = chunks.iter_mut().map(|chunk| nonces(chunk, own.work.label).len());
    for place in (0..places.sum()).rev() {
        let own_place = at(chunks, own.work.label, place).filter(|found| **found == own.nonce);
        let Some(found) = own_place else {
            continue;
        };
        *found = nonce;
        if missing(verdict(chunks)).is_none_or(|next| next.over != own.over) {
            return true;
        }
        at(chunks, own.work.label, place)
            .into_iter()
            .for_each(|found| *found = own.nonce);
    }
    false
}

/// The nonce at a place among all with a label.
fn at<'a>(chunks: &'a mut [ChunkProof], label: &'a str, place: usize) -> Option<&'a mut u64> {
    chunks.iter_mut().flat_map(|chunk| nonces(chunk, label)).nth(place)
}

/// The nonces with a label, in order.
fn nonces<'a>(chunk: &'a mut ChunkProof, label: &str) -> Vec<&'a mut u64> {
    let opening = parts_of_mut(&mut chunk.opening);
    let columns = opening.codes.iter_mut().flat_map(|code| &mut code.column_work);
    match label {
        own if own == LOOKUP_WORK.label => vec![&mut chunk.lookup_work],
        own if own == POINTS_WORK.label => vec![&mut chunk.points_work],
        own if own == CLAIMS_WORK.label => vec![&mut chunk.linear_work],
        COLUMN_WORK => columns.collect(),
        SUM_WORK => vec![&mut opening.sum_work],
        FOLD_WORK => opening.fold_work.iter_mut().collect(),
        _ => Vec::new(),
    }
}
