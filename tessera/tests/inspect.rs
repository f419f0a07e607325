//! What `inspect` says of a path.

use std::fs;
use std::path::Path;

use tempfile::tempdir;
use tessera::{inspect, inspect_bytes, Checkpoint, Error, Inspected, Model, Options, SetupOptions, Silent};
use tessera_samples::FIXTURE;

fn text(result: Result<Inspected, Error>) -> String {
    match result {
        Ok(_) => panic!("something was recognised"),
        Err(error) => error.to_string(),
    }
}

/// A checkpoint, the model directory made of it, its key and a proof are told apart by their contents, whatever they are called.
#[test]
fn every_kind_is_recognised_by_its_contents() {
    let dir = tempdir().expect("a directory");
    let out = dir.path().join("model");
    let model = Model::setup(FIXTURE, &out, &SetupOptions::default(), &Silent).expect("a model");
    let (key, proof) = (dir.path().join("a.bin"), dir.path().join("b.bin"));
    fs::copy(out.join("model.key"), &key).expect("a copy");
    model
        .prove("Once", &Options::at_most(3), &Silent)
        .and_then(|made| made.write(&proof))
        .expect("a proof");

    for path in [FIXTURE.to_owned(), format!("{FIXTURE}/config.json")] {
        match inspect(&path).expect("a checkpoint") {
            Inspected::Checkpoint { path, survey } => {
                assert_eq!(path, Path::new(FIXTURE), "the folder, even if its config was named");
                let config = survey.config.expect("dimensions");
                assert_eq!(&config, Checkpoint::open(&path).expect("it opens").config());
            }
            _ => panic!("{path} is a checkpoint"),
        }
    }
    let Inspected::Directory { model: opened, recipe } = inspect(&out).expect("a directory") else {
        panic!("a model directory");
    };
    assert_eq!(opened.id, model.id);
    match inspect(&key).expect("a key") {
        Inspected::Key { key, recipe: own } => {
            assert_eq!(key.id().expect("an id"), model.id);
            assert_eq!(own, recipe);
        }
        _ => panic!("a key"),
    }
    match inspect(&proof).expect("a proof") {
        Inspected::Proof { proof: read, bytes } => {
            assert_eq!(read.model, model.id);
            assert_eq!(bytes as u64, fs::metadata(&proof).expect("a file").len());
        }
        _ => panic!("a proof"),
    }
}

/// What is nothing of all this is named in the error, with what is wrong.
#[test]
fn other_paths_are_refused_by_name() {
    let dir = tempdir().expect("a directory");
    let (missing, empty, other) = (
        dir.path().join("none"),
        dir.path().join("empty"),
        dir.path().join("other"),
    );
    fs::create_dir(&empty).expect("a directory");
    fs::write(&other, "hello").expect("a file");
    assert!(text(inspect(&missing)).contains("cannot read"));
    assert!(text(inspect(&empty)).contains("neither a model directory"));
    assert!(text(inspect(&other)).contains("neither a model key, nor a proof"));
    let key = fs::read(format!("{FIXTURE}/config.json")).expect("a file");
    assert!(text(inspect_bytes("given", &key)).starts_with("given is neither"));
    // Damaged files are recognised, and refused with the reason.
    let mut proof = tessera::verifier::codec::FileKind::PROOF.magic().to_vec();
    proof.extend([0; 20]);
    assert!(text(inspect_bytes("given", &proof)).starts_with("given: "));
}
