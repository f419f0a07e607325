//! Tasks that are ended from outside.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::tempdir;
use tessera::{Cancel, Error, Model, Options, Progress, SetupOptions, Silent};
use tessera_samples::{names, FIXTURE};

/// Turns a switch on when a task has reported its progress so many times.
struct After<'a> {
    cancel: &'a Cancel,
    left: AtomicUsize,
}

impl After<'_> {
    fn count(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.cancel.cancel();
        }
    }
}

impl Progress for After<'_> {
    fn phase(&self, _: &str, _: Option<u64>) {
        self.count();
    }

    fn advance(&self, _: u64) {
        self.count();
    }

    fn done(&self) {}
}

/// Runs a task that is ended after so many reports.
fn ended<T>(after: usize, task: impl FnOnce(&dyn Progress) -> Result<T, Error>) -> Result<T, Error> {
    let cancel = Cancel::default();
    let left = AtomicUsize::new(after);
    cancel.run(&After { cancel: &cancel, left }, task)
}

/// Wherever it is ended, a set-up leaves nothing but a directory that says so, and the same set-up goes on from there.
#[test]
fn a_setup_that_is_ended_goes_on() {
    let dir = tempdir().expect("a directory");
    let out = dir.path().join("model");
    let mut cancelled = 0;
    for after in [1, 3, 12, 40, 100] {
        match ended(after, |progress| {
            Model::setup(FIXTURE, &out, &SetupOptions::default(), progress)
        }) {
            Err(Error::Cancelled) => cancelled += 1,
            Err(error) => panic!("after {after}: {error}"),
            Ok(_) => break,
        }
        assert!(
            names(dir.path()).iter().all(|name| name == "model.partial"),
            "{:?}",
            names(dir.path())
        );
    }
    assert!(cancelled > 2, "{cancelled}");
    if !out.exists() {
        Model::setup(FIXTURE, &out, &SetupOptions::default(), &Silent).expect("a model");
    }
    assert_eq!(names(dir.path()), ["model"]);
}

/// A proof that was ended can be made again with the same model, and is the same.
#[test]
fn a_proof_that_is_ended_can_be_made_again() {
    let dir = tempdir().expect("a directory");
    let model = Model::setup(
        Path::new(FIXTURE),
        dir.path().join("model"),
        &SetupOptions::default(),
        &Silent,
    );
    let model = model.expect("a model");
    let options = Options::exactly(3);
    let prove = |progress: &dyn Progress| model.prove("Once upon a time", &options, progress);
    let whole = prove(&Silent).expect("a proof");
    let mut cancelled = 0;
    for after in 1..12 {
        match ended(after, prove) {
            Err(Error::Cancelled) => cancelled += 1,
            Ok(proof) => assert_eq!(proof.bytes(), whole.bytes()),
            Err(error) => panic!("after {after}: {error}"),
        }
    }
    assert!(cancelled > 5, "{cancelled}");
    assert_eq!(prove(&Silent).expect("a proof").bytes(), whole.bytes());
}
