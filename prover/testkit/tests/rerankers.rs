//! Rerankers against an independent implementation, from the checkpoint to the proof.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{json, Value};
use tempfile::TempDir;
use tessera::model::Model;
use tessera::setup::{setup, SetupOptions};
use tessera_checkpoint::{tensors, Checkpoint, CheckpointError};
use tessera_circuits::model::{MatmulKind, MatrixId, Reranker, WeightFormat};
use tessera_float::{Blind, FloatModel};
use tessera_model::forward::ForwardState;
use tessera_model::QuantisedModel;
use tessera_quantise::vectors::measure_vectors;
use tessera_quantise::{QuantiseError, Strategy};
use tessera_recipe::{read_key, Class, Fidelity};
use tessera_samples::families::write;
use tessera_support::progress::Silent;
use tessera_testkit::{quantised, random_ids, random_model, reranker_config, unrooted_key, TestModel};
use tessera_verifier::key::ModelKey;
use tessera_verifier::verify::verify;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/rerankers.json");

/// A model and the logits that it makes of pairs of texts (`fixtures/encoder.py`).
#[derive(Deserialize)]
struct Case {
    name: String,
    config: Value,
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    ids: Vec<u32>,
    logits: Vec<f64>,
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

/// Pairs of random texts, the first one of six tokens.
fn texts(checkpoint: &Checkpoint) -> Vec<Vec<u32>> {
    let config = checkpoint.config();
    let separator = config.reranker().and_then(|own| own.separator);
    let text = |seed| {
        let mut ids = random_ids(config, 24, seed);
        ids[6] = separator.unwrap_or(2);
        ids
    };
    (0..4).map(text).collect()
}

fn integer(case: &Case, strategy: Strategy) -> (TempDir, Checkpoint, QuantisedModel) {
    let (dir, checkpoint) = written(&case.config);
    let (model, _) = quantised(&checkpoint, strategy, &texts(&checkpoint)).expect("a quantised model");
    (dir, checkpoint, model)
}

#[track_caller]
fn assert_near(own: impl IntoIterator<Item = f64>, expected: &[f64], most: f64, what: &str) {
    let own: Vec<f64> = own.into_iter().collect();
    assert_eq!(own.len(), expected.len(), "{what}");
    let off = own.iter().zip(expected).map(|(a, b)| (a - b).abs());
    let off = off.fold(0.0, f64::max);
    assert!(off <= most, "{what}: {off}");
}

#[test]
fn float_logits_are_those_of_numpy() {
    for case in cases() {
        let (_dir, checkpoint) = written(&case.config);
        for pair in &case.pairs {
            let mut run = FloatModel::new(&checkpoint).run(&[&pair.ids]).expect("a run");
            for l in 0..checkpoint.config().layers {
                run.layer(l, &mut Blind).expect("a layer");
            }
            let logits = run.logits_of_pairs().expect("logits").remove(0);
            assert_near(logits.into_iter().map(f64::from), &pair.logits, 1e-5, &case.name);
        }
    }
}

/// With weights of both formats; scores are the logits, or their sigmoids where the config says so.
#[test]
fn integer_logits_are_near_the_float_ones() {
    for case in cases() {
        for (strategy, most) in [(Strategy::Auto, 0.01), (Strategy::W12, 0.02), (Strategy::W8, 0.5)] {
            let (_dir, checkpoint, model) = integer(&case, strategy);
            let sigmoid = model.config.reranker().expect("a reranker").sigmoid;
            for pair in &case.pairs {
                let vector = ForwardState::new(&model).vector(&pair.ids).expect("a vector");
                let own = model.params.pair_scores(&model.config, &vector).expect("scores");
                assert_near(own.logits.clone(), &pair.logits, most, &case.name);
                let squashed = |v: &f64| 1.0 / (1.0 + (-v).exp());
                let expected = own.logits.iter().map(|v| if sigmoid { squashed(v) } else { *v });
                assert_near(own.scores, &expected.collect::<Vec<_>>(), 1e-15, &case.name);
            }
            let report = measure_vectors(&model, &checkpoint, &texts(&checkpoint), &Silent).expect("a report");
            let Fidelity::Scores(figures) = report.fidelity("ids", &model.config) else {
                panic!("{report:?}");
            };
            assert!(figures.0.worst <= most, "{}: {figures:?}", case.name);
            assert_eq!(figures.class() == Class::Faithful, figures.0.worst <= 0.01);
        }
    }
}

/// A pair is not two texts: which tokens are of the second one changes the scores.
#[test]
fn types_of_tokens_change_the_scores() {
    let case = &cases()[0];
    let (_dir, checkpoint, model) = integer(case, Strategy::Auto);
    let own = Reranker {
        separator: Some(7),
        sigmoid: false,
    };
    assert_eq!(model.config.reranker(), Some(own));
    let mut scores = case.pairs.iter().map(|pair| {
        let vector = ForwardState::new(&model).vector(&pair.ids).expect("a vector");
        model.params.pair_scores(&model.config, &vector).expect("scores").logits[0]
    });
    let (first, last) = (scores.next().expect("a pair"), scores.next_back().expect("a pair"));
    assert!((first - last).abs() > 0.01, "{first} {last}");
    // The rows of the second type follow those of the first, and differ by what a type adds.
    let (config, rows) = (checkpoint.config(), checkpoint.matrix(MatrixId::EMBED).expect("rows"));
    let types = checkpoint
        .values("model.embeddings.token_type_embeddings.weight")
        .expect("types");
    let stored = checkpoint
        .values("model.embeddings.position_embeddings.weight")
        .expect("positions");
    let hidden = config.hidden;
    for (token_type, position) in [(0, 3), (1, 0), (1, config.context - 1)] {
        let mut row = vec![0.0; hidden];
        let at = config.position_row(position, token_type).expect("a row");
        rows.read(at * hidden, &mut row).expect("a row");
        let expected = (0..hidden).map(|x| stored[position * hidden + x] + types[token_type * hidden + x]);
        assert_eq!(row, expected.collect::<Vec<_>>());
    }
    assert_eq!(rows.len(), config.dims(MatmulKind::Embed).0 * hidden);
}

#[test]
fn rerankers_are_proved() {
    for case in cases() {
        let (_dir, _, model) = integer(&case, Strategy::Auto);
        let model = TestModel::new(model);
        let layers = model.key.config.layers;
        for (pair, chunks) in case.pairs[1..3].iter().zip([vec![layers], vec![1, layers - 1]]) {
            let vector = ForwardState::new(&model.quantised).vector(&pair.ids).expect("a vector");
            let proof = model.prove_chunks(&pair.ids, 1, &chunks);
            verify(&model.key, &proof).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            assert_eq!(proof.statement.vector(), Some(vector), "{}", case.name);
        }
    }
}

/// Whatever a config says of another head refuses the model by name.
#[test]
fn heads_of_other_kinds_are_refused_by_name() {
    let named = |name: &str| {
        cases()
            .into_iter()
            .find(|case| case.name == name)
            .expect("a case")
            .config
    };
    let refusal = |name: &str, edit: Value| {
        let mut config = named(name);
        let fields = edit.as_object().expect("fields").clone();
        config.as_object_mut().expect("an object").extend(fields);
        match tensors(config.to_string().as_bytes()).map(|_| ()) {
            Err(error) => error.to_string(),
            Ok(()) => panic!("{edit}"),
        }
    };
    for (edit, words) in [
        (json!({"sep_token_id": null}), "sep_token_id"),
        (json!({"sep_token_id": 90}), "separator is 90"),
        (json!({"num_labels": 2}), "num_labels: 2, but id2label names 1"),
        (
            json!({"sbert_ce_default_activation_function": "torch.nn.modules.activation.Tanh"}),
            "torch.nn.modules.activation.Tanh",
        ),
        (json!({"use_new_trick": true}), "use_new_trick"),
        (
            json!({"architectures": ["DistilBertForSequenceClassification"]}),
            "only those of rerankers",
        ),
        (
            json!({"architectures": ["BertForTokenClassification"]}),
            "no family of this program",
        ),
        (
            json!({"architectures": ["DebertaV2ForSequenceClassification"]}),
            "relative positions",
        ),
    ] {
        let error = refusal("bert, one score", edit);
        assert!(error.contains(words), "{words}: {error}");
    }
    let error = refusal("xlm-roberta", json!({"sentence_transformers": {"activation_fn": "x"}}));
    assert!(error.contains("x is neither"), "{error}");
}

/// Weights of a head are below 128; none is known that is not.
#[test]
fn a_head_of_large_weights_is_refused_with_its_number() {
    let case = &cases()[2];
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), &case.config);
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("tensors");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("a length")) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    let first = header["model.classifier.dense.weight"]["data_offsets"][0]
        .as_u64()
        .expect("a place") as usize;
    bytes[8 + length + first..][..4].copy_from_slice(&(-200f32).to_le_bytes());
    std::fs::write(&path, bytes).expect("a file");
    let checkpoint = Checkpoint::open(dir.path()).expect("a supported checkpoint");
    let refused = quantised(&checkpoint, Strategy::Auto, &texts(&checkpoint)).map(|_| ());
    assert!(
        matches!(refused, Err(QuantiseError::Head(v)) if v == -200.0),
        "{refused:?}"
    );
}

/// The token between the texts is that of the tokenizer, where the config does not name it.
#[test]
fn the_separator_is_that_of_the_tokenizer() {
    let mut config = cases().remove(0).config;
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), &config);
    config.as_object_mut().expect("fields").remove("sep_token_id");
    let file = |name: &str, value: &Value| std::fs::write(dir.path().join(name), value.to_string()).expect("a file");
    file("config.json", &config);
    let refused = Checkpoint::open(dir.path()).map(|_| ());
    assert!(matches!(refused, Err(CheckpointError::Unsupported(_))), "{refused:?}");
    let tokens = json!({"added_tokens": [{"id": 3, "content": "[SEP]"}, {"id": 5, "content": "</sep>"}]});
    file("tokenizer.json", &tokens);
    let separator = || {
        let checkpoint = Checkpoint::open(dir.path()).expect("a supported checkpoint");
        checkpoint.config().reranker().and_then(|own| own.separator)
    };
    assert_eq!(separator(), Some(3));
    file("tokenizer_config.json", &json!({"sep_token": {"content": "</sep>"}}));
    assert_eq!(separator(), Some(5));
}

/// Separator and sigmoid are options of a key's output; facts around them that nobody proves are refused.
#[test]
fn keys_of_rerankers_are_written_and_read_exactly() {
    for separator in [Some(9), None] {
        let key = unrooted_key(&random_model(reranker_config(separator), WeightFormat::Int8, 5));
        let bytes = key.to_bytes().expect("the key encodes");
        assert_eq!(ModelKey::from_bytes(&bytes).expect("a key"), key);
        // The mask, no normed outputs, no cap; then scores, their separator and the sigmoid.
        let id = separator.map_or(vec![0], |id| [&[1][..], &id.to_le_bytes()].concat());
        let own = [&[1, 0, 0, 0, 0, 0, 2, 0, 0, 0][..], &id, &[1]].concat();
        let at = bytes.windows(own.len()).position(|w| w == own).expect("the blocks");
        let sigmoid = own.len() - 1;
        let changes = [(0, 0), (4, 1), (5, 1), (6, 0), (6, 1), (6, 3), (10, 2), (sigmoid, 2)];
        // The last byte of a separator makes it one beyond the vocabulary.
        for (place, byte) in changes.into_iter().chain(separator.map(|_| (14, 1))) {
            let mut other = bytes.clone();
            other[at + place] = byte;
            assert!(ModelKey::from_bytes(&other).is_err(), "byte {place} is {byte}");
            assert!(read_key(&other).is_err(), "byte {place} is {byte}");
        }
    }
}

fn python(script: &str, arguments: &[&OsStr]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(script);
    let output = Command::new("python3")
        .arg(script)
        .args(arguments)
        .output()
        .expect("python3 runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The numbers of a line of output that begins with a name.
fn numbers(text: &str, name: &str) -> Vec<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.split([',', ' '])
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().expect("a number"))
        .collect()
}

// `.ci/nightly` installs numpy and runs it; a plain `cargo test` must pass with rustup alone.
#[test]
#[ignore = "needs python3 with numpy, which .ci/nightly has: cargo test -- --ignored"]
fn the_independent_implementations_agree_on_rerankers() {
    for case in cases() {
        let (dir, _) = written(&case.config);
        let out = dir.path().join("model");
        let options = SetupOptions {
            skip_fidelity: true,
            ..SetupOptions::default()
        };
        setup(dir.path(), &out, &options, &Silent).expect("a model directory");
        let model = Model::open(&out).expect("the model directory").quantised.clone();
        let model = TestModel::new(model);
        for pair in &case.pairs {
            let vector = ForwardState::new(&model.quantised).vector(&pair.ids).expect("a vector");
            let own = model
                .key
                .params
                .pair_scores(&model.key.config, &vector)
                .expect("scores");
            let integers: Vec<f64> = vector.iter().map(|v| f64::from(*v)).collect();
            let ids: Vec<String> = pair.ids.iter().map(u32::to_string).collect();
            let text = python(
                "reference.py",
                &[out.as_os_str(), "--ids".as_ref(), ids.join(",").as_ref()],
            );
            assert_eq!(numbers(&text, "vector"), integers, "{}", case.name);
            // Up to another tanh.
            assert_near(numbers(&text, "logits"), &own.logits, 1e-13, &case.name);
            let proof = model.prove_chunks(&pair.ids, 1, &[model.key.config.layers]);
            let bytes = [model.key.to_bytes().expect("a key"), proof.to_bytes().expect("a proof")];
            let paths = ["key", "proof"].map(|name| dir.path().join(name));
            for (path, content) in paths.iter().zip(bytes) {
                std::fs::write(path, content).expect("a file");
            }
            let text = python("verify.py", &paths.each_ref().map(|path| path.as_os_str()));
            assert_eq!(numbers(&text, "vector"), integers, "{}", case.name);
            assert_near(numbers(&text, "logits"), &own.logits, 1e-13, &case.name);
            assert_near(numbers(&text, "scores"), &own.scores, 1e-13, &case.name);
        }
    }
}
