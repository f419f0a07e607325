//! Attacks on what only encoders have: gains between states, attention that masks padding, vectors.

use std::ops::Range;

use tessera_circuits::air::base;
use tessera_circuits::model::{ByClass, MatmulKind, Pooling, WeightFormat, LAYER_KINDS};
use tessera_circuits::ops::softmax;
use tessera_circuits::semantics::MASKED;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_model::forward::{ForwardState, Witness};
use tessera_model::QuantisedModel;
use tessera_prover::trace::Columns;
use tessera_testkit::{edit, encoder_config, random_ids, random_model, TestModel};
use tessera_verifier::verify::VerifyError;

use crate::cheat::{Hooks, HONEST};
use crate::values::cell;
use crate::{assert_rejected, Caught, Scene};

/// Tokens of the text: two blocks, the second with padding.
const ROWS: usize = 19;

fn encoder(pooling: Pooling) -> QuantisedModel {
    random_model(encoder_config(pooling), WeightFormat::Int16, 7)
}

/// What a model makes of a text, if every row sees so many keys.
fn run(model: &QuantisedModel, ids: &[u32], keys: usize) -> (Vec<i32>, Witness) {
    let mut witness = Witness::default();
    let mut state = ForwardState::new(model).seeing(keys);
    state.run(ids, Some(&mut witness)).expect("a forward pass");
    let rows = model.config.pooled_rows(ids.len());
    (sum(model, &witness, 0..rows), witness)
}

/// The sum of some rows of the last normed state.
fn sum(model: &QuantisedModel, witness: &Witness, rows: Range<usize>) -> Vec<i32> {
    let hidden = model.config.hidden;
    let y = &witness.streams.last().expect("a state").y;
    let of = |c: usize| rows.clone().map(|i| i32::from(y[i * hidden + c])).sum();
    (0..hidden).map(of).collect()
}

fn scene(pooling: Pooling) -> Scene {
    let model = TestModel::new(encoder(pooling));
    let text = random_ids(&model.key.config, ROWS, 3);
    let (vector, witness) = run(&model.quantised, &text, ROWS);
    Scene::whole(model, Statement::of_vector(text, &vector), witness)
}

/// The scene with what another model makes of the text, and its vector: only the change itself can be caught.
fn caught_impostor(by: Caught, change: impl Fn(&mut QuantisedModel)) {
    let mut scene = scene(Pooling::Mean);
    let mut other = scene.model.quantised.clone();
    change(&mut other);
    let (vector, witness) = run(&other, &scene.statement.prompt, ROWS);
    assert_ne!(witness, scene.witness, "the change changes something");
    scene.statement = Statement::of_vector(scene.statement.prompt, &vector);
    scene.witness = witness;
    let hooks = Hooks {
        source: Some(&other),
        ..HONEST
    };
    scene.assert_caught(by, &hooks);
}

#[test]
fn honest_encoders_are_accepted() {
    for pooling in [Pooling::Mean, Pooling::First] {
        assert!(scene(pooling).attempt(&HONEST).is_ok(), "{pooling:?}");
    }
}

/// One coordinate, the first or the last; and coordinates that are swapped.
#[test]
fn a_vector_is_that_of_the_last_states() {
    let changes: [fn(&mut Vec<i32>); 4] = [
        |v| v[0] += 1,
        |v| *v.last_mut().expect("a channel") -= 1,
        |v| v.swap(3, 4),
        |v| v.iter_mut().for_each(|v| *v = -*v),
    ];
    for pooling in [Pooling::Mean, Pooling::First] {
        for change in changes {
            let mut scene = scene(pooling);
            let mut vector = scene.statement.vector().expect("a vector");
            change(&mut vector);
            scene.statement = Statement::of_vector(scene.statement.prompt, &vector);
            scene.assert_caught(Caught::Claim("vector"), &HONEST);
        }
    }
}

/// A row that is left out, and the row of another token in the place of the first.
#[test]
fn the_rows_of_the_text_make_the_vector() {
    for (pooling, rows) in [
        (Pooling::Mean, 1..ROWS),
        (Pooling::Mean, 0..ROWS - 1),
        (Pooling::First, 1..2),
    ] {
        let mut scene = scene(pooling);
        let vector = sum(&scene.model.quantised, &scene.witness, rows);
        scene.statement = Statement::of_vector(scene.statement.prompt, &vector);
        scene.assert_caught(Caught::Claim("vector"), &HONEST);
    }
}

/// Hides a key from every row: the differences to the maximum are those of masked pairs, and ties are counted.
fn hide(shape: &Shape, all: &mut [Columns], key: usize) {
    let rows = (0..shape.config.layers).flat_map(|l| (0..shape.config.heads).map(move |h| [l, h]));
    for ([layer, head], query) in rows.flat_map(|row| (0..ROWS).map(move |query| (row, query))) {
        let [pair, in_block, key] = shape.pairs(None).place(query, key).expect("a pair of an encoder");
        let score = |column| cell(shape, Part::SCORES, &[layer, head, pair, in_block, key], column);
        let [zero, ties] = [
            score(softmax::ZERO),
            cell(shape, Part::SOFTMAX, &[layer, head, query], softmax::TIES),
        ];
        let attained = all[Part::SCORES.index()][zero[0]][zero[1]];
        all[Part::SOFTMAX.index()][ties[0]][ties[1]] -= attained;
        let difference = score(softmax::D);
        for ([column, row], value) in [(zero, base(0)), (difference, base(MASKED.into()))] {
            all[Part::SCORES.index()][column][row] = value;
        }
    }
}

/// Attention of all rows that does not see the last token. Everything follows, the vector too. That no row sees more than the text is
/// a test of padding.
#[test]
fn the_text_is_seen_to_its_end() {
    let mut hidden = scene(Pooling::First);
    let (vector, witness) = run(&hidden.model.quantised, &hidden.statement.prompt, ROWS - 1);
    assert_ne!(witness, hidden.witness);
    hidden.statement = Statement::of_vector(hidden.statement.prompt, &vector);
    hidden.witness = witness;
    let columns = |shape: &Shape, all: &mut [Columns]| hide(shape, all, ROWS - 1);
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    hidden.assert_caught(Caught::Claim("differences"), &hooks);
}

/// Gains of another channel, of another state, or none; another factor; another matrix.
#[test]
fn states_are_added_with_the_gains_of_the_key() {
    let first = |m: &QuantisedModel| m.config.layers * LAYER_KINDS.len() + 1;
    let caught = |change: &dyn Fn(&mut QuantisedModel)| caught_impostor(Caught::Claim("accumulators"), change);
    for state in 0..4 {
        caught(&|m| {
            let at = first(m) + state;
            m.params.biases[at][7] += 300;
        });
    }
    caught(&|m| {
        let at = first(m);
        m.params.biases.swap(at, at + 1);
    });
    caught(&|m| {
        let at = first(m) + 2;
        m.params.biases[at].fill(0);
    });
    caught(&|m| m.params.layers[1].attention.skip = ByClass { body: 1, lead: 0 });
    caught(&|m| edit(m, MatmulKind::Down.at(0), |down| down.swap(0, 1)));
}

/// The gains of the last state make no part of what is proved: they are in the model's id, from which the vector is read.
#[test]
fn the_last_gains_are_a_part_of_the_id() {
    let scene = scene(Pooling::Mean);
    let id = scene.model.key.id().expect("an id");
    let mut other = scene.model.key.clone();
    *other
        .params
        .biases
        .last_mut()
        .expect("gains")
        .last_mut()
        .expect("a gain") += 1;
    assert_ne!(other.id().expect("an id"), id);
}

/// Statements that no encoder, or no other model, can have.
#[test]
fn statements_are_those_of_the_kind_of_model() {
    let honest = scene(Pooling::Mean);
    let proof = honest.forge(&HONEST);
    let attempt = |statement: Statement| {
        let mut proof = proof.clone();
        proof.statement = statement;
        tessera_verifier::verify::verify(&honest.model.key, &proof).map(|_| ())
    };
    assert!(attempt(honest.statement.clone()).is_ok());
    let text = honest.statement.prompt.clone();
    let vector = honest.statement.vector().expect("a vector");
    let tokens = Statement {
        prompt: text.clone(),
        output: vec![1],
    };
    assert_rejected!(attempt(tokens), VerifyError::Statement(_));
    assert_rejected!(
        attempt(Statement::of_vector(Vec::new(), &vector)),
        VerifyError::Statement(_)
    );
    assert_rejected!(
        attempt(Statement::of_vector(text.clone(), &vector[1..])),
        VerifyError::Statement(_)
    );
    // The same modulo p, but no sum of values of 16 bits.
    let mut alias = vector.clone();
    alias[0] = if alias[0] < 0 {
        alias[0] + i32::MAX
    } else {
        alias[0] - i32::MAX
    };
    assert_rejected!(attempt(Statement::of_vector(text, &alias)), VerifyError::Statement(_));
    let decoder = Scene::honest();
    let mut proof = decoder.forge(&HONEST);
    proof.statement = Statement::of_vector(proof.statement.prompt.clone(), &[0; 20]);
    let rejected = tessera_verifier::verify::verify(&decoder.model.key, &proof).map(|_| ());
    assert_rejected!(rejected, VerifyError::Statement(_));
}

/// Texts that end in a block, at its end, and beyond it, in one piece and in chunks.
#[test]
fn texts_of_all_lengths_are_proved() {
    let model = TestModel::new(encoder(Pooling::Mean));
    for (rows, layers) in [
        (1, vec![2]),
        (16, vec![1, 1]),
        (17, vec![2]),
        (32, vec![2]),
        (33, vec![1, 1]),
        (40, vec![2]),
    ] {
        let text = random_ids(&model.key.config, rows, 9);
        let proof = model.prove_chunks(&text, 1, &layers);
        assert_eq!(proof.statement.rows(), rows);
        let shape = Shape::new(&model.key.config, proof.statement.lengths());
        assert_eq!(shape.pairs(None).count(), rows.div_ceil(16).pow(2));
        let bytes = proof.to_bytes().expect("a proof");
        tessera_verifier::verify::verify_bytes(&model.key, &bytes).expect("accepted");
    }
}
