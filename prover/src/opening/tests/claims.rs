//! Honest openings, wrong claims, sizes.

use std::time::Instant;

use num_traits::One;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::merkle::Digest;
use tessera_verifier::opening::{soundness_terms, verify, CommitmentParams, OpeningError, OpeningPolicy};

use super::super::{commit, open, open_again, OpeningProverError, Split};
use super::{committed, proof_bytes, transcript, Case, Random, Weights, POLICY};
use crate::progress::Silent;

#[test]
fn honest_openings_are_accepted() {
    for (tiles, log_message, log_blowup) in [
        (1, 12, 1),
        (1, 13, 2),
        (2, 12, 2),
        (3, 12, 2),
        (3, 14, 1),
        (5, 13, 3),
        (17, 12, 2),
        (37, 14, 2),
        (40, 15, 2),
    ] {
        let case = Case::new(CommitmentParams {
            tiles,
            log_message,
            log_blowup,
        });
        let (mut ours, mut theirs) = (transcript(), transcript());
        let (params, gamma, point) = (&case.params, &case.gamma, &case.point);
        let proof = open(
            &case.weights.0,
            &case.codeword,
            params,
            &POLICY,
            gamma,
            &case.tile_values,
            point,
            &mut ours,
        )
        .unwrap();
        let root = case.codeword.root();
        let verdict = verify(params, &POLICY, root, gamma, point, case.value, &proof, &mut theirs);
        assert_eq!(verdict, Ok(()), "{params:?}");
        assert_eq!(ours.challenge("end"), theirs.challenge("end"), "{params:?}");
    }
}

#[test]
fn every_skipped_nonce_gives_another_valid_proof() {
    let case = Case::small();
    let proofs = [0, 1, 2].map(|skip| {
        open_again(
            &case.weights.0,
            &case.codeword,
            &case.params,
            &POLICY,
            &case.gamma,
            &case.tile_values,
            &case.point,
            skip,
            &mut transcript(),
        )
        .unwrap()
        .0
    });
    for proof in &proofs {
        assert_eq!(case.verify(proof), Ok(()));
    }
    let [a, b, c] = proofs.map(|proof| proof.nonce);
    assert!(a < b && b < c);
}

#[test]
fn small_model_is_within_its_budget() {
    for (log_blowup, queries, limit) in [(2, 110, 160 << 10), (3, 90, 150 << 10)] {
        let params = CommitmentParams::with_blowup(224, log_blowup);
        let policy = OpeningPolicy { queries, work_bits: 16 };
        let weights = Weights::random(224, 7);
        let start = Instant::now();
        let codeword = committed(&weights.0, &params);
        let commitment = start.elapsed();
        let mut random = Random(11);
        let (gamma, point) = (random.secures(224), random.secures(12));
        let values = weights.tile_values(&point);
        let value = gamma.iter().zip(&values).map(|(&g, &w)| g * w).sum();
        let start = Instant::now();
        let proof = open(
            &weights.0,
            &codeword,
            &params,
            &policy,
            &gamma,
            &values,
            &point,
            &mut transcript(),
        )
        .unwrap();
        let opened = start.elapsed();
        let start = Instant::now();
        let verdict = verify(
            &params,
            &policy,
            codeword.root(),
            &gamma,
            &point,
            value,
            &proof,
            &mut transcript(),
        );
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
    assert_eq!(
        case.verify_value(case.value + SecureField::one(), &proof),
        Err(OpeningError::TileClaim)
    );
    let check = |params: &CommitmentParams, policy: &OpeningPolicy, root: &Digest, gamma: &[_], point: &[_]| {
        verify(
            params,
            policy,
            root,
            gamma,
            point,
            case.value,
            &proof,
            &mut transcript(),
        )
    };
    let (params, root) = (&case.params, case.codeword.root());
    for i in 0..case.gamma.len() {
        let mut gamma = case.gamma.clone();
        gamma[i] += SecureField::one();
        assert_eq!(
            check(params, &POLICY, root, &gamma, &case.point),
            Err(OpeningError::TileClaim)
        );
    }
    for i in 0..12 {
        let mut point = case.point.clone();
        point[i] += SecureField::one();
        assert_eq!(
            check(params, &POLICY, root, &case.gamma, &point),
            Err(OpeningError::TileClaim)
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
    let (root, gamma, point) = (case.codeword.root(), &case.gamma, &case.point);
    let check = |proof: &_| {
        verify(
            &case.params,
            &policy,
            root,
            gamma,
            point,
            case.value,
            proof,
            &mut transcript(),
        )
    };
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
    let (source, values, point) = (&case.weights.0, &case.tile_values, &case.point);
    let result = open(
        source,
        &case.codeword,
        &wrong,
        &POLICY,
        &case.gamma,
        values,
        point,
        &mut transcript(),
    );
    assert!(matches!(result, Err(OpeningProverError::CodewordParams { .. })));
}

#[test]
fn chosen_parameters_balance_the_proof() {
    assert_eq!(CommitmentParams::for_tiles(1).log_message, 12);
    for tiles in [1, 3, 224, 10_000, 300_000, 1 << 24] {
        let params = CommitmentParams::for_tiles(tiles);
        assert_eq!(params.check(), Ok(()));
        assert!(params.columns() << params.log_column_tiles() >= tiles);
        assert!(params.log_final() >= 3 && params.log_final() <= 5);
    }
    let params = CommitmentParams::for_tiles(224);
    let terms = soundness_terms(
        &params,
        &OpeningPolicy {
            queries: 118,
            work_bits: 20,
        },
    );
    assert!(terms.iter().all(|(_, bits)| *bits >= 99.9), "{terms:?}");
    assert_eq!(terms.len(), 4);
}
