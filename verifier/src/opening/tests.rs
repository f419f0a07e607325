use std::ops::Range;

use super::parts::{said_columns, Combined, Layout, OpeningPolicy};
use super::*;
use crate::hiding::{Hearing, Padded, Tape, TapeProof};
use crate::message::Unread;
use crate::policy::{
    parameter_words, CHALLENGE_GRIND_BITS, LOOKUP_GRIND_BITS, OPENING_GRIND_BITS, QUERY_BITS, STARK_FOLD_STEP,
    STARK_LOG_LAST_LAYER,
};
use crate::term::{Term, FIELD_BITS};
use crate::transcript::Transcript;
use num_traits::One;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::table_tree::TableArgument;

fn params(tiles: usize, log_message: u32, log_blowup: u32) -> CommitmentParams {
    CommitmentParams {
        tiles,
        log_message,
        log_blowup,
    }
}

/// Oracles are three folds apart, and the final message is what the last one leaves.
#[test]
fn oracles_are_three_folds_apart() {
    for (log_message, oracles, last) in [
        (12, &[11][..], 8),
        (13, &[12, 9], 6),
        (14, &[13, 10], 7),
        (15, &[14, 11], 8),
        (24, &[23, 20, 17, 14, 11], 8),
    ] {
        let own = params(1, log_message, 2);
        assert!(own.oracles().eq(oracles.iter().copied()), "{log_message}");
        assert_eq!(own.log_final(), last, "{log_message}");
    }
}

/// Columns, leaves and rounds of a commitment of 65 columns of 8 tiles, the last one not full.
#[test]
fn tiles_lie_in_columns() {
    let own = params(64 * 8 + 3, 15, 2);
    assert_eq!((own.log_column_tiles(), own.columns(), own.log_columns()), (3, 65, 7));
    assert_eq!((own.log_tiles(), own.log_codeword(), own.log_leaves()), (10, 17, 16));
    let of = |tiles: Range<usize>| {
        let opened = own.columns_of(&tiles, 0);
        (opened.first, opened.params.tiles, opened.tiles())
    };
    assert_eq!(of(0..1), (0, 8, 0..8));
    assert_eq!(of(7..9), (0, 16, 0..16));
    assert_eq!(of(8..16), (1, 8, 8..16));
    assert_eq!(of(500..515), (62, 19, 496..515));
    // Total, whatever the range.
    assert_eq!(of(600..600), (64, 3, 512..515));
}

/// Bands are not longer than a column, and columns and what is opened of them are made of whole ones.
#[test]
fn columns_are_made_of_bands() {
    let own = params(64 * 8 + 4, 15, 2);
    for (log_band, bands, rounds) in [(0, 496..516, 5), (1, 248..258, 4), (2, 124..129, 3)] {
        let opened = own.columns_of(&(500..516), log_band);
        assert_eq!((opened.check(), opened.log_band), (Ok(()), log_band));
        assert_eq!((opened.bands(), opened.log_bands()), (bands, rounds));
        assert_eq!(opened.log_area(), 12 + log_band);
    }
    for (log_message, expected) in [(12, 0), (13, 1), (14, 2), (15, 2)] {
        let opened = params(8, log_message, 2).columns_of(&(0..8), 2);
        assert_eq!((opened.check(), opened.log_band), (Ok(()), expected));
    }
    let opened = own.columns_of(&(0..8), 2);
    let long = said_columns(opened.first, opened.params, 4);
    let mut cut = opened;
    cut.params.tiles = 7;
    for (own, what, value, max) in [
        (long, "log2 of the tiles of a band", 4, 3),
        (cut, "number of tiles beyond the last band", 3, 0),
    ] {
        let min = 0;
        assert_eq!(own.check(), Err(OpeningError::OutOfRange { what, value, min, max }));
    }
}

/// The limits themselves are accepted, and nothing beyond them.
#[test]
fn commitments_and_policies_have_limits() {
    assert_eq!(params(1, 12, 1).check(), Ok(()));
    assert_eq!(params(1 << 24, 24, 4).check(), Ok(()));
    for (own, what, value, min, max) in [
        (params(0, 12, 1), "number of tiles", 0, 1, 1 << 24),
        (
            params((1 << 24) + 1, 12, 1),
            "number of tiles",
            (1 << 24) + 1,
            1,
            1 << 24,
        ),
        (params(1, 11, 1), "log2 of the message length", 11, 12, 24),
        (params(1, 25, 1), "log2 of the message length", 25, 12, 24),
        (params(1, 12, 0), "log2 of the blowup", 0, 1, 4),
        (params(1, 12, 5), "log2 of the blowup", 5, 1, 4),
    ] {
        assert_eq!(own.check(), Err(OpeningError::OutOfRange { what, value, min, max }));
    }
    let policy = |queries, grind_bits| {
        let challenge_bits = 0;
        OpeningPolicy {
            queries,
            grind_bits,
            challenge_bits,
        }
        .check()
    };
    assert_eq!((policy(1, 0), policy(4096, 32)), (Ok(()), Ok(())));
    for (queries, grind_bits) in [(0, 20), (4097, 20), (118, 33)] {
        assert_eq!(
            policy(queries, grind_bits),
            Err(OpeningError::Policy { queries, grind_bits })
        );
    }
}

fn terms_of(weights: OpenedColumns, activations: OpenedColumns) -> Vec<Term> {
    terms(
        &[
            (CommitmentName::Weights, weights),
            (CommitmentName::Activations, activations),
        ],
        0,
    )
}

/// Every rate that a key may have: enough queries, and not one more.
#[test]
fn queries_have_their_bits_at_every_rate() {
    for log_blowup in 1..=4 {
        let weights = params(1 << 16, 18, log_blowup);
        let policy = OpeningPolicy::at_rate(log_blowup);
        assert_eq!(policy.check(), Ok(()));
        let one = (2.0 / (1.0 + (-f64::from(log_blowup)).exp2())).log2();
        let bits = policy.queries as f64 * one;
        assert!((QUERY_BITS..QUERY_BITS + one).contains(&bits), "{bits}");
        let activations = CommitmentParams { tiles: 77, ..weights };
        let terms = terms_of(weights.all(), activations.all());
        assert_eq!(terms[0].bits, bits + f64::from(OPENING_GRIND_BITS));
        let queries = policy.queries as u32;
        let stark = [0, 3, 97, 20, STARK_FOLD_STEP, STARK_LOG_LAST_LAYER];
        let others = [
            [queries, policy.grind_bits, log_blowup, 18, 77].as_slice(),
            &[LOOKUP_GRIND_BITS, CHALLENGE_GRIND_BITS, 4],
        ]
        .concat();
        for (tables, first) in [(TableArgument::Stark, &stark[..]), (TableArgument::Gkr, &[1])] {
            assert_eq!(parameter_words(tables, activations.words()), [first, &others].concat());
        }
    }
}

/// Terms of an opening worked out by hand: folds of the longer code, whichever it is, the first one of the other and the sum, all by
/// the length that they leave, and the columns of each in half its own code.
#[test]
fn an_opening_counts_the_longer_code_once() {
    let of = |tiles: usize, log_message: u32| params(tiles, log_message, 2).all();
    // 224 tiles are 28 columns of 8, and 40 units as many columns.
    let (weights, activations) = (of(224, 15), of(40, 12));
    for [a, b] in [[weights, activations], [activations, weights]] {
        let terms = terms_of(a, b);
        let expected = |numerator: f64| FIELD_BITS - numerator.log2();
        let worked = |numerator: f64| expected(numerator) + 8.0;
        let bits: Vec<f64> = terms.iter().map(|term| term.bits).collect();
        let own = [worked(5.0 * 65_536.0), worked(6.0 * 8_192.0)];
        // Of both codes, of the sum of two, and after that: four folds are worked for.
        let (first, others) = (65_536.0 + 8_192.0 + 65_536.0 + 65_536.0, 4_096.0);
        // Rounds: 8 and 6 of bands, 6 down to 2^8 values.
        let rounds = expected(2.0 * 20.0 + 2.0);
        assert_eq!(bits[1..4], [worked(first), expected(others), rounds]);
        assert!(bits[4..] == own || bits[4..] == [own[1], own[0]], "{terms:?}");
    }
}

/// Every claim more is a first fold of its code, a degree of the curve that adds the columns, and one of that which adds the claims.
#[test]
fn every_claim_of_an_opening_counts() {
    let own = |claims: usize| {
        let opened = vec![(CommitmentName::Activations, params(224, 15, 2).all()); claims];
        terms(&opened, 0).iter().map(|term| term.bits).collect::<Vec<f64>>()
    };
    let expected = |numerator: f64| FIELD_BITS - numerator.log2();
    for (claims, folds, sumchecks) in [(1, 2.0, 28.0), (2, 4.0, 46.0), (4, 8.0, 82.0)] {
        let bits = own(claims);
        assert_eq!(
            bits[1..4],
            [expected(folds * 65_536.0) + 8.0, expected(4_096.0), expected(sumchecks)],
            "{claims} claims"
        );
        assert_eq!(bits.len(), 4 + claims);
    }
}

/// A list without claims is refused before anything is absorbed, and has no security.
#[test]
fn a_list_without_claims_is_refused() {
    let mut transcript = Transcript::new("lists");
    let refused = verify(&[], Unread::of(&OpeningProof::default()), &mut transcript);
    assert_eq!(refused, Err(OpeningError::NoClaims));
    assert_eq!(transcript.challenge("next"), Transcript::new("lists").challenge("next"));
    let bits: Vec<f64> = terms(&[], 0).iter().map(|term| term.bits).collect();
    assert_eq!(bits, [0.0]);
}

/// An opening under a mask needs exactly one commitment that has a mask, because mask and tape are committed to behind its columns.
#[test]
fn a_mask_has_one_commitment() {
    let tape = Tape {
        unused: 0,
        products: Vec::new(),
        messages: 0,
        cross: 0,
        entries: 0,
    };
    let (said, proof) = (TapeProof::default(), OpeningProof::default());
    let (point, gamma) = ([SecureField::one(); 12], [SecureField::one()]);
    let claim = |name| {
        let (params, root) = (params(1, 12, 2), [0; 32]);
        Claim {
            commitment: Commitment { name, params, root },
            columns: params.all(),
            point: &point,
            gamma: &gamma,
            value: Padded::from(SecureField::one()),
        }
    };
    let refusal = |names: &[CommitmentName]| {
        let claims: Vec<_> = names.iter().map(|name| claim(*name)).collect();
        let mut hearing = Hearing::new(Transcript::new("masks"), &tape).opening(Unread::of(&said));
        verify(&claims, Unread::of(&proof), &mut hearing).expect_err("an empty proof")
    };
    let (weights, activations) = (CommitmentName::Weights, CommitmentName::Activations);
    let (revealed, mask) = (CommitmentName::Revealed, CommitmentName::Mask);
    for none in [weights, revealed] {
        assert_eq!(refusal(&[none]), OpeningError::Mask { claims: 0 });
    }
    for twice in [
        [weights, activations, activations],
        [revealed, mask, mask],
        [activations, revealed, mask],
    ] {
        assert_eq!(refusal(&twice), OpeningError::Mask { claims: 2 });
    }
    for once in [[weights, activations], [revealed, mask]] {
        assert!(matches!(refusal(&once), OpeningError::Length { .. }));
    }
}

/// Every column has its own power of one challenge, every claim on their sum its own power of another one, which is drawn after it.
#[test]
fn claims_have_powers_of_their_own() {
    let mut transcript = Transcript::new("powers");
    let points: Vec<Vec<SecureField>> = (0..4).map(|i| vec![SecureField::from(i); 3]).collect();
    let combined = Combined::draw(points.clone(), 0, &mut transcript);
    let mut other = Transcript::new("powers");
    let [iota, theta] = ["opening sum", "opening points"].map(|label| other.challenge(label));
    assert!(iota != theta && ![iota, theta].contains(&SecureField::one()));
    let powers = |x: SecureField| [SecureField::one(), x, x * x, x * x * x];
    assert_eq!(combined.scales, powers(iota));
    let expected: Vec<_> = powers(theta).into_iter().zip(points).collect();
    assert_eq!(combined.points, expected);
    assert_eq!(transcript.challenge("next"), other.challenge("next"));
}
