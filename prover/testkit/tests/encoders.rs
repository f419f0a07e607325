//! Text encoders against an independent implementation, from the checkpoint to the proof.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{json, Value};
use tempfile::TempDir;
use tessera_checkpoint::{tensors, Checkpoint, CheckpointError};
use tessera_circuits::model::{Blocks, MatrixId, Output, Pooling};
use tessera_float::{Blind, FloatModel};
use tessera_model::forward::{ForwardError, ForwardState};
use tessera_model::generate::{generate, GenerateError, GenerateOptions};
use tessera_model::QuantisedModel;
use tessera_quantise::vectors::measure_vectors;
use tessera_quantise::{QuantiseError, QuantiseOptions, Strategy};
use tessera_samples::families::write;
use tessera_support::progress::Silent;
use tessera_testkit::{quantised, random_ids, TestModel};
use tessera_verifier::verify::verify;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/encoders.json");

/// A model and the vectors that it makes, by number of tokens (`fixtures/encoder.py`).
#[derive(Deserialize)]
struct Case {
    name: String,
    config: Value,
    ids: Vec<u32>,
    vectors: BTreeMap<usize, Vec<f64>>,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(FILE).expect("the golden file");
    serde_json::from_str(&text).expect("golden JSON")
}

fn written(config: &Value) -> (TempDir, Checkpoint) {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), config);
    let checkpoint = Checkpoint::open(dir.path()).expect("a supported checkpoint");
    (dir, checkpoint)
}

fn texts(checkpoint: &Checkpoint) -> Vec<Vec<u32>> {
    (0..4).map(|seed| random_ids(checkpoint.config(), 24, seed)).collect()
}

fn integer(case: &Case, options: impl Into<QuantiseOptions>) -> (TempDir, Checkpoint, QuantisedModel) {
    let (dir, checkpoint) = written(&case.config);
    let (model, _) = quantised(&checkpoint, options, &texts(&checkpoint)).expect("a quantised model");
    (dir, checkpoint, model)
}

/// One less the cosine.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn float_vectors_are_those_of_numpy() {
    for case in cases() {
        let (_dir, checkpoint) = written(&case.config);
        for (rows, expected) in &case.vectors {
            let mut run = FloatModel::new(&checkpoint).run(&[&case.ids[..*rows]]).expect("a run");
            for l in 0..checkpoint.config().layers {
                run.layer(l, &mut Blind).expect("a layer");
            }
            let vector: Vec<f64> = run.vectors().expect("vectors")[0]
                .iter()
                .map(|v| f64::from(*v))
                .collect();
            let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
            let off = vector.iter().zip(expected).map(|(v, e)| (v / norm - e).abs());
            assert!(off.fold(0.0, f64::max) < 2e-6, "{}: {rows} rows", case.name);
        }
    }
}

/// With weights of both formats; what clips is far from any text.
#[test]
fn integer_vectors_are_near_the_float_ones() {
    for case in cases() {
        for (strategy, most) in [(Strategy::Auto, 1e-5), (Strategy::W12, 1e-5), (Strategy::W8, 3e-3)] {
            let (_dir, checkpoint, model) = integer(&case, strategy);
            for (rows, expected) in &case.vectors {
                let ids = &case.ids[..*rows];
                let vector = ForwardState::new(&model).vector(ids).expect("a vector");
                let own = model.params.embedding(&vector, model.config.pooled_rows(*rows));
                let own: Vec<f64> = own.into_iter().map(|v| v as f64).collect();
                let off = distance(&own, expected);
                assert!(off <= most, "{}, {strategy:?}, {rows} rows: {off}", case.name);
            }
            let report = measure_vectors(&model, &checkpoint, &texts(&checkpoint), &Silent).expect("a report");
            assert!(report.figures("ids").worst <= most, "{}: {report:?}", case.name);
        }
    }
}

#[test]
fn encoders_are_proved() {
    for case in cases() {
        let (_dir, _, model) = integer(&case, Strategy::Auto);
        let ids = &case.ids[..19];
        let vector = ForwardState::new(&model).vector(ids).expect("a vector");
        let model = TestModel::new(model);
        let layers = model.key.config.layers;
        for chunks in [vec![layers], vec![1, layers - 1]] {
            let proof = model.prove_chunks(ids, 1, &chunks);
            verify(&model.key, &proof).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            assert_eq!(proof.statement.vector(), Some(vector.clone()), "{}", case.name);
        }
    }
}

#[test]
fn what_an_encoder_cannot_do_is_refused() {
    let case = &cases()[0];
    let (_dir, checkpoint, model) = integer(case, Strategy::Auto);
    let refused = generate(&model, &case.ids, &GenerateOptions::exactly(1), |_| ()).map(|_| ());
    assert_eq!(refused, Err(GenerateError::Encoder));
    let mut state = ForwardState::new(&model);
    state.run(&case.ids[..4], None).expect("a text");
    let second = state.run(&case.ids[4..], None).map(|_| ());
    assert_eq!(second, Err(ForwardError::NotFirst { cached: 4 }));
    let rotated = QuantiseOptions {
        rotation: Some(true),
        ..Strategy::Auto.into()
    };
    let refused = quantised(&checkpoint, rotated, &texts(&checkpoint)).map(|_| ());
    assert!(matches!(refused, Err(QuantiseError::Rotation)), "{refused:?}");
}

/// Of RoBERTa's positions the first two rows are those of padding and of what comes before it: no text has them.
#[test]
fn positions_begin_after_those_of_padding() {
    let named = |name: &str| cases().into_iter().find(|case| case.name == name).expect("a case");
    for (name, skipped) in [("bert", 0), ("roberta", 2), ("distilbert", 0)] {
        let case = named(name);
        let (_dir, checkpoint) = written(&case.config);
        let config = checkpoint.config();
        assert_eq!(config.context + skipped, 44, "{name}");
        let rows = checkpoint.matrix(MatrixId::EMBED).expect("an embedding");
        let mut first = vec![0.0; config.hidden];
        rows.read(config.vocab * config.hidden, &mut first).expect("a row");
        let stored = checkpoint
            .values("model.embeddings.position_embeddings.weight")
            .expect("positions");
        let types = checkpoint.values("model.embeddings.token_type_embeddings.weight").ok();
        let expected = (0..config.hidden).map(|x| {
            let types = types.as_ref().map_or(0.0, |types| types[x]);
            stored[skipped * config.hidden + x] + types
        });
        assert_eq!(first, expected.collect::<Vec<_>>(), "{name}");
    }
    let mut other = named("roberta").config;
    other["pad_token_id"] = json!(0);
    let refused = tensors(other.to_string().as_bytes()).map(|_| ());
    assert!(refused.is_err_and(|e| e.to_string().contains("pad_token_id")));
}

/// Whatever a config says and nobody reads refuses the model by name; so do steps that make other vectors.
#[test]
fn switches_of_other_encoders_are_refused_by_name() {
    let refusal = |edit: Value| {
        let mut config = cases()[0].config.clone();
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path(), &config);
        let fields = edit.as_object().expect("fields").clone();
        config.as_object_mut().expect("an object").extend(fields);
        std::fs::write(dir.path().join("config.json"), config.to_string()).expect("a config");
        match Checkpoint::open(dir.path()) {
            Err(error @ CheckpointError::Unsupported(_)) => error.to_string(),
            other => panic!("{edit}: {other:?}"),
        }
    };
    let pooling = |fields: Value| json!({"1_Pooling": fields});
    for (edit, name) in [
        (json!({"use_new_trick": true}), "use_new_trick"),
        (
            json!({"position_embedding_type": "relative_key"}),
            "position_embedding_type",
        ),
        (json!({"is_decoder": true}), "is_decoder"),
        (json!({"hidden_act": "tanh"}), "hidden_act"),
        (
            pooling(json!({"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false})),
            "pooling_mode_max_tokens",
        ),
        (
            pooling(json!({"pooling_mode_mean_tokens": true, "pooling_mode_new_kind": true})),
            "pooling_mode_new_kind",
        ),
        (
            pooling(json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})),
            "pooling",
        ),
        (
            pooling(json!({"pooling_mode_mean_tokens": true, "word_embedding_dimension": 12})),
            "word_embedding_dimension",
        ),
        (
            pooling(json!({"pooling_mode": ["cls", "max"], "embedding_dimension": 40})),
            "pooling_mode",
        ),
        (
            pooling(json!({"pooling_mode": "mean", "embedding_dimension": 12})),
            "embedding_dimension",
        ),
        (
            json!({"modules": [{"type": "sentence_transformers.models.Dense"}]}),
            "sentence_transformers.models.Dense",
        ),
    ] {
        let error = refusal(edit);
        assert!(error.contains(name), "{name}: {error}");
    }
}

/// sentence-transformers 6 names the way in one field; before, every way had a field of its own.
#[test]
fn pooling_is_read_in_both_layouts() {
    let blocks = |pooling: Value| {
        let mut config = cases()[0].config.clone();
        let dir = tempfile::tempdir().expect("a directory");
        config["1_Pooling"] = pooling;
        write(dir.path(), &config);
        Checkpoint::open(dir.path()).expect("an encoder").config().blocks
    };
    for (older, newer, expected) in [
        ("pooling_mode_cls_token", json!("cls"), Pooling::First),
        ("pooling_mode_cls_token", json!(["cls"]), Pooling::First),
        ("pooling_mode_mean_tokens", json!("mean"), Pooling::Mean),
    ] {
        assert_eq!(
            blocks(json!({ older: true })),
            Blocks::encoder(Output::Vector(expected))
        );
        assert_eq!(
            blocks(json!({ "pooling_mode": newer })),
            Blocks::encoder(Output::Vector(expected))
        );
    }
}
