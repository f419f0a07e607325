//! Honest proofs of random models verify, whatever the dimensions.

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ChannelShift, LimbSet, Limbs, ModelConfig, ModelParams, WeightFormat};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Lengths;
use tessera_model::generate::GenerateOptions;
use tessera_prover::opening::params_for;
use tessera_prover::prove;
use tessera_support::progress::Silent;
use tessera_testkit::{
    banded_config, extreme_model, fixture_size_config, odd_config, random_ids, random_model, windowed_config, TestModel,
};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::verify::verify_bytes;

fn round_trip(config: ModelConfig, format: WeightFormat, prompt: usize, tokens: usize) {
    let model = TestModel::new(random_model(config.clone(), format, 7));
    let prompt = random_ids(&config, prompt, 3);
    let report = prove(&model.prover(), &prompt, &GenerateOptions::exactly(tokens), &Silent).expect("an honest proof");
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
    round_trip(odd_config(), WeightFormat::Int16, 5, 4);
}

#[test]
fn one_token_is_proved() {
    round_trip(odd_config(), WeightFormat::Int16, 1, 1);
}

#[test]
fn per_channel_scales_are_proved() {
    round_trip(odd_config(), WeightFormat::Int8, 6, 3);
}

#[test]
fn the_size_of_the_fixture_is_proved() {
    round_trip(fixture_size_config(), WeightFormat::Int16, 16, 48);
}

#[test]
fn a_full_context_is_proved() {
    // 25 rows, padded to 32: beyond the context.
    round_trip(odd_config(), WeightFormat::Int16, 20, 6);
}

#[test]
fn the_smallest_model_is_proved() {
    let config = ModelConfig {
        hidden: 2,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 2,
        ff: 1,
        vocab: 2,
        context: 1,
        ..odd_config()
    };
    round_trip(config.clone(), WeightFormat::Int16, 1, 1);
    round_trip(config, WeightFormat::Int8, 1, 1);
}

/// Windows shorter than a block, of one token, that begin at the border of a block and within it, in some layers and in all, and texts that
/// end within a block and with it.
#[test]
fn windows_are_proved() {
    for (keys, layers, rows) in [
        (1, vec![1], 20),
        (5, vec![0, 1, 2], 33),
        (16, vec![0, 2], 48),
        (17, vec![0, 1, 2], 48),
        (23, vec![0], 64),
    ] {
        round_trip(windowed_config(keys, layers), WeightFormat::Int16, rows - 4, 4);
    }
    // Longer than the text, whose proof has no pairs that the same model without windows has not.
    round_trip(windowed_config(40, [1]), WeightFormat::Int8, 20, 2);
}

#[test]
fn padded_layers_and_large_heads_are_proved() {
    let config = ModelConfig {
        layers: 5,
        heads: 2,
        kv_heads: 2,
        head_dim: 128,
        ..odd_config()
    };
    round_trip(config, WeightFormat::Int8, 2, 2);
}

#[test]
fn saturation_everywhere_is_proved() {
    for format in [WeightFormat::Int8, WeightFormat::Int16] {
        let model = TestModel::new(extreme_model(odd_config(), format, 5));
        let prompt = random_ids(&model.key.config, 4, 3);
        let report = prove(&model.prover(), &prompt, &GenerateOptions::exactly(4), &Silent).expect("an honest proof");
        assert!(
            report.saturated.values().map(|s| s.total()).sum::<u64>() > 1000,
            "{:?}",
            report.saturated
        );
        verify_bytes(&model.key, &report.bytes).expect("the proof verifies");
    }
}

#[test]
fn a_padded_layer_axis_is_proved() {
    let config = ModelConfig {
        layers: 3,
        ..odd_config()
    };
    round_trip(config, WeightFormat::Int16, 5, 4);
}

/// Weights opened two and four tiles at a time.
#[test]
fn bands_are_proved() {
    for (log_band, format) in [
        (1, WeightFormat::Int8),
        (1, WeightFormat::Int16),
        (2, WeightFormat::Int8),
        (2, WeightFormat::Int16),
    ] {
        let config = banded_config(log_band);
        assert_eq!(config.band_log(), log_band);
        round_trip(config, format, 3, 2);
    }
}

/// Heads, features, layers and vocabulary far above a power of two: large enough to be cut into lanes.
#[test]
fn parts_in_lanes_are_proved() {
    let config = ModelConfig {
        layers: 5,
        heads: 9,
        ff: 2000,
        vocab: 7000,
        context: 128,
        ..odd_config()
    };
    let (chunk, one) = (Chunk::whole(config.layers), LimbSet::all(Limbs::One));
    let lengths = Lengths::new(124, 5);
    let shape = Shape::with_limbs(&config, one, &chunk, lengths);
    let lanes = [Part::SCORES, Part::FF, Part::LOGITS].map(|p| shape.lanes(p));
    assert!(lanes.iter().all(|lanes| *lanes > 1), "{lanes:?}");
    let layers = shape.extent(Part::FF, 0);
    assert!(!layers.is_power_of_two(), "{layers}");
    // And in more than one column of their code.
    assert!(CommitmentParams::of_activations(&shape, &params_for(config.total_tiles())).columns() > 1);
    round_trip(config, WeightFormat::Int16, 120, 5);
}

/// Accumulators that are all in one limb, all in two, or some of each: the limbs follow from the key, of one model as well as of
/// another.
#[test]
fn accumulators_of_either_number_of_limbs_are_proved() {
    let limbs = |change: &dyn Fn(&mut ModelParams)| {
        let mut model = random_model(odd_config(), WeightFormat::Int8, 7);
        change(&mut model.params);
        let model = TestModel::new(model);
        let report = prove(
            &model.prover(),
            &random_ids(&model.key.config, 5, 3),
            &GenerateOptions::exactly(3),
            &Silent,
        );
        verify_bytes(&model.key, &report.expect("an honest proof").bytes).expect("the proof verifies");
        model.key.params.limb_set(&model.key.config)
    };
    // With a total shift above 15 a remainder is looked up in two limbs.
    let two = || ChannelShift(vec![8]);
    assert_eq!(limbs(&|_| ()), LimbSet::all(Limbs::One));
    let mixed = LimbSet {
        k: Limbs::Two,
        gate: Limbs::Two,
        ..LimbSet::all(Limbs::One)
    };
    assert_eq!(
        limbs(&|p| (p.layers[0].attention.k, p.layers[1].mlp.gate) = (two(), two())),
        mixed
    );
    let head = LimbSet {
        head: Limbs::Two,
        ..LimbSet::all(Limbs::One)
    };
    assert_eq!(limbs(&|p| p.head = two()), head);
    let all = |p: &mut ModelParams| {
        let layer = &mut p.layers[0];
        (
            layer.attention.q,
            layer.attention.k,
            layer.attention.v,
            layer.mlp.gate,
            layer.mlp.up,
        ) = (two(), two(), two(), two(), two());
        p.head = two();
    };
    assert_eq!(limbs(&all), LimbSet::all(Limbs::Two));
}
