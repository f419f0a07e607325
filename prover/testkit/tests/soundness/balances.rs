//! Attacks on balance groups. Statements of 2^30 lookups and more have several; here small statements have them, because their trees and groups
//! are smaller. Uses of a tuple add up to zero in the field if there are enough of them, unless a challenge weighs the groups that was drawn
//! after all uses.

use std::cell::{Cell, RefCell};

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::base;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::ops::softmax;
use tessera_circuits::shape::{LeafLimits, Part, Shape};
use tessera_circuits::trees::{Forest, LookupTree};
use tessera_prover::boundary::Boundaries;
use tessera_prover::device::Device;
use tessera_prover::scalar::Scalar;
use tessera_prover::trace::Columns;
use tessera_prover::vectors::Vectors;
use tessera_prover::{prove_chunk_with, ProverModel};
use tessera_support::progress::Silent;
use tessera_testkit::column_of;
use tessera_testkit::OfStark;
use tessera_verifier::gkr::GkrError;
use tessera_verifier::labels::TREES;
use tessera_verifier::proof::ChunkProof;
use tessera_verifier::stark::StarkError;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{absorb_statistics, verify_chunk_with, ChunkStatement, VerifyError};

use crate::cheat::{Hooks, HONEST};
use crate::{assert_constraints_violated, assert_rejected, Scene};

type K = SecureField;

/// Limits with which a shape has so many balance groups, of several trees each.
pub fn limits(shape: &Shape, groups: usize) -> LeafLimits {
    let most = shape.fractions() as u64 + 1;
    let all = (10..20).flat_map(|log_tree| {
        (1..=24).map(move |part| LeafLimits {
            log_tree,
            balance: most * part / 24,
        })
    });
    let fits = |limits: &LeafLimits| {
        let balances = Forest::of(&shape.clone().with_leaf_limits(*limits)).balances();
        balances.len() == groups && balances.iter().all(|balance| balance.len() > 1)
    };
    all.rev().find(fits).expect("some limits")
}

/// The first tree of each balance group, with these limits.
pub fn firsts(scene: &Scene, limits: LeafLimits) -> Vec<usize> {
    let forest = Forest::of(&scene.shape().with_leaf_limits(limits));
    forest.balances().into_iter().map(|balance| balance.start).collect()
}

/// What is proved of all layers of a scene.
fn with_claim<T>(scene: &Scene, own: impl FnOnce(&ChunkStatement<'_>, &ProverModel<'_>) -> T) -> T {
    let prover = scene.model.prover();
    let claim = ChunkStatement::whole(&scene.model.key, &prover.id, &scene.statement, &scene.chunk, None);
    own(&claim, &prover)
}

/// The honest prover's proof.
pub fn honest(scene: &Scene, limits: LeafLimits, device: &dyn Device) -> ChunkProof {
    with_claim(scene, |claim, prover| {
        let prover = ProverModel { device, ..*prover };
        let proved = prove_chunk_with(&prover, claim, Boundaries::default(), limits, &Silent);
        proved.expect("an honest proof").proof
    })
}

pub fn verify(scene: &Scene, limits: LeafLimits, proof: &ChunkProof) -> Result<(), VerifyError> {
    with_claim(scene, |claim, _| verify_chunk_with(claim, limits, proof))
}

pub fn bytes(proof: &ChunkProof) -> Vec<u8> {
    proof.to_bytes().expect("a proof")
}

/// An honest proof with so many balance groups, and their limits. The verifier accepts it, and every device and the cheating prover that does
/// not cheat make the same.
pub fn accepted(scene: &Scene, groups: usize) -> (ChunkProof, LeafLimits) {
    let limits = limits(&scene.shape(), groups);
    let proof = honest(scene, limits, &Vectors);
    verify(scene, limits, &proof).expect("an honest proof");
    let hooks = Hooks { limits, ..HONEST };
    for other in [&honest(scene, limits, &Scalar), &scene.forge(&hooks).chunks[0]] {
        assert!(bytes(&proof) == bytes(other), "{groups} groups");
    }
    (proof, limits)
}

/// Honest proofs with one, two and three balance groups are accepted. Only more groups than one weigh multiplicities.
#[test]
fn proofs_with_balance_groups_are_accepted() {
    let scene = Scene::honest();
    for groups in 1..=3 {
        let (proof, _) = accepted(&scene, groups);
        let counts = proof.of_stark().stark.sampled_values[1].len();
        assert_eq!(counts, if groups == 1 { 5 } else { 20 });
    }
}

/// Gains a balance of more lookups than the field has elements: a proof with groups of another size than the verifier's. In a proof of
/// one group the verifier draws no weight, and has a quarter of the columns.
#[test]
fn the_verifier_says_how_many_groups_there_are() {
    let scene = Scene::honest();
    let shape = scene.shape();
    let two = limits(&shape, 2);
    // Trees of one size, and groups of several.
    let same = |groups: usize| {
        let most = shape.fractions() as u64 + 1;
        let sizes = (1..=24).map(|part| LeafLimits {
            balance: most * part / 24,
            ..two
        });
        let of = |limits: &LeafLimits| Forest::of(&shape.clone().with_leaf_limits(*limits)).balances().len();
        sizes.rev().find(|limits| of(limits) == groups).expect("some limits")
    };
    let made = [1, 2, 3].map(|groups| {
        let own = same(groups);
        let proof = honest(&scene, own, &Vectors);
        verify(&scene, own, &proof).expect("an honest proof");
        (groups, own, proof)
    });
    for (groups, _, proof) in &made {
        for (others, other, _) in made.iter().filter(|(others, ..)| others != groups) {
            let result = verify(&scene, *other, proof);
            // With a weight or without it all later challenges are others; with groups of another size the sums are.
            let caught = match &result {
                Err(VerifyError::Work(_) | VerifyError::Gkr(GkrError::Layer { .. })) => *groups == 1 || *others == 1,
                Err(VerifyError::Stark(StarkError::Lookups)) => *groups != 1 && *others != 1,
                _ => false,
            };
            assert!(caught, "{groups} groups for {others}: {result:?}");
        }
        // As all statements are verified: these are small, and their lookups in one tree.
        assert!(verify(&scene, LeafLimits::OF_STATEMENTS, proof).is_err());
    }
}

/// Gains uses that add up to zero with the weights: five numbers of uses below 2^26 do so for most weights, as the extension has four
/// coordinates. Whoever knew the weight before the activations, or what is in clear, are committed to could choose them.
#[test]
fn weights_are_drawn_after_all_uses() {
    let scene = Scene::honest();
    let limits = limits(&scene.shape(), 3);
    let early = |place: usize| {
        move |weight: &mut K, before: [&Transcript; 2]| {
            let known = before[place].clone().challenge(TREES);
            assert_ne!(known, *weight, "the weight depends on what follows");
            *weight = known;
        }
    };
    // It is the challenge after what is in clear.
    let drawn = RefCell::new(None);
    let hooks = Hooks {
        limits,
        weight: &|weight, [_, before]| {
            drawn.replace(Some((before.clone(), *weight)));
        },
        ..HONEST
    };
    let proof = scene.forge(&hooks);
    let (mut transcript, weight) = drawn.take().expect("a weight");
    absorb_statistics(&proof.chunks[0].statistics, &mut transcript);
    assert_eq!(transcript.challenge(TREES), weight);
    for place in [0, 1] {
        let hooks = Hooks {
            limits,
            weight: &early(place),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
    }
}

/// The same multiplicities as if there were one balance group.
fn unweighed(shape: &Shape, counts: &Columns) -> Columns {
    let zeros = || vec![BaseField::zero(); counts[0].len()];
    assert!(Forest::of(shape).is_weighted());
    let column = |own: &Vec<BaseField>| [own.clone(), zeros(), zeros(), zeros()];
    counts.iter().flat_map(column).collect()
}

/// Gains one balance of all lookups: multiplicities that are counted without the weights, as if they were one.
#[test]
fn multiplicities_are_weighed() {
    let scene = Scene::honest();
    // How one group counts them.
    let counts = RefCell::new(Columns::new());
    let learn = Hooks {
        multiplicities: &|own| {
            counts.replace(own.clone());
        },
        ..HONEST
    };
    scene.attempt(&learn).expect("an honest proof");
    let counts = counts.take();
    for groups in [2, 3] {
        let limits = limits(&scene.shape(), groups);
        let hooks = Hooks {
            limits,
            weight: &|weight, _| *weight = K::one(),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
        // In the first of the four columns of each relation.
        let one = unweighed(&scene.shape().with_leaf_limits(limits), &counts);
        let hooks = Hooks {
            limits,
            multiplicities: &|own| own.clone_from(&one),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
    }
}

/// Gains uses of the wrong group: two trees of different balance groups are counted with each other's weights. Two of one group may be.
#[test]
fn trees_have_the_weight_of_their_group() {
    let scene = Scene::honest();
    let limits = limits(&scene.shape(), 3);
    let firsts = firsts(&scene, limits);
    let exchanged = |one: usize, other: usize| {
        scene.attempt(&Hooks {
            limits,
            counted: &move |trees: &mut Vec<LookupTree>| trees.swap(one, other),
            ..HONEST
        })
    };
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let result = exchanged(firsts[one], firsts[other]);
        assert_rejected!(result, VerifyError::Stark(StarkError::Lookups));
    }
    exchanged(firsts[1], firsts[1] + 1).expect("two trees of one group");
}

/// Gains sums of lookups that are none: the roots of trees of two balance groups, exchanged, or moved such that the weighed sum is what it
/// was. Every root is in the first claim of its group of trees with a power of its own.
#[test]
fn roots_of_balance_groups_are_not_moved() {
    let scene = Scene::honest();
    let limits = limits(&scene.shape(), 2);
    let firsts = firsts(&scene, limits);
    let weight = Cell::new(K::zero());
    let learn = |own: &mut K, _: [&Transcript; 2]| weight.set(*own);
    type Alter<'a> = &'a dyn Fn(&mut [[K; 2]], [usize; 2]);
    let balanced = |alter: Alter<'_>| {
        let hooks = Hooks {
            limits,
            weight: &learn,
            lookups: &|groups| {
                // All are in one group of the sumchecks, or the first of the other balance group is in a later one.
                let mut roots: Vec<[K; 2]> = groups.iter().flat_map(|group| group.roots.clone()).collect();
                alter(&mut roots, [firsts[0], firsts[1]]);
                for group in groups {
                    let rest = roots.split_off(group.roots.len());
                    group.roots = std::mem::replace(&mut roots, rest);
                }
            },
            ..HONEST
        };
        scene.attempt(&hooks)
    };
    balanced(&|_, _| ()).expect("an honest proof");
    let exchanged = balanced(&|roots, [one, other]| roots.swap(one, other));
    assert_rejected!(exchanged, VerifyError::Gkr(GkrError::Layer { layer: 0, .. }));
    let moved = balanced(&|roots, [one, other]| {
        roots[one][0] += K::one();
        roots[other][0] -= weight.get().inverse();
    });
    assert_rejected!(moved, VerifyError::Gkr(GkrError::Layer { layer: 0, .. }));
}

/// Gains a value that no table has, in one of three balance groups: nothing answers for it, whatever the multiplicities are. The claimed sum
/// of the tables is what their entries, weighed, add up to, and each coordinate of a multiplicity counts.
#[test]
fn values_without_an_entry_are_refused_in_every_group() {
    let scene = Scene::honest();
    let limits = limits(&scene.shape(), 3);
    let outside = |_: &Shape, all: &mut [Columns]| {
        all[Part::SCORES.index()][softmax::SCORE.d_hi()][0] += base(1 << 16);
        all[Part::SCORES.index()][softmax::SCORE.d_lo()][0] -= base(1 << 23);
    };
    let hooks = Hooks {
        limits,
        columns: &outside,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
    let hooks = Hooks {
        interaction: &|state, _, sum| *sum += state.missing_entries(*sum),
        ..hooks
    };
    assert_constraints_violated(scene.attempt(&hooks));
    for coordinate in 0..4 {
        let column = 4 * column_of(Relation::Range16) + coordinate;
        let hooks = Hooks {
            limits,
            multiplicities: &|counts| counts[column][9] += BaseField::one(),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
    }
}
