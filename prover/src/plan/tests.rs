use tessera_circuits::model::{ModelConfig, Strategy};

use super::*;
use crate::synth::PublicShape;
use crate::testing::fixture_size_config;

fn subject(config: &ModelConfig, codeword_file: bool) -> Subject {
    Subject::of_config(config, Strategy::W8, codeword_file)
}

fn tinyllama() -> ModelConfig {
    PublicShape::TinyLlama1_1b.config().0
}

const TASKS: [Task; 3] = [
    Task::Prove { rows: 4 },
    Task::Generate { rows: 4, logits: true },
    Task::Setup { tokens: 384 },
];

/// More rows, layers or weights never need less, whatever is chosen.
#[test]
fn predictions_are_monotone() {
    for codeword_file in [false, true] {
        for choices in subject(&tinyllama(), codeword_file).ways() {
            let bytes = |config: &ModelConfig, task| {
                subject(config, codeword_file)
                    .with_choices(task, choices)
                    .predicted_bytes()
            };
            let small = fixture_size_config();
            let mut before = 0;
            for rows in [1, 2, 4, 16, 64, 128, 256] {
                let now = bytes(&small, Task::Prove { rows });
                assert!(now >= before, "{rows} rows, {choices:?}: {now} < {before}");
                before = now;
            }
            for task in TASKS {
                let mut before = 0;
                for layers in [1, 2, 4, 8, 22] {
                    let config = ModelConfig { layers, ..tinyllama() };
                    let now = bytes(&config, task);
                    assert!(
                        now >= before,
                        "{layers} layers, {task:?}, {choices:?}: {now} < {before}"
                    );
                    before = now;
                }
            }
        }
    }
}

/// The next way to do a task is for a smaller budget, as far as it differs in what the task holds.
#[test]
fn ways_get_smaller() {
    for task in TASKS {
        let subject = subject(&tinyllama(), false);
        let bytes: Vec<u64> = subject
            .ways()
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
        for task in TASKS {
            let subject = subject(&config, codeword_file);
            let refused = subject.plan(task, Some(Budget(1 << 20))).unwrap_err();
            let text = refused.to_string();
            for number in [refused.budget, refused.smallest, refused.predicted] {
                assert!(text.contains(&number.to_string()), "{text}");
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
    let task = Task::Prove { rows: 1 };
    assert_eq!(subject.plan(task, None).unwrap().choices, Choices::default());
    assert_eq!(
        subject.plan(task, Some(Budget(1 << 40))).unwrap().choices,
        Choices::default()
    );
    let smallest = subject.smallest(task);
    assert!(matches!(smallest.choices.residency, Residency::Stream { .. }));
    assert_eq!(smallest.choices.split.log(), Split::MAX);
}
