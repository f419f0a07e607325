//! Attacks on sliding windows: keys before a window, the window of another kind of layer, pairs of blocks that nobody commits.

use std::ops::Range;
use std::process::Command;

use tessera_circuits::air::base;
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::ops::softmax;
use tessera_circuits::semantics::{arg_max, reciprocal, MASKED, PROB_BITS};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::{Clip, StatisticsError};
use tessera_model::QuantisedModel;
use tessera_prover::trace::Columns;
use tessera_testkit::{random_ids, random_model, reworked, windowed_config, TestModel};
use tessera_verifier::verify::{verify, VerifyError};

use crate::cheat::{Hooks, HONEST};
use crate::forward::{forward, Deviation, Honest, Softmax};
use crate::values::cell;
use crate::{assert_rejected, Caught, Scene};

/// Rows of the texts: three blocks, the last of which the text does not fill.
const ROWS: usize = 43;
/// The layer with the window, of two.
const WINDOWED: usize = 1;
/// A window that begins two blocks before a query, or one: every pair of blocks is committed.
const KEYS: u32 = 20;

/// A model of two layers, the second of which has a window of so many keys.
fn model(keys: u32) -> QuantisedModel {
    let config = ModelConfig {
        layers: 2,
        ..windowed_config(keys, [WINDOWED])
    };
    random_model(config, WeightFormat::Int16, 7)
}

/// What queries see, by layer, query, and the keys that they see in truth.
type Seen<'a> = &'a dyn Fn(usize, usize, Range<usize>) -> Range<usize>;

/// A forward pass in which queries see other keys.
struct Sight<F>(F);

impl<F: Fn(usize, usize, Range<usize>) -> Range<usize>> Deviation for Sight<F> {
    fn visible(&self, layer: usize, query: usize, honest: Range<usize>) -> Range<usize> {
        (self.0)(layer, query, honest)
    }
}

/// A text and the token that a forward pass with a deviation makes of it.
fn scene(model: QuantisedModel, deviation: &dyn Deviation) -> Scene {
    let prompt = random_ids(&model.config, ROWS, 3);
    let witness = forward(&model, &prompt, deviation);
    let logits = &witness.logits[(ROWS - 1) * model.config.vocab..];
    let output = vec![arg_max(logits) as u32];
    Scene::whole(TestModel::new(model), Statement { prompt, output }, witness)
}

/// Makes the rows of softmax those of a deviation, as far as there are cells for them: differences of the keys that it sees, and how many of
/// these attain the maximum.
fn show(scene: &Scene, deviation: &dyn Deviation, shape: &Shape, all: &mut [Columns]) {
    let config = &shape.config;
    for (layer, witness) in scene.witness.layers.iter().enumerate() {
        let kind = shape.kind_of(layer).expect("a kind");
        let index = kind.layers.iter().position(|own| *own == layer).expect("a layer");
        for (head, query) in (0..config.heads).flat_map(|head| (0..ROWS).map(move |query| (head, query))) {
            let line = head * ROWS + query;
            let seen = deviation.visible(layer, query, config.visible(layer, query, ROWS));
            let mut ties = -1;
            for key in 0..shape.text_rows() {
                let Some([pair, i, j]) = kind.pairs.place(query, key) else {
                    continue;
                };
                let difference = match seen.contains(&key) {
                    true => i64::from(witness.max[line]) - i64::from(witness.score[line * ROWS + key]),
                    false => MASKED.into(),
                };
                ties += i64::from(difference == 0);
                for (column, value) in [(softmax::D, difference), (softmax::ZERO, i64::from(difference == 0))] {
                    let [column, row] = cell(shape, kind.part, &[index, head, pair, i, j], column);
                    all[kind.part.index()][column][row] = base(value);
                }
            }
            let [column, row] = cell(shape, Part::SOFTMAX, &[layer, head, query], softmax::TIES);
            all[Part::SOFTMAX.index()][column][row] = base(ties);
        }
    }
}

/// A forward pass with another sight changes the states; gives its scene and the hooks of its forgery to `judge`.
fn attack(
    model: &QuantisedModel,
    sight: impl Fn(usize, usize, Range<usize>) -> Range<usize>,
    judge: impl FnOnce(&Scene, &Hooks<'_>),
) {
    let deviation = Sight(sight);
    let scene = scene(model.clone(), &deviation);
    let honest = forward(model, &scene.statement.prompt, &Honest);
    assert_ne!(scene.witness, honest, "an attack that changes something");
    let columns = |shape: &Shape, all: &mut [Columns]| show(&scene, &deviation, shape, all);
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    judge(&scene, &hooks);
}

/// The proof of such a pass is caught by these claims.
fn caught(model: &QuantisedModel, by: Caught, sight: impl Fn(usize, usize, Range<usize>) -> Range<usize>) {
    attack(model, sight, |scene, hooks| scene.assert_caught(by, hooks));
}

/// The pass that attacks are made of is the real one, and what is written of it is an honest proof.
#[test]
fn honest_windows_are_proved() {
    for keys in [1, 5, KEYS, 33] {
        let scene = scene(model(keys), &Honest);
        assert_eq!(
            scene.witness,
            crate::witness_of(&scene.model.quantised, &scene.statement)
        );
        let columns = |shape: &Shape, all: &mut [Columns]| {
            let before = all.to_vec();
            show(&scene, &Honest, shape, all);
            assert_eq!(all, before);
        };
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.attempt(&hooks).expect("a true statement");
    }
}

/// A window that is longer by one, in all queries, and only where it begins in one of the two blocks that it cuts.
#[test]
fn a_key_before_the_window_is_masked() {
    let model = model(KEYS);
    for apart in [None, Some(1), Some(2)] {
        caught(&model, Caught::Claim("masked pairs"), |layer, query, honest| {
            let before = honest.start.saturating_sub(1);
            let is_meant = apart.is_none_or(|apart| query / 16 == before / 16 + apart);
            match layer == WINDOWED && is_meant {
                true => before..honest.end,
                false => honest,
            }
        });
    }
    // Within the block of the query itself.
    caught(
        &self::model(5),
        Caught::Claim("masked pairs"),
        |layer, query, honest| {
            let before = honest.start.saturating_sub(1);
            match layer == WINDOWED && query / 16 == before / 16 {
                true => before..honest.end,
                false => honest,
            }
        },
    );
}

/// A window that is shorter by one: the key that is left out has no difference to the maximum.
#[test]
fn the_first_key_of_the_window_is_seen() {
    caught(&model(KEYS), Caught::Claim("differences"), |layer, _, honest| {
        match layer == WINDOWED && honest.len() == KEYS as usize {
            true => honest.start + 1..honest.end,
            false => honest,
        }
    });
}

/// A layer without a window that has that of the other kind, a layer with one that sees all, and both exchanged.
#[test]
fn layers_have_the_window_of_their_kind() {
    let windowed = |query: usize| (query + 1).saturating_sub(KEYS as usize)..query + 1;
    let model = model(KEYS);
    caught(&model, Caught::Claim("differences"), |_, query, _| windowed(query));
    caught(&model, Caught::Claim("masked pairs"), |_, query, _| 0..query + 1);
    let both = Caught::Claims(&["differences", "masked pairs"]);
    caught(&model, both, |layer, query, _| match layer == WINDOWED {
        true => 0..query + 1,
        false => windowed(query),
    });
}

/// The last query sees a key of the first block, which is in no pair with its own, as if that key attained the maximum.
struct Outside;

impl Deviation for Outside {
    fn softmax(&self, row: &mut Softmax) {
        if row.layer == WINDOWED && row.query == ROWS - 1 {
            row.exp[3] = 1 << PROB_BITS;
            row.sum = row.exp.iter().sum();
            row.recip = reciprocal(row.sum);
        }
    }
}

/// Such a key has no cell, so that neither the sum of exponentials nor the output counts it.
#[test]
fn a_pair_outside_the_list_has_no_weight() {
    let scene = scene(model(5), &Outside);
    let pairs = scene.shape().kind_of(WINDOWED).expect("a kind").pairs;
    assert!(pairs.place(ROWS - 1, 3).is_none() && pairs.place(ROWS - 1, ROWS - 17).is_some());
    scene.assert_caught(Caught::Claims(&["accumulators", "softmax sums"]), &HONEST);
}

/// Entries of the list of clipped values in pairs of blocks that are not committed, in queries and keys behind the text, and in a part that
/// a chunk does not have.
#[test]
fn clips_of_pairs_that_are_not_committed_are_refused() {
    let scene = scene(model(KEYS), &Honest);
    let (shape, proof) = (scene.shape(), scene.forge(&HONEST));
    let kind = shape.kind_of(WINDOWED).expect("a kind");
    let axes = shape.full_axes(kind.part);
    let refused = |part: u8, place: [usize; 5]| {
        let at = axes.iter().zip(place).fold(0, |at, (log, i)| (at << log) | i as u64);
        let mut proof = proof.clone();
        proof.chunks[0].statistics.clips = vec![Clip {
            part,
            tensor: 0,
            at,
            excess: 1,
        }];
        verify(&scene.model.key, &proof).map(|_| ())
    };
    let own = kind.part.index() as u8;
    let [pair, i, j] = kind.pairs.place(ROWS - 1, ROWS).expect("a committed pair");
    for place in [[0, 0, kind.pairs.count(), 0, 0], [0, 0, pair, i, j]] {
        assert_rejected!(
            refused(own, place),
            VerifyError::Statistics(StatisticsError::ClipPlace { index: 0 })
        );
    }
    // A part behind all.
    assert!(refused(own + 1, [0; 5]).is_err());
    // In a model without windows there is no such part.
    assert!(!Scene::honest().shape().parts().contains(&Part::WINDOWED));
}

// `.ci/run` runs it; a plain `cargo test` must pass with rustup alone.
#[test]
#[ignore = "needs python3, which CI has: cargo test -- --ignored"]
fn the_other_verifier_refuses_the_same() {
    let model = model(KEYS);
    let dir = tempfile::tempdir().expect("a directory");
    let verdict = |scene: &Scene, hooks: &Hooks<'_>| {
        let [key, proof] = ["key", "proof"].map(|name| dir.path().join(name));
        let key_bytes = scene.model.key.to_bytes().expect("a key");
        let proof_bytes = reworked(&scene.model.key, scene.forge(hooks))
            .to_bytes()
            .expect("a proof");
        std::fs::write(&key, key_bytes).expect("a key");
        std::fs::write(&proof, proof_bytes).expect("a proof");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/verify.py");
        let output = Command::new("python3")
            .args([script.as_ref(), key.as_os_str(), proof.as_os_str()])
            .output();
        let output = output.expect("python3 runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let honest = scene(model.clone(), &Honest);
    let (code, text) = verdict(&honest, &HONEST);
    assert_eq!(code, Some(0), "{text}");
    let windowed = |query: usize| (query + 1).saturating_sub(KEYS as usize)..query + 1;
    let sights: [Seen<'_>; 3] = [
        &|layer, _, honest| match layer == WINDOWED {
            true => honest.start.saturating_sub(1)..honest.end,
            false => honest,
        },
        &|layer, _, honest| match layer == WINDOWED && honest.len() == KEYS as usize {
            true => honest.start + 1..honest.end,
            false => honest,
        },
        &|layer, query, _| match layer == WINDOWED {
            true => 0..query + 1,
            false => windowed(query),
        },
    ];
    for sight in sights {
        attack(&model, sight, |scene, hooks| {
            let (code, text) = verdict(scene, hooks);
            assert_eq!(code, Some(1), "{text}");
            assert!(!text.contains("unexpected"), "{text}");
        });
    }
    let outside = scene(self::model(5), &Outside);
    assert_eq!(verdict(&outside, &HONEST).0, Some(1));
}
