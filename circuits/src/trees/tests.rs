//! Trees have every lookup once, and balances few enough of them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stwo::core::fields::m31::P;
use stwo::core::fields::FieldExpOps;

use super::*;
use crate::model::odd_config;

/// Every lookup of every lane is in one tree, at a place that its size divides, and trees are as full as they can be.
#[test]
fn trees_have_every_lookup_once() {
    for (config, rows) in [(odd_config(2), 4), (odd_config(3), 21)] {
        let shape = Shape::new(&config, rows);
        let trees = lookup_trees(&shape);
        let planes: Vec<&Plane> = trees.iter().flat_map(|t| &t.planes).collect();
        let lookups: usize = shape.parts().iter().map(|part| shape.air(*part).lookups.len()).sum();
        assert_eq!(planes.len(), lookups);
        for &part in shape.parts() {
            for lookup in shape.air(part).lookups {
                let same = planes.iter().filter(|p| p.part == part && p.lookup == lookup);
                assert_eq!(same.count(), 1, "{part:?}");
            }
        }
        for tree in &trees {
            let mut start = 0;
            for plane in &tree.planes {
                assert_eq!(start % (1usize << plane.log_rows), 0);
                assert_eq!(plane.log_rows, shape.log_rows(plane.part));
                start += 1 << plane.log_rows;
            }
            assert_eq!(start, tree.leaves());
            assert!(tree.leaves() <= 1 << tree.log_leaves() && 2 * tree.leaves() > 1 << tree.log_leaves());
        }
    }
}

/// Every tree is in one group, and no group could take the next tree.
#[test]
fn groups_are_as_large_as_they_may_be() {
    let ends = |logs: &[u32]| {
        groups(logs)
            .into_iter()
            .map(|group| (group.start, group.end))
            .collect::<Vec<_>>()
    };
    assert_eq!(ends(&[]), []);
    assert_eq!(ends(&[24; 12]), [(0, 12)]);
    assert_eq!(ends(&[24; 13]), [(0, 12), (12, 13)]);
    assert_eq!(ends(&[24, 24, 17]), [(0, 3)]);
    // Two of 2^27 leaves fill a group, and so does one with eight of 2^24.
    let mixed = [27, 27, 27, 24, 24, 24, 24, 24, 24, 24, 24, 20];
    assert_eq!(ends(&mixed), [(0, 2), (2, 11), (11, 12)]);
    assert_eq!(ends(&[28, 6]), [(0, 1), (1, 2)]);
    assert_eq!((depths(&[]), depths(&mixed)), (vec![], vec![27, 27, 20]));
}

#[test]
fn trees_are_cut_at_planes() {
    let plane = |log_rows| Plane {
        part: Part::FF,
        log_rows,
        lookup: Lookup::int16(0),
    };
    let sizes = |logs: &[u32]| {
        let trees = cut(logs.iter().map(|log| plane(*log)).collect(), 8);
        trees.iter().map(|t| t.planes.len()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&[]), [0; 0]);
    assert_eq!(sizes(&[10, 9, 8, 7, 7, 7, 6]), [1, 1, 1, 2, 2]);
    assert_eq!(sizes(&[7, 7, 6, 6, 6, 6]), [2, 4]);
}

/// Shapes with trees and balance groups of several sizes; statements have some of them.
fn forests() -> impl Iterator<Item = (Shape, Vec<LookupTree>, Forest)> {
    let shapes = [(odd_config(2), 4), (odd_config(3), 21)].map(|(config, rows)| Shape::new(&config, rows));
    let limits = [
        (24, 1 << 30),
        (16, 1 << 30),
        (16, 300_000),
        (14, 170_001),
        (12, 1 << 12),
        (4, 1 << 40),
        (20, 3),
    ];
    shapes.into_iter().flat_map(move |shape| {
        limits.map(|(log_tree, balance)| {
            let shape = shape.clone().with_leaf_limits(LeafLimits { log_tree, balance });
            (shape.clone(), lookup_trees(&shape), Forest::of(&shape))
        })
    })
}

/// [`Forest`] counts trees without a list of their lookups, and the list agrees.
#[test]
fn forests_are_those_of_the_lookups() {
    for (shape, trees, forest) in forests() {
        let leaves: Vec<u64> = trees.iter().map(|tree| tree.leaves() as u64).collect();
        let logs: Vec<u32> = trees.iter().map(LookupTree::log_leaves).collect();
        assert_eq!(forest.leaves, leaves, "{:?}", shape.leaf_limits());
        assert_eq!(forest.logs(), logs);
        let limit = 1 << shape.leaf_limits().log_tree;
        assert!(trees
            .iter()
            .all(|tree| tree.leaves() <= limit || tree.planes.len() == 1));
    }
}

/// Every tree is in one balance group. None has as many lookups as the limit unless it is one tree, and none could take the next tree.
/// There is one group exactly if all lookups are fewer than the limit.
#[test]
fn balance_groups_are_below_their_limit() {
    let mut numbers = BTreeSet::new();
    for (shape, trees, forest) in forests() {
        let limit = shape.leaf_limits().balance;
        let (balances, mut next) = (forest.balances(), 0);
        for balance in &balances {
            assert!(balance.start == next && !balance.is_empty());
            next = balance.end;
            let own = &forest.leaves[balance.clone()];
            assert!(own.iter().sum::<u64>() < limit || own.len() == 1);
            if let Some(more) = forest.leaves.get(next) {
                assert!(own.iter().sum::<u64>() + more >= limit);
            }
        }
        assert_eq!(next, trees.len());
        assert_eq!(forest.is_weighted(), balances.len() > 1);
        if shape.fractions() < u128::from(limit) {
            assert_eq!(balances.len(), 1);
        }
        numbers.insert(balances.len().min(4));
    }
    assert_eq!(numbers, BTreeSet::from([1, 2, 3, 4]));
    // Of the statements that there are: sixty-three full trees, and one that is not.
    let full = |leaves: Vec<u64>| {
        Forest {
            leaves,
            balance: LeafLimits::OF_STATEMENTS.balance,
        }
        .balances()
    };
    assert_eq!(full(vec![1 << 24; 63]), vec![0..63]);
    assert_eq!(
        full([vec![1 << 24; 63], vec![(1 << 24) - 1, 1]].concat()),
        vec![0..64, 64..65]
    );
    assert_eq!(full(vec![1 << 27; 17]), vec![0..7, 7..14, 14..17]);
    assert_eq!(full(vec![1 << 30, 1, 1 << 31]), vec![0..1, 1..2, 2..3]);
    assert!(Forest {
        leaves: vec![],
        balance: 1 << 30
    }
    .balances()
    .is_empty());
}

/// The sum of every tree counts without its padding, and with the power of its balance group.
#[test]
fn balances_are_weighed() {
    let forest = Forest {
        leaves: vec![8, 5, 4, 3, 9],
        balance: 1 << 4,
    };
    assert_eq!(forest.balances(), vec![0..2, 2..4, 4..5]);
    let element = |v: u32| SecureField::from_u32_unchecked(v, v + 1, 3, 7 * v);
    let sums = [10, 20, 30, 40, 50].map(element);
    let rho = element(1000);
    // Three of padding in the second tree, one in the fourth, seven in the fifth.
    let number = |v: u32| SecureField::from(v);
    let own = [
        sums[0] + sums[1] - number(3),
        sums[2] + sums[3] - number(1),
        sums[4] - number(7),
    ];
    assert_eq!(
        forest.balance(&sums, Some(rho)),
        own[0] + rho * own[1] + rho * rho * own[2]
    );
    assert_eq!(forest.balance(&sums, None), own[0] + own[1] + own[2]);
}

/// Gains any lookup: as many uses of a tuple that no table has as the field has elements, in three balance groups that have room for
/// them. They add up to zero whatever the other challenges are, but for their weights.
#[test]
fn uses_that_are_zero_in_the_field_are_weighed() {
    let forest = Forest {
        leaves: vec![1 << 24; 129],
        balance: LeafLimits::OF_STATEMENTS.balance,
    };
    let balances = forest.balances();
    assert_eq!(balances, vec![0..63, 63..126, 126..129]);
    let uses = [(1u32 << 30) - (1 << 24), (1 << 30) - (1 << 24), (1 << 25) - 1];
    assert_eq!(uses.iter().sum::<u32>(), P);
    let honest: Vec<SecureField> = (0..129)
        .map(|i| SecureField::from_u32_unchecked(i, 2, 3 * i, 4))
        .collect();
    for (z, rho) in [(5, 77), (1 << 30, 6), (12_345, 1 << 20)] {
        let tuple = SecureField::from_u32_unchecked(50, 0, 0, 0) - SecureField::from_u32_unchecked(z, z + 1, 2, 9);
        let rho = SecureField::from_u32_unchecked(rho, 1, 2, 3);
        let mut sums = honest.clone();
        for (balance, uses) in balances.iter().zip(uses) {
            assert!(u64::from(uses) <= forest.leaves[balance.clone()].iter().sum());
            sums[balance.start] += tuple.inverse() * BaseField::from(uses);
        }
        let accepted = |rho: Option<SecureField>| forest.balance(&sums, rho) == forest.balance(&honest, rho);
        assert_eq!(
            [None, Some(SecureField::one()), Some(rho)].map(accepted),
            [true, true, false]
        );
    }
}

/// A field so small that a tuple can be used as often as it has elements, and every challenge can be tried.
const Q: u64 = 101;

fn inverse(of: u64) -> u64 {
    (0..Q - 2).fold(1, |power, _| power * of % Q)
}

/// The sum of `1 / (tuple - z)` over tuples with the number of their uses.
fn small_sum(uses: &[(u64, u64)], z: u64) -> u64 {
    static INVERSES: std::sync::OnceLock<Vec<u64>> = std::sync::OnceLock::new();
    let inverses = INVERSES.get_or_init(|| (0..Q).map(inverse).collect());
    let term = |(tuple, uses): &(u64, u64)| uses % Q * inverses[((tuple + Q - z) % Q) as usize];
    uses.iter().map(term).sum::<u64>() % Q
}

/// Whether a prover who uses these tuples in each balance group, and counts those that the table of `0..8` has, is accepted.
fn small_balance(groups: &[Vec<(u64, u64)>], weights: &[u64], z: u64) -> bool {
    let lookups = groups
        .iter()
        .zip(weights)
        .map(|(own, weight)| weight * small_sum(own, z));
    let counts = (0..8).map(|entry| {
        let own = groups.iter().zip(weights).flat_map(|(own, weight)| {
            let uses = own.iter().filter(move |(tuple, _)| *tuple == entry);
            uses.map(move |(_, uses)| weight * (uses % Q))
        });
        (entry, own.sum())
    });
    let counts: Vec<(u64, u64)> = counts.collect();
    (lookups.sum::<u64>() + Q - small_sum(&counts, z)).is_multiple_of(Q)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A tuple that the table lacks is used as often as the field has elements, over two to four balance groups. One balance accepts it at
    /// every challenge. Weighed with powers of another challenge, groups that have fewer uses each are refused at every one but a few:
    /// fewer than there are groups. A group by itself is never right.
    #[test]
    fn tuples_used_as_often_as_the_field_has_elements_are_refused(
        honest in prop::collection::vec(prop::collection::vec((0u64..8, 1u64..50), 0..5), 2..5),
        cuts in prop::collection::vec(1u64..Q, 3),
        bad in 8..Q,
    ) {
        let mut groups = honest;
        let mut ends: Vec<u64> = cuts[..groups.len() - 1].to_vec();
        ends.extend([0, Q]);
        ends.sort_unstable();
        for (own, ends) in groups.iter_mut().zip(ends.windows(2)) {
            own.push((bad, ends[1] - ends[0]));
        }
        let all: Vec<u64> = (8..Q).filter(|z| *z != bad).collect();
        let accepted = |weights: &[u64]| all.iter().filter(|z| small_balance(&groups, weights, **z)).count();
        prop_assert_eq!(accepted(&vec![1; groups.len()]), all.len());
        let powers = |rho: u64| (0..groups.len()).scan(1, move |power, _| {
            let own = *power;
            *power = own * rho % Q;
            Some(own)
        }).collect::<Vec<u64>>();
        let always = (0..Q).filter(|rho| accepted(&powers(*rho)) == all.len());
        let sometimes = (0..Q).filter(|rho| accepted(&powers(*rho)) > 0);
        let always: Vec<u64> = always.collect();
        prop_assert!(always.contains(&1) && always.len() < groups.len());
        // The pole is there or it is not.
        prop_assert_eq!(sometimes.collect::<Vec<_>>(), always);
        for (i, own) in groups.iter().enumerate() {
            let alone = std::slice::from_ref(own);
            let used = own.last().expect("the bad tuple").1;
            prop_assert_eq!(all.iter().any(|z| small_balance(alone, &[1], *z)), used % Q == 0, "group {}", i);
            let mut without = own.clone();
            without.pop();
            prop_assert!(all.iter().all(|z| small_balance(std::slice::from_ref(&without), &[1], *z)));
        }
    }
}
