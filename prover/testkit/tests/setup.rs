//! Set-up as a whole: what it writes, that it can be interrupted anywhere, and that its caches change nothing.

use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tessera::model::Model;
use tessera::setup::{rebuild_cache, recompute, setup, CodewordCache, SetupError, SetupOptions, SetupReport};
use tessera_model::directory::{CODEWORD_FILE, TREE_FILE};
use tessera_model::generate::GenerateOptions;
use tessera_prover::prove;
use tessera_quantise::Strategy;
use tessera_support::progress::{Progress, Silent};
use tessera_synthetic::{hub_config, write_shape};
use tessera_testkit::{names, odd_config};
use tessera_verifier::verify::verify_bytes;

/// A checkpoint without tokenizer in the hub layout, with an index.
fn checkpoint() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    let hub = hub_config(&odd_config(), true).unwrap();
    write_shape(&path, &hub, 7, &Silent).unwrap();
    (dir, path)
}

fn options(strategy: Strategy, codeword_cache: CodewordCache) -> SetupOptions {
    SetupOptions {
        quantise: strategy.into(),
        codeword_cache,
        ..SetupOptions::default()
    }
}

/// Fails, as if the process was killed, when a phase begins.
struct KilledAt(&'static str);

impl Progress for KilledAt {
    fn phase(&self, name: &str, _: Option<u64>) {
        assert_ne!(name, self.0, "killed");
    }
    fn advance(&self, _: u64) {}
    fn done(&self) {}
}

/// A set-up that is killed at a phase.
fn kill(checkpoint: &Path, out: &Path, strategy: Strategy, phase: &'static str) {
    let options = options(strategy, CodewordCache::Full);
    let run = AssertUnwindSafe(|| setup(checkpoint, out, &options, &KilledAt(phase)).map(|_| ()));
    assert!(catch_unwind(run).is_err());
    assert!(!out.exists());
}

fn run(checkpoint: &Path, out: &Path, strategy: Strategy) -> SetupReport {
    setup(checkpoint, out, &options(strategy, CodewordCache::Full), &Silent).unwrap()
}

#[test]
fn caches_change_neither_key_nor_proof() {
    let (dir, checkpoint) = checkpoint();
    let proofs = [CodewordCache::Full, CodewordCache::None, CodewordCache::Auto].map(|cache| {
        let out = dir.path().join("model");
        let report = setup(&checkpoint, &out, &options(Strategy::W12, cache), &Silent).unwrap();
        let kept = cache != CodewordCache::None;
        assert_eq!((report.codeword_kept, out.join(CODEWORD_FILE).exists()), (kept, kept));
        let model = Model::open(&out).unwrap();
        let proof = prove(&model.prover(), &[1, 5, 9], &GenerateOptions::exactly(4), &Silent)
            .unwrap()
            .bytes;
        verify_bytes(&model.key, &proof).unwrap();
        fs::remove_dir_all(&out).unwrap();
        (report.model_id, proof)
    });
    assert!(proofs.iter().all(|p| *p == proofs[0]));
    assert_eq!(names(dir.path()), ["checkpoint"]);
}

#[test]
fn an_interrupted_set_up_goes_on() {
    let (dir, checkpoint) = checkpoint();
    let expected = run(&checkpoint, &dir.path().join("expected"), Strategy::W8);
    assert!(expected.notes.is_empty());
    let (out, partial) = (dir.path().join("model"), dir.path().join("model.partial"));
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    for phase in [
        "calibrate",
        "write weights",
        "commit to weights",
        "digest checkpoint",
        "compare models",
        "commit to tables",
    ] {
        kill(&checkpoint, &out, Strategy::W8, phase);
        // Scales take no time here, so they are kept with the first file only.
        assert_eq!(partial.exists(), phase != "calibrate");
        let weights = Some(partial.join("weights.bin"))
            .filter(|p| p.exists())
            .map(|p| modified(&p));
        assert_eq!(weights.is_some(), !["calibrate", "write weights"].contains(&phase));
        if partial.exists() {
            // What a process leaves that is killed while it writes.
            fs::write(partial.join(".tessera-a1b2c3.tmp"), "half a file").unwrap();
        }
        let report = run(&checkpoint, &out, Strategy::W8);
        assert_eq!(report.model_id, expected.model_id, "{phase}");
        assert_eq!(
            report.notes.len(),
            usize::from(phase != "calibrate"),
            "{:?}",
            report.notes
        );
        assert_eq!(names(&out), names(&dir.path().join("expected")));
        assert!(weights.is_none_or(|time| time == modified(&out.join("weights.bin"))));
        assert!(!partial.exists());
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn what_does_not_fit_is_not_reused() {
    let (dir, checkpoint) = checkpoint();
    let expected = run(&checkpoint, &dir.path().join("expected"), Strategy::W8);
    let (out, partial) = (dir.path().join("model"), dir.path().join("model.partial"));
    let restart = |word: &str| {
        let report = run(&checkpoint, &out, Strategy::W8);
        assert_eq!(report.model_id, expected.model_id);
        assert!(report.notes.iter().any(|n| n.contains(word)), "{:?}", report.notes);
        fs::remove_dir_all(&out).unwrap();
    };
    // Other options.
    kill(&checkpoint, &out, Strategy::W12, "commit to tables");
    restart("discarded");
    // Another checkpoint in the same place.
    kill(&checkpoint, &out, Strategy::W8, "commit to tables");
    let shard = checkpoint.join("model-00001-of-00001.safetensors");
    fs::write(&shard, fs::read(&shard).unwrap()).unwrap();
    restart("discarded");
    // A damaged state, damaged weights, a damaged tree.
    kill(&checkpoint, &out, Strategy::W8, "commit to tables");
    fs::write(partial.join("setup.json"), "{").unwrap();
    restart("discarded");
    for file in ["weights.bin", TREE_FILE] {
        kill(&checkpoint, &out, Strategy::W8, "commit to tables");
        let mut bytes = fs::read(partial.join(file)).unwrap();
        bytes[100] ^= 1;
        fs::write(partial.join(file), bytes).unwrap();
        restart(if file == TREE_FILE {
            "resumed"
        } else {
            "weights.bin was damaged"
        });
    }
    // A directory of somebody else.
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("thesis"), "x").unwrap();
    let error = setup(&checkpoint, &out, &SetupOptions::default(), &Silent).unwrap_err();
    assert!(error.to_string().contains("model.partial exists already"), "{error}");
    assert_eq!(names(&partial), ["thesis"]);
}

#[test]
fn a_failure_while_writing_says_what_is_left() {
    let (dir, checkpoint) = checkpoint();
    let out = dir.path().join("model");
    kill(&checkpoint, &out, Strategy::W8, "write weights");
    // Nothing can be renamed onto a directory.
    fs::create_dir_all(dir.path().join("model.partial/weights.bin/x")).unwrap();
    let error = setup(&checkpoint, &out, &options(Strategy::W8, CodewordCache::None), &Silent).unwrap_err();
    assert!(matches!(error, SetupError::Unfinished { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("weights.bin") && text.contains("model.partial"), "{text}");
}

#[test]
fn caches_are_made_again() {
    let (dir, checkpoint) = checkpoint();
    let out = dir.path().join("model");
    run(&checkpoint, &out, Strategy::W12);
    let good = [TREE_FILE, CODEWORD_FILE].map(|file| fs::read(out.join(file)).unwrap());
    for file in [TREE_FILE, CODEWORD_FILE] {
        fs::write(out.join(file), "x").unwrap();
        let error = Model::open(&out).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(file), "{error}");
        assert!(
            rebuild_cache(&out, CodewordCache::Full, None, &Silent)
                .unwrap()
                .codeword_kept
        );
        assert_eq!(
            [TREE_FILE, CODEWORD_FILE].map(|file| fs::read(out.join(file)).unwrap()),
            good
        );
    }
    assert!(
        !rebuild_cache(&out, CodewordCache::None, None, &Silent)
            .unwrap()
            .codeword_kept
    );
    assert!(!out.join(CODEWORD_FILE).exists());
    Model::open(&out).unwrap();
    let weights = out.join("weights.bin");
    let mut bytes = fs::read(&weights).unwrap();
    bytes[0] ^= 1;
    fs::write(&weights, bytes).unwrap();
    let error = rebuild_cache(&out, CodewordCache::Full, None, &Silent).unwrap_err();
    assert!(
        matches!(&error, SetupError::OtherWeights { path, .. } if *path == weights),
        "{error}"
    );
    assert!(!out.join(CODEWORD_FILE).exists());
}

/// A verifier trusts the norms of columns in a key. Whoever has the checkpoint finds one that is too small by one: the key that
/// set-up makes, and that `inspect --against` makes again, has another one and another id.
#[test]
fn a_norm_that_is_too_small_by_one_is_that_of_another_model() {
    let (dir, checkpoint) = checkpoint();
    let out = dir.path().join("model");
    let report = run(&checkpoint, &out, Strategy::W12);
    let model = Model::open(&out).unwrap();
    let norms = model.prover().quantised.weights.norms(&report.key.config);
    assert_eq!((&norms, &model.key), (&report.key.params.columns, &report.key));
    let again = |key| recompute(key, &checkpoint, None, None, &Silent).unwrap();
    let same = again(&report.key);
    assert!(same.id && same.parameters && same.notes.is_empty(), "{:?}", same.notes);
    let mut key = report.key.clone();
    key.params.columns[5].square -= 1;
    key.check().unwrap();
    let other = again(&key);
    assert_eq!((other.id, other.parameters, other.weights_root), (false, false, true));
    assert!(
        other.notes.iter().any(|n| n.contains("norms of columns")),
        "{:?}",
        other.notes
    );
    // A model directory with such a description is not opened.
    let path = out.join("model.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json["params"]["columns"][5]["square"] = (norms[5].square - 1).into();
    fs::write(&path, json.to_string()).unwrap();
    let error = Model::open(&out).err().expect("another description").to_string();
    assert!(
        error.contains("norms") && error.contains("matrix Up of layer 0"),
        "{error}"
    );
}
