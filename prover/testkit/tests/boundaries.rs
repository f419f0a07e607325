//! Committed boundaries between chunks: what a proof has of them, that both neighbours hold them, and what they cost. What a cheating
//! prover can do within a chunk is tested in `soundness/boundaries.rs`.

use std::sync::OnceLock;

use tessera_circuits::boundary::COMMITTED_VALUES;
use tessera_circuits::chunk::{ends, Boundary, BoundaryError, Chunk, PublicBoundary};
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_prover::scalar::Scalar;
use tessera_testkit::{odd_config, random_ids, random_model, reworked, TestModel};
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::{verify, verify_bytes, verify_chunk, ChunkStatement, VerifyError};

/// One layer each.
const LAYERS: [usize; 3] = [1; 3];
/// The fewest rows whose boundaries are committed to.
const ROWS: usize = 128;

/// A model of few weights whose stream is wide.
fn config() -> ModelConfig {
    ModelConfig {
        hidden: COMMITTED_VALUES / ROWS,
        layers: 3,
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        ff: 8,
        vocab: 40,
        context: ROWS + 2,
        ..odd_config()
    }
}

fn make(seed: u64) -> TestModel {
    TestModel::new(random_model(config(), WeightFormat::Int8, seed))
}

fn model() -> &'static TestModel {
    static MODEL: OnceLock<TestModel> = OnceLock::new();
    MODEL.get_or_init(|| make(7))
}

fn prompt(rows: usize, seed: u64) -> Vec<u32> {
    random_ids(&model().key.config, rows, seed)
}

fn honest() -> &'static Proof {
    static PROOF: OnceLock<Proof> = OnceLock::new();
    PROOF.get_or_init(|| model().prove_chunks(&prompt(ROWS, 3), 1, &LAYERS))
}

#[test]
fn a_chain_with_committed_boundaries_is_proved() {
    let proof = honest();
    let committed = |own: &PublicBoundary| matches!(own, PublicBoundary::Committed(_));
    assert!(proof.boundaries.iter().all(committed));
    let bytes = proof.to_bytes().expect("it encodes");
    let verified = verify_bytes(&model().key, &bytes).expect("the proof verifies");
    println!("{} bytes, {:.1} bits", bytes.len(), verified.security_bits);
}
