//! Work done again. Whoever changes a proof can do its proofs of work again; a change must not be found by them alone.

use tessera_circuits::chunk::{ends, Chunk};
use tessera_prover::grind;
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{CLAIMS_WORK, COLUMN_WORK, FOLD_WORK, LOOKUP_WORK, POINTS_WORK, SUM_WORK, TAPE_WORK};
use tessera_verifier::listen::TapeError;
use tessera_verifier::message::NoWork;
use tessera_verifier::opening::parts::parts_of_mut;
use tessera_verifier::opening::OpeningError;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::suite::{Suite, SuiteChannel};
use tessera_verifier::sumcheck::SumcheckError;
use tessera_verifier::verify::{verify, verify_chunk, ChunkStatement, VerifyError};

/// The proof with every proof of work done again that a verifier of one of its chunks misses, up to the one before the queries: until then
/// every change is found otherwise. As it is, if it has no such chunks.
pub fn reworked(key: &ModelKey, mut proof: Proof) -> Proof {
    if proof.hidden.is_some() {
        again(key.header.hash_suite, &mut proof, nonces_of_hidden, &|proof| {
            verify(key, proof).map(|_| ())
        });
        return proof;
    }
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
    again(suite, chunks, nonces_of_chunks, verdict);
}

/// The nonces with a label in what is proved, in order.
type Nonces<T> = for<'a> fn(&'a mut T, &str) -> Vec<&'a mut u64>;

/// Does the work of something that is proved again, of which a verifier has this verdict.
fn again<T: ?Sized>(suite: Suite, own: &mut T, nonces: Nonces<T>, verdict: &dyn Fn(&T) -> Result<(), VerifyError>) {
    while let Some(work) = missing(verdict(own)) {
        if !redo(suite, own, &work, nonces, verdict) {
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
            | VerifyError::Opening(OpeningError::Work(missing) | OpeningError::Tape(TapeError::Work(missing))),
        ) => Some(missing),
        _ => None,
    }
}

/// Does a proof of work. Several places may have its label and the nonce that does not do: with one behind the right one changed, the same
/// work is missing.
fn redo<T: ?Sized>(
    suite: Suite,
    own: &mut T,
    work: &NoWork,
    nonces: Nonces<T>,
    verdict: &dyn Fn(&T) -> Result<(), VerifyError>,
) -> bool {
    let nonce = grind::nonce(&SuiteChannel::at(suite, work.over), work.work.bits);
    let label = work.work.label;
    for place in (0..nonces(own, label).len()).rev() {
        let set = |own: &mut T, to: u64| {
            nonces(own, label)
                .into_iter()
                .nth(place)
                .map(|found| std::mem::replace(found, to))
        };
        match set(own, nonce) {
            Some(before) if before == work.nonce => {
                if missing(verdict(own)).is_none_or(|next| next.over != work.over) {
                    return true;
                }
                set(own, before);
            }
            Some(before) => drop(set(own, before)),
            None => (),
        }
    }
    false
}

fn nonces_of_chunks<'a>(chunks: &'a mut [ChunkProof], label: &str) -> Vec<&'a mut u64> {
    let each = chunks.iter_mut().flat_map(|chunk| nonces(chunk, label));
    each.collect()
}

fn nonces_of_hidden<'a>(proof: &'a mut Proof, label: &str) -> Vec<&'a mut u64> {
    match label {
        own if own == TAPE_WORK.label => proof.hidden.iter_mut().map(|own| &mut own.tape.work).collect(),
        _ => nonces_of_chunks(&mut proof.chunks, label),
    }
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
