//! A checkpoint in one GGUF file, wherever a checkpoint is taken.

use std::fs;

use tessera_prover::testing::gguf::{tiny, Gguf, Value, F32, Q8_0};

use crate::args;
use crate::support::{done, fails, names, CHECKPOINT, GOLDEN};

#[test]
fn a_gguf_file_is_inspected_set_up_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let (file, model) = (dir.path().join("model.gguf"), dir.path().join("model"));
    fs::write(&file, Gguf::of_checkpoint(CHECKPOINT.as_ref(), Q8_0).to_bytes()).unwrap();
    let report = done(args!["inspect", file]);
    assert_eq!(
        (&report["kind"], &report["provable"]),
        (&"checkpoint".into(), &true.into())
    );
    assert_eq!(report["tied_embeddings"], true);
    done(args!["setup", file, "--out", model]);
    let report = done(args![
        "generate",
        "--model",
        model,
        "--prompt",
        "Once upon a time",
        "--tokens",
        "4"
    ]);
    assert_eq!(report["output_ids"].as_array().unwrap().len(), 4);
    let report = done(args![
        "fidelity",
        "--model",
        model,
        "--checkpoint",
        file,
        "--text",
        GOLDEN
    ]);
    assert!(report["top1"].as_f64().unwrap() > 0.9, "{report}");
}

#[test]
fn gguf_files_that_cannot_be_used_are_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (file, model) = (dir.path().join("model.gguf"), dir.path().join("model"));
    let mut gguf = tiny(F32, false);
    gguf.set("llama.rope.scaling.type", Value::from("yarn"));
    fs::write(&file, gguf.to_bytes()).unwrap();
    fails(
        args!["setup", file, "--out", model],
        &["model.gguf", "rope_scaling", "yarn"],
    );
    assert_eq!(done(args!["inspect", file])["provable"], false);
    fs::write(&file, &gguf.to_bytes()[..100]).unwrap();
    fails(args!["setup", file, "--out", model], &["model.gguf", "ends"]);
    fails(args!["inspect", file], &["model.gguf", "ends"]);
    fs::write(&file, "GGML, not GGUF").unwrap();
    fails(args!["setup", file, "--out", model], &["model.gguf", "not a GGUF file"]);
    assert_eq!(names(dir.path()), ["model.gguf"]);
}
