//! What the commands do when all is well, and how a proof is rejected.

use std::fs;
use std::path::Path;

use serde_json::{json, Value};
use tempfile::tempdir;
use tessera::circuits::model::{Blocks, ModelConfig, Rotation};
use tessera::synthetic::{write_synthetic, Dtype};

use crate::args;
use crate::support::{configured_checkpoint, done, fails, json, names, tessera, Shared, CHECKPOINT, GOLDEN, PROMPT};

fn number(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no number {key} in {value}"))
}

fn id_list(value: &Value) -> String {
    let ids = value.as_array().expect("ids");
    ids.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn setup_and_prove_report_what_they_did() {
    let shared = Shared::get();
    assert_eq!(shared.setup["model_id"], shared.prove["model_id"]);
    assert_eq!(number(&shared.setup, "weights"), 917_504.0);
    let disk: u64 = fs::read_dir(shared.model())
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(number(&shared.setup, "disk_bytes"), disk as f64);
    assert!(number(&shared.setup, "setup_seconds") > 0.0 && number(&shared.setup, "peak_rss_bytes") > 1e6);

    let prove = &shared.prove;
    assert_eq!(
        number(prove, "proof_bytes"),
        fs::metadata(shared.proof()).unwrap().len() as f64
    );
    assert_eq!(prove["output_ids"].as_array().unwrap().len(), 12);
    assert!(prove["output_text"].as_str().unwrap().contains("little"), "{prove}");
    assert!(number(prove, "security_bits") >= 93.5 && number(prove, "peak_rss_bytes") > 1e6);
    let phases: f64 = prove["phases"]
        .as_object()
        .unwrap()
        .values()
        .map(|s| s.as_f64().unwrap())
        .sum();
    let total = number(prove, "prove_seconds");
    assert!(phases > 0.5 * total && phases <= 1.01 * total, "{prove}");
}

#[test]
fn set_up_is_deterministic_and_the_strategy_is_part_of_the_id() {
    let dir = tempdir().unwrap();
    let id = |name: &str, strategy: &str| {
        let out = dir.path().join(name);
        done(args!["setup", CHECKPOINT, "--out", out, "--strategy", strategy])["model_id"].clone()
    };
    assert_eq!(id("again", "auto"), Shared::get().setup["model_id"]);
    assert_ne!(id("w8", "w8"), Shared::get().setup["model_id"]);
}

#[test]
fn verify_accepts_and_says_what_is_proved() {
    let shared = Shared::get();
    let verified = done(args!["verify", "--key", shared.key(), shared.proof()]);
    assert_eq!(verified["verdict"], "accept");
    for key in ["model_id", "prompt_ids", "output_ids", "output_text", "security_bits"] {
        assert_eq!(verified[key], shared.prove[key], "{key}");
    }
    assert!(number(&verified, "verify_seconds") > 0.0);
    assert!(verified.get("reason").is_none());

    let text = tessera(args!["verify", "--key", shared.key(), shared.proof()]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("accepted\n") && text.contains(PROMPT), "{text}");
}

#[test]
fn verify_needs_nothing_but_key_and_proof() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let (key, proof) = (dir.path().join("k"), dir.path().join("p"));
    fs::copy(shared.key(), &key).unwrap();
    fs::copy(shared.proof(), &proof).unwrap();
    assert_eq!(done(args!["verify", "--key", key, proof])["verdict"], "accept");
}

#[test]
fn verify_compares_with_what_is_expected() {
    let shared = Shared::get();
    let (prompt, output) = (
        id_list(&shared.prove["prompt_ids"]),
        id_list(&shared.prove["output_ids"]),
    );
    let output_text = shared.prove["output_text"].as_str().unwrap();
    let verify = |more: [&str; 2]| json(args!["verify", "--key", shared.key(), shared.proof(), more[0], more[1]]);
    for right in [
        ["--expect-prompt", PROMPT],
        ["--expect-output", output_text],
        ["--expect-prompt-ids", &prompt],
        ["--expect-output-ids", &output],
    ] {
        assert_eq!(verify(right).0, 0, "{right:?}");
    }
    for (wrong, reason) in [
        (["--expect-prompt", "Once upon a tome"], "prompt"),
        (["--expect-output", "something else"], "output"),
        (["--expect-prompt-ids", "1"], "ids, expected 1"),
        (["--expect-output-ids", &format!("{output},5")], "12 ids, expected 13"),
    ] {
        let (status, value) = verify(wrong);
        assert_eq!((status, &value["verdict"]), (1, &json!("reject")), "{wrong:?}");
        assert!(value["reason"].as_str().unwrap().contains(reason), "{value}");
        assert_eq!(value["output_ids"], shared.prove["output_ids"]);
    }
}

#[test]
fn wrong_proofs_are_rejected_with_a_reason() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let path = dir.path().join("proof");
    let good = fs::read(shared.proof()).unwrap();
    let mut cases = vec![Vec::new(), b"nonsense".to_vec(), good[..good.len() / 2].to_vec()];
    cases.push([good.as_slice(), b"x"].concat());
    for at in (12..good.len()).step_by(good.len() / 24) {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        cases.push(flipped);
    }
    for (i, bytes) in cases.iter().enumerate() {
        fs::write(&path, bytes).unwrap();
        let (status, value) = json(args!["verify", "--key", shared.key(), path]);
        let other_model = status == 2 && value["error"].as_str().is_some_and(|e| e.contains("another model"));
        let rejected = status == 1 && value["verdict"] == "reject" && value["reason"].is_string();
        assert!(rejected || other_model, "case {i}: {status} {value}");
        // Bytes 12..44 are the id of the model.
        assert!(rejected || (4..6).contains(&i), "case {i}: {value}");
    }
    fs::write(&path, b"nonsense").unwrap();
    let text = tessera(args!["verify", "--key", shared.key(), path]);
    assert!(String::from_utf8(text.stdout)
        .unwrap()
        .starts_with("rejected: malformed"));
}

#[test]
fn generate_agrees_with_the_proof() {
    let shared = Shared::get();
    let ids = id_list(&shared.prove["prompt_ids"]);
    let dir = tempdir().unwrap();
    let logits = dir.path().join("logits");
    for prompt in [["--prompt", PROMPT], ["--prompt-ids", &ids]] {
        let generated = done(args![
            "generate",
            "--model",
            shared.model(),
            prompt[0],
            prompt[1],
            "--tokens",
            "12",
            "--logits-out",
            logits
        ]);
        assert_eq!(generated["output_ids"], shared.prove["output_ids"]);
        assert_eq!(generated["output_text"], shared.prove["output_text"]);
        assert!(number(&generated, "tokens_per_second") > 0.0);
    }
    let rows = shared.prove["prompt_ids"].as_array().unwrap().len() + 11;
    assert_eq!(fs::metadata(&logits).unwrap().len(), (rows * 2048 * 2) as u64);
}

#[test]
fn fidelity_on_the_golden_texts() {
    let shared = Shared::get();
    let report = done(args![
        "fidelity",
        "--model",
        shared.model(),
        "--checkpoint",
        CHECKPOINT,
        "--text",
        GOLDEN
    ]);
    let (float, integer) = (
        number(&report, "perplexity_float"),
        number(&report, "perplexity_integer"),
    );
    assert!((float - 12.1996).abs() < 1e-3, "{report}");
    assert!((integer / float - 1.0).abs() < 1e-3, "{report}");
    assert!(
        number(&report, "kl") <= 2e-4 && number(&report, "top1") >= 0.99,
        "{report}"
    );
    assert!(report["saturated"].is_object());
}

#[test]
fn inspect_recognises_everything() {
    let shared = Shared::get();
    let inspect = |path: &Path| done(args!["inspect", path]);
    let checkpoint = inspect(Path::new(CHECKPOINT));
    assert_eq!(checkpoint["kind"], "checkpoint");
    assert_eq!(checkpoint["provable"], true);
    for key in ["memory_bytes", "disk_bytes", "prove_seconds"] {
        assert!(number(&checkpoint["predicted"], key) > 0.0);
    }
    let disk = number(&checkpoint["predicted"], "disk_bytes") / number(&shared.setup, "disk_bytes");
    assert!((0.9..1.1).contains(&disk), "predicted disk is {disk} of the real one");
    for (path, kind) in [
        (shared.model(), "model directory"),
        (shared.key(), "model key"),
        (shared.proof(), "proof"),
    ] {
        let report = inspect(&path);
        assert_eq!(report["kind"], kind);
        assert_eq!(report["model_id"], shared.prove["model_id"]);
    }
    assert_eq!(inspect(&shared.proof())["output_ids"], shared.prove["output_ids"]);
}

#[test]
fn inspect_names_what_is_unsupported() {
    let dir = tempdir().unwrap();
    let checkpoint = configured_checkpoint(
        dir.path(),
        &[
            ("hidden_act", json!("gelu")),
            ("rope_scaling", json!({"type": "xpos", "factor": 2.0})),
        ],
    );
    let report = done(args!["inspect", checkpoint]);
    assert_eq!(report["provable"], false);
    let unsupported = report["unsupported"].to_string();
    assert!(
        unsupported.contains("hidden_act") && unsupported.contains("rope_scaling"),
        "{unsupported}"
    );
    assert!(report["predicted"].is_null());
    fails(
        args!["setup", checkpoint, "--out", dir.path().join("out")],
        &["hidden_act", "rope_scaling"],
    );
    assert!(!dir.path().join("out").exists());
}

#[test]
fn a_model_of_odd_dimensions_goes_all_the_way() {
    let dir = tempdir().unwrap();
    let checkpoint = dir.path().join("checkpoint");
    fs::create_dir(&checkpoint).unwrap();
    let config = ModelConfig {
        hidden: 64,
        layers: 3,
        heads: 8,
        kv_heads: 4,
        head_dim: 8,
        ff: 172,
        vocab: 512,
        context: 96,
        rms_eps: 1e-5,
        rotations: vec![Rotation::Base(10_000.0)],
        rotation_of: Vec::new(),
        positions: false,
        gated: true,
        head_norms: false,
        blocks: Blocks::DECODER,
        bos: Some(1),
        eos: vec![2],
    };
    write_synthetic(&checkpoint, &config, 7, Dtype::BF16).unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "Byte fallback: naïve 猫 🦀, and plain words.").unwrap();
    for strategy in ["w8", "w12"] {
        let (model, proof) = (dir.path().join(strategy), dir.path().join("proof"));
        done(args!["setup", checkpoint, "--out", model, "--strategy", strategy]);
        let proved = done(args![
            "prove", "--model", model, "--prompt", "a 猫", "--tokens", "3", "--out", proof
        ]);
        let verified = done(args![
            "verify",
            "--key",
            model.join("model.key"),
            proof,
            "--expect-prompt",
            "a 猫"
        ]);
        assert_eq!(verified["output_ids"], proved["output_ids"]);
        let report = done(args![
            "fidelity",
            "--model",
            model,
            "--checkpoint",
            checkpoint,
            "--text",
            text
        ]);
        let change = number(&report, "perplexity_integer") / number(&report, "perplexity_float") - 1.0;
        assert!(change.abs() < 0.02, "{report}");
    }
}

#[test]
fn demo_proves_a_story() {
    let dir = tempdir().unwrap();
    let keep = dir.path().join("kept");
    let output = tessera(args!["demo", "--tokens", "10", "--keep", keep, "--threads", "2"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for word in [PROMPT, "set-up", "proof", "verification", "security", "What was proved"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let verified = done(args![
        "verify",
        "--key",
        keep.join("model/model.key"),
        keep.join("story.proof")
    ]);
    assert_eq!(verified["output_ids"].as_array().unwrap().len(), 10);
}

/// The whole way with a checkpoint of public dimensions, cut to one layer and without a tokenizer.
#[test]
fn synthetic_checkpoints_are_set_up_without_a_tokenizer() {
    let dir = tempdir().unwrap();
    let (checkpoint, model) = (dir.path().join("checkpoint"), dir.path().join("model"));
    let synth = args![
        "synth",
        "--shape",
        "smollm2-135m",
        "--layers",
        "1",
        "--seed",
        "3",
        "--out",
        checkpoint
    ];
    let made = done(synth.clone());
    assert_eq!(made["config"]["hidden"], 576);
    assert_eq!(number(&made, "parameters"), 31_852_224.0);
    fails(synth, &["checkpoint", "exists"]);
    let report = done(args!["setup", checkpoint, "--out", model, "--codeword-cache", "none"]);
    assert_eq!(report["strategy"], "auto");
    assert_eq!(report["codeword_kept"], false);
    assert_eq!(number(&report, "weights"), 60_162_048.0);
    let generated = done(args![
        "generate",
        "--model",
        model,
        "--prompt-ids",
        "1,7",
        "--tokens",
        "2"
    ]);
    assert_eq!(generated["output_ids"].as_array().unwrap().len(), 2);
    fails(
        args!["generate", "--model", model, "--prompt", "hello", "--tokens", "2"],
        &["no tokenizer", "--prompt-ids"],
    );
    fails(args!["setup", "--out", model], &["CHECKPOINT"]);
}

#[test]
fn caches_are_rebuilt() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let model = dir.path().join("model");
    shared.copy_model(&model);
    let prove = |out: &str| {
        let out = dir.path().join(out);
        done(args![
            "prove", "--model", model, "--prompt", PROMPT, "--tokens", "2", "--out", out
        ]);
        fs::read(out).unwrap()
    };
    let rebuild = |cache: &str| {
        done(args![
            "setup",
            "--rebuild-cache",
            "--out",
            model,
            "--codeword-cache",
            cache
        ])
    };
    let expected = prove("kept");
    assert_eq!(shared.setup["codeword_kept"], true);
    let without = rebuild("none");
    assert_eq!(without["codeword_kept"], false);
    assert!(prove("made again") == expected);
    fs::write(model.join("tree.bin"), "x").unwrap();
    let with = rebuild("full");
    assert_eq!(with["codeword_kept"], true);
    assert!(number(&with, "disk_bytes") > number(&without, "disk_bytes"));
    assert!(prove("kept again") == expected);
    fails(
        args!["setup", CHECKPOINT, "--rebuild-cache", "--out", model],
        &["cannot be used with"],
    );
}

#[test]
fn bench_measures_every_phase() {
    let dir = tempdir().unwrap();
    let (work, out) = (dir.path().join("work"), dir.path().join("costs.json"));
    let bench = || {
        let shape = "smollm2-135m";
        args!["bench", "--shape", shape, "--layers", "1", "--tokens", "2", "--work", work, "--out", out]
    };
    let report = done(bench());
    let written: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    assert_eq!(written, report);
    let model = &report["models"][0];
    let statement = &model["statements"][0];
    for pass in ["plain_read", "first_pass", "second_pass"] {
        assert!(number(&model["passes"][pass], "ns_per_weight") > 0.0, "{model}");
    }
    assert!(number(&model["passes"], "passes_to_plain_read") > 0.0);
    assert!(number(model, "setup_ns_per_weight_and_core") > 0.0);
    for key in [
        "proof_to_inference",
        "verify_seconds",
        "proof_bytes",
        "security_bits",
        "seconds_per_token",
    ] {
        assert!(number(statement, key) > 0.0, "{key}: {statement}");
    }
    let memory = number(statement, "predicted_bytes") / number(statement, "peak_rss_bytes");
    assert!(
        (0.85..1.15).contains(&memory),
        "predicted memory is {memory} of the measured peak"
    );
    // What is there is used again.
    assert_eq!(
        names(&work),
        [
            "smollm2-135m-1.checkpoint",
            "smollm2-135m-1.model",
            "smollm2-135m-1.proof",
            "smollm2-135m-1.setup.json"
        ]
    );
    assert_eq!(done(bench())["models"][0]["setup"], model["setup"]);
    fails(
        args!["bench", "--shape", "smollm2-135m", "--tokens", "0"],
        &["at least one token"],
    );
}
