//! Honest openings, wrong claims, sizes.

use crate::prove::opening::{params_at_rate, params_for};
use std::time::Instant;

use num_traits::One;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::WeightFormat;
use tessera_verifier::ledger::soundness_terms;
use tessera_verifier::opening::merkle::Digest;
use tessera_verifier::opening::{verify, CommitmentParams, OpenedColumns, OpeningClaim, OpeningError};
use tessera_verifier::policy::OpeningPolicy;

use super::super::{commit, open, value, OpeningProverError, Split};
use super::{committed, proof_bytes, transcript, Case, Random, Weights, POLICY};
use crate::model::tiles::TileSource;
use crate::model::weights::PackedWeights;
use crate::support::pages::Table;
use crate::support::progress::Silent;

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
            let (source, values) = (&case.weights.0, &case.band_values);
            let (proof, _) = open(
                source,
                &case.codeword,
                &POLICY,
                &case.claim(),
                values,
                Table::default(),
                &mut ours,
            )
            .unwrap();
            let root = case.codeword.root();
            let verdict = verify(&params, &POLICY, root, &case.claim(), &proof, &mut theirs);
            assert_eq!(verdict, Ok(()), "{params:?}, {opened:?}");
            assert_eq!(ours.challenge("end"), theirs.challenge("end"), "{params:?}, {opened:?}");
        }
    }
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
            assert_eq!(held.start, opened.first * column);
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
        let columns = OpenedColumns { first, ..case.columns };
        let verdict = case.verify_claim(
            &OpeningClaim {
                columns,
                ..case.claim()
            },
            &proof,
        );
        assert_eq!(verdict, Err(OpeningError::BandClaim), "first column {first}");
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
            let claim = OpeningClaim {
                gamma,
                local_point: point,
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

#[test]
fn small_model_is_within_its_budget() {
    for (log_blowup, queries, limit) in [(2, 110, 160 << 10), (3, 90, 150 << 10)] {
        let params = params_at_rate(224, log_blowup);
        let policy = OpeningPolicy { queries, work_bits: 16 };
        let weights = Weights::random(224, 7);
        let start = Instant::now();
        let codeword = committed(&weights.0, &params);
        let commitment = start.elapsed();
        let mut random = Random(11);
        let (gamma, point) = (random.secures(224), random.secures(12));
        let values = weights.band_values(&point);
        let claim = OpeningClaim {
            columns: params.columns_of(&(0..224), 0),
            gamma: &gamma,
            local_point: &point,
            value: value(&gamma, &values),
        };
        let start = Instant::now();
        let (proof, _) = open(
            &weights.0,
            &codeword,
            &policy,
            &claim,
            &values,
            Table::default(),
            &mut transcript(),
        )
        .unwrap();
        let opened = start.elapsed();
        let start = Instant::now();
        let verdict = verify(&params, &policy, codeword.root(), &claim, &proof, &mut transcript());
        let verified = start.elapsed();
        assert_eq!(verdict, Ok(()));
        let size = proof_bytes(&proof);
        println!(
            "{params:?} {queries} queries: commit {commitment:?}, open {opened:?}, verify {verified:?}, {size} bytes"
        );
        assert!(size < limit, "{size} bytes");
    }
}

#[test]
fn wrong_claims_are_rejected() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    assert_eq!(case.verify(&proof), Ok(()));
    let wrong = OpeningClaim {
        value: case.value + SecureField::one(),
        ..case.claim()
    };
    assert_eq!(case.verify_claim(&wrong, &proof), Err(OpeningError::BandClaim));
    let check = |params: &CommitmentParams, policy: &OpeningPolicy, root: &Digest, gamma: &[_], point: &[_]| {
        let claim = OpeningClaim {
            columns: params.columns_of(&(0..params.tiles), 0),
            gamma,
            local_point: point,
            value: case.value,
        };
        verify(params, policy, root, &claim, &proof, &mut transcript())
    };
    let (params, root) = (&case.params, case.codeword.root());
    for i in 0..case.gamma.len() {
        let mut gamma = case.gamma.clone();
        gamma[i] += SecureField::one();
        assert_eq!(
            check(params, &POLICY, root, &gamma, &case.point),
            Err(OpeningError::BandClaim)
        );
    }
    for i in 0..12 {
        let mut point = case.point.clone();
        point[i] += SecureField::one();
        assert_eq!(
            check(params, &POLICY, root, &case.gamma, &point),
            Err(OpeningError::BandClaim)
        );
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
        work_bits: 12,
        ..POLICY
    };
    let mut proof = case.prove(&case.weights, &policy);
    let root = case.codeword.root();
    let check = |proof: &_| verify(&case.params, &policy, root, &case.claim(), proof, &mut transcript());
    assert_eq!(check(&proof), Ok(()));
    proof.nonce += 1;
    assert_eq!(
        check(&proof),
        Err(OpeningError::Work {
            bits: 12,
            nonce: proof.nonce
        })
    );
}

#[test]
fn prover_rejects_what_does_not_fit() {
    let case = Case::small();
    let wrong = CommitmentParams {
        tiles: 6,
        ..case.params
    };
    assert!(matches!(
        commit(&case.weights.0, &wrong, Split::default(), None, &Silent),
        Err(OpeningProverError::Length { .. })
    ));
    let (source, values) = (&case.weights.0, &case.band_values);
    let columns = wrong.columns_of(&(0..wrong.tiles), 0);
    let other = OpeningClaim {
        columns,
        ..case.claim()
    };
    let result = open(
        source,
        &case.codeword,
        &POLICY,
        &other,
        values,
        Table::default(),
        &mut transcript(),
    );
    assert!(matches!(result, Err(OpeningProverError::CodewordParams { .. })));
}

#[test]
fn chosen_parameters_balance_the_proof() {
    assert_eq!(params_for(1).log_message, 12);
    for tiles in [1, 3, 224, 10_000, 300_000, 1 << 24] {
        let params = params_for(tiles);
        assert_eq!(params.check(), Ok(()));
        assert!(params.columns() << params.log_column_tiles() >= tiles);
        assert!(params.log_final() >= 3 && params.log_final() <= 5);
    }
    let params = params_for(224);
    let terms = soundness_terms(
        &params.columns_of(&(0..224), 0),
        &OpeningPolicy {
            queries: 118,
            work_bits: 20,
        },
    );
    assert!(terms.iter().all(|(_, bits)| *bits >= 99.9), "{terms:?}");
    assert_eq!(terms.len(), 4);
}
