//! The examples, run as a reader of the documents runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::json;
use tempfile::tempdir;
use tessera::{Model, SetupOptions, Silent};
use tessera_samples::families::write;
use tessera_samples::FIXTURE;

/// Runs an example, which Cargo builds beside the tests.
fn run(name: &str, args: &[&Path]) -> Output {
    let tests = std::env::current_exe().expect("a test program");
    let built: PathBuf = tests
        .ancestors()
        .nth(2)
        .expect("a target directory")
        .join("examples")
        .join(name);
    let command = Command::new(&built).args(args).stdin(Stdio::null()).output();
    command.unwrap_or_else(|e| panic!("{}: {e}", built.display()))
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn copy(from: &str, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for name in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        std::fs::copy(Path::new(from).join(name), to.join(name)).expect("a copy");
    }
}

#[test]
fn a_checkpoint_is_proved_verified_asked_and_proved_in_chunks() {
    let dir = tempdir().expect("a directory");
    let [checkpoint, model, proof, work, long] =
        ["checkpoint", "model", "story.proof", "work", "long.proof"].map(|name| dir.path().join(name));
    copy(FIXTURE, &checkpoint);
    let template = "{% for m in messages %}{{ m.content }} {% endfor %}";
    std::fs::write(checkpoint.join("chat_template.jinja"), template).expect("a template");
    let prompt = Path::new("Once upon a time");

    let text = printed(&run("prove", &[&checkpoint, &model, prompt, &proof]));
    assert!(text.starts_with("Once upon a time"), "{text}");
    let key = model.join("model.key");
    let verdict = printed(&run("verify", &[&key, &proof]));
    assert!(
        verdict.starts_with("accepted") && verdict.contains("Once upon a time"),
        "{verdict}"
    );
    let answer = printed(&run("chat", &[&model, Path::new("Who was there?")]));
    assert!(!answer.trim().is_empty(), "{answer}");

    let first = printed(&run("resume", &[&model, &work, prompt, &long]));
    let again = printed(&run("resume", &[&model, &work, prompt, &long]));
    assert_eq!(first, again);
    printed(&run("verify", &[&key, &long]));

    // A changed proof is rejected, and missing arguments are named.
    let mut bytes = std::fs::read(&proof).expect("a proof");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&proof, &bytes).expect("a changed proof");
    assert!(!run("verify", &[&key, &proof]).status.success());
    let wrong = run("prove", &[&checkpoint]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("usage: prove"));
}

#[test]
fn texts_are_compared_by_their_vectors() {
    let dir = tempdir().expect("a directory");
    let (checkpoint, model) = (dir.path().join("encoder"), dir.path().join("model"));
    copy(FIXTURE, &checkpoint);
    let config = json!({
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 2048,
        "max_position_embeddings": 64, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    });
    write(&checkpoint, &config);
    Model::setup(&checkpoint, &model, &SetupOptions::default(), &Silent).expect("a model");
    let cosine = |texts: [&str; 2]| {
        let text = printed(&run("embed", &[&model, Path::new(texts[0]), Path::new(texts[1])]));
        text.trim().parse::<f64>().expect("a number")
    };
    assert_eq!(cosine(["a cat", "a cat"]), 1.0);
    assert!(cosine(["a cat", "the sea is far away"]) < 1.0);
}
