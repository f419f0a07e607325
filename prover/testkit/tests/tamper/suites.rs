//! Suites that are exchanged: proofs of one under the key of the other, and keys that say another suite than they were
//! made with.

use tessera_circuits::table_tree::TableArgument;
use tessera_testkit::reworked;
use tessera_verifier::gkr::GkrError;
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;
use tessera_verifier::tables::TablesError;
use tessera_verifier::verify::{verify, VerifyError};

use crate::{gkr, honest, keccak, Honest};

/// A proof that says to be about the model of a key.
fn naming(key: &ModelKey, proof: &Proof) -> Proof {
    Proof {
        model: key.id().expect("an id"),
        ..proof.clone()
    }
}

/// Gains statements about a model whose weights are committed to with another hash.
#[test]
fn a_proof_of_one_suite_is_refused_under_the_key_of_the_other() {
    let ([own, _], [other, _]) = (gkr(), keccak());
    assert_eq!(own.key.params, other.key.params, "one model under two suites");
    for (Honest { key, .. }, Honest { proof, .. }) in [(own, other), (other, own)] {
        let result = verify(key, proof);
        assert!(matches!(result, Err(VerifyError::OtherModel { .. })), "{result:?}");
        // What was drawn from the transcript of the other suite, with the work of that and of this one.
        let named = naming(key, proof);
        let result = verify(key, &named);
        assert!(matches!(result, Err(VerifyError::Work(_))), "{result:?}");
        let result = verify(key, &reworked(key, named));
        assert!(
            matches!(result, Err(VerifyError::Gkr(GkrError::Layer { .. }))),
            "{result:?}"
        );
    }
}

/// Gains the weaker one of two suites, whichever that would be: the roots of a key stay, its suite does not.
#[test]
fn a_key_that_says_another_suite_accepts_no_proof() {
    for [Honest { key, proof, .. }, _] in [gkr(), keccak()] {
        let [suite] = Suite::ALL
            .into_iter()
            .filter(|s| *s != key.header.hash_suite)
            .collect::<Vec<_>>()[..]
        else {
            panic!("two suites");
        };
        let mut other = key.clone();
        other.header.hash_suite = suite;
        other.check().expect("a key of the other suite");
        assert_ne!(other.id().expect("an id"), key.id().expect("an id"));
        let result = verify(&other, proof);
        assert!(matches!(result, Err(VerifyError::OtherModel { .. })), "{result:?}");
        let result = verify(&other, &reworked(&other, naming(&other, proof)));
        assert!(
            matches!(result, Err(VerifyError::Gkr(GkrError::Layer { .. }))),
            "{result:?}"
        );
    }
}

/// Gains the weaker one of two ways to prove the tables, whichever that would be: a proof of one way under a key of the other, with what the
/// other way asks for, and a key that says another way than it was made with.
#[test]
fn a_proof_of_one_way_is_refused_under_a_key_of_the_other() {
    let ([stark, _], [gkr, _]) = (honest(), gkr());
    assert_eq!(stark.key.params, gkr.key.params, "one model under two ways");
    for (Honest { key, proof: right, .. }, Honest { proof, .. }) in [(stark, gkr), (gkr, stark)] {
        let result = verify(key, proof);
        assert!(matches!(result, Err(VerifyError::OtherModel { .. })), "{result:?}");
        let named = naming(key, proof);
        let result = verify(key, &named);
        let expected = key.table_argument();
        let caught = |result: &Result<_, VerifyError>| {
            matches!(result, Err(VerifyError::Tables(TablesError::Argument { got, expected: own }))
                if *own == expected && *got != expected)
        };
        assert!(caught(&result), "{result:?}");
        // Of one chunk alone, and with everything else as it should be.
        for chunk in 0..right.chunks.len() {
            let mut other = right.clone();
            other.chunks[chunk].tables = proof.chunks[chunk].tables.clone();
            let result = verify(key, &other);
            assert!(caught(&result), "{result:?}");
        }
        // With what the key asks for, what was drawn from the transcript of the other way.
        let mut other = named;
        for (chunk, right) in other.chunks.iter_mut().zip(&right.chunks) {
            chunk.tables = right.tables.clone();
        }
        let result = verify(key, &reworked(key, other));
        assert!(matches!(result, Err(VerifyError::Gkr(_))), "{result:?}");
        let mut key = key.clone();
        key.header.tables = 1 - key.header.tables;
        key.tables_root = match key.table_argument() {
            TableArgument::Gkr => [0; 32],
            TableArgument::Stark => stark.key.tables_root,
        };
        let result = verify(&key, &naming(&key, right));
        assert!(
            matches!(result, Err(VerifyError::Tables(TablesError::Argument { .. }))),
            "{result:?}"
        );
    }
}
