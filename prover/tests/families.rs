//! Every family of models against an independent implementation, from the checkpoint to the proof.

use serde_json::{json, Value};
use tempfile::TempDir;
use tessera_circuits::semantics::arg_max;
use tessera_prover::checkpoint::{Checkpoint, CheckpointError};
use tessera_prover::float::FloatModel;
use tessera_prover::forward::ForwardState;
use tessera_prover::model::QuantisedModel;
use tessera_prover::quantise::Strategy;
use tessera_prover::testing::families::{case, cases, write, Case};
use tessera_prover::testing::{quantised, random_ids, TestModel};
use tessera_verifier::verify::verify;

fn written(config: &Value) -> (TempDir, Checkpoint) {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), config);
    let checkpoint = Checkpoint::open(dir.path()).expect("a supported checkpoint");
    (dir, checkpoint)
}

fn integer(case: &Case) -> (TempDir, QuantisedModel) {
    let (dir, checkpoint) = written(&case.config);
    let texts: Vec<Vec<u32>> = (0..4).map(|seed| random_ids(checkpoint.config(), 24, seed)).collect();
    let (model, _) = quantised(&checkpoint, Strategy::W12, &texts).expect("a quantised model");
    (dir, model)
}

fn furthest(got: &[f32], expected: &[f32]) -> f32 {
    let pairs = got.iter().zip(expected);
    pairs.fold(0.0, |most, (a, b)| most.max((a - b).abs()))
}

#[test]
fn the_float_model_of_every_family_is_that_of_transformers() {
    for case in cases() {
        let (_dir, checkpoint) = written(&case.config);
        let logits = FloatModel::new(&checkpoint).forward(&case.ids).expect("a forward pass");
        let vocab = checkpoint.config().vocab;
        let largest = case.logits.values().flatten().fold(0f32, |m, v| m.max(v.abs()));
        for (row, expected) in &case.logits {
            assert_eq!(expected.len(), vocab, "{}", case.name);
            let off = furthest(&logits[row * vocab..][..vocab], expected);
            assert!(
                off <= 3e-5 * largest,
                "{}: row {row} is off by {off} of {largest}",
                case.name
            );
        }
    }
}

/// Units of logits are a power of two; its integers are those of the float model to a hundredth of the largest.
#[test]
fn the_integer_model_of_every_family_is_near_the_float_model() {
    for case in cases() {
        let (_dir, model) = integer(&case);
        let logits = ForwardState::new(&model).run(&case.ids, None).expect("a forward pass");
        let (vocab, unit) = (model.config.vocab, f32::powi(0.5, model.params.logit_bits));
        let largest = case.logits.values().flatten().fold(0f32, |m, v| m.max(v.abs()));
        for (row, expected) in &case.logits {
            let own = &logits[row * vocab..][..vocab];
            let off = furthest(&own.iter().map(|v| f32::from(*v) * unit).collect::<Vec<_>>(), expected);
            assert!(
                off <= 0.01 * largest,
                "{}: row {row} is off by {off} of {largest}",
                case.name
            );
        }
    }
}

#[test]
fn every_family_is_proved() {
    for case in cases() {
        let (_dir, model) = integer(&case);
        let vocab = model.config.vocab;
        let logits = ForwardState::new(&model)
            .run(&case.ids[..6], None)
            .expect("a forward pass");
        let next = arg_max(&logits[5 * vocab..]) as u32;
        let model = TestModel::new(model);
        let layers = model.key.config.layers;
        for chunks in [vec![layers], vec![1, layers - 1]] {
            let proof = model.prove_chunks(&case.ids[..6], 2, &chunks);
            verify(&model.key, &proof).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            assert_eq!(proof.statement.output[0], next, "{}", case.name);
        }
    }
}

fn refusal(name: &str, edits: Value) -> String {
    let mut config = case(name).config;
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), &config);
    let edits = edits.as_object().expect("fields").clone();
    config.as_object_mut().expect("fields").extend(edits);
    std::fs::write(dir.path().join("config.json"), config.to_string()).expect("a config");
    match Checkpoint::open(dir.path()) {
        Err(error @ (CheckpointError::Unsupported(_) | CheckpointError::Config { .. })) => error.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

/// Whatever a config says and nobody reads refuses the model, and the message says what helps.
#[test]
fn an_unknown_switch_refuses_the_model_by_name() {
    for case in cases() {
        for edit in [
            json!({"use_new_trick": true}),
            json!({"use_new_trick": false}),
            json!({"use_new_trick": {"a": 1}}),
        ] {
            let error = refusal(&case.name, edit);
            assert!(
                error.contains("use_new_trick") && error.contains("remove it"),
                "{error}"
            );
        }
    }
    // Switches of one family are unknown to another.
    for (name, edit) in [
        ("llama", json!({"sliding_window": 4096})),
        ("llama", json!({"residual_multiplier": 0.5})),
        ("phi3", json!({"logits_scaling": 2.0})),
        ("granite", json!({"attn_logit_softcapping": 30.0})),
    ] {
        let field = edit
            .as_object()
            .and_then(|o| o.keys().next().cloned())
            .expect("a field");
        assert!(refusal(name, edit).contains(&field), "{name}");
    }
}

/// Texts are as short as the window, so that attention sees all of them.
#[test]
fn a_window_bounds_the_length_of_texts() {
    let mut config = case("mistral, heads of their own length").config;
    for (window, context) in [(json!(5), 5), (json!(64), 64), (json!(1000), 64), (Value::Null, 64)] {
        config["sliding_window"] = window;
        let (_dir, checkpoint) = written(&config);
        assert_eq!(checkpoint.config().context, context);
        assert_eq!(checkpoint.description().notes.len(), usize::from(context == 5));
    }
    let ids = random_ids(written(&config).1.config(), 6, 1);
    config["sliding_window"] = json!(5);
    let (_dir, checkpoint) = written(&config);
    assert!(FloatModel::new(&checkpoint).forward(&ids).is_err());
}
