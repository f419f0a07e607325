//! Work done again. Whoever changes a proof can do its proofs of work again; a change must not be found by them alone.

use tessera_prover::grind;
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{CLAIMS_WORK, COLUMN_WORK, FOLD_WORK, LOOKUP_WORK, POINTS_WORK, SUM_WORK};
use tessera_verifier::message::NoWork;
use tessera_verifier::opening::parts::parts_of_mut;
use tessera_verifier::opening::OpeningError;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::SuiteChannel;
use tessera_verifier::sumcheck::SumcheckError;
use tessera_verifier::verify::{verify, VerifyError};

/// The proof with every proof of work done again that a verifier misses, up to the one before the queries: until then every change is
/// found otherwise.
pub fn reworked(key: &ModelKey, proof: Proof) -> Proof {
    let mut proof = proof;
    while let Some(missing) = missing(key, &proof) {
        if !redo(key, &mut proof, &missing) {
            break;
        }
    }
    proof
}

/// The proof of work that a verifier misses first, if that is why it refuses a proof.
fn missing(key: &ModelKey, proof: &Proof) -> Option<NoWork> {
    match verify(key, proof) {
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
fn redo(key: &ModelKey, proof: &mut Proof, missing: &NoWork) -> bool {
    let channel = SuiteChannel::at(key.header.hash_suite, missing.over);
    let nonce = grind::nonce(&channel, missing.work.bits);
    let places: usize = proof
        .chunks
        .iter_mut()
        .map(|chunk| nonces(chunk, missing.work.label).len())
        .sum();
    for place in (0..places).rev() {
        let mut all = proof
            .chunks
            .iter_mut()
            .flat_map(|chunk| nonces(chunk, missing.work.label));
        let Some(own) = all.nth(place).filter(|own| **own == missing.nonce) else {
            continue;
        };
        *own = nonce;
        if self::missing(key, proof).is_none_or(|next| next.over != missing.over) {
            return true;
        }
        let mut all = proof
            .chunks
            .iter_mut()
            .flat_map(|chunk| nonces(chunk, missing.work.label));
        all.nth(place).into_iter().for_each(|own| *own = missing.nonce);
    }
    false
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
