//! Which chunks of a chain refuse a change of it.

use tessera_circuits::chunk::{ends, Chunk};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::{verify, verify_chunk, ChunkStatement, VerifyError};

use crate::reworked;

/// The chunks of a proof that do not verify on their own, with the reasons. The proof as a whole must be refused for the first of them.
pub fn refusals(key: &ModelKey, proof: &Proof) -> Vec<(usize, VerifyError)> {
    let layers = proof.chunks.iter().map(|c| c.layers as usize);
    let chunks = Chunk::partition(layers, key.config.layers).expect("a partition");
    let ends = ends(&proof.boundaries, chunks.len()).expect("boundaries");
    let id = key.id().expect("the key encodes");
    let mut refusals = Vec::new();
    for (i, ((chunk, ends), own)) in chunks.iter().zip(ends).zip(&proof.chunks).enumerate() {
        let claim = ChunkStatement {
            key,
            model: &id,
            statement: &proof.statement,
            chunk,
            ends,
            context: None,
        };
        refusals.extend(verify_chunk(&claim, own).err().map(|error| (i, error)));
    }
    let whole = verify(key, proof).err().map(|error| error.to_string());
    assert_eq!(whole, refusals.first().map(|(_, error)| error.to_string()));
    refusals
}

/// Asserts that exactly these chunks of an altered proof refuse, because their challenges are others.
pub fn assert_refused_by(key: &ModelKey, chunks: &[usize], what: &str, altered: Proof) {
    let refusals = refusals(key, &reworked(key, altered));
    let expected = |(_, error): &(usize, VerifyError)| matches!(error, VerifyError::Gkr(_));
    assert!(refusals.iter().all(expected), "{what}: {refusals:?}");
    assert!(refusals.iter().map(|(i, _)| i).eq(chunks), "{what}: {refusals:?}");
}
