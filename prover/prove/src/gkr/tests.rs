//! Trees of planes of mixed heights: honest ones are accepted and end in claims that hold, altered ones are not.

use num_traits::{One, Zero};
use proptest::prelude::*;
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::base;
use tessera_circuits::air::lookups::{Linear, Lookup, Relation};
use tessera_circuits::air::tables::{LookupTables, LOG_ROWS};
use tessera_circuits::mle::eval_dense;
use tessera_circuits::model::ModelParams;
use tessera_circuits::shape::Part;
use tessera_circuits::table_tree::TableTree;
use tessera_circuits::trees::{denominator, Plane};
use tessera_verifier::gkr::{self, sums, GkrError};
use tessera_verifier::message::Unread;
use tessera_verifier::transcript::Transcript;

use super::*;
use crate::column::of_elements;
use crate::device;
use crate::device::Device;
use crate::scalar::Scalar;
use crate::trace::Columns;
use crate::vectors::Vectors;
use tessera_support::random::SplitMix;

/// The claims on the leaves of trees.
fn verify(logs: &[u32], proofs: &Vec<GroupProof>, transcript: &mut Transcript) -> Result<Vec<LeafClaim>, GkrError> {
    let (leaves, roots) = gkr::verify(logs, Unread::of(proofs), transcript)?;
    assert_eq!(roots, sums(proofs));
    Ok(leaves)
}

/// Adds the sums that the roots of all trees state.
fn sum(proofs: &[GroupProof]) -> K {
    sums(proofs).into_iter().sum()
}

/// Columns as a device has them.
fn held(columns: &[Columns]) -> Box<dyn device::Columns> {
    Vectors.columns(of_elements(columns)).unwrap()
}

/// The same on the reference device.
fn reference(columns: &[Columns]) -> Box<dyn device::Columns> {
    Scalar.columns(of_elements(columns)).unwrap()
}

/// Columns of every lookup of the trees here: `a`, `b`, `c`.
const WIDTH: usize = 3;

/// A tree of random lookups of these heights, one part for each height, and its columns.
fn random(heights: &[u32], seed: u64) -> (LookupTree, Vec<Columns>) {
    let mut rng = SplitMix(seed);
    let mut columns: Vec<Columns> = Vec::new();
    let mut planes = Vec::new();
    for (at, log_rows) in heights.iter().enumerate() {
        // Parts are only where columns are.
        let part = Part::new((at % 8) as u8, "part");
        if columns.len() <= part.index() {
            columns.resize(part.index() + 1, Columns::new());
        }
        let own = &mut columns[part.index()];
        let first = own.len();
        // Cells of two bytes, and any elements.
        let most = 1 << [16, 31][at % 2];
        own.extend((0..WIDTH).map(|_| (0..1 << log_rows).map(|_| base(rng.below(most) as i64)).collect()));
        let [a, b, c] = [0, 1, 2].map(|i| Linear::column(first + i));
        let lookup = match rng.below(5) {
            0 => Lookup::range16(a - b + Linear::constant(5)),
            1 => Lookup::bits(Linear::constant(256), (a - c) * base(77) - b),
            2 => Lookup::bits(a, b),
            3 => Lookup::new(Relation::Exp, [a, c + Linear::constant(-3), b - Linear::constant(1)]),
            _ => Lookup::new(Relation::Silu, [b + Linear::constant(1 << 15), a]),
        };
        planes.push(Plane {
            part,
            log_rows: *log_rows,
            lookup,
        });
    }
    (LookupTree { planes }, columns)
}

/// Numerators and denominators of all leaves, as the document says them.
fn leaves(tree: &LookupTree, columns: &[Columns], relations: &Relations) -> [Vec<K>; 2] {
    let mut denominators = Vec::new();
    for plane in &tree.planes {
        let own = &columns[plane.part.index()];
        for row in 0..1usize << plane.log_rows {
            let column = |at: usize| *own[at].get(row).expect("a row");
            denominators.push(denominator(plane, relations, column));
        }
    }
    let numerators = vec![K::one(); 1 << tree.log_leaves()];
    denominators.resize(1 << tree.log_leaves(), K::one());
    [numerators, denominators]
}

/// Whether the claim on the leaves of a tree holds.
fn holds([numerators, denominators]: &[Vec<K>; 2], claim: &LeafClaim) -> bool {
    eval_dense(numerators, &claim.point) == Ok(claim.numerator)
        && eval_dense(denominators, &claim.point) == Ok(claim.denominator)
}

fn challenges() -> Relations {
    let mut channel = Blake2sChannel::default();
    stwo::core::channel::Channel::mix_u64(&mut channel, 11);
    let relations = [
        Relation::Range16,
        Relation::Bits,
        Relation::Exp,
        Relation::Silu,
        Relation::Cap,
    ];
    Relations::draw(&mut channel, &relations)
}

fn heights() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(6u32..11, 1..8).prop_map(|mut heights| {
        heights.sort_unstable_by(|a, b| b.cmp(a));
        heights
    })
}

/// Proves trees and checks everything about them.
fn check_honest(trees: &[LookupTree], columns: &[Columns]) -> Proved {
    let relations = challenges();
    let mut transcript = Transcript::new("test");
    let proved = prove((trees, None), &*held(columns), &relations, &mut transcript).unwrap();
    let expected = prove(
        (trees, None),
        &*reference(columns),
        &relations,
        &mut Transcript::new("test"),
    )
    .unwrap();
    assert_eq!((&proved.proofs, &proved.claims), (&expected.proofs, &expected.claims));
    let logs: Vec<u32> = trees.iter().map(LookupTree::log_leaves).collect();
    let mut other = Transcript::new("test");
    assert_eq!(verify(&logs, &proved.proofs, &mut other).as_ref(), Ok(&proved.claims));
    assert_eq!(transcript.challenge("next"), other.challenge("next"));
    let mut total = K::zero();
    for (tree, claim) in trees.iter().zip(&proved.claims) {
        let leaves = leaves(tree, columns, &relations);
        assert!(holds(&leaves, claim));
        total += leaves[0]
            .iter()
            .zip(&leaves[1])
            .fold(K::zero(), |sum, (n, d)| sum + *n / *d);
    }
    assert_eq!(sum(&proved.proofs), total);
    proved
}

/// Every element of the proof of a group, with a name.
fn elements(proof: &mut GroupProof) -> Vec<(String, &mut K)> {
    let mut list: Vec<(String, &mut K)> = Vec::new();
    for (i, value) in proof.roots.as_flattened_mut().iter_mut().enumerate() {
        list.push((format!("root {i}"), value));
    }
    for (k, layer) in proof.layers.iter_mut().enumerate() {
        for (round, message) in layer.rounds.iter_mut().enumerate() {
            list.extend(message.iter_mut().map(|v| (format!("layer {k}, round {round}"), v)));
        }
        let children = layer.children.as_flattened_mut().iter_mut();
        list.extend(children.map(|v| (format!("layer {k}, children"), v)));
    }
    list
}

/// The heights of the planes of some trees.
fn groups_of_heights() -> impl Strategy<Value = Vec<Vec<u32>>> {
    proptest::collection::vec(heights(), 2..5)
}

/// Trees of random lookups of these heights, with columns that all of them share.
fn forest(all: &[Vec<u32>], seed: u64) -> (Vec<LookupTree>, Vec<Columns>) {
    let (whole, columns) = random(&all.concat(), seed);
    let mut planes = whole.planes.into_iter();
    let trees = all.iter().map(|heights| LookupTree {
        planes: planes.by_ref().take(heights.len()).collect(),
    });
    (trees.collect(), columns)
}

/// Some changes of single elements of a group, the first ones and every seventh: none is accepted with claims that hold.
fn check_altered(trees: &[LookupTree], columns: &[Columns], proved: &Proved, seed: u64) {
    let relations = challenges();
    let logs: Vec<u32> = trees.iter().map(LookupTree::log_leaves).collect();
    let leaves: Vec<_> = trees.iter().map(|tree| leaves(tree, columns, &relations)).collect();
    let count = elements(&mut proved.proofs[0].clone()).len();
    for at in (0..count).filter(|at| *at < 8 || (at + seed as usize).is_multiple_of(7)) {
        let mut proof = proved.proofs[0].clone();
        let name = {
            let mut list = elements(&mut proof);
            let (name, value) = &mut list[at];
            **value += K::from_u32_unchecked(0, 0, 1, 0);
            name.clone()
        };
        let result = verify(&logs, &vec![proof], &mut Transcript::new("test"));
        let accepted = result.is_ok_and(|claims| leaves.iter().zip(&claims).all(|(own, claim)| holds(own, claim)));
        assert!(!accepted, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn honest_trees_of_any_heights_hold(heights in heights(), seed in any::<u64>()) {
        let (tree, columns) = random(&heights, seed);
        check_honest(&[tree], &columns);
    }

    /// Trees of any depths in one group: a tree leaves at its own depth, and nothing may be changed of any of them.
    #[test]
    fn trees_of_any_depths_are_proved_together(all in groups_of_heights(), seed in any::<u64>()) {
        let (trees, columns) = forest(&all, seed);
        let proved = check_honest(&trees, &columns);
        prop_assert_eq!(proved.proofs.len(), 1);
        let rounds: usize = proved.proofs[0].layers.iter().map(|layer| layer.rounds.len()).sum();
        let depth = trees.iter().map(LookupTree::log_leaves).max().unwrap_or(0) as usize;
        prop_assert_eq!(rounds, depth * (depth - 1) / 2);
        check_altered(&trees, &columns, &proved, seed);
    }

    #[test]
    fn every_altered_message_is_rejected(heights in heights(), seed in any::<u64>()) {
        let (tree, columns) = random(&heights, seed);
        let trees = [tree];
        let proved = prove((&trees, None), &*held(&columns), &challenges(), &mut Transcript::new("test")).unwrap();
        check_altered(&trees, &columns, &proved, seed);
    }

    /// What a prover says of other columns than the committed ones is said of other columns.
    #[test]
    fn a_wrong_leaf_is_rejected(heights in heights(), seed in any::<u64>()) {
        let (tree, columns) = random(&heights, seed);
        let relations = challenges();
        let leaves = leaves(&tree, &columns, &relations);
        let mut rng = SplitMix(seed);
        let plane = &tree.planes[rng.below(tree.planes.len() as u64) as usize];
        let values: Vec<&Linear> = plane.lookup.tuple.iter().filter(|form| !form.terms.is_empty()).collect();
        let column = values[rng.below(values.len() as u64) as usize].terms[0].0;
        let mut other = columns.clone();
        other[plane.part.index()][column][rng.below(1 << plane.log_rows) as usize] += BaseField::one();
        let proved = prove((std::slice::from_ref(&tree), None), &*held(&other), &relations, &mut Transcript::new("test")).unwrap();
        let claims = verify(&[tree.log_leaves()], &proved.proofs, &mut Transcript::new("test")).unwrap();
        prop_assert!(!holds(&leaves, &claims[0]));
    }
}

#[test]
fn tall_trees_and_many_trees_hold() {
    for heights in [&[14, 13, 9, 6][..], &[14, 14, 14, 7], &[13, 12, 6], &[6]] {
        let (tree, columns) = random(heights, 3);
        check_honest(&[tree.clone(), tree], &columns);
    }
    check_honest(&[], &[]);
}

#[test]
fn lengths_are_checked_and_named() {
    let (trees, columns) = forest(&[vec![7, 6], vec![6]], 4);
    let proved = prove(
        (&trees, None),
        &*held(&columns),
        &challenges(),
        &mut Transcript::new("test"),
    )
    .unwrap();
    let logs: Vec<u32> = trees.iter().map(LookupTree::log_leaves).collect();
    assert_eq!(logs, [8, 6]);
    let run = |alter: &dyn Fn(&mut Vec<GroupProof>)| {
        let mut proofs = proved.proofs.clone();
        alter(&mut proofs);
        verify(&logs, &proofs, &mut Transcript::new("test")).map(|_| ())
    };
    assert_eq!(run(&|_| ()), Ok(()));
    assert_eq!(run(&|p| p.clear()), Err(GkrError::Groups { got: 0, expected: 1 }));
    let roots = |got| GkrError::Trees {
        group: 0,
        got,
        expected: 2,
    };
    assert_eq!(run(&|p| p[0].roots.truncate(1)), Err(roots(1)));
    assert_eq!(run(&|p| p[0].roots.push([K::one(); 2])), Err(roots(3)));
    let layers = |got| GkrError::Layers {
        group: 0,
        got,
        expected: 8,
    };
    assert_eq!(run(&|p| p[0].layers.truncate(7)), Err(layers(7)));
    let rounds = |layer, got| GkrError::Rounds { group: 0, layer, got };
    assert_eq!(run(&|p| p[0].layers[3].rounds.truncate(2)), Err(rounds(3, 2)));
    assert_eq!(run(&|p| p[0].layers[0].rounds.push([K::one(); 2])), Err(rounds(0, 1)));
    let children = |layer, got, expected| GkrError::Children {
        group: 0,
        layer,
        got,
        expected,
    };
    assert_eq!(run(&|p| p[0].layers[5].children.truncate(1)), Err(children(5, 1, 2)));
    // The shallow tree has six layers: in the seventh it has no children any more.
    assert_eq!(
        run(&|p| p[0].layers[6].children.push([K::one(); 4])),
        Err(children(6, 2, 1))
    );
    for tree in [0, 1] {
        assert_eq!(
            run(&|p| p[0].roots[tree][1] = K::zero()),
            Err(GkrError::ZeroDenominator { tree })
        );
        let layer = |layer| GkrError::Layer { group: 0, layer };
        assert_eq!(run(&|p| p[0].layers[2].children[tree].swap(0, 2)), Err(layer(2)));
    }
    assert_eq!(
        run(&|p| p[0].layers[2].children.swap(0, 1)),
        Err(GkrError::Layer { group: 0, layer: 2 })
    );
}

/// Gains sums of lookups that are none: two trees of a group whose roots are exchanged, or of which one has what the other lacks, or both
/// with the denominators of the other. What all add up to is right, and every tree has powers of its own.
#[test]
fn roots_belong_to_their_tree() {
    let (trees, columns) = forest(&[vec![7, 6], vec![7, 6], vec![6]], 5);
    let proved = check_honest(&trees, &columns);
    let logs: Vec<u32> = trees.iter().map(LookupTree::log_leaves).collect();
    let refused = |alter: &dyn Fn(&mut Vec<[K; 2]>)| {
        let mut proofs = proved.proofs.clone();
        alter(&mut proofs[0].roots);
        let balances = sum(&proofs) == sum(&proved.proofs);
        (balances, verify(&logs, &proofs, &mut Transcript::new("test")))
    };
    let layer = Err(GkrError::Layer { group: 0, layer: 0 });
    assert_eq!(refused(&|roots| roots.swap(0, 1)), (true, layer.clone()));
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let moved = |roots: &mut Vec<[K; 2]>| {
            roots[one][0] += K::one();
            roots[other][0] -= K::one();
        };
        assert_eq!(refused(&moved), (true, layer.clone()));
        let denominators =
            |roots: &mut Vec<[K; 2]>| (roots[one][1], roots[other][1]) = (roots[other][1], roots[one][1]);
        assert_eq!(refused(&denominators), (true, layer.clone()));
    }
    // Children of one tree have what those of the other lack: the claim of a layer holds for one challenge alone.
    let mut proofs = proved.proofs.clone();
    let [first, second, ..] = proofs[0].layers[3].children.as_mut_slice() else {
        panic!("children of three trees");
    };
    first[0] += K::one();
    second[0] -= K::one();
    assert_eq!(
        verify(&logs, &proofs, &mut Transcript::new("test")),
        Err(GkrError::Layer { group: 0, layer: 3 })
    );
    // The same proof for trees in another order.
    let others = [&trees[2], &trees[0], &trees[1]];
    let logs = others.map(LookupTree::log_leaves);
    let relations = challenges();
    let accepted = verify(&logs, &proved.proofs, &mut Transcript::new("test")).is_ok_and(|claims| {
        let own = others.iter().map(|tree| leaves(tree, &columns, &relations));
        own.zip(&claims).all(|(leaves, claim)| holds(&leaves, claim))
    });
    assert!(!accepted);
}

/// Thirteen trees are two groups, whose claims are in the order of the trees.
#[test]
fn more_trees_than_a_group_has_are_two_groups() {
    let (trees, columns) = forest(&vec![vec![6]; 13], 6);
    let proved = check_honest(&trees, &columns);
    assert_eq!(
        proved.proofs.iter().map(|group| group.roots.len()).collect::<Vec<_>>(),
        [12, 1]
    );
    let logs = vec![6; 13];
    let mut proofs = proved.proofs.clone();
    proofs.reverse();
    let trees_of = |got, expected| GkrError::Trees {
        group: 0,
        got,
        expected,
    };
    assert_eq!(
        verify(&logs, &proofs, &mut Transcript::new("test")),
        Err(trees_of(1, 12))
    );
}

/// The tree of the tables behind trees of lookups, in their group, with one balance group and with three: the same on both devices, accepted,
/// and its claims hold of the entries. Its root is bound like theirs.
#[test]
fn the_tree_of_the_tables_is_one_more() {
    let config = crate::small::config();
    let tables = LookupTables::new(&ModelParams::sample(&config), &config);
    let relations = Relations::draw(&mut Blake2sChannel::default(), &tables.params.relations);
    let heights = vec![vec![9, 8], vec![7, 7]];
    for (balances, weight) in [(1, None), (3, Some(K::from_u32_unchecked(7, 1, 2, 3)))] {
        let (trees, columns) = forest(&heights, 8);
        let tree = TableTree {
            relations: tables.params.relations.clone(),
            balances,
        };
        let mut rng = SplitMix(balances as u64);
        let mut count = || base(rng.below(1 << 30) as i64);
        let counts: Columns = (0..balances * tree.relations.len())
            .map(|_| (0..1 << LOG_ROWS).map(|_| count()).collect())
            .collect();
        let entries = Entries {
            tree: &tree,
            tables: &tables,
            weight,
        };
        let run = |mut held: Box<dyn device::Columns + '_>| {
            let cells = of_elements(std::slice::from_ref(&counts)).remove(0);
            held.add(Part::COUNTS, cells).unwrap();
            prove(
                (&trees, Some(&entries)),
                &*held,
                &relations,
                &mut Transcript::new("test"),
            )
            .unwrap()
        };
        let (proved, expected) = (run(held(&columns)), run(reference(&columns)));
        assert_eq!((&proved.proofs, &proved.claims), (&expected.proofs, &expected.claims));
        let logs: Vec<u32> = trees
            .iter()
            .map(LookupTree::log_leaves)
            .chain([tree.log_leaves()])
            .collect();
        assert_eq!(proved.proofs.len(), 1);
        let claims = verify(&logs, &proved.proofs, &mut Transcript::new("test")).unwrap();
        assert_eq!(claims, proved.claims);

        let [mut numerators, mut denominators] = entries.leaves(&relations, |column, row| counts[column][row]);
        let sum = numerators
            .iter()
            .zip(&denominators)
            .fold(K::zero(), |sum, (n, d)| sum + *n / *d);
        assert_eq!(proved.proofs[0].roots[2][0], sum);
        numerators.resize(1 << logs[2], K::zero());
        denominators.resize(1 << logs[2], K::one());
        assert!(holds(&[numerators, denominators], &claims[2]));

        for (one, other) in [(0, 2), (1, 2)] {
            let mut proofs = proved.proofs.clone();
            proofs[0].roots.swap(one, other);
            let exchanged = verify(&logs, &proofs, &mut Transcript::new("test"));
            assert_eq!(exchanged, Err(GkrError::Layer { group: 0, layer: 0 }));
            let mut proofs = proved.proofs.clone();
            proofs[0].roots[one][0] += K::one();
            proofs[0].roots[other][0] -= K::one();
            let moved = verify(&logs, &proofs, &mut Transcript::new("test"));
            assert_eq!(moved, Err(GkrError::Layer { group: 0, layer: 0 }));
        }
    }
}
