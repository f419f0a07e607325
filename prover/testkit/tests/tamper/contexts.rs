//! Contexts that are changed, removed and added: a proof holds in its own only.

use tessera_circuits::model::WeightFormat;
use tessera_circuits::statement::HiddenIds;
use tessera_prover::hiding::TapeKey;
use tessera_testkit::{odd_config, random_ids, random_model, reworked, TestModel};
use tessera_verifier::codec::{CodecError, FileKind};
use tessera_verifier::context::Context;
use tessera_verifier::gkr::GkrError;
use tessera_verifier::key::ModelKey;
use tessera_verifier::opening::OpeningError;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;
use tessera_verifier::verify::{verify_bytes, VerifyError};

/// Where the context begins in a file.
const PLACE: usize = 12;

fn context(byte: u8) -> Context {
    Context::try_from([byte; 32]).expect("a context")
}

/// Gains what somebody else is paid for a proof, who tied it to his address.
#[test]
fn a_context_is_not_changed_removed_or_added() {
    let config = odd_config();
    for suite in Suite::ALL {
        let model = TestModel::of_suite(suite, random_model(config.clone(), WeightFormat::Int16, 7));
        let prompt = random_ids(&config, 4, 3);
        for layers in [vec![config.layers], vec![1; config.layers]] {
            let chunks = |context| model.prove_chunks_in(context, &prompt, 3, &layers);
            is_bound(&model.key, &chunks);
        }
        let hidden = |context| model.prove_hidden((&TapeKey::of_test(5), &HiddenIds::default()), context, &prompt, 3);
        is_bound(&model.key, &hidden);
    }
}

/// Asserts it of what proves a statement in a context and in none.
fn is_bound(key: &ModelKey, prove: &dyn Fn(Option<Context>) -> Proof) {
    let (plain, own) = (prove(None), prove(Some(context(1))));
    let held = |proof: &Proof| verify_bytes(key, &proof.to_bytes().expect("a file"));
    assert_eq!(held(&plain).expect("an honest proof").context, None);
    assert_eq!(held(&own).expect("an honest proof").context, Some(context(1)));
    for (proof, other) in [(&own, Some(context(2))), (&own, None), (&plain, Some(context(1)))] {
        let changed = Proof {
            context: other,
            ..proof.clone()
        };
        // Without the work before the lookups the change is found even earlier.
        assert!(held(&changed).is_err());
        let result = held(&reworked(key, changed));
        // The folding proves all equations of a proof that hides.
        let hides = proof.hidden.is_some();
        assert!(
            matches!(result, Err(VerifyError::Gkr(GkrError::Layer { .. })) if !hides)
                || matches!(result, Err(VerifyError::Opening(OpeningError::FoldClaim)) if hides),
            "{:?} as {other:?}: {result:?}",
            proof.context
        );
    }
}

/// Gains a second file of one proof, or a context that contracts take for none.
#[test]
fn files_say_whether_they_have_a_context() {
    let config = odd_config();
    let model = TestModel::new(random_model(config.clone(), WeightFormat::Int8, 7));
    let proof = model.prove_chunks_in(Some(context(1)), &random_ids(&config, 4, 3), 3, &[config.layers]);
    let bytes = proof.to_bytes().expect("a file");
    let plain = Proof { context: None, ..proof };
    let without = plain.to_bytes().expect("a file");
    assert_eq!(bytes[PLACE..PLACE + 32], [1; 32]);
    assert_eq!(bytes[PLACE + 32..], without[PLACE..]);

    let version =
        |bytes: &[u8], kind: FileKind| [&kind.magic(), &kind.version().to_le_bytes()[..], &bytes[PLACE..]].concat();
    for other in [
        version(&bytes, FileKind::PROOF),
        version(&without, FileKind::proof(true, false)),
    ] {
        assert!(Proof::from_bytes(&other).is_err());
    }
    let mut zeros = bytes.clone();
    zeros[PLACE..PLACE + 32].fill(0);
    assert!(matches!(Proof::from_bytes(&zeros), Err(CodecError::Malformed { .. })));
    for length in [8, PLACE, PLACE + 16, PLACE + 32] {
        let result = Proof::from_bytes(&bytes[..length]).map(drop);
        let kind = if length < PLACE {
            FileKind::PROOF
        } else {
            FileKind::proof(true, false)
        };
        assert_eq!(result, Err(CodecError::Truncated { kind }));
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(
        Proof::from_bytes(&longer),
        Err(CodecError::TrailingBytes { count: 1, .. })
    ));
}
