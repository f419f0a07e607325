//! Attacks within the proof of one chunk of layers: on what enters it, what leaves it, and which weights it has.

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::base;
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::chunk::{Boundary, PublicBoundary};
use tessera_circuits::model::LAYER_KINDS;
use tessera_circuits::ops::stream;
use tessera_circuits::shape::Product;
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::trace::Columns;
use tessera_testkit::edit;
use tessera_verifier::opening::parts::{said_columns, Layout};
use tessera_verifier::opening::{CommitmentName, OpeningError};
use tessera_verifier::verify::VerifyError;

use crate::cheat::{Hooks, Rounds, HONEST};
use crate::values::row;
use crate::{assert_claims_violated, assert_rejected, rejects_weights, Caught, Scene};

type K = SecureField;

/// Without a lie every kind of chunk is accepted.
#[test]
fn without_a_lie_every_chunk_is_accepted() {
    for (start, end) in [(0, 3), (2, 5), (5, 7), (3, 4)] {
        let scene = Scene::honest_chunk(start, end);
        scene.attempt(&HONEST).expect("an honest proof");
    }
}

/// A middle chunk, what really enters it, and what follows from something else: another value of the first token.
/// The scene has witness and output of the false input, and the statement has the true one.
fn false_input() -> (Scene, Boundary) {
    let mut scene = Scene::middle();
    let truth = scene.input.clone().expect("an input");
    let honest = scene.output.clone();
    let lie = scene.input.as_mut().expect("an input");
    for value in &mut lie.0[..3] {
        *value = value.wrapping_add(500).clamp(-20_000, 20_000);
    }
    scene.run();
    assert_ne!(scene.output, honest, "the lie changes what leaves the chunk");
    let lie = scene.input.replace(truth).expect("an input");
    (scene, lie)
}

/// The trace starts from another state than the one that enters, and everything follows up to what leaves the chunk.
#[test]
fn the_first_state_is_what_enters() {
    let (scene, lie) = false_input();
    let hooks = Hooks {
        input: Some(&lie),
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("accumulators"), &hooks);
}

/// The first state is not what enters, with a remainder and a difference of the high limb that explain it.
#[test]
fn the_first_state_is_computed_from_what_enters() {
    let (scene, lie) = false_input();
    let hidden = scene.model.key.config.hidden;
    let truth = scene.input.clone().expect("an input");
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::STREAM.index()];
        for (at, (told, real)) in lie.0.iter().zip(&truth.0).enumerate().filter(|(_, (t, r))| t != r) {
            let place = row(shape, Part::STREAM, &[0, at / hidden, at % hidden]);
            let more = i64::from(*told) - i64::from(*real);
            // What enters is doubled, and so is the state.
            let delta = Remainder::OFFSET - 2 * more;
            assert_eq!(own[stream::UPDATE.pow()][place], base(2));
            own[stream::UPDATE.d_hi()][place] = base(delta >> 7);
            own[stream::UPDATE.d_lo()][place] = base(delta & 127);
            own[stream::UPDATE.r_hi()][place] -= base(2 * more);
        }
    };
    let hooks = Hooks {
        columns: &columns,
        input: Some(&lie),
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
}

/// Another first state with made-up operands of an embedding that explain it, all others being honest. There is no matmul
/// there: lookups and claims hold, as for a real embedding.
#[test]
fn a_chunk_without_embedding_has_no_embedding_operands() {
    let (scene, lie) = false_input();
    let hooks = Hooks {
        input: Some(&lie),
        matmuls: Rounds::Embedding,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Products { .. });
}

/// Operands of products that a chunk does not have: of the embedding, of the head, and of the normed states in limbs that no matmul wants. Their
/// product is zero, and with it the sumcheck is as before: what they would claim is a value of no weights.
#[test]
fn products_that_a_chunk_does_not_have_have_no_operands() {
    let scene = Scene::middle();
    let shape = scene.shape();
    let absent = shape.products().iter().filter(|own| own.variables.is_none());
    let absent: Vec<Product> = absent.map(|own| own.product).collect();
    assert!([Product::EMBED, Product::HEAD].iter().all(|own| absent.contains(own)));
    let expected = shape.existing().count();
    for product in absent {
        let place = shape.existing().filter(|own| *own < product).count();
        let hooks = Hooks {
            operands: &|operands| operands.insert(place, [K::zero(), K::one()]),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Products { got, expected: e } if (got, e) == (expected + 1, expected));
    }
}

/// An honest trace, and another boundary behind it: one value off by one, in the first and in the last token
/// row; and what entered instead of what leaves.
#[test]
fn what_leaves_the_chunk_is_the_last_state() {
    let values = Scene::middle().output.expect("an output").0.len();
    for at in [0, values - 1] {
        let mut scene = Scene::middle();
        scene.output.as_mut().expect("an output").0[at] += 1;
        scene.assert_caught(Caught::Claim("what leaves the chunk"), &HONEST);
    }
    let mut scene = Scene::middle();
    scene.output.clone_from(&scene.input);
    scene.assert_caught(Caught::Claim("what leaves the chunk"), &HONEST);
}

/// The first chunk starts with the embedding: nothing enters it, whatever the trace says.
#[test]
fn nothing_enters_the_first_chunk() {
    let scene = Scene::honest_chunk(0, 3);
    let values = scene.witness.streams[0].x.len();
    let mut lie = Boundary(vec![0; values]);
    lie.0[3] = 1;
    let hooks = Hooks {
        input: Some(&lie),
        ..HONEST
    };
    // What enters is added to the embedding.
    assert_claims_violated(scene.attempt(&hooks));
}

/// The last chunk of a model with a layer more: everything is proved of the layers, and nothing of the output.
#[test]
fn the_last_chunk_has_a_head() {
    let mut scene = Scene::honest_chunk(5, 7);
    scene.attempt(&HONEST).expect("an honest proof");
    scene.chunk.of = 8;
    let headless = scene.chunk;
    scene.run();
    let output = scene.output.take().expect("what leaves it");
    scene.chunk.of = 7;
    let hooks = Hooks {
        proved: Some((headless, &PublicBoundary::Clear(output))),
        ..HONEST
    };
    // The lookups are as many trees of as many layers, but the product of the head is missing.
    assert_rejected!(scene.attempt(&hooks), VerifyError::Products { got, expected } if got + 1 == expected);
}

/// The layers of another chunk: everything is consistent with their weights, but they are not in the columns of this
/// one.
#[test]
fn weights_are_those_of_the_chunk() {
    let mut scene = Scene::middle();
    let own = scene.model.quantised.clone();
    let mut other = own.clone();
    for kind in LAYER_KINDS {
        for layer in scene.chunk.layers() {
            let matrix = own.matrix(kind.at(layer - 2));
            edit(&mut other, kind.at(layer), |m| *m = matrix);
        }
    }
    scene.model.quantised = other.clone();
    scene.run();
    scene.model.quantised = own;
    rejects_weights(&scene, &other.weights);
}

/// The opened columns follow from the chunk; a window of the same size elsewhere is another claim.
#[test]
fn the_opened_columns_are_those_of_the_chunk() {
    let scene = Scene::middle();
    let own = scene.model.key.opened(&scene.chunk);
    let [first, _, log_band] = own.words();
    for first in [first - 1, first + 1] {
        let hooks = Hooks {
            opened: Some(said_columns(first as usize, *own.params(), log_band)),
            ..HONEST
        };
        assert_rejected!(
            scene.attempt(&hooks),
            VerifyError::Opening(OpeningError::BandClaim {
                commitment: CommitmentName::Weights
            })
        );
    }
}
