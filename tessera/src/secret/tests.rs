use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use tempfile::{tempdir, TempDir};
use tessera_circuits::reveal::RevealedError;
use tessera_circuits::statement::{HiddenIds, HiddenPrompt};
use tessera_samples::FIXTURE;
use tessera_verifier::reveal::RevealError;

use super::*;
use crate::{Error, Model, Options, SetupOptions, Silent};

/// A model, and a place for files.
struct Scene {
    dir: TempDir,
    model: Model,
    key: Key,
}

impl Scene {
    fn get() -> &'static Self {
        static SCENE: OnceLock<Scene> = OnceLock::new();
        SCENE.get_or_init(|| {
            let dir = tempdir().expect("a directory");
            let path = dir.path().join("model");
            let options = SetupOptions {
                skip_fidelity: true,
                ..SetupOptions::default()
            };
            Model::setup(FIXTURE, &path, &options, &Silent).expect("a model");
            let model = Model::open(&path).expect("a model");
            Self {
                key: Key::from_bytes(&fs::read(path.join("model.key")).expect("a key")).expect("a key"),
                dir,
                model,
            }
        })
    }

    /// The same model, with another proof of the same statement, and a new file with the secret of this proof.
    fn secret(&self, name: &str) -> (Proof, PathBuf) {
        let (proof, path) = (prove(&self.model, 2), self.dir.path().join(name));
        proof.write_secret(&path).expect("it is written");
        (proof, path)
    }

    fn reveal(&self, proof: &Proof, secret: &Path, spans: &[Span]) -> Result<Reveal, SecretError> {
        reveal_ids(&self.key, proof.bytes(), secret, spans)
    }
}

fn prove(model: &Model, reveals: usize) -> Proof {
    let ids = HiddenIds {
        prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
        output: true,
    };
    let options = Options::exactly(3).hiding(ids).revealing(reveals);
    model.prove("Once upon a time", &options, &Silent).expect("a proof")
}

const FIRST: [Span; 1] = [Span::Positions { first: 1, end: 2 }];

/// What was revealed is what was hidden, and a verdict shows it; ids that are not asked for stay hidden.
#[test]
fn ids_are_revealed_by_position_and_by_part() {
    let scene = Scene::get();
    let (proof, secret) = scene.secret("by position");
    let all: Vec<u32> = proof.report.statement.tokens().collect();
    let prompt = proof.report.statement.prompt.len();
    let some = scene
        .reveal(&proof, &secret, &[FIRST[0], Span::Output])
        .expect("a reveal");
    let positions: Vec<usize> = std::iter::once(1).chain(prompt..all.len()).collect();
    assert_eq!(some.ids, positions.iter().map(|at| (*at, all[*at])).collect::<Vec<_>>());
    assert_eq!(some.left, 1);
    let rest = scene.reveal(&proof, &secret, &[Span::Prompt]).expect("a reveal");
    assert_eq!((rest.ids.len(), rest.left), (prompt - 1, 0));
    let verdict = scene.key.verify_revealed(proof.bytes(), &[&some.bytes, &rest.bytes]);
    let proved = verdict.proved().expect("an accepted proof");
    assert_eq!(*proved.statement(), proof.report.statement);
    assert_eq!((proved.revealed().len(), proved.reveals_left()), (all.len() - 1, 0));
}

/// The counter is on disk when a reveal is there, and a secret that is spent makes none more. A reveal that cannot be made takes nothing.
#[test]
fn a_secret_counts_reveals_before_they_leave() {
    let scene = Scene::get();
    let (proof, secret) = scene.secret("counter");
    let made = || Secret::open(&secret).expect("a secret").made;
    assert_eq!(made(), 0);
    let shown = scene.reveal(&proof, &secret, &[Span::Positions { first: 0, end: 2 }]);
    assert!(matches!(
        shown,
        Err(SecretError::Reveal {
            source: RevealProverError::Ids(RevealError::Ids(RevealedError::NotHidden { position: 0 })),
            ..
        })
    ));
    assert_eq!(made(), 0);
    for count in 1..=2 {
        scene.reveal(&proof, &secret, &FIRST).expect("a reveal");
        assert_eq!(made(), count);
    }
    let before = fs::read(&secret).expect("it is read");
    assert!(matches!(
        scene.reveal(&proof, &secret, &FIRST),
        Err(SecretError::Spent { reveals: 2, .. })
    ));
    assert!(fs::read(&secret).expect("it is read") == before);
}

/// A proof has one secret: a second file would count reveals without the first one. A file that cannot be written takes nothing.
#[test]
fn a_secret_is_written_once() {
    let scene = Scene::get();
    let proof = prove(&scene.model, 2);
    let path = scene.dir.path().join("written once");
    let failed = proof.write_secret(scene.dir.path().join("no folder/secret"));
    assert!(matches!(failed, Err(SecretError::File(_))));
    proof.write_secret(&path).expect("it is written");
    let clone = proof.clone();
    for proof in [&proof, &clone] {
        let again = proof.write_secret(scene.dir.path().join("written twice"));
        assert!(matches!(again, Err(SecretError::Written)));
    }
    assert!(!scene.dir.path().join("written twice").exists());
}

/// Two processes that share a secret make no more reveals than there is room for.
#[test]
fn a_secret_is_held_by_one_at_a_time() {
    let scene = Scene::get();
    let (proof, secret) = scene.secret("shared");
    let reveals: Vec<bool> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| scene.reveal(&proof, &secret, &FIRST).is_ok()))
            .collect();
        all.into_iter().map(|own| own.join().expect("a thread")).collect()
    });
    assert_eq!(reveals.into_iter().filter(|made| *made).count(), 2);
}

/// The secret of another proof, a file that is no secret or of another version, and a damaged one are refused by name.
#[test]
fn what_is_no_secret_of_the_proof_is_refused() {
    let scene = Scene::get();
    let (proof, path) = scene.secret("honest");
    let (_, other) = scene.secret("other");
    assert!(matches!(
        scene.reveal(&proof, &other, &FIRST),
        Err(SecretError::OtherProof { .. })
    ));
    let key = scene.dir.path().join("model/model.key");
    assert!(matches!(
        scene.reveal(&proof, &key, &FIRST),
        Err(SecretError::NotSecret { .. })
    ));
    let none = scene.dir.path().join("none");
    assert!(matches!(
        scene.reveal(&proof, &none, &FIRST),
        Err(SecretError::Io { .. })
    ));
    let honest = fs::read(&path).expect("it is read");
    let with = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let (path, mut bytes) = (scene.dir.path().join(name), honest.clone());
        change(&mut bytes);
        fs::write(&path, bytes).expect("it is written");
        scene.reveal(&proof, &path, &FIRST)
    };
    assert!(matches!(
        with("version", &|bytes| bytes[8] += 1),
        Err(SecretError::Version { got: 2, .. })
    ));
    assert!(matches!(
        with("short", &|bytes| bytes.truncate(bytes.len() - 1)),
        Err(SecretError::Damaged { .. })
    ));
    assert!(matches!(
        with("header", &|bytes| bytes.truncate(30)),
        Err(SecretError::NotSecret { .. })
    ));
    assert!(matches!(
        with("room", &|bytes| bytes[12] += 8),
        Err(SecretError::Room { said: 10, got: 2, .. })
    ));
    // A cell, and an id, which the proof does not commit to.
    for (name, at) in [("cell", honest.len() / 2), ("mask", honest.len() - 100)] {
        let refused = with(name, &|bytes| bytes[at] ^= 1);
        assert!(
            matches!(
                refused,
                Err(SecretError::Reveal {
                    source: RevealProverError::OtherActivations,
                    ..
                })
            ),
            "{name}: {refused:?}"
        );
    }
    let id = COUNTER as usize + 4 + 32 + 8 + 4;
    assert!(matches!(
        with("id", &|bytes| bytes[id] ^= 1),
        Err(SecretError::Reveal {
            source: RevealProverError::Check(_),
            ..
        })
    ));
    scene.reveal(&proof, &path, &FIRST).expect("the secret is as it was");
}

/// A proof that hides no ids leaves nothing to reveal, and no proof leaves room for more reveals than it hides.
#[test]
fn room_is_left_where_there_is_something_to_reveal() {
    let scene = Scene::get();
    let refused = |options: Options| scene.model.prove("Once", &options, &Silent).expect_err("no such proof");
    assert!(matches!(
        refused(Options::exactly(1).hiding_activations().revealing(1)),
        Error::NothingToReveal
    ));
    let output = HiddenIds {
        prompt: None,
        output: true,
    };
    let many = refused(Options::exactly(1).hiding(output).revealing(1_000));
    assert!(matches!(many, Error::Reveals { got: 1_000, .. }));
    // Without room there is no secret.
    let proof = prove(&scene.model, 0);
    assert!(!proof.has_secret());
    let path = scene.dir.path().join("nothing");
    proof.write_secret(&path).expect("nothing to write");
    assert!(!path.exists());
}
