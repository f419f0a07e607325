//! A quantised checkpoint, written to disk and loaded, against `fixtures/reference.py`, which reads the same
//! directory. Needs `python3` with numpy, so it runs on request:
//! `cargo test --release -p tessera-testkit --test model_dir -- --ignored`.

use std::fs;
use std::path::Path;
use std::process::Command;

use tessera_checkpoint::Checkpoint;
use tessera_model::directory::{load_model, write_model};
use tessera_model::forward::ForwardState;
use tessera_quantise::Strategy;
use tessera_testkit::{golden, quantised, FIXTURE};
use tessera_text::tokenizer::TokenizerFiles;

// `.ci/run` installs numpy and runs it; a plain `cargo test` must pass with rustup alone.
#[test]
#[ignore = "needs python3 with numpy, which CI has: cargo test -- --ignored"]
fn the_reference_reads_a_written_model() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reference.py");
    let checkpoint = Checkpoint::open(Path::new(FIXTURE)).unwrap();
    let samples = golden();
    let calibration = [samples[0].ids.clone(), samples[1].ids.clone()];
    for strategy in [Strategy::W8, Strategy::W12] {
        let dir = tempfile::tempdir().unwrap();
        let (model, _) = quantised(&checkpoint, strategy, &calibration).unwrap();
        let tokenizer = TokenizerFiles::stored(Path::new(FIXTURE)).unwrap();
        write_model(dir.path(), &model, tokenizer.both()).unwrap();
        let loaded = load_model(dir.path()).unwrap();
        assert_eq!(loaded, model);
        let ids = &samples[2].ids;
        let logits = ForwardState::new(&loaded).run(ids, None).unwrap();
        let expected: Vec<u8> = logits.iter().flat_map(|v| v.to_le_bytes()).collect();
        let out = dir.path().join("logits");
        let list = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new("python3");
        command
            .arg(&script)
            .arg(dir.path())
            .args(["--ids", &list, "--logits-out"])
            .arg(&out);
        let status = command.status().expect("python3 runs");
        assert!(status.success());
        assert!(fs::read(&out).unwrap() == expected, "{strategy:?}: logits differ");
    }
}
