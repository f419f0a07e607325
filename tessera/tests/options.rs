//! The library does everything that options ask for, or refuses it by name.

use std::path::{Path, PathBuf};

use tempfile::{tempdir, TempDir};
use tessera::batch::{self, BatchOutcome};
use tessera::circuits::statement::{HiddenIds, Statement, HIDDEN};
use tessera::circuits::table_tree::TableArgument;
use tessera::verifier::suite::Suite;
use tessera::verifier::verify::verify;
use tessera::work::WorkError;
use tessera::{Error, Model, Options, SetupOptions, Silent};
use tessera_samples::{names, FIXTURE};

/// The output, hidden.
const OUTPUT: HiddenIds = HiddenIds {
    prompt: None,
    output: true,
};

/// The bundled checkpoint, set up so that its proofs can hide activations and contracts verify them.
fn model() -> (TempDir, PathBuf) {
    let dir = tempdir().expect("a directory");
    let path = dir.path().join("model");
    let options = SetupOptions {
        suite: Suite::Keccak,
        tables: Some(TableArgument::Gkr),
        skip_fidelity: true,
        ..SetupOptions::default()
    };
    Model::setup(FIXTURE, &path, &options, &Silent).expect("a model");
    (dir, path)
}

/// A proof in chunks reveals activations, and contracts verify none: a job for one would break what was asked.
#[test]
fn a_job_in_chunks_refuses_what_only_one_piece_has() {
    let (dir, path) = model();
    let model = Model::open(&path).expect("a model");
    let work = dir.path().join("work");
    for (options, expected) in [
        (Options::at_most(1).hiding_activations(), "hide no activations"),
        (Options::at_most(1).hiding(OUTPUT), "hide no activations"),
        (Options::at_most(1).for_chain(), "are verified by no contract"),
    ] {
        let refused = model.prepare(&work, "Once", &options, "long.proof", &Silent);
        match refused.map(|_| ()) {
            Err(Error::Work(WorkError::OnePiece { asked })) => assert_eq!(asked, expected),
            other => panic!("{expected}: {other:?}"),
        }
        assert!(!work.exists(), "{expected}: {:?}", names(dir.path()));
    }
}

/// Contracts verify no proof that hides, so nothing is proved for both.
#[test]
fn what_contracts_do_not_verify_is_not_proved_for_them() {
    let (_dir, path) = model();
    let model = Model::open(&path).expect("a model");
    for hiding in [
        Options::at_most(1).hiding_activations(),
        Options::at_most(1).hiding(OUTPUT),
    ] {
        let refused = model.prove("Once", &hiding.for_chain(), &Silent);
        assert!(matches!(refused, Err(Error::HiddenForChain)), "{:?}", refused.err());
    }
}

/// A refusal shows no logit of a request that is asked to hide activations.
#[test]
fn a_refused_request_that_hides_shows_no_logit() {
    let (_dir, path) = model();
    let model = Model::open(&path).expect("a model");
    let open = Options::giving(" a dog and a dog");
    for (options, shown) in [(open.clone(), true), (open.hiding_activations(), false)] {
        match model.prove("Once upon a time", &options, &Silent) {
            Err(Error::Differs(difference)) => {
                assert_eq!(difference.margin_nats.is_some(), shown);
                assert_eq!(difference.to_string().contains("nats"), shown, "{difference}");
            }
            other => panic!("{:?}", other.err()),
        }
    }
}

/// A proof that is there is taken for a request only if it is of the kind that the request asks for.
#[test]
fn a_batch_proves_again_what_is_of_another_kind() {
    let (dir, path) = model();
    let model = Model::open(&path).expect("a model");
    let proofs = dir.path().join("proofs");
    let line = r#"{"id": "one", "prompt": "Once upon a time", "tokens": 2}"#;
    let mut requests = batch::read(line, None).expect("a request");
    let request = &mut requests[0];
    let batch = model.batch(Path::new(&proofs)).expect("a batch");
    let plain = request.options.clone();
    let hiding = plain.clone().hiding_activations();
    let for_chain = plain.clone().for_chain();
    // With what proved, and whether it is taken for a proof of the next kind: contracts verify a plain proof without clipped values.
    for (options, hides, again) in [
        (&plain, false, true),
        (&plain, false, false),
        (&for_chain, false, false),
        (&hiding, true, true),
        (&hiding, true, false),
        (&for_chain, false, true),
        (&plain, false, false),
    ] {
        request.options = options.clone();
        let proved = match batch.prove(request, &Silent) {
            BatchOutcome::Proved(proof) => {
                let verified = verify(&model.key, &proof.report.proof).expect("a proof");
                assert_eq!(verified.hides_activations, hides);
                true
            }
            BatchOutcome::Present { .. } => false,
            other => panic!("{options:?}: {other:?}"),
        };
        assert_eq!(proved, again, "{options:?}");
    }
}

/// A proof that hides the output still gives its text to whoever makes it, and hides it in the file.
#[test]
fn a_hidden_output_is_given_to_its_prover() {
    let (_dir, path) = model();
    let model = Model::open(&path).expect("a model");
    let proof = model.prove("Once upon a time", &Options::at_most(4).hiding(OUTPUT), &Silent);
    let proof = proof.expect("a proof");
    let open = model
        .prove("Once upon a time", &Options::at_most(4), &Silent)
        .expect("a proof");
    assert_eq!(proof.text, open.text);
    assert_eq!(proof.report.statement, open.report.statement);
    let hidden = Statement {
        output: vec![HIDDEN; 4],
        ..open.report.statement
    };
    assert_eq!(
        verify(&model.key, &proof.report.proof)
            .expect("an honest proof")
            .statement,
        hidden
    );
}
