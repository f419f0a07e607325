//! Work done again. Whoever changes a proof can do the work before the lookups again; a change must not be found by that
//! alone.

use tessera_circuits::chunk::{ends, Chunk};
use tessera_circuits::model::ModelConfig;
use tessera_circuits::trees::Forest;
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::{ACTIVATIONS, LOOKUP_GRIND};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::policy::LOOKUP_GRIND_BITS;
use tessera_verifier::proof::Proof;
use tessera_verifier::stark::{absorb_counts, absorb_tables, draw_weight};
use tessera_verifier::verify::{absorb_context, absorb_statistics, open_transcript};

use tessera_prover::grind;

/// The proof with the work of every chunk done again; as it is, where a check before that work refuses it.
pub fn reworked(key: &ModelKey, proof: Proof) -> Proof {
    nonces(key, &proof).map_or(proof.clone(), |nonces| {
        let mut proof = proof;
        for (chunk, nonce) in proof.chunks.iter_mut().zip(nonces) {
            chunk.lookup_work = nonce;
        }
        proof
    })
}

fn nonces(key: &ModelKey, proof: &Proof) -> Option<Vec<u64>> {
    let (config, statement) = (&key.config, &proof.statement);
    statement.check(config).ok()?;
    let layers = proof.chunks.iter().map(|chunk| chunk.layers as usize);
    let chunks = Chunk::partition(layers, config.layers).ok()?;
    let tokens = 1 << ModelConfig::token_log(statement.rows());
    let ends = ends(&proof.boundaries, chunks.len(), tokens, config.hidden).ok()?;
    let parts = chunks.iter().zip(ends).zip(&proof.chunks);
    let nonces = parts.map(|((chunk, ends), own)| {
        let shape = key.shape(chunk, statement.lengths());
        let params = CommitmentParams::of_activations(&shape, &key.weights);
        let suite = key.header.hash_suite;
        let mut transcript = open_transcript(suite, &proof.model, &params, statement, chunk, &ends);
        absorb_context(proof.context.as_ref(), &mut transcript);
        transcript.send(ACTIVATIONS, &own.activations);
        absorb_tables(&key.tables_root, &own.stark, &mut transcript).ok()?;
        absorb_statistics(&own.statistics, &mut transcript);
        draw_weight(&Forest::of(&shape), &mut transcript);
        absorb_counts(&own.stark, &mut transcript).ok()?;
        Some(grind::send(LOOKUP_GRIND, LOOKUP_GRIND_BITS, &mut transcript))
    });
    nonces.collect()
}
