//! Trees of planes of mixed heights: honest ones are accepted and end in claims that hold, altered ones are not.

use num_traits::{One, Zero};
use proptest::prelude::*;
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::base;
use tessera_circuits::air::lookups::{Linear, Lookup, Relation};
use tessera_circuits::mle::eval_dense;
use tessera_circuits::shape::Part;
use tessera_circuits::trees::{denominator, Plane};
use tessera_verifier::gkr::{self, sum, GkrError};
use tessera_verifier::message::Unread;

use super::*;
use crate::column::of_elements;
use crate::device;
use crate::device::Device;
use crate::scalar::Scalar;
use crate::trace::Columns;
use crate::vectors::Vectors;
use tessera_support::random::SplitMix;

/// The claims on the leaves of trees.
fn verify(logs: &[u32], proofs: &Vec<TreeProof>, transcript: &mut Transcript) -> Result<Vec<LeafClaim>, GkrError> {
    let (leaves, roots) = gkr::verify(logs, Unread::of(proofs), transcript)?;
    assert_eq!(roots, sum(proofs));
    Ok(leaves)
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
    let proved = prove(trees, &*held(columns), &relations, &mut transcript).unwrap();
    let expected = prove(trees, &*reference(columns), &relations, &mut Transcript::new("test")).unwrap();
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

/// Every element of the proof of a tree, with a name.
fn elements(proof: &mut TreeProof) -> Vec<(String, &mut K)> {
    let mut list: Vec<(String, &mut K)> = Vec::new();
    for (i, value) in proof.root.iter_mut().enumerate() {
        list.push((format!("root {i}"), value));
    }
    for (k, layer) in proof.layers.iter_mut().enumerate() {
        for (round, message) in layer.rounds.iter_mut().enumerate() {
            list.extend(message.iter_mut().map(|v| (format!("layer {k}, round {round}"), v)));
        }
        list.extend(layer.children.iter_mut().map(|v| (format!("layer {k}, children"), v)));
    }
    list
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn honest_trees_of_any_heights_hold(heights in heights(), seed in any::<u64>()) {
        let (tree, columns) = random(&heights, seed);
        check_honest(&[tree], &columns);
    }

    #[test]
    fn every_altered_message_is_rejected(heights in heights(), seed in any::<u64>()) {
        let (tree, columns) = random(&heights, seed);
        let relations = challenges();
        let proved = prove(std::slice::from_ref(&tree), &*held(&columns), &relations, &mut Transcript::new("test")).unwrap();
        let leaves = leaves(&tree, &columns, &relations);
        let mut honest = proved.proofs[0].clone();
        let count = elements(&mut honest).len();
        for at in (0..count).filter(|at| *at < 8 || (at + seed as usize).is_multiple_of(7)) {
            let mut proof = honest.clone();
            let name = {
                let mut list = elements(&mut proof);
                let (name, value) = &mut list[at];
                **value += K::from_u32_unchecked(0, 0, 1, 0);
                name.clone()
            };
            let result = verify(&[tree.log_leaves()], &vec![proof], &mut Transcript::new("test"));
            let accepted = result.is_ok_and(|claims| holds(&leaves, &claims[0]));
            prop_assert!(!accepted, "{name}");
        }
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
        let proved = prove(std::slice::from_ref(&tree), &*held(&other), &relations, &mut Transcript::new("test")).unwrap();
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
    let (tree, columns) = random(&[7, 6], 4);
    let proved = prove(
        std::slice::from_ref(&tree),
        &*held(&columns),
        &challenges(),
        &mut Transcript::new("test"),
    )
    .unwrap();
    let run = |alter: &dyn Fn(&mut Vec<TreeProof>)| {
        let mut proofs = proved.proofs.clone();
        alter(&mut proofs);
        verify(&[tree.log_leaves()], &proofs, &mut Transcript::new("test")).map(|_| ())
    };
    assert_eq!(run(&|_| ()), Ok(()));
    assert_eq!(run(&|p| p.clear()), Err(GkrError::Trees { got: 0, expected: 1 }));
    let layers = |got| GkrError::Layers {
        tree: 0,
        got,
        expected: 8,
    };
    assert_eq!(run(&|p| p[0].layers.truncate(7)), Err(layers(7)));
    let rounds = |layer, got| GkrError::Rounds { tree: 0, layer, got };
    assert_eq!(run(&|p| p[0].layers[3].rounds.truncate(2)), Err(rounds(3, 2)));
    assert_eq!(run(&|p| p[0].layers[0].rounds.push([K::one(); 2])), Err(rounds(0, 1)));
    assert_eq!(
        run(&|p| p[0].root[1] = K::zero()),
        Err(GkrError::ZeroDenominator { tree: 0 })
    );
    let layer = |layer| GkrError::Layer { tree: 0, layer };
    assert_eq!(run(&|p| p[0].layers[2].children.swap(0, 2)), Err(layer(2)));
    assert_eq!(run(&|p| p[0].layers.swap(0, 0)), Ok(()));
}

/// A root that belongs to another tree, and trees in another order.
#[test]
fn roots_belong_to_their_tree() {
    let (first, columns) = random(&[7, 6], 5);
    let mut second = first.clone();
    second.planes.reverse();
    second.planes.sort_by_key(|p| std::cmp::Reverse(p.log_rows));
    second.planes[0].lookup = Lookup::int16(0);
    let trees = [first, second];
    let proved = check_honest(&trees, &columns);
    let logs = trees.each_ref().map(LookupTree::log_leaves);
    let mut proofs = proved.proofs.clone();
    proofs[1].root = proofs[0].root;
    let result = verify(&logs, &proofs, &mut Transcript::new("test"));
    assert_eq!(result, Err(GkrError::Layer { tree: 1, layer: 0 }));
    let mut proofs = proved.proofs;
    proofs.reverse();
    let relations = challenges();
    let accepted = verify(&logs, &proofs, &mut Transcript::new("test")).is_ok_and(|claims| {
        let own = trees.iter().map(|tree| leaves(tree, &columns, &relations));
        own.zip(&claims).all(|(leaves, claim)| holds(&leaves, claim))
    });
    assert!(!accepted);
}
