//! A checkpoint in one GGUF file, wherever a checkpoint is taken.

use std::ffi::OsString;
use std::fs;

use serde_json::json;
use tessera_samples::gguf::{tiny, Gguf, Value, F32, Q8_0};

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
    fs::write(&file, &gguf.to_bytes()[..1000]).unwrap();
    fails(
        args!["setup", file, "--out", model],
        &["model.gguf", "longer than the file"],
    );
    fails(args!["inspect", file], &["model.gguf", "longer than the file"]);
    fs::write(&file, "GGML, not GGUF").unwrap();
    fails(args!["setup", file, "--out", model], &["model.gguf", "not a GGUF file"]);
    assert_eq!(names(dir.path()), ["model.gguf"]);
}

/// The template of a GGUF file is in its metadata; the model set up from it has conversations as one of a directory has.
#[test]
fn a_model_of_a_gguf_file_is_asked_in_the_words_of_the_template_of_its_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let (file, model) = (dir.path().join("model.gguf"), dir.path().join("model"));
    let asked = |args: Vec<OsString>| [args, args!["--chat", "--prompt", "Why?", "--tokens", "2"]].concat();
    let mut gguf = Gguf::of_checkpoint(CHECKPOINT.as_ref(), Q8_0);
    fs::write(&file, gguf.to_bytes()).unwrap();
    done(args!["setup", file, "--out", model, "--no-fidelity"]);
    fails(asked(args!["generate", "--model", model]), &["no chat template"]);
    fs::remove_dir_all(&model).unwrap();

    let template = "{{ bos_token }}{% for m in messages %}{{ m.role + ': ' + m.content + eos_token }}{% endfor %}";
    gguf.set("tokenizer.chat_template", Value::from(template));
    fs::write(&file, gguf.to_bytes()).unwrap();
    done(args!["setup", file, "--out", model, "--no-fidelity"]);
    let (key, proof) = (model.join("model.key"), dir.path().join("proof"));
    let proved = done(asked(args!["prove", "--model", model, "--out", proof]));
    assert_eq!(proved["prompt_text"], "user: Why?");
    let verified = done(args!["verify", "--key", key, proof]);
    for report in [&proved, &verified] {
        let tokens = report["prompt_special_tokens"].as_array().unwrap();
        let names: Vec<_> = tokens.iter().map(|t| &t["name"]).collect();
        assert_eq!(names, ["<|start_story|>", "<|end_story|>"]);
    }
    assert_eq!(proved["warnings"], json!([]));
}
