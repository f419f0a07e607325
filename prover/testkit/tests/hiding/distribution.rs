//! What is opened of hidden activations says nothing of the prompt: opened words are distributed as uniform ones, whatever the prompt is, and proofs of one prompt have no
//! opened row in common, as proofs in clear have.

use std::collections::BTreeSet;

use stwo::core::fields::m31::{BaseField, P};
use tessera_circuits::shape::LeafLimits;
use tessera_circuits::statement::{HiddenIds, HiddenPrompt, Statement};
use tessera_model::generate::GenerateOptions;
use tessera_prover::{generate_statement, prove_statement, ProofOptions};
use tessera_support::progress::Silent;
use tessera_verifier::context::Context;
use tessera_verifier::opening::parts::{parts_of, FIBRE};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::verify::{hidden_code, ChunkStatement};

use super::{Scene, HIDING};

/// Intervals of equal length in which words are counted.
const INTERVALS: usize = 64;
/// Opened words of each sample.
const WORDS: usize = 100_000;

const TEXTS: ProofOptions<'_> = ProofOptions {
    hidden_ids: HiddenIds {
        prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
        output: true,
    },
    ..HIDING
};

fn statement(scene: &Scene, prompt: &[u32]) -> Statement {
    let options = GenerateOptions::exactly(2);
    generate_statement(&scene.model.prover(), prompt, &options, &Silent).expect("a text")
}

/// The rows of the activations that a proof opens, of so many columns.
fn rows(scene: &Scene, statement: &Statement, columns: usize, asked: ProofOptions<'_>) -> Vec<Vec<BaseField>> {
    let report = prove_statement(&scene.model.prover(), statement.clone(), asked, &Silent);
    let proof = report.expect("a proof").proof;
    let own = &parts_of(&proof.chunks[0].opening).codes[1].rows.values;
    own.chunks(columns * FIBRE).map(<[BaseField]>::to_vec).collect()
}

/// How many of the opened words are in each interval, of proofs of one prompt.
fn sample(scene: &Scene, prompt: &[u32], columns: usize) -> [usize; INTERVALS] {
    let statement = statement(scene, prompt);
    let mut counts = [0; INTERVALS];
    while counts.iter().sum::<usize>() < WORDS {
        for word in rows(scene, &statement, columns, TEXTS).concat() {
            counts[word.0 as usize / (P as usize / INTERVALS + 1)] += 1;
        }
    }
    counts
}

/// The sum of squared differences from the expected counts, each divided by the expected one.
fn chi_square(terms: impl Iterator<Item = (f64, f64)>) -> f64 {
    terms
        .map(|(found, expected)| (found - expected).powi(2) / expected)
        .sum()
}

#[test]
fn opened_words_are_uniform_whatever_the_prompt_is() {
    let scene = Scene::small();
    let vocab = scene.model.key.config.vocab as u32;
    let prompts = [[3, 5, 5, 5], [3, 8, vocab - 1, 2]];
    let hidden = statement(scene, &prompts[0]);
    let key = &scene.model.key;
    let hidden = hidden
        .hiding(&TEXTS.hidden_ids, &key.config, &key.params.leading)
        .expect("a statement");
    let prover = scene.model.prover();
    let claim = ChunkStatement::whole(key, &prover.id, &hidden, &scene.chunk, None);
    let code = hidden_code(&claim, LeafLimits::OF_STATEMENTS, 0).expect("a code");
    let samples = prompts.map(|prompt| sample(scene, &prompt, code.params.columns()));
    // 63 degrees of freedom: a mean of 63 and a deviation of 11.2, so this is seven deviations.
    let most = 63.0 + 7.0 * 11.2;
    let [first, second] = samples.map(|own| own.map(|count| count as f64));
    let sum = |own: &[f64; INTERVALS]| own.iter().sum::<f64>();
    for own in [&first, &second] {
        let found = chi_square(own.iter().map(|count| (*count, sum(own) / INTERVALS as f64)));
        assert!(found < most, "{found}");
    }
    // Both beside each other: each interval is expected to have its share of either sample.
    let share = sum(&first) / (sum(&first) + sum(&second));
    let pairs = first.iter().zip(&second);
    let terms = pairs.flat_map(|(a, b)| [(*a, (a + b) * share), (*b, (a + b) * (1.0 - share))]);
    let found = chi_square(terms);
    assert!(found < most, "{found}");
}

/// Proofs of one prompt in different contexts open different places, and now and then the same one. In clear its row is the same then, which links the proofs; hidden
/// activations have another row each time.
#[test]
fn proofs_of_one_prompt_are_not_linked_by_what_they_open() {
    let scene = Scene::small();
    let statement = statement(scene, &[3, 5, 5, 5]);
    let shape = scene.model.key.shape(&scene.chunk, statement.lengths());
    let clear = CommitmentParams::of_activations(&shape, &scene.model.key.weights).columns();
    let shared = |columns: usize, asked: ProofOptions<'_>| {
        let (mut seen, mut shared) = (BTreeSet::new(), 0);
        for number in 1..=30 {
            let context = Some(Context::try_from([number; 32]).expect("a context"));
            for row in rows(scene, &statement, columns, ProofOptions { context, ..asked }) {
                let words: Vec<u32> = row.iter().map(|word| word.0).collect();
                shared += usize::from(!seen.insert(words));
            }
        }
        shared
    };
    assert!(shared(clear, ProofOptions::default()) > 0);
    assert_eq!(shared(scene.code().params.columns(), HIDING), 0);
}
