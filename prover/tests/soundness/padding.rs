//! Attacks through rows that belong to nothing: padded layers.

use tessera_circuits::air::{base, scores};
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::semantics::{arg_max, reciprocal};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_prover::prove::stark::trace::Columns;
use tessera_prover::run::forward::{ForwardState, Witness};
use tessera_prover::testing::{odd_config, random_ids, random_model, TestModel};

use crate::cheat::{Hooks, HONEST};
use crate::forward::{forward, Deviation, Honest, Softmax};
use crate::{assert_constraints_violated, Scene};

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

/// The multiplicity of a lookup of an exponential is the mask, which no claim covers in a padded layer. Rows there
/// could use a lookup -1 times and thereby put anything in the table. What it would gain: any attention pattern.
#[test]
fn padded_layers_add_nothing_to_the_exponentials() {
    let config = ModelConfig {
        layers: 3,
        ..odd_config()
    };
    let model = TestModel::new(random_model(config, WeightFormat::Int16, 10));
    let attacked = 2;
    let prompt = random_ids(&model.key.config, 5, 3);
    let mut statement = Statement {
        prompt,
        output: vec![0],
    };
    let shape = Shape::new(&model.key.config, statement.lengths());
    let ids = statement.row_ids(shape.token);
    let witness = forward(&model.quantised, &ids, &SmallestScore { layer: attacked });
    let vocab = model.key.config.vocab;
    let at = (statement.rows() - 1) * vocab;
    let told = arg_max(&witness.logits[at..at + vocab]);
    let truth = arg_max(&forward(&model.quantised, &ids, &Honest).logits[at..at + vocab]);
    assert_ne!(told, truth, "the attack changes nothing");
    statement.output = vec![told as u32];

    let alter = |shape: &Shape, columns: &mut [Columns]| {
        let own = &mut columns[Part::Scores.index()];
        let layer = 1usize << shape.axes(Part::Scores)[1..].iter().sum::<u32>();
        for row in attacked * layer..(attacked + 1) * layer {
            let d = own[scores::D][row];
            // A negative difference is in no table: the padded layer takes the lookup back.
            if d.0 > 1 << 16 {
                let free = row + layer;
                own[scores::MASK][free] = base(-1);
                own[scores::MAX][free] = d;
                own[scores::D][free] = d;
            }
        }
    };
    // The mask is a bit on every row, so no such trace satisfies the constraints.
    let scene = Scene::whole(model, statement, witness);
    assert_constraints_violated(scene.attempt(&Hooks {
        columns: &alter,
        ..HONEST
    }));
}
