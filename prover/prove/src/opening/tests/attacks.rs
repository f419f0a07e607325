//! Attacks on the opening by a prover that says something else of the weights than it committed to.

use std::sync::Arc;

use crate::bind::eq_table;
use num_traits::One;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_verifier::opening::parts::{
    absorb_claims, extend, hash_base_leaf, verify_batch, Combined, CommittedTree, Layout, ProofParts,
};
use tessera_verifier::opening::{Claim, CommitmentName, OpeningError, TreeName};
use tessera_verifier::suite::Suite;
use tessera_verifier::transcript::Transcript;

use super::super::committed::Committed;
use super::super::fft::Twiddles;
use super::super::fold::Message;
use super::super::prove::{value, Folding};
use super::super::sum::add_lifted;
use super::super::{merkle, CommittedWeights, ProverClaim, TILE_AREA};
use super::{transcript, verify_parts, Case, Drawn, Half, Weights, COLUMN_WORK, POLICY, SUM_WORK};
use crate::{grind, trees};
use tessera_kernels::table::Table;
use tessera_model::tiles::TileSource;

/// A complete opening with these evaluations of the bands, and the verdict on the value that follows from them.
fn attempt(case: &Case, source: &Weights, values: &[SecureField]) -> Result<(), OpeningError> {
    let claim = Claim {
        value: value(&case.gamma, values),
        ..case.claim()
    };
    assert_ne!(claim.value, case.value, "the claim is false");
    let opened = case.open_beside(source, &claim, values, &POLICY);
    case.verify_claim(&claim, &opened.expect("an opening"))
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
    for case in Case::all() {
        for (name, change) in changes {
            let other = altered(&case, change);
            let values = other.band_values(&case.point);
            let verdict = attempt(&case, &case.weights, &values);
            assert_eq!(verdict, Err(OpeningError::FoldClaim), "{name}, evaluations alone");
            let verdict = attempt(&case, &other, &values);
            assert!(
                matches!(
                    verdict,
                    Err(OpeningError::Root {
                        tree: TreeName::Oracle(0)
                    })
                ),
                "{name}: {verdict:?}"
            );
        }
    }
}

/// Gains the same: the evaluations are those of another point, and of a tile read with its axes exchanged.
#[test]
fn tiles_are_evaluated_at_the_point() {
    for case in Case::all() {
        let (tile, within) = case.point.split_at(case.columns.log_band() as usize);
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

/// An opening of a false claim on the weights, next to a claim on the activations: what is claimed of both, and the proof, whose
/// sumchecks are honest ones about what is committed to.
struct Lie<'a> {
    claims: [Claim<'a>; 2],
    proof: ProofParts,
}

impl<'a> Lie<'a> {
    /// The claims on weights and activations say so much more than is true.
    fn of(case: &'a Case, more: [SecureField; 2]) -> Self {
        let (halves, more) = ([&case.own, &case.other], case.in_order(more[0], more[1]));
        let values = [0, 1].map(|i| {
            let mut values = halves[i].band_values.clone();
            values[0] += more[i] * halves[i].gamma[0].inverse();
            values
        });
        let claims = [0, 1].map(|i| Claim {
            value: value(&halves[i].gamma, &values[i]),
            ..halves[i].claim()
        });
        let proof = case.open(
            &case.weights,
            [&claims[0], &claims[1]],
            [&values[0], &values[1]],
            &POLICY,
            &mut transcript(),
        );
        let proof = proof.expect("an opening");
        Self { claims, proof }
    }

    fn drawn(&self, case: &Case) -> Drawn {
        Drawn::of(case, &self.claims(case), &self.proof)
    }

    /// The claims in the order of the proof.
    fn claims(&self, case: &Case) -> [Claim<'a>; 2] {
        let [own, other] = self.claims;
        case.in_order(own, other)
    }

    fn verdict(&self, case: &Case) -> Result<(), OpeningError> {
        verify_parts(&POLICY, &self.claims(case), &self.proof, &mut transcript())
    }
}

/// A conversation after its band sumchecks.
struct Place<'a> {
    /// Before the cross values.
    transcript: Transcript,
    claims: [Claim<'a>; 2],
    /// Where the combined columns of both commitments are claimed, and the points that combine the columns.
    points: Vec<Vec<SecureField>>,
    columns: [Vec<SecureField>; 2],
}

impl<'a> Place<'a> {
    fn of(case: &Case, lie: &Lie<'a>) -> Self {
        let (mut t, claims) = (transcript(), lie.claims(case));
        absorb_claims(&mut t, &POLICY, claims.iter().map(|own| (own, own.value)));
        let rho = [0, 1].map(|i| {
            let own = &lie.proof.codes[i];
            let mut nonces = own.column_work.iter();
            let rho = own.band_rounds.iter().map(|round| {
                t.message("opening band round", round);
                nonces
                    .next()
                    .into_iter()
                    .for_each(|nonce| assert!(t.work(POLICY.before_challenge(COLUMN_WORK), *nonce)));
                t.challenge("opening band challenge")
            });
            let rho: Vec<SecureField> = rho.collect();
            t.message("opening evaluation", &[own.band_value]);
            rho
        });
        let split = |i: usize| rho[i].split_at(claims[i].columns.log_columns() as usize);
        let point = |i: usize| {
            let (_, rest) = claims[i].point.split_last().expect("a point");
            extend([split(i).1, rest].concat(), case.long().log_folded())
        };
        Self {
            transcript: t,
            claims,
            points: [0, 1].map(point).to_vec(),
            columns: [0, 1].map(|i| split(i).0.to_vec()),
        }
    }

    /// Goes on from here with other cross values than those of the committed messages, and folds these honestly.
    fn go_on(mut self, case: &Case, lie: &Lie<'_>, cross_values: [SecureField; 2]) -> ProofParts {
        self.transcript.message("opening cross values", &cross_values);
        let proof = ProofParts {
            cross_values: cross_values.to_vec(),
            sum_work: grind::send(POLICY.before_challenge(SUM_WORK), &mut self.transcript),
            ..lie.proof.clone()
        };
        let Combined { scales, points } = Combined::draw(self.points, 0, &mut self.transcript);
        let [weights, activations] = case.in_order(&case.own, &case.other);
        let (mut own, mut other) = (committed(weights), committed(activations));
        let fold = |half: &Half| *half.point.last().expect("a point");
        let messages = vec![
            own.combine(&weights.columns, &eq_table(&self.columns[0]), fold(weights))
                .expect("a message"),
            other
                .combine(&activations.columns, &eq_table(&self.columns[1]), fold(activations))
                .expect("a message"),
        ];
        let long = case.long();
        let twiddles = Arc::new(Twiddles::new(long.log_message, long.log_blowup));
        let mut folding = Folding::new(
            &POLICY,
            &long,
            Message::new(add_lifted(messages, &scales), points),
            twiddles,
        );
        folding.run(&mut self.transcript);
        let [claim, other_claim] = self.claims;
        let claims = &mut [
            ProverClaim {
                committed: &mut own,
                claim,
                values: &weights.band_values,
            },
            ProverClaim {
                committed: &mut other,
                claim: other_claim,
                values: &activations.band_values,
            },
        ];
        let proof = folding.finish(claims, &mut self.transcript, proof);
        proof.expect("an opening")
    }
}

fn committed(half: &Half) -> CommittedWeights<'_> {
    CommittedWeights::new(&half.weights.0, &half.codeword, Table::default()).expect("as many tiles")
}

/// Gains products with other weights: the claim on one commitment is false, and the value of the other column at its point takes back
/// what it has too much, so that the claim on the sum of the columns is true. The factor of the sum is known only from another
/// conversation, because it is drawn after these values.
#[test]
fn a_false_claim_is_not_paid_for_by_a_cross_value() {
    for case in Case::all() {
        for which in [0, 1] {
            let mut more = [SecureField::from(0); 2];
            more[usize::from(case.name == CommitmentName::Activations)] = SecureField::one();
            if which == 1 {
                more.swap(0, 1);
            }
            let mut lie = Lie::of(&case, more);
            assert_eq!(lie.verdict(&case), Err(OpeningError::FoldClaim));
            let [iota, theta] = lie.drawn(&case).sum;
            let honest = [lie.proof.cross_values[0], lie.proof.cross_values[1]];
            // By how much the claims of the proof's order are too large.
            let places = [&case.own, &case.other];
            let lies = [0, 1].map(|i| lie.claims[i].value - places[i].value);
            let [first, second] = case.in_order(lies[0], lies[1]);
            // The claims on the sum are v_0 + iota E_01 and iota v_1 + E_10.
            let forged = [honest[0] - first * iota.inverse(), honest[1] - second * iota];
            assert_ne!(forged, honest, "values of other messages");
            let sum = |by: [SecureField; 2], values: [SecureField; 2]| {
                by[0] + iota * values[0] + theta * (iota * by[1] + values[1])
            };
            let nothing = [SecureField::from(0); 2];
            assert_eq!(
                sum([first, second], forged),
                sum(nothing, honest),
                "with the factors that are known"
            );
            lie.proof = Place::of(&case, &lie).go_on(&case, &lie, forged);
            assert_ne!(lie.drawn(&case).sum[0], iota);
            assert_eq!(lie.verdict(&case), Err(OpeningError::FoldClaim));
        }
    }
}

/// Gains the same: both claims are false, and what one of them lacks the other has too much of, with the factors that an opening
/// of the same claims, not yet altered, has drawn.
#[test]
fn two_false_claims_do_not_make_up_for_each_other() {
    for case in Case::all() {
        let nothing = SecureField::from(0);
        let sum = Lie::of(&case, [nothing; 2]).drawn(&case).sum;
        // One more of the weights, and of the activations what takes it back.
        let (one, back) = (SecureField::one(), -(sum[0] * sum[1]).inverse());
        let lie = Lie::of(&case, case.in_order(one, back));
        assert_ne!(lie.claims.map(|claim| claim.value), [case.own.value, case.other.value]);
        assert_ne!(lie.drawn(&case).sum, sum);
        assert_eq!(lie.verdict(&case), Err(OpeningError::FoldClaim));
    }
}

/// Gains a query that the prover likes better: the leaf beside the one that is asked for, with its valid path; of the shorter
/// code the one at the last bits of the position, not at the first.
#[test]
fn another_leaf_of_the_tree_is_no_answer() {
    for case in Case::all() {
        let mut proof = case.prove(&case.weights, &POLICY);
        let lifted = case.long().log_message - case.params.log_message;
        let positions = Drawn::of(&case, &case.both(&case.claim()), &proof).positions;
        let twiddles = Twiddles::new(case.params.log_message, case.params.log_blowup);
        let open = |leaf: &dyn Fn(usize) -> usize| {
            let mut leaves: Vec<usize> = positions.iter().map(|position| leaf(*position)).collect();
            leaves.sort_unstable();
            leaves.dedup();
            case.codeword
                .open_with(&case.weights.0, &twiddles, &leaves)
                .expect("leaves")
                .0
        };
        let honest = open(&|position| position >> lifted);
        let last = (1 << case.params.log_leaves()) - 1;
        let others = [
            open(&|position| (position >> lifted) ^ 2),
            open(&|position| position & last),
        ];
        for (i, other) in others.into_iter().enumerate() {
            let rows = match case.name {
                CommitmentName::Weights => &mut proof.codes[0].rows,
                _ => &mut proof.codes[1].rows,
            };
            if i == 0 {
                assert_eq!(*rows, honest, "the leaves that are asked for");
            }
            if other == honest {
                assert!(i == 1 && lifted == 0);
                continue;
            }
            *rows = other;
            let verdict = case.verify(&proof);
            let tree = TreeName::Committed(case.name);
            let expected = |e: &OpeningError| match *e {
                OpeningError::Root { tree: own }
                | OpeningError::PathTooShort { tree: own }
                | OpeningError::PathTooLong { tree: own, .. }
                | OpeningError::OpenedValues { tree: own, .. } => own == tree,
                _ => false,
            };
            assert!(verdict.as_ref().is_err_and(expected), "{verdict:?}");
        }
    }
}

/// Gains leaves of the prover's choice: a layer of the tree is skipped, and the bytes under an inner node are passed
/// off as a leaf; or a leaf stands for the node of a tree with one more layer.
#[test]
fn an_inner_node_is_no_leaf() {
    for suite in Suite::ALL {
        // Digests of field elements below the modulus, so that their bytes are values of a leaf.
        let words = |digest: &[u8; 32]| digest.as_chunks().0.iter().map(|w| suite.word(*w)).collect::<Vec<_>>();
        let digests: Vec<[u8; 32]> = (0..4000u32)
            .map(|i| hash_base_leaf(suite, &[BaseField::from(i)]))
            .filter(|digest| words(digest).iter().all(|word| word >> 31 == 0))
            .collect();
        let leaves = digests
            .first_chunk::<8>()
            .expect("one digest of 256 is canonical")
            .to_vec();
        let levels = trees::levels(suite, leaves.clone());
        let name = TreeName::Committed(CommitmentName::Weights);
        let tree = |depth: u32| CommittedTree {
            name,
            suite,
            root: &levels[3][0],
            depth,
        };
        let path = |depth: u32, levels: &[Vec<[u8; 32]>]| merkle::path(&[0], depth, |level, i| levels[level][i]);
        assert_eq!(verify_batch(&tree(3), vec![(0, leaves[0])], &path(3, &levels)), Ok(()));
        let values: Vec<BaseField> = leaves[..2].iter().flat_map(words).map(BaseField::from).collect();
        let passed_off = hash_base_leaf(suite, &values);
        let short = path(2, &levels[1..]);
        // Blake2s tells leaves from nodes by a byte. With Keccak a leaf of sixteen words is hashed as a node, and it is the
        // depth alone that stands against it.
        if suite == Suite::Blake2s {
            assert_ne!(passed_off, suite.node(&leaves[0], &leaves[1]));
            assert_eq!(
                verify_batch(&tree(2), vec![(0, passed_off)], &short),
                Err(OpeningError::Root { tree: name })
            );
        }
        // The depth is the verifier's: the same nodes are too few for it.
        assert_eq!(
            verify_batch(&tree(3), vec![(0, passed_off)], &short),
            Err(OpeningError::PathTooShort { tree: name })
        );
        let long = [path(3, &levels), vec![[0; 32]]].concat();
        let unused = 1;
        assert_eq!(
            verify_batch(&tree(3), vec![(0, leaves[0])], &long),
            Err(OpeningError::PathTooLong { tree: name, unused })
        );
    }
}
