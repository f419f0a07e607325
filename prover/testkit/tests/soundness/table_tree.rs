//! Attacks on the tree of the tables: counts, denominators, its root and its claims. Statements have one balance group or, with smaller trees,
//! several.

use std::cell::{Cell, RefCell};

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::base;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::Relations;
use tessera_circuits::shape::{LeafLimits, Part, Shape};
use tessera_circuits::table_tree::TableArgument;
use tessera_circuits::trees::{Forest, LookupTree};
use tessera_prover::trace::Columns;
use tessera_prover::vectors::Vectors;
use tessera_testkit::column_of;
use tessera_verifier::gkr::{sums, GkrError, GroupProof};
use tessera_verifier::labels::TREES;
use tessera_verifier::tables::TablesError;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::VerifyError;

use crate::balances::{accepted, firsts, honest, limits, verify};
use crate::cheat::{Hooks, HONEST};
use crate::lookups::{outside, solve};
use crate::{assert_claims_violated, assert_rejected, Scene};

type K = SecureField;

/// A true statement under a key whose tables are a tree.
fn scene() -> Scene {
    let mut scene = Scene::honest();
    scene.model = scene.model.with_tables(TableArgument::Gkr);
    scene
}

/// Honest proofs with one, two and three balance groups are accepted, and have no STARK.
#[test]
fn proofs_without_a_stark_are_accepted() {
    let scene = scene();
    for groups in 1..=3 {
        let (proof, limits) = accepted(&scene, groups);
        assert!(proof.tables.stark().is_none());
        let shape = scene.shape().with_leaf_limits(limits);
        assert_eq!(shape.columns(Part::COUNTS), groups * shape.config.relations().len());
    }
    scene.attempt(&HONEST).expect("an honest proof, as bytes");
}

/// Gains lookups that are paid for elsewhere: a count that is one too many, of any relation, in any balance group.
#[test]
fn counts_are_exact() {
    let scene = scene();
    let relations = scene.shape().config.relations().len();
    for groups in [1, 2] {
        let limits = limits(&scene.shape(), groups);
        for column in 0..groups * relations {
            let hooks = Hooks {
                limits,
                multiplicities: &|counts| counts[column][77] += BaseField::one(),
                ..HONEST
            };
            assert_rejected!(scene.attempt(&hooks), VerifyError::Tables(TablesError::Lookups));
        }
    }
}

/// Gains a value that no table has, in one or in three balance groups.
#[test]
fn values_without_an_entry_are_refused() {
    let scene = scene();
    for groups in [1, 3] {
        let hooks = Hooks {
            limits: limits(&scene.shape(), groups),
            columns: &outside,
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Tables(TablesError::Lookups));
    }
}

/// Gains any lookup: counts that are chosen when the challenges are known, so that the sums balance. The tree is proved with them, and its
/// numerators are claimed of the counts that were committed to before.
#[test]
fn numerators_are_the_committed_counts() {
    let scene = scene();
    let (challenges, missing) = (RefCell::new(None), Cell::new(K::zero()));
    let shape = scene.shape();
    let forest = Forest::of(&shape);
    let balance = |groups: &[GroupProof]| {
        let sums = sums(groups);
        forest.balance(&sums, None) + *sums.last().expect("a tree of the tables")
    };
    let learn = Hooks {
        columns: &outside,
        relations: &|own: &mut Relations| {
            challenges.replace(Some(own.clone()));
        },
        lookups: &|groups| missing.set(balance(groups)),
        ..HONEST
    };
    assert_rejected!(scene.attempt(&learn), VerifyError::Tables(TablesError::Lookups));
    assert!(!missing.get().is_zero());
    let relations: Relations = challenges.take().expect("challenges");
    let entry = |v: i64| -> K {
        let drawn = relations.get(Relation::Range16).expect("it is drawn");
        let tuple: K = drawn.combine(&[base(v)]);
        tuple.inverse()
    };
    // An entry more takes its fraction off.
    let change = solve([0, 1, 2, 3].map(entry), missing.get());
    let balanced = Cell::new(false);
    let hooks = Hooks {
        columns: &outside,
        looked_up: &|_, columns| {
            let counts = &mut columns[Part::COUNTS.index()][column_of(Relation::Range16)];
            counts.iter_mut().zip(&change).for_each(|(count, by)| *count += *by);
        },
        lookups: &|groups| balanced.set(balance(groups).is_zero()),
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&hooks));
    assert!(balanced.get(), "with these counts the sums balance");

    // Rows 0 and 1 of the bits are one entry, so that this is no false statement but for the columns.
    let moved = |columns: &mut [Vec<BaseField>]| {
        let bits = &mut columns[column_of(Relation::Bits)];
        bits[0] += BaseField::one();
        bits[1] -= BaseField::one();
    };
    let hooks = Hooks {
        looked_up: &|_, columns| moved(&mut columns[Part::COUNTS.index()]),
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&hooks));
    let hooks = Hooks {
        multiplicities: &|counts| moved(counts),
        ..HONEST
    };
    scene.attempt(&hooks).expect("either row of one entry may be counted");
}

/// Gains other functions: one value of a column of the tables is another one, in a closed form or not.
#[test]
fn denominators_are_the_tables_of_the_key() {
    let scene = scene();
    let columns = tessera_circuits::air::tables::columns(&scene.shape().config.relations()).len();
    for column in 0..columns {
        let hooks = Hooks {
            tables: &|tables| tables[column][40_000] += BaseField::one(),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Tables(TablesError::Entries));
    }
}

/// Gains a balance: the root of the tables exchanged with the root of lookups, or moved against it.
#[test]
fn the_root_of_the_tables_is_not_moved() {
    let scene = scene();
    for groups in [1, 2] {
        let limits = limits(&scene.shape(), groups);
        let other = firsts(&scene, limits)[groups - 1];
        type Alter<'a> = &'a dyn Fn(&mut [[K; 2]], [usize; 2]);
        let attempt = |alter: Alter<'_>| {
            scene.attempt(&Hooks {
                limits,
                lookups: &|groups| {
                    let mut roots: Vec<[K; 2]> = groups.iter().flat_map(|group| group.roots.clone()).collect();
                    let tables = roots.len() - 1;
                    alter(&mut roots, [other, tables]);
                    for group in groups {
                        let rest = roots.split_off(group.roots.len());
                        group.roots = std::mem::replace(&mut roots, rest);
                    }
                },
                ..HONEST
            })
        };
        attempt(&|_, _| ()).expect("an honest proof");
        let swapped = attempt(&|roots, [one, other]| roots.swap(one, other));
        assert_rejected!(swapped, VerifyError::Gkr(GkrError::Layer { layer: 0, .. }));
        let moved = attempt(&|roots, [one, other]| {
            roots[one][0] += K::one();
            roots[other][0] -= K::one();
        });
        assert_rejected!(moved, VerifyError::Gkr(GkrError::Layer { layer: 0, .. }));
    }
}

/// Gains uses that add up to zero with the weights: a weight that is known before the activations, or what is in clear, are committed to.
#[test]
fn counts_are_weighed_with_a_late_challenge() {
    let scene = scene();
    let limits = limits(&scene.shape(), 3);
    for place in [0, 1] {
        let hooks = Hooks {
            limits,
            weight: &|weight: &mut K, before: [&Transcript; 2]| {
                let known = before[place].clone().challenge(TREES);
                assert_ne!(known, *weight, "the weight depends on what follows");
                *weight = known;
            },
            ..HONEST
        };
        assert_claims_violated(scene.attempt(&hooks));
    }
    let hooks = Hooks {
        limits,
        weight: &|weight: &mut K, _| *weight = K::one(),
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&hooks));
}

/// Gains uses of the wrong group: two trees of different balance groups are counted in each other's columns.
#[test]
fn counts_are_those_of_their_group() {
    let scene = scene();
    let limits = limits(&scene.shape(), 3);
    let firsts = firsts(&scene, limits);
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let result = scene.attempt(&Hooks {
            limits,
            counted: &|trees: &mut Vec<LookupTree>| trees.swap(firsts[one], firsts[other]),
            ..HONEST
        });
        assert_rejected!(result, VerifyError::Tables(TablesError::Lookups));
    }
    // Columns of two groups, exchanged after they were counted.
    let relations = scene.shape().config.relations().len();
    let result = scene.attempt(&Hooks {
        limits,
        multiplicities: &|counts: &mut Columns| (0..relations).for_each(|own| counts.swap(own, own + relations)),
        ..HONEST
    });
    assert_rejected!(result, VerifyError::Tables(TablesError::Lookups));
}

/// Gains fewer columns of counts: a proof with other balance groups than the verifier's.
#[test]
fn the_verifier_says_how_many_columns_there_are() {
    let scene = scene();
    let shape: Shape = scene.shape();
    let own = limits(&shape, 2);
    let proof = honest(&scene, own, &Vectors);
    for other in [limits(&shape, 1), limits(&shape, 3), LeafLimits::OF_STATEMENTS] {
        assert!(verify(&scene, other, &proof).is_err());
    }
}
