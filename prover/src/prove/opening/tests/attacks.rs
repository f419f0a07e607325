//! Attacks on the opening by a prover that says something else of the weights than it committed to.

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::merkle::{hash_base_leaf, hash_node, verify_batch};
use tessera_verifier::opening::{OpeningClaim, OpeningError, TreeName};

use super::super::fft::Twiddles;
use super::super::{merkle, open, value, TILE_AREA};
use super::{transcript, Case, Weights, POLICY};
use crate::model::tiles::TileSource;
use crate::support::pages::Table;
use tessera_verifier::opening::{draw_leaves, OpeningProof};

/// A complete opening with these evaluations of the bands, and the verdict on the value that follows from them.
fn attempt(case: &Case, source: &Weights, values: &[SecureField]) -> Result<(), OpeningError> {
    let claim = OpeningClaim {
        value: value(&case.gamma, values),
        ..case.claim()
    };
    assert_ne!(claim.value, case.value, "the claim is false");
    let opened = open(
        &source.0,
        &case.codeword,
        &POLICY,
        &claim,
        values,
        Table::default(),
        &mut transcript(),
    );
    case.verify_claim(&claim, &opened.expect("an opening").0)
}

/// The weights with a change, as `[tile][x][y]`.
fn altered(case: &Case, change: impl Fn(&mut [Vec<i16>])) -> Weights {
    let mut tile = [0; TILE_AREA];
    let mut tiles: Vec<Vec<i16>> = (0..case.params.tiles)
        .map(|t| {
            case.weights.0.tile(t, &mut tile);
            tile.to_vec()
        })
        .collect();
    change(&mut tiles);
    Weights::new(&tiles.concat())
}

fn transpose(tile: &[i16]) -> Vec<i16> {
    (0..TILE_AREA).map(|i| tile[(i % 64) * 64 + i / 64]).collect()
}

/// A change of the tiles.
type Change<'a> = (&'static str, &'a dyn Fn(&mut [Vec<i16>]));

/// Gains products with other weights: a tile that is left out, used twice, transposed, exchanged with another one, or
/// has a single weight beyond its range, or gives some of a weight to its neighbour, which may be of the same band. Once only
/// the evaluations follow the lie, once everything but the commitment.
#[test]
fn every_tile_is_opened_once_in_its_place() {
    let changes: [Change<'_>; 7] = [
        ("moved", &|tiles| {
            tiles[0][7] += 3;
            tiles[1][7] -= 3;
        }),
        ("exchanged with its neighbour", &|tiles| tiles.swap(2, 3)),
        ("left out", &|tiles| tiles[2].fill(0)),
        ("used twice", &|tiles| tiles[3] = tiles[2].clone()),
        ("transposed", &|tiles| tiles[1] = transpose(&tiles[1])),
        ("exchanged", &|tiles| tiles.swap(0, 4)),
        ("out of range", &|tiles| tiles[0][77] = 2047 - tiles[0][77]),
    ];
    for case in [Case::small(), Case::banded()] {
        for (name, change) in changes {
            let other = altered(&case, change);
            let values = other.band_values(&case.point);
            let verdict = attempt(&case, &case.weights, &values);
            assert_eq!(verdict, Err(OpeningError::FoldClaim), "{name}, evaluations alone");
            let verdict = attempt(&case, &other, &values);
            assert!(
                matches!(verdict, Err(OpeningError::Fold { oracle: 0, .. })),
                "{name}: {verdict:?}"
            );
        }
    }
}

/// Gains the same: the evaluations are those of another point, and of a tile read with its axes exchanged.
#[test]
fn tiles_are_evaluated_at_the_point() {
    for case in [Case::small(), Case::banded()] {
        let (tile, within) = case.point.split_at(case.columns.log_band as usize);
        let (x, y) = within.split_at(6);
        let mut points = vec![[tile, y, x].concat(), case.point.clone(), case.point.clone()];
        points[1][0] += SecureField::from(1);
        points[2][case.point.len() - 1] += SecureField::from(1);
        if !tile.is_empty() {
            // The tiles of a band in another order, and their index as the last one.
            points.extend([[&[tile[1], tile[0]], x, y].concat(), [x, y, tile].concat()]);
        }
        for point in points {
            let verdict = attempt(&case, &case.weights, &case.weights.band_values(&point));
            assert_eq!(verdict, Err(OpeningError::FoldClaim));
        }
    }
}

/// Gains a query that the prover likes better: the leaf beside the one that is asked for, with its valid path.
#[test]
fn another_leaf_of_the_tree_is_no_answer() {
    let case = Case::small();
    let mut proof = case.prove(&case.weights, &POLICY);
    let leaves = leaves(&case, &proof);
    let twiddles = Twiddles::new(case.params.log_message, case.params.log_blowup);
    let open = |leaves: &[usize]| {
        case.codeword
            .open_with(&case.weights.0, &twiddles, leaves)
            .expect("leaves")
            .0
    };
    assert_eq!(open(&leaves), proof.rows, "the leaves that are asked for");
    let beside: Vec<usize> = leaves.iter().map(|leaf| leaf ^ 2).collect();
    let mut sorted = beside.clone();
    sorted.sort_unstable();
    proof.rows = open(&sorted);
    let verdict = case.verify(&proof);
    let expected = |e: &OpeningError| {
        let tree = TreeName::Committed;
        *e == OpeningError::Root { tree }
            || *e == OpeningError::PathTooShort { tree }
            || matches!(
                e,
                OpeningError::PathTooLong {
                    tree: TreeName::Committed,
                    ..
                }
            )
    };
    assert!(verdict.as_ref().is_err_and(expected), "{verdict:?}");
}

/// The leaves that the verifier asks for.
fn leaves(case: &Case, proof: &OpeningProof) -> Vec<usize> {
    let mut t = transcript();
    let (params, root) = (&case.params, case.codeword.root());
    tessera_verifier::opening::absorb_statement(&mut t, params, &POLICY, root, &case.claim());
    for round in &proof.band_rounds {
        t.message("opening band round", round);
        t.challenge("opening band challenge");
    }
    t.message("opening evaluation", &[proof.band_value]);
    let mut roots = params.oracles().zip(&proof.roots).peekable();
    for variables in (params.log_final()..params.log_message).rev() {
        if let Some(round) = (params.log_message - 1 - variables).checked_sub(1) {
            t.message("opening fold round", &proof.fold_rounds[round as usize]);
            t.challenge("opening fold challenge");
        }
        if let Some((_, root)) = roots.next_if(|(due, _)| *due == variables) {
            t.bytes("opening oracle", root);
        }
    }
    t.message("opening final message", &proof.final_message);
    t.nonce("opening work", proof.nonce);
    draw_leaves(&mut t, params, &POLICY)
}

/// Gains leaves of the prover's choice: a layer of the tree is skipped, and the bytes under an inner node are passed
/// off as a leaf; or a leaf stands for the node of a tree with one more layer.
#[test]
fn an_inner_node_is_no_leaf() {
    // Digests of field elements below the modulus, so that their bytes are values of a leaf.
    let canonical = |digest: &[u8; 32]| {
        digest
            .as_chunks::<4>()
            .0
            .iter()
            .all(|w| u32::from_le_bytes(*w) >> 31 == 0)
    };
    let digests: Vec<[u8; 32]> = (0..4000u32)
        .map(|i| hash_base_leaf(&[BaseField::from(i)]))
        .filter(canonical)
        .collect();
    let leaves = digests
        .first_chunk::<8>()
        .expect("one digest of 256 is canonical")
        .to_vec();
    let levels = merkle::levels(leaves.clone());
    let (tree, root) = (TreeName::Committed, levels[3][0]);
    let path = |depth: u32, levels: &[Vec<[u8; 32]>]| merkle::path(&[0], depth, |level, i| levels[level][i]);
    assert_eq!(
        verify_batch(tree, &root, 3, vec![(0, leaves[0])], &path(3, &levels)),
        Ok(())
    );
    let words = leaves[..2].iter().flat_map(|d| d.as_chunks::<4>().0);
    let values: Vec<BaseField> = words.map(|w| BaseField::from(u32::from_le_bytes(*w))).collect();
    let passed_off = hash_base_leaf(&values);
    assert_ne!(passed_off, hash_node(&leaves[0], &leaves[1]));
    let short = path(2, &levels[1..]);
    assert_eq!(
        verify_batch(tree, &root, 2, vec![(0, passed_off)], &short),
        Err(OpeningError::Root { tree })
    );
    // The depth is the verifier's: the same nodes are too few for it.
    assert_eq!(
        verify_batch(tree, &root, 3, vec![(0, passed_off)], &short),
        Err(OpeningError::PathTooShort { tree })
    );
    let long = [path(3, &levels), vec![[0; 32]]].concat();
    let unused = 1;
    assert_eq!(
        verify_batch(tree, &root, 3, vec![(0, leaves[0])], &long),
        Err(OpeningError::PathTooLong { tree, unused })
    );
}
