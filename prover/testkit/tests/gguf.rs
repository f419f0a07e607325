//! Set-up of a GGUF file: the model is that of the checkpoint that the file was made from.

use std::fs;
use std::path::Path;

use tessera::model::Model;
use tessera::setup::{setup, CodewordCache, SetupOptions, SetupReport};
use tessera_checkpoint::Checkpoint;
use tessera_model::generate::GenerateOptions;
use tessera_prover::prove;
use tessera_quantise::Strategy;
use tessera_samples::gguf::{Gguf, F32, Q8_0};
use tessera_support::progress::Silent;
use tessera_testkit::{golden, names, FIXTURE};
use tessera_verifier::verify::verify_bytes;

fn set_up(checkpoint: &Path, out: &Path, strategy: Strategy, calibration: &Path) -> SetupReport {
    let options = SetupOptions {
        quantise: strategy.into(),
        calibration: Some(calibration.to_owned()),
        codeword_cache: CodewordCache::Full,
        skip_fidelity: true,
        ..SetupOptions::default()
    };
    setup(checkpoint, out, &options, &Silent).unwrap()
}

/// The same ids for both: the fixture's tokenizer has merges that no scores give.
fn calibration(path: &Path) {
    let lines = golden()
        .into_iter()
        .map(|s| serde_json::json!({"ids": s.ids}).to_string() + "\n");
    fs::write(path, lines.collect::<String>()).unwrap();
}

#[test]
fn a_model_from_a_file_is_that_from_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (file, ids) = (dir.path().join("model.gguf"), dir.path().join("ids.jsonl"));
    fs::write(&file, Gguf::of_checkpoint(FIXTURE.as_ref(), F32).to_bytes()).unwrap();
    calibration(&ids);
    for strategy in [Strategy::W8, Strategy::W12] {
        let out = |name: &str| dir.path().join(format!("{name}-{strategy:?}"));
        let hub = set_up(FIXTURE.as_ref(), &out("hub"), strategy, &ids).key;
        let own = set_up(&file, &out("own"), strategy, &ids).key;
        assert_eq!(own.config, hub.config);
        assert_eq!(own.params, hub.params);
        assert_eq!(own.weights_root, hub.weights_root);
        assert_eq!(own.tables_root, hub.tables_root);
        // The tokenizer is that of the file, in the key and in the directory.
        let files = Checkpoint::open(&file).unwrap().id_files().unwrap().files;
        assert_eq!(Some(&own.tokenizer), files.tokenizer.as_ref());
        assert_eq!(Some(&own.tokenizer_config), files.config.as_ref());
        assert_eq!(names(&out("own")), names(&out("hub")));
        assert_eq!(fs::read(out("own").join("tokenizer.json")).unwrap(), own.tokenizer);
    }
}

#[test]
fn a_model_of_blocks_is_proved() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out, ids) = (
        dir.path().join("q8.gguf"),
        dir.path().join("model"),
        dir.path().join("ids.jsonl"),
    );
    fs::write(&file, Gguf::of_checkpoint(FIXTURE.as_ref(), Q8_0).to_bytes()).unwrap();
    calibration(&ids);
    set_up(&file, &out, Strategy::W12, &ids);
    let model = Model::open(&out).unwrap();
    let tokenizer = model.tokenizer.as_ref().unwrap();
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    assert_eq!(tokenizer.decode(&prompt, true).unwrap(), "Once upon a time");
    let proof = prove(&model.prover(), &prompt, &GenerateOptions::exactly(4), &Silent)
        .unwrap()
        .bytes;
    verify_bytes(&model.key, &proof).unwrap();
}
