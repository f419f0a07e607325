//! Golden values of the bundled checkpoint: its quantised weights and the logits of the integer model.
//! A difference means that the integer semantics or the quantisation changed: then raise the format
//! version and remake the file with
//! `cargo test --release -p tessera-testkit --test golden -- --ignored remake`.

use blake2::{Blake2s256, Digest};
use serde::{Deserialize, Serialize};
use tessera_checkpoint::Checkpoint;
use tessera_circuits::semantics::arg_max;
use tessera_float::FloatModel;
use tessera_model::forward::ForwardState;
use tessera_model::generate::{generate, GenerateOptions};
use tessera_model::QuantisedModel;
use tessera_quantise::Strategy;
use tessera_testkit::{golden, quantised, FIXTURE};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/golden-integer.json");

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    ids: Vec<u32>,
    arg_max: Vec<u32>,
    /// Blake2s-256 of the logits, `[rows][vocab]` int16 little-endian.
    logits: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Golden {
    /// Blake2s-256 of all quantised weights (embedding, layers, head), int16 little-endian, by strategy.
    weights: [String; 2],
    samples: Vec<Sample>,
}

fn digest(values: impl IntoIterator<Item = i16>) -> String {
    let mut hash = Blake2s256::new();
    for v in values {
        hash.update(v.to_le_bytes());
    }
    hex::encode(hash.finalize())
}

fn weights(model: &QuantisedModel) -> String {
    let matmuls = model.config.matmuls();
    digest(matmuls.iter().flat_map(|m| model.matrix(m.id)))
}

fn compute() -> Golden {
    let texts: Vec<Vec<u32>> = golden().into_iter().map(|s| s.ids).collect();
    let checkpoint = Checkpoint::open(std::path::Path::new(FIXTURE)).expect("the fixture");
    let [w8, w12] = [Strategy::W8, Strategy::W12].map(|strategy| {
        quantised(&checkpoint, strategy, &texts[..2])
            .expect("a quantised fixture")
            .0
    });
    let vocab = w12.config.vocab;
    let sample = |ids: &Vec<u32>| {
        let ids: Vec<u32> = ids.iter().copied().take(64).collect();
        let logits = ForwardState::new(&w12).run(&ids, None).expect("a forward pass");
        let arg_max = logits.chunks(vocab).map(|row| arg_max(row) as u32).collect();
        Sample {
            ids,
            arg_max,
            logits: digest(logits),
        }
    };
    Golden {
        weights: [weights(&w8), weights(&w12)],
        samples: texts.iter().take(3).map(sample).collect(),
    }
}

#[test]
fn the_integer_model_is_frozen() {
    let text = std::fs::read_to_string(FILE).expect("the golden file");
    let expected: Golden = serde_json::from_str(&text).expect("golden JSON");
    assert_eq!(compute(), expected);
}

/// The integer model follows the float model: equal arg max at nearly every golden position, of all texts, as near-ties of a few
/// positions are luck.
#[test]
fn the_integer_model_agrees_with_the_float_model() {
    let samples = golden();
    let texts: Vec<Vec<u32>> = samples.iter().map(|s| s.ids.clone()).collect();
    let checkpoint = Checkpoint::open(std::path::Path::new(FIXTURE)).expect("the fixture");
    let (model, _) = quantised(&checkpoint, Strategy::W12, &texts[..2]).expect("a quantised fixture");
    let (mut equal, mut total) = (0, 0);
    for sample in &samples {
        let logits = ForwardState::new(&model)
            .run(&sample.ids, None)
            .expect("a forward pass");
        let ours = logits.chunks(model.config.vocab).map(|row| arg_max(row) as u32);
        equal += ours.zip(&sample.argmax).filter(|(a, b)| a == *b).count();
        total += sample.argmax.len();
    }
    assert!(
        total > 1500 && equal * 100 >= total * 99,
        "{equal} of {total} positions agree"
    );
}

/// 16 prompt tokens and 48 greedy ones: the integer model writes what the float model writes, on most prompts.
#[test]
fn the_greedy_text_is_the_float_models_on_most_prompts() {
    let samples = golden();
    let checkpoint = Checkpoint::open(std::path::Path::new(FIXTURE)).expect("the fixture");
    let texts: Vec<Vec<u32>> = samples.iter().map(|s| s.ids.clone()).collect();
    let (model, _) = quantised(&checkpoint, Strategy::W12, &texts[..2]).expect("a quantised fixture");
    let float = FloatModel::new(&checkpoint);
    let vocab = model.config.vocab;
    let options = GenerateOptions {
        tokens: 48,
        ignore_eos: true,
    };
    let same = |ids: &Vec<u32>| {
        let mut text = ids[..16].to_vec();
        for _ in 0..48 {
            let logits = float.forward(&text).expect("a forward pass");
            let last = &logits[logits.len() - vocab..];
            let best = (0..vocab).fold(0, |best, v| if last[v] > last[best] { v } else { best });
            text.push(best as u32);
        }
        let ours = generate(&model, &ids[..16], &options, |_| ()).expect("a generation");
        ours.ids == text[16..]
    };
    let equal = texts.iter().filter(|ids| same(ids)).count();
    println!("{equal} of {} prompts continue identically", texts.len());
    assert!(2 * equal > texts.len(), "{equal} of {} prompts", texts.len());
}

/// Not a check: the only way to change the golden file, so it must never run with the others.
#[test]
#[ignore = "is no test: it writes the golden file anew, for a new format version"]
fn remake() {
    let text = serde_json::to_string_pretty(&compute()).expect("JSON");
    std::fs::write(FILE, text + "\n").expect("the golden file is written");
}
