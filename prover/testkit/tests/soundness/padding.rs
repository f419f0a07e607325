//! Attacks through rows that belong to nothing: padded layers and heads.

use tessera_circuits::air::base;
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::ops::softmax;
use tessera_circuits::semantics::{arg_max, reciprocal};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_model::forward::{ForwardState, Witness};
use tessera_prover::trace::Columns;
use tessera_testkit::{odd_config, random_ids, random_model, TestModel};

use crate::cheat::{Hooks, HONEST};
use crate::forward::{forward, Deviation, Honest, Softmax};
use crate::{Caught, Scene};

/// In one layer every row attends only to the key with the smallest score, as if that score were the maximum.
struct SmallestScore {
    layer: usize,
}

impl Deviation for SmallestScore {
    fn softmax(&self, row: &mut Softmax) {
        if row.layer != self.layer {
            return;
        }
        row.max = *row.scores[..=row.query].iter().min().expect("a key");
        row.arg = row.scores.iter().position(|s| *s == row.max).expect("a minimum");
        for (e, s) in row.exp.iter_mut().zip(&row.scores[..=row.query]) {
            *e = u32::from(*s == row.max) << 15;
        }
        row.sum = row.exp.iter().sum();
        row.recip = reciprocal(row.sum);
    }
}

#[test]
fn the_plain_forward_pass_is_the_real_one() {
    let quantised = random_model(odd_config(), WeightFormat::Int8, 7);
    let ids = random_ids(&quantised.config, 6, 3);
    let mut witness = Witness::default();
    ForwardState::new(&quantised)
        .run(&ids, Some(&mut witness))
        .expect("a forward pass");
    assert_eq!(forward(&quantised, &ids, &Honest), witness);
}

/// A negative difference is in no table, and no row takes its lookup back: every row looks up once, padded ones included.
/// What it would gain: any attention pattern.
#[test]
fn padded_layers_add_nothing_to_the_exponentials() {
    let config = ModelConfig {
        layers: 3,
        ..odd_config()
    };
    let attacked = 2;
    let mut statement = Statement {
        prompt: random_ids(&config, 5, 3),
        output: vec![0],
    };
    let ids = statement.row_ids(Shape::new(&config, statement.lengths()).token);
    let at = (statement.rows() - 1) * config.vocab;
    let best = |witness: &Witness| arg_max(&witness.logits[at..at + config.vocab]);
    // A model whose output the attack changes.
    let mut attempts = (10..40).map(|seed| {
        let model = random_model(config.clone(), WeightFormat::Int16, seed);
        let witness = forward(&model, &ids, &SmallestScore { layer: attacked });
        let truth = best(&forward(&model, &ids, &Honest));
        (model, best(&witness), truth, witness)
    });
    let found = attempts.find(|(_, told, truth, _)| told != truth);
    let (model, told, _, witness) = found.expect("an attack that changes something");
    let model = TestModel::new(model);
    statement.output = vec![told as u32];
    let scene = Scene::whole(model, statement, witness);
    scene.assert_caught(Caught::Lookup, &HONEST);

    // The padded layer has the same difference with the opposite sign, and the tables pay for what is between them.
    let alter = |shape: &Shape, columns: &mut [Columns]| {
        let own = &mut columns[Part::SCORES.index()];
        let layer = 1usize << shape.axes(Part::SCORES)[1..].iter().sum::<u32>();
        for row in attacked * layer..(attacked + 1) * layer {
            let d = own[softmax::D][row];
            if d.0 > 1 << 16 {
                own[softmax::D][row + layer] = -d;
                own[softmax::EXP][row + layer] = -own[softmax::EXP][row];
                own[softmax::ZERO][row + layer] = base(0);
            }
        }
    };
    scene.assert_caught(
        Caught::Lookup,
        &Hooks {
            columns: &alter,
            ..HONEST
        },
    );
}

/// The maximum of a head that the model does not have, and how often it is attained, are read by nothing: the others are as
/// they were.
#[test]
fn padded_heads_have_no_softmax() {
    let scene = Scene::honest();
    let alter = |shape: &Shape, columns: &mut [Columns]| {
        let tokens = 1usize << shape.token;
        let line = ((1 << shape.axes(Part::SOFTMAX)[1]) - 1) * tokens;
        assert!(line >= shape.config.heads * tokens, "a padded head of the first layer");
        let own = &mut columns[Part::SOFTMAX.index()];
        (own[softmax::MAX][line], own[softmax::TIES][line]) = (base(-77), base(9));
    };
    let hooks = Hooks {
        columns: &alter,
        ..HONEST
    };
    scene.attempt(&hooks).expect("a true statement, as no claim reads it");
    // A real head that is said to be one that the model does not have.
    let real = |shape: &Shape, columns: &mut [Columns]| {
        let tokens = 1usize << shape.token;
        let own = &mut columns[Part::SOFTMAX.index()];
        own[softmax::MAX][(shape.config.heads - 1) * tokens] += base(1);
    };
    let hooks = Hooks {
        columns: &real,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("differences"), &hooks);
}
