//! Attacks on what is connected to what: keys of another position, rotations of another position, a reciprocal that
//! also satisfies its inequality, entries of the vocabulary that do not exist, a tie rounded the other way.

use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::base;
use tessera_circuits::model::{MatrixId, RowClass, WeightFormat};
use tessera_circuits::ops::logits;
use tessera_circuits::semantics::norm_rsqrt;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::StatementError;
use tessera_prover::column::elements;
use tessera_prover::trace::{Columns, Source};
use tessera_testkit::{edit, odd_config, random_model};
use tessera_verifier::verify::{verify, VerifyError};

use crate::cheat::{Hooks, HONEST};
use crate::forward::Deviation;
use crate::semantics::{deviating, impostor, one_token, one_token_later, QUERY};
use crate::values::{row, three_layers, Outputs, Scores};
use crate::{assert_rejected, Caught, Scene};

/// Gains attention to a token of the prover's choice: the last row compares its query with the key of row 3 where
/// that of row 0 belongs, and everything downstream follows.
#[test]
fn keys_are_those_of_the_position() {
    struct Keys;
    impl Deviation for Keys {
        fn key_row(&self, query: usize, position: usize) -> usize {
            if (query, position) == (QUERY, 0) {
                3
            } else {
                position
            }
        }
    }
    deviating(one_token(), &Keys).assert_caught(Caught::Claim("accumulators"), &HONEST);
}

/// Gains the same through the rotation: a row is rotated for the position after it.
#[test]
fn rotations_are_those_of_the_position() {
    struct Later;
    impl Deviation for Later {
        fn position(&self, row: usize) -> usize {
            row + usize::from(row == QUERY)
        }
    }
    let scene = deviating(
        one_token_later(random_model(odd_config(), WeightFormat::Int16, 7)),
        &Later,
    );
    // The rows of the next token with the values of this one are rotated for the next position.
    let mut moved = scene.witness.clone();
    for layer in &mut moved.layers {
        let rows = moved.ids.len();
        for values in [
            &mut layer.q_acc_hi,
            &mut layer.q_acc_lo,
            &mut layer.k_acc_hi,
            &mut layer.k_acc_lo,
        ] {
            repeat(values, rows);
        }
        for values in [&mut layer.q, &mut layer.q_rot, &mut layer.k, &mut layer.k_rot] {
            repeat(values, rows);
        }
    }
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let source = Source {
            shape,
            params: &scene.model.key.params,
            statement: &scene.statement,
            said: &scene.statement,
            input: None,
            witness: &moved,
            tops: &[],
        };
        for part in [Part::Q, Part::K] {
            let others = elements(&source.columns(part).0);
            for layer in 0..shape.config.layers {
                let [own, next] = [QUERY, QUERY + 1].map(|token| row(shape, part, &[layer, token, 0, 0]));
                for (column, other) in all[part.index()].iter_mut().zip(&others) {
                    column[own..next].copy_from_slice(&other[next..2 * next - own]);
                }
            }
        }
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("rotations"), &hooks);
}

/// Copies the row of the attacked query over the next one.
fn repeat<T: Copy>(values: &mut [T], rows: usize) {
    let width = values.len() / rows;
    values.copy_within(QUERY * width..(QUERY + 1) * width, (QUERY + 1) * width);
}

/// Gains a scale of the activations by an epsilon that is not the key's.
#[test]
fn epsilon_is_that_of_the_key() {
    let scene = one_token();
    let norm = &scene.model.key.params.norm_final;
    let sums = scene.witness.streams.last().expect("a state").sums[QUERY];
    let mut other = norm.clone();
    other.eps.body <<= 24;
    let hidden = scene.model.key.config.hidden;
    let root = |norm| norm_rsqrt(sums, hidden, norm, RowClass::Body);
    assert_ne!(root(&other), root(norm));
    impostor("accumulators", |m| m.params.norm_final.eps.body <<= 24);
    impostor("accumulators", |m| m.params.norm_final.eps.lead <<= 24);
}

/// A scene in which every logit of the last row is negative, and those of padded entries, which would be zero, are not.
fn negative_logits() -> Scene {
    let mut model = random_model(odd_config(), WeightFormat::Int16, 7);
    model.params.biases.clear();
    let scene = crate::semantics::one_token_of(model);
    let config = &scene.model.key.config;
    let row = scene.statement.rows() - 1;
    let own = scene.witness.logits[row * config.vocab..][..config.vocab].to_vec();
    let mut model = scene.model.quantised.clone();
    edit(&mut model, MatrixId::HEAD, |head| {
        for (id, logit) in own.iter().enumerate() {
            if *logit >= 0 {
                head[id * config.hidden..][..config.hidden]
                    .iter_mut()
                    .for_each(|w| *w = -*w);
            }
        }
    });
    let scene = crate::semantics::one_token_of(model);
    let own = &scene.witness.logits[row * config.vocab..][..config.vocab];
    assert!(own.iter().all(|logit| *logit <= 0));
    scene
}

/// Gains any output where all logits are negative: an entry of the padded vocabulary, whose logit is zero, wins.
#[test]
fn padded_entries_of_the_vocabulary_do_not_win() {
    let mut scene = negative_logits();
    let vocab = scene.model.key.config.vocab;
    let honest = scene.forge(&HONEST);
    verify(&scene.model.key, &honest).expect("a real entry wins");

    // The top is what the logit of a padded entry would be, and that entry's margin is none.
    let real = scene.statement.output[0] as usize;
    let claimed = (real + 1) % vocab;
    scene.statement.output = vec![claimed as u32];
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::LOGITS.index()];
        let entry = row(shape, Part::LOGITS, &[0, claimed]);
        assert_ne!(own[logits::MARGIN][entry], base(0));
        let padding = row(shape, Part::LOGITS, &[0, vocab]);
        assert_eq!(own[logits::MARGIN][padding], base(0), "a padded entry");
    };
    let hooks = Hooks {
        columns: &columns,
        made: &|tops| tops[0] = 0,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("chosen logits"), &hooks);
    // As a statement, too, it is none.
    scene.statement.output = vec![vocab as u32];
    let mut forged = honest;
    forged.statement = scene.statement.clone();
    let result = verify(&scene.model.key, &forged);
    assert_rejected!(result, VerifyError::Statement(StatementError::UnknownToken { id, .. }) if id as usize == vocab);
}

/// Gains a step of one in every activation that lies halfway: halves are rounded up, not down.
#[test]
fn halves_are_rounded_up() {
    for quiet in [Outputs, Scores] {
        // Nothing remains below the half that was added.
        let half = |v: &[BaseField]| quiet.plain(v) && quiet.rests_at_zero(v);
        let has_half = |scene: &Scene| {
            let own = &scene.trace().0[quiet.part().index()];
            quiet.found(&scene.shape(), own, half).is_some()
        };
        // The first seed tried is one of such a model; others are tried for the sake of later changes.
        let first = match quiet {
            Outputs => 22,
            Scores => 153,
        };
        let mut scenes = (first..first + 60).map(|seed| Scene::quiet_of(three_layers(seed)));
        let scene = scenes.find(has_half).expect("a model that has a half");
        quiet.alter_in(&scene, Caught::Lookup, half, |v| quiet.move_output(v, -1));
        // Down by the half that is not added: all is in range, but the claim on accumulators fails.
        quiet.alter_in(&scene, Caught::Claim("accumulators"), half, |v| {
            let out = quiet.output(v);
            quiet.move_output(v, -1);
            assert_eq!(quiet.output(v), out - 1);
            let rest = quiet.rest();
            match quiet {
                Outputs => v[rest.rest()] -= base(1 << 8),
                Scores => v[rest.r_hi()] -= base(1),
            }
        });
    }
}
