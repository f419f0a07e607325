//! Every challenge depends on every message before it.

use num_traits::One;
use tessera_circuits::statistics::Clip;
use tessera_circuits::wiring::Points;
use tessera_testkit::OfStark;
use tessera_verifier::gkr::GroupProof;
use tessera_verifier::opening::parts::parts_of_mut;
use tessera_verifier::proof::Proof;

use super::challenges::{messages, messages_mut, Challenges, K, RELATIONS};
use super::honest;

/// A change of a message.
type Change = fn(&mut Proof);
/// A message, a change of it, and the place of the first challenge that must change with it.
type Message = (&'static str, Change, usize);

/// Adds one to the last message of a sumcheck.
fn raise(rounds: &mut [[K; 2]]) {
    rounds.last_mut().expect("a round")[0] += K::one();
}

/// What is absorbed before the first challenge.
fn first_messages() -> [Message; 7] {
    [
        ("model", |p| p.model.0[31] ^= 1, 0),
        ("prompt", |p| p.statement.prompt[0] ^= 1, 0),
        ("output", |p| p.statement.output[3] ^= 1, 0),
        ("activations", |p| messages_mut(p).activations[7] ^= 1, 0),
        (
            "multiplicities",
            |p| messages_mut(p).of_stark_mut().stark.0.commitments[1].0[0] ^= 1,
            0,
        ),
        (
            "clipped values",
            |p| {
                let clip = Clip {
                    part: 0,
                    tensor: 0,
                    at: 0,
                    excess: 1,
                };
                messages_mut(p).statistics.clips.insert(0, clip);
            },
            0,
        ),
        ("work", |p| messages_mut(p).lookup_work ^= 1 << 40, 0),
    ]
}

/// Messages of the first tree of lookups, whose first challenge has the place `first`.
fn tree_messages(first: usize) -> [Message; 3] {
    // A challenge for every layer, one for each of its rounds, and one for its children.
    let before_layer = |k: usize| first + (0..k).map(|layer| layer + 2).sum::<usize>();
    [
        (
            "sum of a tree",
            |p| messages_mut(p).lookups[0].roots[0][0] += K::one(),
            first,
        ),
        (
            "round of a tree",
            |p| messages_mut(p).lookups[0].layers[5].rounds[3][1] += K::one(),
            before_layer(5) + 1 + 3,
        ),
        (
            "children in a tree",
            |p| messages_mut(p).lookups[0].layers[5].children[0][2] += K::one(),
            before_layer(6) - 1,
        ),
    ]
}

/// Messages of the opening, which move all challenges from the place `opening` on.
fn opening_messages(opening: usize) -> [Message; 9] {
    let changes: [(&str, Change); 9] = [
        ("round of the bands", |p| {
            raise(&mut parts_of_mut(&mut messages_mut(p).opening).codes[0].band_rounds)
        }),
        ("evaluation of the bands", |p| {
            parts_of_mut(&mut messages_mut(p).opening).codes[0].band_value += K::one()
        }),
        ("round of the units", |p| {
            raise(&mut parts_of_mut(&mut messages_mut(p).opening).codes[1].band_rounds)
        }),
        ("evaluation of the units", |p| {
            parts_of_mut(&mut messages_mut(p).opening).codes[1].band_value += K::one()
        }),
        ("weights at the point of the activations", |p| {
            parts_of_mut(&mut messages_mut(p).opening).cross_values[0] += K::one()
        }),
        ("activations at the point of the weights", |p| {
            parts_of_mut(&mut messages_mut(p).opening).cross_values[1] += K::one()
        }),
        ("folded oracle", |p| {
            parts_of_mut(&mut messages_mut(p).opening).roots[0][7] ^= 1
        }),
        ("fold", |p| {
            raise(&mut parts_of_mut(&mut messages_mut(p).opening).fold_rounds)
        }),
        ("last message", |p| {
            parts_of_mut(&mut messages_mut(p).opening).final_message[0] += K::one()
        }),
    ];
    changes.map(|(name, change)| (name, change, opening))
}

/// What every attack of this chapter needs: a challenge that a message does not move. There is none.
#[test]
fn every_challenge_depends_on_every_message_before_it() {
    let (scene, proof) = honest();
    let key = &scene.model.key;
    let original = Challenges::of(key, &proof);
    let first_tree = RELATIONS.len();
    let layers = |group: &GroupProof| (0..group.layers.len()).map(|layer| layer + 2).sum::<usize>();
    let trees = first_tree + messages(&proof).lookups.iter().map(layers).sum::<usize>();
    let points = trees + Points::count(&original.shape);
    let operands = points + original.products.len();
    let linear = operands + 2;
    let [opening, sum] = original.places;
    assert_eq!(opening, linear + original.linear.len());

    let check = |name: &str, alter: &dyn Fn(&mut Proof), first: usize| {
        let mut altered = proof.clone();
        alter(&mut altered);
        let drawn = Challenges::of(key, &altered).drawn;
        assert_eq!(
            drawn[..first],
            original.drawn[..first],
            "{name}: challenges before the message"
        );
        let mut after = drawn[first..].iter().zip(&original.drawn[first..]);
        assert_eq!(drawn.len(), original.drawn.len());
        assert!(
            after.len() > 0 && after.all(|(a, b)| a != b),
            "{name}: challenges after the message"
        );
    };
    let claimed: [Message; 3] = [
        (
            "claimed accumulators",
            |p| messages_mut(p).matmuls.claim += K::one(),
            points,
        ),
        (
            "operands",
            |p| messages_mut(p).matmuls.operands[4][1] += K::one(),
            operands,
        ),
        (
            "claimed sum",
            |p| messages_mut(p).of_stark_mut().claimed_sum += K::one(),
            sum,
        ),
    ];
    let single = first_messages().into_iter().chain(tree_messages(first_tree));
    for (name, alter, first) in single.chain(claimed).chain(opening_messages(opening)) {
        check(name, &alter, first);
    }
    for i in 0..original.products.len() {
        check(
            "matmul round",
            &|p| messages_mut(p).matmuls.sumcheck.rounds[i][i % 2] += K::one(),
            points + i,
        );
    }
    for i in 0..original.linear.len() {
        check(
            "linear round",
            &|p| messages_mut(p).linear.rounds[i][i % 2] += K::one(),
            linear + i,
        );
    }
}
