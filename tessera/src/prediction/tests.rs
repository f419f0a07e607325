use tessera_circuits::model::{LimbSet, Limbs, WeightFormat};
use tessera_samples::{fixture_size_config, odd_config};
use tessera_testkit::{random_ids, random_model, TestModel};

use super::*;

/// A key that is made up from dimensions has the limbs and the commitment of one that set-up makes.
#[test]
fn an_expected_key_is_like_a_real_one() {
    for config in [fixture_size_config(), odd_config()] {
        let real = TestModel::new(random_model(config.clone(), WeightFormat::Int16, 3)).key;
        let expected = expected_key(&config, WeightFormat::Int16, Suite::default());
        assert_eq!(expected.params.limb_set(&config), LimbSet::all(Limbs::One));
        assert_eq!((expected.weights, expected.header), (real.weights, real.header));
        let chunks = [Chunk::whole(config.layers)];
        let bits = |key: &ModelKey| security_bits(key, &chunks, config.context);
        assert_eq!(bits(&expected), bits(&real));
    }
}

/// The length of a proof is known before to a few percent, in one piece and in chunks.
#[test]
fn proofs_have_the_predicted_length() {
    let config = fixture_size_config();
    let model = TestModel::new(random_model(config.clone(), WeightFormat::Int16, 3));
    for (prompt, output) in [(2, 3), (9, 24)] {
        let ids = random_ids(&config, prompt, 5);
        for layers in [vec![config.layers], vec![1, config.layers - 1]] {
            let real = model
                .prove_chunks(&ids, output, &layers)
                .to_bytes()
                .expect("a proof")
                .len() as f64;
            let chunks = Chunk::partition(layers.iter().copied(), config.layers).expect("chunks");
            let shapes: Vec<Shape> = chunks
                .iter()
                .map(|chunk| model.key.shape(chunk, prompt + output - 1))
                .collect();
            let predicted = size::proof(&model.key, &chunks, &shapes, prompt + output) as f64;
            let ratio = predicted / real;
            assert!(
                (0.97..1.03).contains(&ratio),
                "{predicted} predicted, {real} real of {layers:?} at {prompt} + {output}"
            );
        }
    }
}
