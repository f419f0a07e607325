//! Proofs in chunks of layers: honest ones verify, and what links the chunks cannot be changed.

use tessera_circuits::model::{ModelConfig, Strategy};
use tessera_prover::testing::{odd_config, random_ids, random_model, TestModel};
use tessera_verifier::verify::verify_bytes;

/// Seven layers, so that chunks have padded layers.
fn model() -> TestModel {
    let config = ModelConfig {
        layers: 7,
        ..odd_config()
    };
    TestModel::new(random_model(config, Strategy::W12, 7))
}

#[test]
fn any_partition_is_proved() {
    let model = model();
    let prompt = random_ids(&model.key.config, 4, 3);
    for layers in [&[7][..], &[3, 4], &[1, 5, 1], &[1; 7]] {
        let proof = model.prove_chunks(&prompt, 3, layers);
        let bytes = proof.to_bytes().expect("it encodes");
        let verified = verify_bytes(&model.key, &bytes).expect("the proof verifies");
        assert_eq!((verified.chunks, verified.statement), (layers.len(), proof.statement));
        println!("{layers:?}: {} bytes, {:.1} bits", bytes.len(), verified.security_bits);
    }
}
