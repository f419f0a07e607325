//! Attacks on scores that are capped: other tables, other entries of the table, softmax of scores that are not capped.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::base;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::model::{Blocks, ModelConfig, ScoreCap, WeightFormat};
use tessera_circuits::ops::softmax;
use tessera_circuits::semantics::{exp_table, reciprocal, MASKED};
use tessera_circuits::shape::{Part, Shape};
use tessera_model::QuantisedModel;
use tessera_prover::trace::Columns;
use tessera_testkit::{capped_config, column_of, random_model, TestModel};
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{verify, VerifyError};

use crate::cheat::{Hooks, HONEST};
use crate::forward::{forward, Deviation, Honest, Softmax};
use crate::semantics::{deviating, in_every_head, one_token_later, one_token_of, LAYER, QUERY};
use crate::values::row;
use crate::{assert_constraints_violated, assert_rejected, Caught, Scene};

fn model() -> QuantisedModel {
    random_model(capped_config(), WeightFormat::Int16, 7)
}

fn scene() -> Scene {
    one_token_of(model())
}

#[test]
fn honest_caps_are_proved() {
    let plain = ModelConfig {
        head_norms: false,
        gated: false,
        blocks: Blocks {
            norm_outputs: true,
            score_cap: Some(ScoreCap { units: 77 }),
            ..Blocks::DECODER
        },
        ..capped_config()
    };
    for (config, format) in [(capped_config(), WeightFormat::Int8), (plain, WeightFormat::Int16)] {
        one_token_of(random_model(config, format, 9))
            .attempt(&HONEST)
            .expect("a true statement");
    }
    scene().attempt(&HONEST).expect("a true statement");
}

/// The scores of the models here are capped: otherwise the attacks would say nothing.
#[test]
fn caps_change_scores() {
    let scene = scene();
    let (shape, (columns, _)) = (scene.shape(), scene.trace());
    let own = &columns[Part::SCORES.index()];
    let differ = |lane: usize| {
        own[lane + softmax::S]
            .iter()
            .zip(&own[lane + softmax::CAPPED])
            .filter(|(s, c)| s != c)
            .count()
    };
    let width = shape.lane_columns(Part::SCORES);
    assert!(
        (0..shape.lanes(Part::SCORES))
            .map(|lane| differ(lane * width))
            .sum::<usize>()
            > 20
    );
}

/// A table with one other entry, with or without the root of the key.
#[test]
fn the_table_is_that_of_the_key() {
    let scene = scene();
    let alter = |tables: &mut Columns| {
        assert_eq!(tables.len(), 8);
        tables[7][40_000] += BaseField::one();
    };
    let hooks = Hooks {
        tables: &alter,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Tables));
    let hooks = Hooks {
        hide_tables: true,
        ..hooks
    };
    assert!(scene.attempt(&hooks).is_err());
}

/// A multiplicity of the table that is one more, or one less, or is of another entry.
#[test]
fn entries_are_counted() {
    let scene = scene();
    for changes in [
        [(40_000, 1), (40_000, 0)],
        [(1 << 15, -1), (0, 0)],
        [(1 << 15, -1), (7, 1)],
    ] {
        let alter = |counts: &mut Columns| {
            for (at, by) in changes {
                counts[column_of(Relation::Cap)][at] += base(by);
            }
        };
        let hooks = Hooks {
            multiplicities: &alter,
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
    }
}

/// A claimed sum of the entries that makes up for a multiplicity: the last sum of the table is that of all six relations.
#[test]
fn entries_of_caps_are_in_the_claimed_sum() {
    let scene = scene();
    let hooks = Hooks {
        multiplicities: &|counts: &mut Columns| counts[column_of(Relation::Cap)][5] += BaseField::one(),
        interaction: &|state, _, sum| *sum += state.missing_entries(*sum),
        ..HONEST
    };
    assert_constraints_violated(scene.attempt(&hooks));
}

/// The key of the attacked row whose score is the smallest.
fn smallest(row: &Softmax) -> usize {
    let own = row.scores[..=QUERY].iter().enumerate();
    own.min_by_key(|(_, s)| **s).expect("a key").0
}

/// One key's capped score is another one in the attacked rows, with everything that follows.
struct OtherScore(Vec<u32>);

impl Deviation for OtherScore {
    fn softmax(&self, row: &mut Softmax) {
        if row.layer != LAYER || row.query != QUERY {
            return;
        }
        let at = smallest(row);
        row.exp[at] = self.0[(i32::from(row.max) - i32::from(row.scores[at]) - 1) as usize];
        row.sum = row.exp.iter().sum();
        row.recip = reciprocal(row.sum);
    }
}

/// A capped score is one more than the table says; the difference to the maximum follows it, or does not.
#[test]
fn capped_scores_are_those_of_the_table() {
    let scene = scene();
    let exps = exp_table(scene.model.key.params.score_bits);
    let scene = deviating(scene, &OtherScore(exps));
    let columns = |with_score: bool| {
        in_every_head(move |all, keys, _| {
            let own = &mut all[Part::SCORES.index()];
            let open = &keys[..=QUERY];
            // Differences are largest where scores are smallest; the first of them.
            let far = open.iter().map(|at| own[softmax::D][*at].0).max();
            let at = *open
                .iter()
                .find(|at| Some(own[softmax::D][**at].0) == far)
                .expect("a key");
            assert!(own[softmax::D][at].0 > 1, "another key has the maximum");
            own[softmax::D][at] -= BaseField::one();
            if with_score {
                own[softmax::CAPPED][at] += BaseField::one();
            }
        })
    };
    for (with_score, by) in [(true, Caught::Lookup), (false, Caught::Claim("differences"))] {
        let columns = columns(with_score);
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(by, &hooks);
    }
}

/// The witness of a model of the same weights whose scores are not capped: its maxima, differences and exponentials are those of the scores
/// themselves.
#[test]
fn softmax_is_of_capped_scores() {
    let mut scene = scene();
    let mut other = scene.model.quantised.clone();
    other.config.blocks = Blocks {
        norm_outputs: true,
        ..Blocks::DECODER
    };
    let ids = scene.statement.row_ids();
    let witness = forward(&other, &ids, &Honest);
    assert_ne!(witness, scene.witness);
    scene.witness = witness;
    let vocab = scene.model.key.config.vocab;
    let logits = &scene.witness.logits[QUERY * vocab..][..vocab];
    scene.statement.output = vec![tessera_circuits::semantics::arg_max(logits) as u32];
    for (with_score, by) in [(true, Caught::Lookup), (false, Caught::Claim("differences"))] {
        let columns = |shape: &Shape, all: &mut [Columns]| uncapped(shape, all, with_score);
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(by, &hooks);
    }
}

/// Differences are those of the scores that are not capped; so is what should be capped, if `with_score`.
fn uncapped(shape: &Shape, all: &mut [Columns], with_score: bool) {
    let (own, width) = (&mut all[Part::SCORES.index()], shape.lane_columns(Part::SCORES));
    for first in (0..shape.lanes(Part::SCORES)).map(|lane| lane * width) {
        (0..1 << shape.log_rows(Part::SCORES)).for_each(|at: usize| {
            let [s, d, capped] = [softmax::S, softmax::D, softmax::CAPPED].map(|column| own[first + column][at]);
            if d != base(MASKED.into()) {
                let difference = d + capped - s;
                own[first + softmax::D][at] = difference;
                own[first + softmax::ZERO][at] = base(i64::from(difference.is_zero()));
            }
            if with_score {
                own[first + softmax::CAPPED][at] = s;
            }
        });
    }
}

/// The attacked rows see the token after them.
struct Future(Vec<u32>);

impl Deviation for Future {
    fn softmax(&self, row: &mut Softmax) {
        if row.layer != LAYER || row.query != QUERY {
            return;
        }
        let keys = &row.scores[..QUERY + 2];
        row.max = *keys.iter().max().expect("a key");
        row.arg = keys.iter().position(|s| *s == row.max).expect("a maximum");
        for (e, s) in row.exp.iter_mut().zip(keys) {
            *e = self.0[(i32::from(row.max) - i32::from(*s)) as usize];
        }
        row.sum = row.exp.iter().sum();
        row.recip = reciprocal(row.sum);
    }
}

/// A masked pair is open, with the difference of its capped score: it is masked whatever it is capped to.
#[test]
fn masked_pairs_stay_masked() {
    let scene = one_token_later(model());
    let exps = exp_table(scene.model.key.params.score_bits);
    let scene = deviating(scene, &Future(exps));
    let columns = in_every_head(|all, keys, line| {
        let max = all[Part::SOFTMAX.index()][softmax::MAX][line];
        let own = &mut all[Part::SCORES.index()];
        let at = keys[QUERY + 1];
        own[softmax::D][at] = max - own[softmax::CAPPED][at];
        own[softmax::ZERO][at] = base(i64::from(own[softmax::D][at].is_zero()));
        let zeros = keys.iter().filter(|at| own[softmax::D][**at].is_zero()).count();
        all[Part::SOFTMAX.index()][softmax::TIES][line] = base(zeros as i64 - 1);
    });
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("masked pairs"), &hooks);
}

/// Rows of padded layers have capped scores of their table, too, and mean nothing else.
#[test]
fn padded_layers_have_entries_of_the_table() {
    let config = ModelConfig {
        layers: 3,
        ..capped_config()
    };
    let scene = one_token_of(random_model(config, WeightFormat::Int16, 7));
    let at = |shape: &Shape| row(shape, Part::SCORES, &[3, 0, 0, 1, 0]);
    let alone =
        |shape: &Shape, all: &mut [Columns]| all[Part::SCORES.index()][softmax::CAPPED][at(shape)] += BaseField::one();
    let hooks = Hooks {
        columns: &alone,
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
}

/// Keys of two caps are two models, and a proof of the one is none of the other, even under its id.
#[test]
fn another_cap_is_another_model() {
    let scene = scene();
    let mut proof = scene.forge(&HONEST);
    let mut other = model();
    other.config.blocks = Blocks {
        norm_outputs: true,
        score_cap: Some(ScoreCap { units: (1 << 10) + 1 }),
        ..Blocks::DECODER
    };
    let other = TestModel::new(other);
    assert!(verify(&scene.model.key, &proof).is_ok() && verify(&other.key, &proof).is_err());
    proof.model = other.key.id().expect("an id");
    assert_rejected!(verify(&other.key, &proof), VerifyError::Stark(StarkError::Tables));
}
