//! Attacks on what only rerankers have: types of tokens that follow from the ids, and scores that follow from a proved row.

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{Blocks, ModelConfig, Output, Reranker, WeightFormat};
use tessera_circuits::statement::Statement;
use tessera_model::forward::{ForwardState, Input, Witness};
use tessera_model::QuantisedModel;
use tessera_testkit::{random_ids, random_model, reranker_config, TestModel};
use tessera_verifier::verify::VerifyError;

use crate::cheat::{Hooks, HONEST};
use crate::{assert_rejected, Caught, Scene};

const SEPARATOR: u32 = 9;
/// Tokens of both texts: two blocks, the second with padding.
const ROWS: usize = 19;
/// Where the separator stands.
const BETWEEN: usize = 6;

/// The units of its vector are those with which tanh is not 1 or -1 everywhere.
fn reranker() -> QuantisedModel {
    let mut model = random_model(reranker_config(Some(SEPARATOR)), WeightFormat::Int16, 7);
    model.params.logit_bits = 26;
    model
}

/// A query and a document; a second separator ends them.
fn pair(config: &ModelConfig) -> Vec<u32> {
    let mut ids = random_ids(config, ROWS, 3);
    ids.iter_mut().filter(|id| **id == SEPARATOR).for_each(|id| *id += 1);
    for at in [BETWEEN, ROWS - 1] {
        ids[at] = SEPARATOR;
    }
    ids
}

fn run(model: &QuantisedModel, ids: &[u32]) -> (Vec<i32>, Witness) {
    let (mut witness, whole) = (Witness::default(), Chunk::whole(model.config.layers));
    let done = ForwardState::run_chunk(model, &whole, Input::Tokens(ids), 0, Some(&mut witness));
    let vector = done.expect("a forward pass").vector;
    (vector.expect("a vector"), witness)
}

fn scene() -> Scene {
    let model = TestModel::new(reranker());
    let text = pair(&model.key.config);
    let (vector, witness) = run(&model.quantised, &text);
    Scene::whole(model, Statement::of_vector(text, &vector), witness)
}

#[test]
fn honest_rerankers_are_accepted() {
    assert!(scene().attempt(&HONEST).is_ok());
    let model = TestModel::new(random_model(reranker_config(None), WeightFormat::Int8, 7));
    let text = pair(&model.key.config);
    let (vector, witness) = run(&model.quantised, &text);
    let one_type = Scene::whole(model, Statement::of_vector(text, &vector), witness);
    assert!(one_type.attempt(&HONEST).is_ok());
}

/// The tokens of one text as if they were of the other: all of them, from the second separator on, from another token on, or none. States,
/// vector and weights follow; what a row of the embedding is does not.
#[test]
fn types_of_tokens_follow_from_the_ids() {
    let honest = scene();
    let ids = honest.statement.prompt.clone();
    for separator in [Some(ids[0]), Some(ids[BETWEEN + 2]), Some(ids[BETWEEN - 1]), Some(299)] {
        let mut scene = scene();
        let mut other = scene.model.quantised.clone();
        other.config.blocks = Blocks::encoder(Output::Scores(Reranker {
            separator,
            sigmoid: true,
        }));
        assert_ne!(other.config.types_of(&ids), scene.model.key.config.types_of(&ids));
        let (vector, witness) = run(&other, &ids);
        assert_ne!(witness, scene.witness);
        scene.statement = Statement::of_vector(ids.clone(), &vector);
        scene.witness = witness;
        let hooks = Hooks {
            source: Some(&other),
            ..HONEST
        };
        scene.assert_caught(Caught::Claim("accumulators"), &hooks);
    }
}

/// The integers that scores are made of: one of them, or those of another row.
#[test]
fn scores_are_made_of_the_first_row() {
    let row = |scene: &Scene, i: usize| {
        let hidden = scene.model.key.config.hidden;
        let y = &scene.witness.streams.last().expect("a state").y;
        y[i * hidden..][..hidden]
            .iter()
            .map(|v| i32::from(*v))
            .collect::<Vec<_>>()
    };
    let honest = scene();
    assert_eq!(honest.statement.vector(), Some(row(&honest, 0)));
    let one = |at: usize| {
        let mut vector = row(&honest, 0);
        vector[at] += 1;
        vector
    };
    for vector in [
        one(0),
        one(19),
        row(&honest, 1),
        row(&honest, BETWEEN),
        row(&honest, ROWS - 1),
    ] {
        let mut scene = scene();
        let (config, params) = (&scene.model.key.config, &scene.model.key.params);
        let scores = |vector: &[i32]| params.pair_scores(config, vector).expect("scores");
        assert_ne!(scores(&vector), scores(&row(&honest, 0)));
        scene.statement = Statement::of_vector(scene.statement.prompt.clone(), &vector);
        scene.assert_caught(Caught::Claim("vector"), &HONEST);
    }
}

/// Every number of the head, the separator and the sigmoid: none is in a claim, each is in the id. So a proof says nothing under another key.
#[test]
fn the_head_is_a_part_of_the_id() {
    let honest = scene();
    let proof = honest.forge(&HONEST);
    let lists = honest.model.key.params.biases.len();
    let other = |change: &dyn Fn(&mut tessera_verifier::key::ModelKey)| {
        let mut key = honest.model.key.clone();
        change(&mut key);
        assert_rejected!(
            tessera_verifier::verify::verify(&key, &proof).map(|_| ()),
            VerifyError::OtherModel { .. }
        );
    };
    for list in lists - 4..lists {
        other(&|key| key.params.biases[list][0] += 1);
        other(&|key| *key.params.biases[list].last_mut().expect("a number") -= 1);
    }
    for (separator, sigmoid) in [(Some(SEPARATOR + 1), true), (Some(SEPARATOR), false)] {
        other(&|key| key.config.blocks = Blocks::encoder(Output::Scores(Reranker { separator, sigmoid })));
    }
}

/// Where the separator stands at an end of the texts or of a block, in one piece and in chunks.
#[test]
fn pairs_of_all_lengths_are_proved() {
    let model = TestModel::new(reranker());
    for (rows, between, layers) in [
        (2, 0, vec![2]),
        (16, 15, vec![1, 1]),
        (17, 15, vec![2]),
        (33, 16, vec![1, 1]),
        (40, 3, vec![2]),
    ] {
        let mut text = random_ids(&model.key.config, rows, 9);
        text[between] = SEPARATOR;
        let proof = model.prove_chunks(&text, 1, &layers);
        assert_eq!(proof.statement.rows(), rows);
    }
}
