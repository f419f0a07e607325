use std::collections::BTreeSet;

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::wording::bytes;

use super::*;
use tessera_samples::{fixture_size_config, windowed_config};
use tessera_synthetic::PublicShape;

fn subject(config: &ModelConfig, codeword_file: bool) -> Subject {
    Subject::of_config(config, WeightFormat::Int8, codeword_file)
}

fn tinyllama() -> ModelConfig {
    PublicShape::TinyLlama1_1b.description().unwrap().config
}

/// A proof in one piece.
fn prove(config: &ModelConfig, rows: usize) -> Task {
    Task::prove(rows.into(), Chunk::whole(config.layers))
}

fn tasks(config: &ModelConfig) -> [Task; 5] {
    // The last chunk of two.
    let chunk = Chunk {
        start: config.layers / 2,
        ..Chunk::whole(config.layers)
    };
    [
        prove(config, 4),
        Task::prove(4.into(), chunk),
        Task::Generate { rows: 4, logits: true },
        Task::Setup { tokens: 384 },
        Task::Compare {
            tokens: 2048,
            window: 300,
        },
    ]
}

/// A tokenizer of 14 MB takes half a gigabyte as it is read: a budget below that is refused before anything is read.
#[test]
fn large_tokenizers_are_part_of_every_prediction() {
    let config = fixture_size_config();
    let large = Subject {
        tokenizer: 14 << 20,
        ..subject(&config, false)
    };
    for task in tasks(&config) {
        let least = if matches!(task, Task::Compare { .. }) {
            0
        } else {
            500 << 20
        };
        let [with, without] = [&large, &subject(&config, false)].map(|s| s.smallest(task).predicted_bytes());
        assert!(with >= without.max(least), "{task:?}: {with}, {without}");
    }
    let refused = large.plan(prove(&config, 4), Some(Budget(500 << 20))).unwrap_err();
    assert_eq!(refused.phase, "read tokenizer");
}

/// More rows or layers never need less, whatever is chosen.
#[test]
fn predictions_are_monotone() {
    let rises = |list: Vec<u64>, what: &str| assert!(list.is_sorted(), "{what}: {list:?}");
    for codeword_file in [false, true] {
        let tinyllama = tinyllama();
        let ways = tasks(&tinyllama).map(|task| subject(&tinyllama, codeword_file).ways(task));
        for choices in ways.into_iter().flatten() {
            let bytes = |config: &ModelConfig, task| {
                let plan = subject(config, codeword_file).with_choices(task, choices);
                plan.predicted_bytes()
            };
            let config = fixture_size_config();
            let rows = [1, 2, 4, 16, 64, 128, 256].map(|rows| bytes(&config, prove(&config, rows)));
            rises(rows.to_vec(), &format!("rows, {choices:?}"));
            for task in 0..tasks(&config).len() {
                let layers = [2, 4, 8, 22].map(|layers| {
                    let config = ModelConfig {
                        layers,
                        ..tinyllama.clone()
                    };
                    bytes(&config, tasks(&config)[task])
                });
                rises(layers.to_vec(), &format!("layers, task {task}, {choices:?}"));
            }
        }
    }
}

/// The next way to do a task is for a smaller budget, as far as it differs in what the task holds.
#[test]
fn ways_get_smaller() {
    for task in tasks(&tinyllama()) {
        let subject = subject(&tinyllama(), false);
        let bytes: Vec<u64> = subject
            .ways(task)
            .into_iter()
            .map(|c| subject.with_choices(task, c).predicted_bytes())
            .collect();
        let least = bytes.iter().min().unwrap();
        assert_eq!(bytes.last(), Some(least), "{task:?}: {bytes:?}");
        assert!(bytes[0] >= *least, "{task:?}: {bytes:?}");
    }
}

#[test]
fn budgets_are_kept_or_refused() {
    for (config, codeword_file) in [(fixture_size_config(), true), (tinyllama(), false), (tinyllama(), true)] {
        for task in tasks(&config) {
            let subject = subject(&config, codeword_file);
            let refused = subject.plan(task, Some(Budget(1 << 20))).unwrap_err();
            let text = refused.to_string();
            let amounts = [refused.budget, refused.smallest].map(|amount| Budget(amount).to_string());
            for amount in amounts.into_iter().chain([bytes(refused.predicted)]) {
                assert!(text.contains(&amount), "{text}");
            }
            assert_eq!(refused.budget, 1 << 20);
            let exact = subject.plan(task, Some(Budget(refused.smallest))).unwrap();
            assert_eq!(exact.budget_bytes(), refused.smallest, "{task:?}");
            assert_eq!(exact, subject.smallest(task));
            let error = subject.plan(task, Some(Budget(refused.smallest - 1))).unwrap_err();
            assert_eq!(error.smallest, refused.smallest, "{task:?}");
            for budget in [refused.smallest, 2 * refused.smallest, 1 << 40] {
                let plan = subject.plan(task, Some(Budget(budget))).unwrap();
                assert!(plan.predicted_bytes() < budget, "{task:?}");
            }
        }
    }
}

/// With enough memory nothing is done without; with less, weights are streamed.
#[test]
fn choices_follow_the_budget() {
    let subject = subject(&tinyllama(), false);
    let task = prove(&tinyllama(), 1);
    assert_eq!(subject.plan(task, None).unwrap().choices, Choices::default());
    assert_eq!(
        subject.plan(task, Some(Budget(1 << 40))).unwrap().choices,
        Choices::default()
    );
    let smallest = subject.smallest(task);
    assert!(matches!(smallest.choices.residency, Residency::Window { .. }));
    let setup = subject.smallest(Task::Setup { tokens: 384 });
    assert_eq!(setup.choices.split.log(), Split::MAX);
}

/// Chunks of one kind need the same memory, so that a plan of the first of each is a plan of all: with windows in some layers, and with
/// chunks that do not end where columns of the commitment end.
#[test]
fn chunks_of_one_kind_need_the_same_memory() {
    // The first chunk, and two of the inner ones.
    let windows = ModelConfig {
        context: 1 << 13,
        blocks: windowed_config(100, [0, 2, 5]).blocks,
        ..tinyllama()
    };
    for (config, partition, rows) in [
        (windows, vec![1; 22], 600),
        (tinyllama(), vec![1; 22], 16),
        (tinyllama(), vec![2; 11], 16),
    ] {
        let subject = subject(&config, true);
        let chunks = Chunk::partition(partition, config.layers).unwrap();
        let needed = |chunks: &[Chunk]| -> BTreeSet<u64> {
            let tasks = chunks.iter().map(|chunk| Task::prove(rows.into(), *chunk));
            tasks
                .map(|task| subject.with_choices(task, Choices::default()).predicted_bytes())
                .collect()
        };
        let kinds = subject.kinds(&chunks);
        assert_eq!(needed(&kinds), needed(&chunks));
    }
}
