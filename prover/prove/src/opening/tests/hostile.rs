//! Tampered and malformed proofs, and cheating provers.

use num_traits::One;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::parts::{
    hash_base_leaf, said_columns, CodeOpening, Layout, OpeningPolicy, ProofParts, FIBRE,
};
use tessera_verifier::opening::{Claim, Commitment, CommitmentParams, OpeningError, TreeName};

use super::super::prove::{begin, value};
use super::super::tree::SUBTREE_LOG;
use super::super::{Codeword, CommittedWeights, ProverClaim, Tree, TILE_AREA};
use super::{transcript, Case, Random, Weights, POLICY, SUITE};
use crate::trees;
use tessera_circuits::model::WeightFormat;
use tessera_kernels::table::Table;
use tessera_model::tiles::tile_bytes;
use tessera_model::weights::PackedWeights;

/// Why words that are not those of the commitment are refused: the first oracle is not made of the opened leaves.
const FIRST_ORACLE: OpeningError = OpeningError::Root {
    tree: TreeName::Oracle(0),
};

/// What an opening has of one of its commitments.
type Part = fn(&mut ProofParts) -> &mut CodeOpening;

/// Every field element, digest byte and nonce of a proof matters.
#[test]
fn tampered_proofs_are_rejected() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    let one = SecureField::one();
    let reject = |name: &str, tamper: &dyn Fn(&mut ProofParts)| {
        let mut tampered = proof.clone();
        tamper(&mut tampered);
        assert_ne!(tampered, proof, "{name}");
        assert!(case.verify(&tampered).is_err(), "{name}");
    };
    let parts: [(&str, Part); 2] = [("weights", |p| &mut p.codes[0]), ("activations", |p| &mut p.codes[1])];
    for (name, of) in parts {
        let own = of(&mut proof.clone()).clone();
        for i in 0..own.band_rounds.len() {
            reject(name, &|p| of(p).band_rounds[i][0] += one);
            reject(name, &|p| of(p).band_rounds[i][1] += one);
        }
        reject(name, &|p| of(p).band_value += one);
        for i in 0..own.rows.values.len() {
            reject(name, &|p| of(p).rows.values[i] += BaseField::one());
        }
        for i in 0..own.rows.path.len() {
            reject(name, &|p| of(p).rows.path[i][i % 32] ^= 1);
        }
    }
    for i in 0..2 {
        reject("cross value", &|p| p.cross_values[i] += one);
    }
    reject("cross values swapped", &|p| p.cross_values.swap(0, 1));
    for i in 0..proof.fold_rounds.len() {
        reject("fold round", &|p| p.fold_rounds[i][0] += one);
        reject("fold round", &|p| p.fold_rounds[i][1] += one);
    }
    for i in 0..proof.final_message.len() {
        reject("final message", &|p| p.final_message[i] += one);
    }
    reject("nonce", &|p| p.nonce ^= 1);
    for o in 0..proof.oracles.len() {
        reject("root", &|p| p.roots[o][o] ^= 0x80);
        for i in 0..proof.oracles[o].values.len() {
            reject("oracle leaf", &|p| p.oracles[o].values[i] += one);
        }
        for i in 0..proof.oracles[o].path.len() {
            reject("oracle path", &|p| p.oracles[o].path[i][i % 32] ^= 1);
        }
    }
    reject("swapped roots", &|p| p.roots.swap(0, 1));
    reject("swapped oracles", &|p| p.oracles.swap(0, 1));
    reject("swapped commitments", &|p| p.codes.swap(0, 1));
}

/// Changes the length of a sequence.
fn resize<T: Clone + Default>(v: &mut Vec<T>, how: usize) {
    match how {
        0 => drop(v.pop()),
        1 => v.push(T::default()),
        2 => v.clear(),
        3 => v.resize(v.len() * 2 + 1, T::default()),
        _ => v.resize(1 << 16, T::default()),
    }
}

#[test]
fn hostile_lengths_are_errors() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    for how in 0..5 {
        for field in 0..12 + 2 * proof.oracles.len() {
            let mut hostile = proof.clone();
            match field {
                0 => resize(&mut hostile.codes[0].band_rounds, how),
                1 => resize(&mut hostile.codes[1].band_rounds, how),
                2 => resize(&mut hostile.cross_values, how),
                3 => resize(&mut hostile.fold_rounds, how),
                4 => resize(&mut hostile.roots, how),
                5 => resize(&mut hostile.final_message, how),
                6 => resize(&mut hostile.oracles, how),
                7 => resize(&mut hostile.codes[0].rows.values, how),
                8 => resize(&mut hostile.codes[0].rows.path, how),
                9 => resize(&mut hostile.codes[1].rows.values, how),
                10 => resize(&mut hostile.codes[1].rows.path, how),
                11 => resize(&mut hostile.codes, how),
                _ if field % 2 == 0 => resize(&mut hostile.oracles[(field - 12) / 2].values, how),
                _ => resize(&mut hostile.oracles[(field - 12) / 2].path, how),
            }
            let cause = match case.verify(&hostile) {
                Err(OpeningError::Length { .. }) => 0,
                Err(OpeningError::OpenedValues { .. }) => 1,
                Err(OpeningError::PathTooShort { .. } | OpeningError::PathTooLong { .. }) => 2,
                other => panic!("field {field}, change {how}: {other:?}"),
            };
            let expected = match field {
                0..=6 | 11 => 0,
                7 | 9 => 1,
                8 | 10 => 2,
                _ => 1 + field % 2,
            };
            assert_eq!(cause, expected, "field {field}, change {how}");
        }
    }
    assert!(case.verify(&ProofParts::default()).is_err());
}

#[test]
fn numbers_beyond_the_modulus_are_errors() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    for bad in [P, P + 1, u32::MAX] {
        let (base, secure) = (
            BaseField::from_u32_unchecked(bad),
            SecureField::from_u32_unchecked(0, 0, bad, 0),
        );
        for field in 0..8 {
            let mut hostile = proof.clone();
            match field {
                0 => hostile.codes[0].band_rounds[1][1] = secure,
                1 => hostile.codes[1].band_value = secure,
                2 => hostile.cross_values[1] = secure,
                3 => hostile.fold_rounds[3][0] = secure,
                4 => hostile.final_message[2] = secure,
                5 => hostile.codes[0].rows.values[5] = base,
                6 => hostile.codes[1].rows.values[5] = base,
                _ => hostile.oracles[1].values[3] = secure,
            }
            let verdict = case.verify(&hostile);
            assert!(
                matches!(verdict, Err(OpeningError::NotCanonical(_))),
                "field {field}: {verdict:?}"
            );
        }
    }
}

#[test]
fn bad_parameters_are_errors() {
    let case = Case::small();
    let proof = case.prove(&case.weights, &POLICY);
    for (tiles, log_message, log_blowup) in [
        (0, 13, 2),
        (usize::MAX, 13, 2),
        (5, 0, 2),
        (5, 11, 2),
        (5, u32::MAX, 2),
        (5, 13, 0),
        (5, 13, u32::MAX),
    ] {
        let params = CommitmentParams {
            tiles,
            log_message,
            log_blowup,
        };
        let claim = case.claim();
        let commitment = Commitment {
            params,
            ..claim.commitment
        };
        let columns = said_columns(0, params, 0);
        for own in [Claim { commitment, ..claim }, Claim { columns, ..claim }] {
            let verdict = case.verify_with(&POLICY, own, &proof, &mut transcript());
            assert!(
                matches!(verdict, Err(OpeningError::OutOfRange { .. })),
                "{params:?}: {verdict:?}"
            );
        }
    }
    for (queries, grind_bits) in [(0, 0), (usize::MAX, 0), (30, 33), (30, u32::MAX)] {
        let policy = OpeningPolicy {
            queries,
            grind_bits,
            challenge_bits: 0,
        };
        let verdict = case.verify_with(&policy, case.claim(), &proof, &mut transcript());
        assert_eq!(verdict, Err(OpeningError::Policy { queries, grind_bits }));
    }
}

/// Bands that are longer than a column, or not full, cannot be opened.
#[test]
fn bad_bands_are_errors() {
    let case = Case::banded();
    let proof = case.prove(&case.weights, &POLICY);
    for log_band in [3, 4, 63, 64, u32::MAX] {
        let [first, ..] = case.columns.words();
        let claim = Claim {
            columns: said_columns(first as usize, *case.columns.params(), log_band),
            ..case.claim()
        };
        let verdict = case.verify_claim(&claim, &proof);
        let what = match log_band {
            3 => "number of tiles beyond the last band",
            _ => "log2 of the tiles of a band",
        };
        assert!(
            matches!(verdict, Err(OpeningError::OutOfRange { what: own, .. }) if own == what),
            "{log_band}: {verdict:?}"
        );
    }
}

/// A proof about other weights, honest but for the commitment, fails at the virtual oracle.
#[test]
fn other_weights_do_not_open_the_commitment() {
    for case in Case::all() {
        let mut bytes = case.weights.0.all().to_vec();
        bytes[3 * tile_bytes(WeightFormat::Int16) + 17] ^= 1;
        let other = Weights(PackedWeights::in_memory(WeightFormat::Int16, bytes));
        let claim = Claim {
            value: value(&case.gamma, &other.band_values(&case.point)),
            ..case.claim()
        };
        assert_ne!(claim.value, case.value);
        let verdict = case.verify_claim(&claim, &case.prove(&other, &POLICY));
        assert_eq!(verdict, Err(FIRST_ORACLE));
    }
}

/// A commitment to words that are no codewords cannot be opened as anything, neither the weights nor the activations, whichever
/// are longer.
#[test]
fn far_words_are_rejected() {
    for mut case in Case::all() {
        let mut random = Random(21);
        // One batch of a few columns in these cases, so the file is the leaves in order.
        let share = case.params.columns() * FIBRE;
        let words: Vec<_> = (0..share << case.params.log_leaves()).map(|_| random.base()).collect();
        let levels = trees::levels(
            SUITE,
            words.chunks(share).map(|leaf| hash_base_leaf(SUITE, leaf)).collect(),
        );
        let tree = Tree::new(SUITE, levels[SUBTREE_LOG as usize].clone());
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.0.to_le_bytes()).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        case.codeword = Codeword::with_file(case.params, tree, file.path()).unwrap();
        let zeros = vec![0; case.params.tiles * TILE_AREA];
        for source in [case.weights.clone(), Weights::new(&zeros)] {
            let values = &source.band_values(&case.point)[case.columns.bands()];
            let claim = Claim {
                value: value(&case.gamma, values),
                ..case.claim()
            };
            let verdict = case.verify_claim(&claim, &case.prove(&source, &POLICY));
            assert_eq!(verdict, Err(FIRST_ORACLE));
        }
    }
}

/// A prover that changes the message after it committed to an oracle, so that the sumcheck still holds,
/// is caught at the next oracle, or at the final message after the last one.
#[test]
fn skipped_folding_is_rejected() {
    let case = Case::new(CommitmentParams {
        tiles: 8,
        log_message: 15,
        log_blowup: 2,
    });
    for (cheat_at, caught) in [
        (14, "oracle 0"),
        (12, "oracle 1"),
        (11, "oracle 1"),
        (8, "final message"),
        (0, ""),
    ] {
        let mut transcript = transcript();
        let mut own = CommittedWeights::new(&case.weights.0, &case.codeword, Table::new(0)).unwrap();
        let mut other = CommittedWeights::new(&case.other.weights.0, &case.other.codeword, Table::new(0)).unwrap();
        let weights = ProverClaim {
            committed: &mut own,
            claim: case.claim(),
            values: &case.band_values,
        };
        let activations = ProverClaim {
            committed: &mut other,
            claim: case.other.claim(),
            values: &case.other.band_values,
        };
        let mut claims = [weights, activations];
        let (mut folding, start) = begin(&POLICY, &mut claims, None, &mut transcript).unwrap();
        loop {
            if folding.variables() == cheat_at {
                folding.message.cheat();
            }
            folding.commit(&mut transcript);
            if folding.variables() == case.long().log_final() {
                break;
            }
            folding.round(&mut transcript);
        }
        let proof = folding.finish(&mut claims, &mut transcript, start).unwrap();
        let verdict = case.verify(&proof);
        match caught {
            "" => assert_eq!(verdict, Ok(())),
            _ => assert!(
                verdict.as_ref().is_err_and(|e| e.to_string().contains(caught)),
                "{cheat_at}: {verdict:?}"
            ),
        }
    }
}
