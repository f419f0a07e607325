//! Honest proofs of random models verify, whatever the dimensions.

use tessera_circuits::model::{ModelConfig, Strategy};
use tessera_prover::progress::Silent;
use tessera_prover::prove::prove;
use tessera_prover::testing::{fixture_size_config, odd_config, random_ids, random_model, TestModel};
use tessera_verifier::verify::verify_bytes;

fn round_trip(config: ModelConfig, strategy: Strategy, prompt: usize, tokens: usize) {
    let model = TestModel::new(random_model(config.clone(), strategy, 7));
    let prompt = random_ids(&config, prompt, 3);
    let report = prove(&model.prover(), &prompt, tokens, &Silent).expect("an honest proof");
    for (name, seconds) in &report.phases {
        println!("{name:>14} {seconds:.3} s");
    }
    println!("{} bytes, {:.2} bits", report.bytes.len(), report.security_bits);
    let start = std::time::Instant::now();
    let verified = verify_bytes(&model.key, &report.bytes).expect("the proof verifies");
    println!("verified in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    assert_eq!(verified.statement.prompt, prompt);
    assert_eq!(verified.statement.output.len(), tokens);
}

#[test]
fn odd_dimensions_are_proved() {
    round_trip(odd_config(), Strategy::W12, 5, 4);
}

#[test]
fn one_token_is_proved() {
    round_trip(odd_config(), Strategy::W12, 1, 1);
}

#[test]
fn per_channel_scales_are_proved() {
    round_trip(odd_config(), Strategy::W8, 6, 3);
}

#[test]
fn the_size_of_the_fixture_is_proved() {
    round_trip(fixture_size_config(), Strategy::W12, 16, 48);
}

#[test]
fn a_padded_layer_axis_is_proved() {
    let config = ModelConfig {
        layers: 3,
        ..odd_config()
    };
    round_trip(config, Strategy::W12, 5, 4);
}
