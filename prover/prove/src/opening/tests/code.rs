//! The code, its folds, the Merkle trees and the codeword file.

use std::simd::i16x16;

use num_traits::Zero;
use proptest::prelude::*;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::bit_reverse_index;
use tessera_circuits::mle::{eq_table, eval_padded};
use tessera_verifier::opening::parts::{self, hash_base_leaf, verify_batch, CommittedTree, Layout, FOLD_LOG};
use tessera_verifier::opening::{CommitmentName, CommitmentParams, OpeningError, TreeName};
use tessera_verifier::suite::{Digest, Suite};

use super::super::combine::combine_columns;
use super::super::fft::{Twiddles, Wanted};
use super::super::merkle;
use super::super::packed::Packed;
use super::super::{commit, Codeword, Split};
use super::{bind_least_significant, committed, Case, Random, Weights, SUITE};
use crate::trees;
use tessera_kernels::table::Table;
use tessera_support::progress::Silent;

/// Value at a point of the circle of the message, coefficient by coefficient.
fn naive(message: &[BaseField], point: CirclePoint<BaseField>) -> BaseField {
    let mut sum = BaseField::zero();
    for (z, &coefficient) in message.iter().enumerate() {
        let (mut term, mut x) = (coefficient, point.x);
        for bit in 0..usize::BITS {
            let factor = if bit == 0 { point.y } else { x };
            if z >> bit & 1 == 1 {
                term *= factor;
            }
            if bit > 0 {
                x = CirclePoint::double_x(x);
            }
        }
        sum += term;
    }
    sum
}

#[test]
fn encoding_evaluates_the_circle_basis() {
    for (log_message, log_blowup) in [(1, 1), (2, 2), (5, 1), (6, 2), (7, 3)] {
        let mut random = Random(3);
        let message: Vec<_> = (0..1 << log_message).map(|_| random.base()).collect();
        let codeword = Twiddles::new(log_message, log_blowup).encode(&message, 0);
        let log = log_message + log_blowup;
        let domain = CanonicCoset::new(log).circle_domain();
        for (i, &value) in codeword.iter().enumerate() {
            assert_eq!(
                value,
                naive(&message, domain.at(bit_reverse_index(i, log))),
                "size {log}, index {i}"
            );
        }
    }
}

/// Sizes on both sides of every way to go through memory.
#[test]
fn extension_field_messages_are_encoded_coordinate_by_coordinate() {
    for (log_message, folds) in [(1, 0), (2, 1), (3, 0), (5, 2), (10, 0), (11, 1), (12, 0), (16, 1)] {
        let mut random = Random(8);
        let message = random.secures(1 << (log_message - folds));
        let twiddles = Twiddles::new(log_message, 1);
        let encoded = twiddles.encode_secure(&message, folds);
        assert_eq!(encoded, twiddles.encode(&message, folds), "size {log_message}");
        for c in 0..4 {
            let coordinate = |v: &SecureField| v.to_m31_array()[c];
            let single = twiddles.encode(&message.iter().map(coordinate).collect::<Vec<_>>(), folds);
            assert!(encoded.iter().map(coordinate).eq(single));
        }
    }
}

#[test]
fn encoding_is_the_same_in_every_lane_and_beyond_the_sequential_size() {
    let mut random = Random(4);
    let messages: Vec<[BaseField; 16]> = (0..1 << 16).map(|_| std::array::from_fn(|_| random.base())).collect();
    let twiddles = Twiddles::new(16, 1);
    let packed: Vec<_> = messages.iter().map(|&m| Packed::from_array(m)).collect();
    let packed = twiddles.encode(&packed, 0);
    let domain = CanonicCoset::new(17).circle_domain();
    for lane in [0, 5, 15] {
        let message: Vec<_> = messages.iter().map(|m| m[lane]).collect();
        let single = twiddles.encode(&message, 0);
        assert!(packed.iter().zip(&single).all(|(p, &s)| p.to_array()[lane] == s));
        for i in [0, 1, 77, 65535, 65536, 131071] {
            assert_eq!(single[i], naive(&message, domain.at(bit_reverse_index(i, 17))));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Folding the codeword of a message binds variables of its multilinear extension, fold by fold.
    #[test]
    fn folding_is_binding(log_message in 1u32..9, log_blowup in 1u32..4, seed in 1u64..u64::MAX) {
        let mut random = Random(seed);
        let message = random.secures(1 << log_message);
        let challenges = random.secures(log_message as usize);
        let twiddles = Twiddles::new(log_message, log_blowup);
        let mut codeword = twiddles.encode(&message, 0);
        let mut bound = message.clone();
        let log_line = log_message + log_blowup - 1;
        for (i, &r) in challenges.iter().enumerate() {
            codeword = codeword.chunks(2).enumerate().map(|(j, pair)| {
                let t = match i {
                    0 => parts::circle_fibre(log_line, j),
                    _ => parts::line_fibre(log_line + 1 - i as u32, j, 1)[0],
                };
                parts::fold_pair(pair[0], pair[1], t, r)
            }).collect();
            bind_least_significant(&mut bound, r);
            if (i as u32) + 1 < log_message {
                prop_assert_eq!(&codeword, &twiddles.encode(&bound, i as u32 + 1));
            }
            for (j, &value) in codeword.iter().enumerate().step_by(5) {
                let x = parts::line_coordinate(log_line - i as u32, j);
                prop_assert_eq!(parts::evaluate_line(&bound, x), Some(value));
            }
        }
        let point: Vec<_> = challenges.into_iter().rev().collect();
        prop_assert!(codeword.iter().all(|&v| v == eval_padded(&message, &point)));
    }

    /// A leaf folds at once as it folds pair by pair.
    #[test]
    fn leaves_fold_as_the_message(seed in 1u64..u64::MAX) {
        let mut random = Random(seed);
        let (message, challenges) = (random.secures(64), random.secures(FOLD_LOG as usize));
        let twiddles = Twiddles::new(7, 2);
        let codeword = twiddles.encode(&message, 1);
        let mut bound = message;
        challenges.iter().for_each(|&r| bind_least_significant(&mut bound, r));
        let next = twiddles.encode(&bound, 1 + FOLD_LOG);
        for (j, leaf) in codeword.chunks(1 << FOLD_LOG).enumerate() {
            let coordinates = parts::line_fibre(8, j, FOLD_LOG);
            prop_assert_eq!(parts::fold_leaf(leaf, &coordinates, &challenges), Some(next[j]));
        }
    }

    /// Batch paths authenticate exactly the leaves that they were made for.
    #[test]
    fn batch_paths(depth in 1u32..7, mask in 1u64.., flip in 0usize..64, number in 0u32..2) {
        let suite = Suite::try_from(number).unwrap();
        let mut random = Random(9);
        let leaves: Vec<Digest> = (0..1 << depth).map(|_| hash_base_leaf(suite, &[random.base()])).collect();
        let levels = trees::levels(suite, leaves.clone());
        let root = levels[depth as usize][0];
        let mut opened: Vec<usize> = (0..1 << depth).filter(|i| mask >> i & 1 == 1).collect();
        if opened.is_empty() {
            opened.push(0);
        }
        let path = merkle::path(&opened, depth, |level, index| levels[level][index]);
        let with = |at: usize| opened.iter().map(|&i| {
            let mut digest = leaves[i];
            digest[0] ^= u8::from(i == at);
            (i, digest)
        }).collect::<Vec<_>>();
        let tree = TreeName::Oracle(1);
        let committed = CommittedTree { name: tree, suite, root: &root, depth };
        prop_assert_eq!(verify_batch(&committed, with(usize::MAX), &path), Ok(()));
        let wrong = opened[flip % opened.len()];
        prop_assert_eq!(verify_batch(&committed, with(wrong), &path), Err(OpeningError::Root { tree }));
        let mut long = path.clone();
        long.push(root);
        let error = OpeningError::PathTooLong { tree, unused: 1 };
        prop_assert_eq!(verify_batch(&committed, with(usize::MAX), &long), Err(error));
        if let Some((_, short)) = path.split_last() {
            let error = OpeningError::PathTooShort { tree };
            prop_assert_eq!(verify_batch(&committed, with(usize::MAX), short), Err(error));
        }
    }
}

#[test]
fn codeword_file_holds_the_columns() {
    // 19 columns of two tiles: two batches; the last column is half empty.
    let params = CommitmentParams {
        tiles: 37,
        log_message: 13,
        log_blowup: 1,
    };
    let case = Case::new(params);
    let field: Vec<BaseField> = case.weights.field().iter().map(|w| w.to_m31_array()[0]).collect();
    let twiddles = Twiddles::new(13, 1);
    let columns: Vec<_> = field
        .chunks(1 << 13)
        .map(|message| {
            let mut message = message.to_vec();
            message.resize(1 << 13, BaseField::zero());
            twiddles.encode(&message, 0)
        })
        .collect();
    assert_eq!(columns.len(), params.columns());
    let leaves = [0, 1, 4000, 4033, 8191];
    let expected: Vec<_> = leaves
        .iter()
        .flat_map(|leaf| columns.iter().flat_map(move |c| [c[2 * leaf], c[2 * leaf + 1]]))
        .collect();
    // With the file, and without: the tree is the same in whatever blocks the codeword is made.
    let mut codewords = vec![(SUITE, committed(&case.weights.0, &params))];
    for (log, suite) in (0..=Split::MAX).flat_map(|log| Suite::ALL.map(|suite| (log, suite))) {
        let split = Split::new(log, &params);
        let tree = commit(suite, &case.weights.0, &params, split, None, &Silent).unwrap();
        codewords.push((suite, Codeword::new(params, tree)));
    }
    for (suite, codeword) in codewords {
        let rows = codeword.open(&case.weights.0, &leaves).unwrap();
        assert_eq!(rows.values, expected);
        let digests = leaves.into_iter().zip(expected.chunks(2 * columns.len()));
        let digests = digests.map(|(leaf, row)| (leaf, hash_base_leaf(suite, row))).collect();
        let committed = CommittedTree {
            name: TreeName::Committed(CommitmentName::Weights),
            suite,
            root: codeword.root(),
            depth: params.log_leaves(),
        };
        assert_eq!(verify_batch(&committed, digests, &rows.path), Ok(()), "{suite:?}");
    }
}

/// Blocks of every length put together are the codeword.
#[test]
fn blocks_are_those_of_the_codeword() {
    let mut rng = Random(23);
    for (log_message, log_blowup) in [(6, 1), (11, 1), (10, 2), (15, 1)] {
        let twiddles = Twiddles::new(log_message, log_blowup);
        let message: Vec<i16x16> = (0..1 << log_message)
            .map(|_| i16x16::from_array(std::array::from_fn(|_| rng.next() as i16 % 2048)))
            .collect();
        let field: Vec<Packed> = message.iter().map(|w| Packed::from_weights(*w)).collect();
        let expected: Vec<_> = twiddles.encode(&field, 0).into_iter().map(Packed::to_array).collect();
        for split in 0..=Split::MAX {
            let mut block = vec![field[0]; message.len() >> split];
            let blocks = (0..1 << (log_blowup + split)).flat_map(|i| {
                twiddles.encode_block(&message, &mut block, i, Wanted::All);
                block.iter().map(|v| v.to_array()).collect::<Vec<_>>()
            });
            assert!(
                blocks.collect::<Vec<_>>() == expected,
                "2^{log_message}, 2^{split} blocks"
            );
            // The first part, the last one, and one that is the only one of its block.
            let size = block.len().min(64);
            let parts = expected.len() / size;
            let wanted = [0, parts / 2 - 1, parts - 1];
            for i in 0..1 << (log_blowup + split) {
                twiddles.encode_block(&message, &mut block, i, Wanted::Parts(size, &wanted));
                let start = i * block.len();
                let own = wanted
                    .iter()
                    .map(|part| part * size)
                    .filter(|at| (start..start + block.len()).contains(at));
                for at in own {
                    let part = block[at - start..][..size].iter().map(|v| v.to_array());
                    assert!(
                        part.eq(expected[at..][..size].iter().copied()),
                        "2^{log_message}: value {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn combined_columns_evaluate_the_whole_array() {
    let params = CommitmentParams {
        tiles: 11,
        log_message: 13,
        log_blowup: 1,
    };
    let weights = Weights::random(11, 5);
    let point = Random(6).secures((params.log_tiles() + 12) as usize);
    let (columns, rest) = point.split_at(params.log_columns() as usize);
    let (fold, bound) = rest.split_last().expect("a point");
    let (message, _) = combine_columns(&weights.0, &params, &eq_table(columns), *fold, Table::default());
    assert_eq!(eval_padded(&message, bound), eval_padded(&weights.field(), &point));
}
