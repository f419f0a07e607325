//! Honest openings, wrong claims, sizes.

use crate::opening::sizes::{params_at_rate, params_for};
use std::time::Instant;

use num_traits::One;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::WeightFormat;
use tessera_verifier::opening::parts::{parts_of, said_columns, Layout, OpeningPolicy, ProofParts};
use tessera_verifier::opening::{terms, Claim, Commitment, CommitmentName, CommitmentParams, OpeningError};
use tessera_verifier::suite::Digest;

use super::super::prove::{open_under, value};
use super::super::{commit, CommittedWeights, OpeningProverError, ProverClaim, Split};
use super::{committed, proof_bytes, transcript, verify_parts, Case, Drawn, Half, Weights, POLICY, SUITE};
use tessera_kernels::table::Table;
use tessera_model::tiles::TileSource;
use tessera_model::weights::PackedWeights;
use tessera_support::progress::Silent;

/// Of the weights, which most cases are about.
const BAND_CLAIM: OpeningError = OpeningError::BandClaim {
    commitment: CommitmentName::Weights,
};

#[test]
fn honest_openings_are_accepted() {
    for (tiles, log_message, log_blowup, log_band) in [
        (1, 12, 1, 0),
        (1, 13, 2, 0),
        (2, 12, 2, 0),
        (3, 12, 2, 0),
        (3, 14, 1, 0),
        (5, 13, 3, 0),
        (17, 12, 2, 0),
        (37, 14, 2, 0),
        (40, 15, 2, 0),
        // A column of one band; more than one of them; bands of the whole weights and longer than a column.
        (2, 13, 2, 1),
        (6, 13, 1, 1),
        (36, 14, 2, 2),
        (40, 15, 2, 1),
        (44, 15, 2, 2),
        (4, 14, 2, 2),
        (8, 13, 2, 2),
        (8, 12, 2, 1),
    ] {
        let params = CommitmentParams {
            tiles,
            log_message,
            log_blowup,
        };
        // All tiles, the last one, and some from the middle.
        for opened in [0..tiles, tiles - 1..tiles, tiles / 3..tiles.div_ceil(2)] {
            let case = Case::of_tiles(params, opened.clone(), log_band);
            let (mut ours, mut theirs) = (transcript(), transcript());
            let other = &case.other;
            let proof = case.open(
                &case.weights,
                [&case.claim(), &other.claim()],
                [&case.band_values, &other.band_values],
                &POLICY,
                &mut ours,
            );
            let verdict = case.verify_with(&POLICY, case.claim(), &proof.unwrap(), &mut theirs);
            assert_eq!(verdict, Ok(()), "{params:?}, {opened:?}");
            assert_eq!(ours.challenge("end"), theirs.challenge("end"), "{params:?}, {opened:?}");
        }
    }
}

/// Whichever is longer, and if both are as long: the shorter message is lifted, by one variable or by several.
#[test]
fn codes_of_any_two_lengths_are_opened_together() {
    let params = CommitmentParams {
        tiles: 6,
        log_message: 13,
        log_blowup: 3,
    };
    for (tiles, log_message) in [(1, 12), (3, 12), (2, 13), (5, 13), (3, 14), (9, 15), (17, 16), (40, 17)] {
        let case = Case::of_tiles(params, 0..6, 1).beside(tiles, log_message);
        let long = case.long();
        assert_eq!(long.log_message, log_message.max(13));
        for case in [
            case,
            Case::of_tiles(params, 0..6, 0)
                .beside(tiles, log_message)
                .of_activations(),
        ] {
            let proof = case.prove(&case.weights, &POLICY);
            assert_eq!(
                case.verify(&proof),
                Ok(()),
                "{tiles} tiles in messages of 2^{log_message}"
            );
            assert_eq!(proof.cross_values.len(), 2);
            assert_eq!(proof.oracles.len(), long.oracles().count());
            // One set of positions: the leaves of the shorter code are those above them.
            let positions = Drawn::of(&case, &case.both(&case.claim()), &proof).positions;
            for (half, own) in case.in_order(&case.own, &case.other).into_iter().zip(&proof.codes) {
                let lifted = long.log_message - half.params.log_message;
                let mut leaves: Vec<usize> = positions.iter().map(|position| position >> lifted).collect();
                leaves.dedup();
                assert_eq!(own.rows.values.len(), leaves.len() * 2 * half.params.columns());
            }
        }
    }
}

/// One claim alone, and three on codes of three lengths, in any order: a false one among them is refused, and so are cross values in
/// another order.
#[test]
fn any_number_of_claims_is_opened() {
    let of = |tiles: usize, log_message: u32, seed: u64| {
        let (name, params) = (
            CommitmentName::Activations,
            CommitmentParams {
                tiles,
                log_message,
                log_blowup: 2,
            },
        );
        Half {
            name,
            ..Half::new(params, 0..tiles, 0, seed)
        }
    };
    let halves = [of(5, 13, 1), of(3, 12, 2), of(9, 15, 3)];
    for order in [&[0][..], &[0, 1, 2], &[2, 0, 1], &[1, 2], &[0, 0, 1]] {
        let open = |raised: Option<usize>| {
            let mut committed: Vec<CommittedWeights<'_>> = order
                .iter()
                .map(|i| CommittedWeights::new(&halves[*i].weights.0, &halves[*i].codeword, Table::default()).unwrap())
                .collect();
            let values: Vec<Vec<SecureField>> = order
                .iter()
                .enumerate()
                .map(|(at, i)| {
                    let mut values = halves[*i].band_values.clone();
                    values[0] += SecureField::from(u32::from(raised == Some(at)));
                    values
                })
                .collect();
            let claims: Vec<Claim<'_>> = order
                .iter()
                .zip(&values)
                .map(|(i, values)| {
                    let value = value(&halves[*i].gamma, values);
                    Claim {
                        value,
                        ..halves[*i].claim()
                    }
                })
                .collect();
            let of_prover = committed.iter_mut().zip(&claims).zip(&values);
            let mut of_prover: Vec<ProverClaim<'_>> = of_prover
                .map(|((committed, claim), values)| ProverClaim {
                    committed,
                    claim: *claim,
                    values,
                })
                .collect();
            let proof = open_under(&POLICY, &mut of_prover, None, &mut transcript()).unwrap();
            let proof = parts_of(&proof).clone();
            let verdict = verify_parts(&POLICY, &claims, &proof, &mut transcript());
            (
                proof,
                claims.iter().map(|claim| claim.value).collect::<Vec<_>>(),
                verdict,
            )
        };
        let (proof, honest, verdict) = open(None);
        assert_eq!(verdict, Ok(()), "{order:?}");
        let count = order.len();
        assert_eq!(proof.cross_values.len(), count * (count - 1));
        for at in 0..count {
            let (_, values, verdict) = open(Some(at));
            assert_ne!(values, honest);
            assert_eq!(verdict, Err(OpeningError::FoldClaim), "{order:?}: claim {at} is false");
        }
        let claims: Vec<Claim<'_>> = order.iter().map(|i| halves[*i].claim()).collect();
        for at in 1..proof.cross_values.len() {
            let mut swapped = proof.clone();
            swapped.cross_values.swap(0, at);
            // Of two equal claims some values are the same.
            assert!(swapped != proof || order.starts_with(&[0, 0]));
            if swapped != proof {
                let verdict = verify_parts(&POLICY, &claims, &swapped, &mut transcript());
                assert_eq!(verdict, Err(OpeningError::FoldClaim), "{order:?}: cross value {at}");
            }
        }
        let more = [&claims[..], &claims[..1]].concat();
        for others in [&claims[1..], &more] {
            let refused = verify_parts(&POLICY, others, &proof, &mut transcript());
            assert!(
                matches!(refused, Err(OpeningError::Length { .. } | OpeningError::NoClaims)),
                "{refused:?}"
            );
        }
    }
}

/// What a message of the opening does not move, but for challenges before it, is drawn too early.
#[test]
fn every_challenge_of_an_opening_depends_on_what_comes_before() {
    type Change<'a> = &'a dyn Fn(&mut ProofParts);
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    let drawn = |proof: &ProofParts| {
        let Drawn { sum, positions } = Drawn::of(&case, &case.both(&case.claim()), proof);
        (sum, positions)
    };
    let honest = drawn(&proof);
    let one = SecureField::one();
    // With the number of challenges that are drawn before.
    let changes: [(usize, Change<'_>); 8] = [
        (0, &|p| p.codes[0].band_rounds[0][0] += one),
        (0, &|p| p.codes[0].band_value += one),
        (0, &|p| p.codes[1].band_value += one),
        (0, &|p| p.cross_values[0] += one),
        (0, &|p| p.cross_values[1] += one),
        (1, &|p| p.roots[0][0] ^= 1),
        (1, &|p| p.fold_rounds[0][1] += one),
        (1, &|p| p.final_message[0] += one),
    ];
    for (i, (before, change)) in changes.into_iter().enumerate() {
        let mut other = proof.clone();
        change(&mut other);
        let moved = drawn(&other);
        let same = [
            moved.0[0] == honest.0[0],
            moved.0[1] == honest.0[1],
            moved.1 == honest.1,
        ];
        assert_eq!(same, [before > 0, before > 0, false], "message {i}");
    }
}

/// Codes of different rates have no common domain after a fold.
#[test]
fn codes_of_different_rates_are_refused() {
    let mut case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    case.other.params.log_blowup = 3;
    case.other.columns = case.other.params.all();
    let (first, other) = (2, 3);
    assert_eq!(case.verify(&proof), Err(OpeningError::Rates { first, other }));
}

/// Columns are opened as a whole, and no others: their tiles contain the wanted ones, and less than a column more at
/// either end.
#[test]
fn opened_columns_hold_the_tiles() {
    for (tiles, log_message) in [(1, 12), (1, 14), (5, 12), (37, 14), (40, 15), (224, 16)] {
        let params = CommitmentParams {
            tiles,
            log_message,
            log_blowup: 1,
        };
        let column = 1 << params.log_column_tiles();
        for (start, end) in (0..tiles).flat_map(|start| (start + 1..=tiles).map(move |end| (start, end))) {
            let opened = params.columns_of(&(start..end), 0);
            let held = opened.tiles();
            assert!(
                held.start <= start && end <= held.end && held.end <= tiles,
                "{start}..{end}: {opened:?}"
            );
            assert!(
                start - held.start < column && held.end - end < column,
                "{start}..{end}: {opened:?}"
            );
            assert_eq!(held.start, opened.words()[0] as usize * column);
            assert_eq!(params.columns_of(&held, 0), opened);
        }
    }
}

/// A claim about some columns is none about others, wherever their window is, even if the tiles there were the same.
#[test]
fn other_columns_are_rejected() {
    let params = CommitmentParams {
        tiles: 24,
        log_message: 14,
        log_blowup: 2,
    };
    let mut case = Case::of_tiles(params, 8..16, 0);
    // Every column holds the same tiles.
    let tile = case.weights.0.bytes(0..4).to_vec();
    case.weights = Weights(PackedWeights::in_memory(WeightFormat::Int16, tile.repeat(6)));
    case.codeword = committed(&case.weights.0, &params);
    case.band_values = case.weights.band_values(&case.point)[8..16].to_vec();
    case.value = value(&case.gamma, &case.band_values);
    let proof = case.prove(&case.weights, &POLICY);
    assert_eq!(case.verify(&proof), Ok(()));
    for first in [0, 1, 3, 4] {
        let columns = said_columns(first, *case.columns.params(), case.columns.log_band());
        let verdict = case.verify_claim(
            &Claim {
                columns,
                ..case.claim()
            },
            &proof,
        );
        assert_eq!(verdict, Err(BAND_CLAIM), "first column {first}");
    }
}

/// An opening in bands of another length is about other evaluations: whoever reads it expects as many rounds as there are
/// bands, and a point in a band.
#[test]
fn other_bands_are_rejected() {
    let case = Case::banded();
    assert_eq!(case.verify(&case.prove(&case.weights, &POLICY)), Ok(()));
    for log_band in [0, 1, 3] {
        let other = Case::of_tiles(case.params, 0..12, log_band);
        if other.columns.check().is_err() {
            continue;
        }
        let proof = other.prove(&other.weights, &POLICY);
        assert_eq!(other.verify(&proof), Ok(()));
        let what = "band sumcheck";
        let (got, expected) = (4 - log_band as usize, 2);
        assert_eq!(case.verify(&proof), Err(OpeningError::Length { what, got, expected }));
        let (gamma, local_point) = (&other.gamma[..], &other.point[..]);
        for (gamma, point, what) in [
            (gamma, &case.point[..], "gamma"),
            (&case.gamma, local_point, "local point"),
        ] {
            let claim = Claim {
                gamma,
                point,
                ..case.claim()
            };
            let verdict = case.verify_claim(&claim, &proof);
            assert!(
                matches!(&verdict, Err(OpeningError::Length { what: own, .. }) if *own == what),
                "{log_band}: {verdict:?}"
            );
        }
    }
}

/// A model of the fixture's size with the activations of 64 rows of text.
#[test]
fn small_model_is_within_its_budget() {
    for (log_blowup, queries, limit) in [(2, 110, 200 << 10), (3, 90, 180 << 10)] {
        let params = params_at_rate(224, log_blowup);
        let policy = OpeningPolicy {
            queries,
            grind_bits: 16,
            challenge_bits: 8,
        };
        let case = Case::new(params).beside(400, 15);
        let start = Instant::now();
        let proof = case.prove(&case.weights, &policy);
        let opened = start.elapsed();
        let start = Instant::now();
        let verdict = case.verify_with(&policy, case.claim(), &proof, &mut transcript());
        let verified = start.elapsed();
        assert_eq!(verdict, Ok(()));
        let size = proof_bytes(&proof);
        println!("{params:?} {queries} queries: open {opened:?}, verify {verified:?}, {size} bytes");
        assert!(size < limit, "{size} bytes");
    }
}

#[test]
fn wrong_claims_are_rejected() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    assert_eq!(case.verify(&proof), Ok(()));
    let wrong = Claim {
        value: case.value + SecureField::one(),
        ..case.claim()
    };
    assert_eq!(case.verify_claim(&wrong, &proof), Err(BAND_CLAIM));
    let check = |params: &CommitmentParams, policy: &OpeningPolicy, root: &Digest, gamma: &[_], point: &[_]| {
        let claim = Claim {
            commitment: Commitment {
                params: *params,
                root: *root,
                ..case.claim().commitment
            },
            columns: params.all(),
            gamma,
            point,
            value: case.value,
        };
        case.verify_with(policy, claim, &proof, &mut transcript())
    };
    let (params, root) = (&case.params, case.codeword.root());
    for i in 0..case.gamma.len() {
        let mut gamma = case.gamma.clone();
        gamma[i] += SecureField::one();
        assert_eq!(check(params, &POLICY, root, &gamma, &case.point), Err(BAND_CLAIM));
    }
    for i in 0..12 {
        let mut point = case.point.clone();
        point[i] += SecureField::one();
        assert_eq!(check(params, &POLICY, root, &case.gamma, &point), Err(BAND_CLAIM));
    }
    let mut wrong_root = *root;
    wrong_root[31] ^= 1;
    assert!(check(params, &POLICY, &wrong_root, &case.gamma, &case.point).is_err());
    let policy = OpeningPolicy { queries: 31, ..POLICY };
    assert!(check(params, &policy, root, &case.gamma, &case.point).is_err());
    for wrong in [
        CommitmentParams { tiles: 6, ..*params },
        CommitmentParams {
            log_message: 14,
            ..*params
        },
        CommitmentParams {
            log_blowup: 3,
            ..*params
        },
    ] {
        assert!(
            check(&wrong, &POLICY, root, &case.gamma, &case.point).is_err(),
            "{wrong:?}"
        );
    }
    for (gamma, point) in [
        (&case.gamma[1..], &case.point[..]),
        (&case.gamma, &case.point[1..]),
        (&[], &[]),
    ] {
        let verdict = check(params, &POLICY, root, gamma, point);
        assert!(matches!(verdict, Err(OpeningError::Length { .. })), "{verdict:?}");
    }
}

#[test]
fn work_is_checked() {
    let case = Case::small();
    let policy = OpeningPolicy {
        grind_bits: 12,
        challenge_bits: 12,
        ..POLICY
    };
    let honest = case.prove(&case.weights, &policy);
    let check = |proof: &_| case.verify_with(&policy, case.claim(), proof, &mut transcript());
    assert_eq!(check(&honest), Ok(()));
    type Nonce = fn(&mut ProofParts) -> &mut u64;
    let nonces: [(&str, Nonce); 6] = [
        ("opening column work", |p| &mut p.codes[0].column_work[0]),
        ("opening column work", |p| {
            p.codes[1].column_work.last_mut().expect("columns")
        }),
        ("opening sum work", |p| &mut p.sum_work),
        ("opening fold work", |p| &mut p.fold_work[0]),
        ("opening fold work", |p| p.fold_work.last_mut().expect("folds")),
        ("opening work", |p| &mut p.nonce),
    ];
    for (i, (label, nonce)) in nonces.into_iter().enumerate() {
        // One nonce of 4,096 has the work, too: not both of the next ones.
        let missing = [1, 2].map(|more| {
            let mut proof = honest.clone();
            *nonce(&mut proof) += more;
            match check(&proof) {
                Err(OpeningError::Work(missing)) => missing.work.label == label,
                _ => false,
            }
        });
        assert!(missing.contains(&true), "nonce {i}");
    }
    for (list, what) in [(0, "work before weights of columns"), (1, "work before folds")] {
        let mut proof = honest.clone();
        match list {
            0 => proof.codes[0].column_work.pop(),
            _ => proof.fold_work.pop(),
        };
        let refused = check(&proof);
        assert!(
            matches!(refused, Err(OpeningError::Length { what: own, .. }) if own == what),
            "{refused:?}"
        );
    }
}

#[test]
fn prover_rejects_what_does_not_fit() {
    let case = Case::small();
    let wrong = CommitmentParams {
        tiles: 6,
        ..case.params
    };
    assert!(matches!(
        commit(SUITE, &case.weights.0, &wrong, Split::default(), None, &Silent),
        Err(OpeningProverError::Length { .. })
    ));
    let other = Claim {
        columns: wrong.all(),
        ..case.claim()
    };
    let result = case.open_beside(&case.weights, &other, &case.band_values, &POLICY);
    assert!(matches!(result, Err(OpeningProverError::CodewordParams { .. })));
    let result = case.open_beside(&Weights::random(6, 3), &case.claim(), &case.band_values, &POLICY);
    assert!(matches!(result, Err(OpeningProverError::Length { .. })));
}

#[test]
fn chosen_parameters_balance_the_proof() {
    assert_eq!(params_for(1).log_message, 12);
    for tiles in [1, 3, 224, 10_000, 300_000, 1 << 24] {
        let params = params_for(tiles);
        assert_eq!(params.check(), Ok(()));
        assert!(params.columns() << params.log_column_tiles() >= tiles);
        assert!(params.log_final() >= 6 && params.log_final() <= 8);
    }
    let params = params_for(224);
    let names = [CommitmentName::Weights, CommitmentName::Activations];
    let terms = terms(&names.map(|name| (name, params.all())), 0);
    assert!(terms.iter().all(|term| term.bits >= 99.9), "{terms:?}");
    assert_eq!(terms.len(), 6);
}
