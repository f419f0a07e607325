//! Everything that can be wrong with the input: a message that names it, exit status 2, nothing left on disk.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::tempdir;

use crate::args;
use crate::support::{
    configured_checkpoint, copy_dir, done, edited_checkpoint, fails, names, tessera, with_full_disk, Shared,
    CHECKPOINT, PROMPT,
};

const TENSOR: &str = "model.layers.1.mlp.up_proj.weight";

/// Setup must fail, name `words`, and leave nothing but the checkpoint.
fn setup_fails(checkpoint: &Path, words: &[&str]) {
    let parent = checkpoint.parent().unwrap();
    fails(args!["setup", checkpoint, "--out", parent.join("model")], words);
    assert_eq!(names(parent), ["checkpoint"]);
}

#[test]
fn damaged_tensor_files() {
    for (bytes, word) in [
        (100_000, "model.safetensors"),
        (5, "model.safetensors"),
        (0, "model.safetensors"),
    ] {
        let dir = tempdir().unwrap();
        let checkpoint = edited_checkpoint(dir.path(), |_, _| ());
        let path = checkpoint.join("model.safetensors");
        let good = fs::read(&path).unwrap();
        fs::write(&path, &good[..bytes]).unwrap();
        setup_fails(&checkpoint, &[word]);
    }
    let dir = tempdir().unwrap();
    let checkpoint = edited_checkpoint(dir.path(), |_, _| ());
    fs::write(checkpoint.join("model.safetensors"), [0xff; 1000]).unwrap();
    setup_fails(&checkpoint, &["model.safetensors"]);
    fs::remove_file(checkpoint.join("model.safetensors")).unwrap();
    setup_fails(&checkpoint, &["model.safetensors"]);
}

#[test]
fn missing_and_misshapen_tensors() {
    let dir = tempdir().unwrap();
    let checkpoint = edited_checkpoint(dir.path(), |header, data| {
        // Safetensors allows no holes: the last tensor goes, with its data.
        let tensors = header.as_object_mut().unwrap();
        let (_, info) = tensors.iter().find(|(name, _)| *name == TENSOR).unwrap();
        let start = info["data_offsets"][0].as_u64().unwrap();
        let end = info["data_offsets"][1].as_u64().unwrap();
        tensors.remove(TENSOR);
        for (_, info) in tensors.iter_mut().filter(|(_, i)| i["data_offsets"].is_array()) {
            for at in 0..2 {
                let offset = info["data_offsets"][at].as_u64().unwrap();
                info["data_offsets"][at] = json!(if offset >= end { offset - (end - start) } else { offset });
            }
        }
        data.drain(start as usize..end as usize);
    });
    setup_fails(&checkpoint, &[TENSOR, "missing"]);

    let dir = tempdir().unwrap();
    let checkpoint = edited_checkpoint(dir.path(), |header, _| header[TENSOR]["shape"] = json!([128, 384]));
    setup_fails(&checkpoint, &[TENSOR, "[128, 384]", "[384, 128]"]);
}

#[test]
fn weights_that_are_no_numbers() {
    for (value, word) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let dir = tempdir().unwrap();
        let checkpoint = edited_checkpoint(dir.path(), |header, data| {
            let start = header[TENSOR]["data_offsets"][0].as_u64().unwrap() as usize;
            data[start + 4 * 77..][..4].copy_from_slice(&value.to_le_bytes());
        });
        setup_fails(&checkpoint, &[TENSOR, "77", word]);
    }
}

#[test]
fn unsupported_or_broken_configs() {
    for (field, value, word) in [
        ("architectures", json!(["MixtralForCausalLM"]), "MixtralForCausalLM"),
        ("hidden_size", json!("many"), "hidden_size"),
        ("head_dim", json!(7), "head_dim"),
        ("num_key_value_heads", json!(3), "key/value heads"),
    ] {
        let dir = tempdir().unwrap();
        let checkpoint = configured_checkpoint(dir.path(), &[(field, value)]);
        setup_fails(&checkpoint, &[word]);
    }
    let dir = tempdir().unwrap();
    let checkpoint = configured_checkpoint(dir.path(), &[]);
    fs::write(checkpoint.join("config.json"), "{").unwrap();
    setup_fails(&checkpoint, &["config.json"]);
    fs::remove_file(checkpoint.join("config.json")).unwrap();
    setup_fails(&checkpoint, &["config.json"]);
}

#[test]
fn unusable_texts_and_tokenizers() {
    let dir = tempdir().unwrap();
    let text = dir.path().join("text");
    let setup = |checkpoint: &Path, words: &[&str]| {
        fails(
            args![
                "setup",
                checkpoint,
                "--out",
                dir.path().join("m"),
                "--calibration",
                text
            ],
            words,
        );
    };
    setup(Path::new(CHECKPOINT), &["text", "cannot read"]);
    fs::write(&text, "").unwrap();
    setup(Path::new(CHECKPOINT), &["text"]);
    fs::write(&text, "{\"ids\": [1, 2048]}").unwrap();
    setup(Path::new(CHECKPOINT), &["text", "2048"]);
    let broken = configured_checkpoint(dir.path(), &[]);
    fs::write(broken.join("tokenizer.json"), "{}").unwrap();
    setup(&broken, &["tokenizer.json"]);
    // Without a tokenizer, texts cannot be used.
    fs::remove_file(broken.join("tokenizer.json")).unwrap();
    fs::write(&text, "Once upon a time").unwrap();
    setup(&broken, &["text", "tokenizer.json"]);
    assert_eq!(names(dir.path()), ["checkpoint", "text"]);
}

#[test]
fn outputs_that_exist_or_cannot_be_written() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let full = dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("precious"), "x").unwrap();
    fails(args!["setup", CHECKPOINT, "--out", full], &["full", "exists"]);
    assert_eq!(names(&full), ["precious"]);
    let prove = |out: PathBuf, words: &[&str]| {
        fails(
            args![
                "prove",
                "--model",
                shared.model(),
                "--prompt",
                PROMPT,
                "--tokens",
                "2",
                "--out",
                out
            ],
            words,
        );
    };
    prove(dir.path().join("missing/proof"), &["missing/proof"]);
    prove(full.clone(), &["full"]);
    assert_eq!(names(dir.path()), ["full"]);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    for (args, word) in [
        (
            args!["setup", CHECKPOINT, "--out", dir.path().join("m")],
            "cannot write",
        ),
        (
            args![
                "prove",
                "--model",
                shared.model(),
                "--prompt",
                PROMPT,
                "--tokens",
                "2",
                "--out",
                dir.path().join("p")
            ],
            "cannot write",
        ),
    ] {
        let output = with_full_disk(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains(word) && text.contains(dir.path().to_str().unwrap()),
            "{text}"
        );
        // A set-up keeps its finished steps, and says so; here the scales.
        let partial = dir.path().join("m.partial");
        if partial.exists() {
            assert!(text.contains(partial.to_str().unwrap()), "{text}");
            assert_eq!(names(&partial), ["setup.json", "setup.lock"]);
            fs::remove_dir_all(&partial).unwrap();
        }
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }
}

#[test]
fn impossible_prompts() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    let long = vec!["1"; 513].join(",");
    for (ids, tokens, words) in [
        (long.as_str(), "1", ["513", "512"]),
        ("1,2", "600", ["600", "512"]),
        ("1,2048", "2", ["2048", "position 1"]),
        ("1", "0", ["no ", "token"]),
    ] {
        let prompt = ["--prompt-ids", ids, "--tokens", tokens];
        let args = |command: &str, more: &[&Path]| {
            let mut all = args![command, "--model", shared.model()];
            all.extend(prompt.iter().map(Into::into));
            all.extend(more.iter().map(|p| p.as_os_str().to_owned()));
            all
        };
        fails(args("prove", &[Path::new("--out"), &out]), &words);
        fails(args("generate", &[]), &words);
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn damaged_model_directories() {
    let shared = Shared::get();
    for file in [
        "model.json",
        "weights.bin",
        "codeword.bin",
        "tree.bin",
        "model.key",
        "tokenizer.json",
        "tables.bin",
    ] {
        let dir = tempdir().unwrap();
        let (model, proof) = (dir.path().join("model"), dir.path().join("proof"));
        shared.copy_model(&model);
        let path = model.join(file);
        let good = fs::read(&path).unwrap();
        let prove = |words: &[&str]| {
            fails(
                args!["prove", "--model", model, "--prompt", PROMPT, "--tokens", "2", "--out", proof],
                words,
            )
        };
        fs::remove_file(&path).unwrap();
        // The codeword is made again where it is not kept.
        if file != "codeword.bin" {
            prove(&[file]);
        }
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        prove(&[file]);
        let mut flipped = good.clone();
        // Every codeword entry is opened with some probability only; all of them are certain to be.
        let flips = if file == "codeword.bin" {
            0..good.len()
        } else {
            good.len() / 2..good.len() / 2 + 1
        };
        flipped[flips].iter_mut().for_each(|b| *b ^= 1);
        fs::write(&path, flipped).unwrap();
        prove(&[file]);
        assert_eq!(names(dir.path()), ["model"]);
    }
    let dir = tempdir().unwrap();
    fails(
        args!["generate", "--model", dir.path(), "--prompt", PROMPT, "--tokens", "2"],
        &["model.key"],
    );
    fails(
        args!["generate", "--model", "/nowhere", "--prompt", PROMPT, "--tokens", "2"],
        &["/nowhere"],
    );
}

#[test]
fn keys_of_another_model() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let other = dir.path().join("other");
    assert!(tessera(args!["setup", CHECKPOINT, "--out", other, "--strategy", "w8"])
        .status
        .success());
    let other_key = other.join("model.key");
    fails(
        args!["verify", "--key", other_key, shared.proof()],
        &["model.key", "another model"],
    );
    let mixed = dir.path().join("mixed");
    shared.copy_model(&mixed);
    fs::copy(&other_key, mixed.join("model.key")).unwrap();
    fails(
        args!["generate", "--model", mixed, "--prompt", PROMPT, "--tokens", "2"],
        &["model.key", "another model"],
    );
}

#[test]
fn unreadable_keys_and_proofs() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let key = dir.path().join("key");
    fails(args!["verify", "--key", key, shared.proof()], &["key"]);
    let good = fs::read(shared.key()).unwrap();
    let mut other = good.clone();
    other[20] ^= 0xff;
    for bytes in [
        Vec::new(),
        b"TESSKEY\0".to_vec(),
        good[..good.len() - 1].to_vec(),
        other,
    ] {
        fs::write(&key, bytes).unwrap();
        fails(args!["verify", "--key", key, shared.proof()], &["key"]);
    }
    // One that reads as a key, with a dimension that none has, is said to be damaged; not one of another version.
    for (at, advice) in [(27, true), (8, false)] {
        let mut other = good.clone();
        other[at] ^= 0x55;
        fs::write(&key, other).unwrap();
        for args in [args!["verify", "--key", key, shared.proof()], args!["inspect", key]] {
            let output = tessera(args);
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success());
            assert_eq!(text.contains("the file is damaged"), advice, "{text}");
        }
    }
    fails(
        args!["verify", "--key", shared.proof(), shared.proof()],
        &["story.proof"],
    );
    fails(
        args!["verify", "--key", shared.key(), dir.path().join("nothing")],
        &["nothing"],
    );
    fails(args!["inspect", dir.path().join("nothing")], &["nothing"]);
    fails(args!["inspect", key], &["key"]);
    fails(args!["inspect", dir.path()], &["neither"]);
    fails(
        args!["verify", "--key", shared.key(), dir.path()],
        &[dir.path().to_str().unwrap()],
    );
}

#[test]
fn a_checkpoint_of_other_dimensions_cannot_be_compared() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "Once upon a time there was a cat.").unwrap();
    let checkpoint = configured_checkpoint(dir.path(), &[("max_position_embeddings", json!(256))]);
    fails(
        args![
            "fidelity",
            "--model",
            shared.model(),
            "--checkpoint",
            checkpoint,
            "--text",
            text
        ],
        &["other dimensions"],
    );
    let copied = dir.path().join("copied");
    copy_dir(Path::new(CHECKPOINT), &copied);
    fails(
        args![
            "fidelity",
            "--model",
            shared.model(),
            "--checkpoint",
            copied,
            "--text",
            dir.path().join("no")
        ],
        &["no"],
    );
}

#[test]
fn wrong_usage() {
    let shared = Shared::get();
    let model = shared.model();
    fails(args!["unknown"], &["unknown"]);
    fails(
        args!["prove", "--model", model, "--tokens", "2", "--out", "x"],
        &["--prompt"],
    );
    fails(
        args![
            "generate",
            "--model",
            model,
            "--prompt",
            "a",
            "--prompt-ids",
            "1",
            "--tokens",
            "2"
        ],
        &["--prompt-ids"],
    );
    fails(
        args!["generate", "--model", model, "--prompt-ids", "1,x", "--tokens", "2"],
        &["x"],
    );
    fails(
        args![
            "generate",
            "--model",
            model,
            "--prompt-ids",
            "1",
            "--tokens",
            "2",
            "--threads",
            "0"
        ],
        &["threads"],
    );
    let help = tessera(["inspect", "--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("committed cell"));
}

#[test]
fn a_memory_budget_is_kept_or_refused_before_any_work() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let (proof, model) = (dir.path().join("proof"), dir.path().join("model"));
    let prove = |memory: &str| {
        let ids = "5,6,7";
        args![
            "prove",
            "--model",
            shared.model(),
            "--prompt-ids",
            ids,
            "--tokens",
            "250",
            "--out",
            proof,
            "--memory",
            memory
        ]
    };
    let generate = args![
        "generate",
        "--model",
        shared.model(),
        "--prompt",
        PROMPT,
        "--tokens",
        "4",
        "--memory",
        "1MB"
    ];
    let setup = args!["setup", CHECKPOINT, "--out", model, "--memory", "1MB"];
    for command in [prove("1MB"), generate, setup] {
        fails(command, &["a memory budget of 1MB is too small", "at least"]);
        assert!(names(dir.path()).is_empty());
    }
    // The smallest budget is named, works, and is kept.
    let (_, value) = crate::support::json(prove("1MB"));
    let message = value["error"].as_str().unwrap();
    let smallest: u64 = message
        .split(" needs ")
        .nth(1)
        .and_then(|rest| rest.split("MB ").next()?.parse().ok())
        .unwrap();
    // It is rounded up to the next MB.
    let (too_small, enough) = (format!("{}MB", smallest - 1), format!("{smallest}MB"));
    fails(prove(&too_small), &[&enough, "prove --work", "2 chunks"]);
    let report = done(prove(&enough));
    let smallest = smallest * 1_000_000;
    let bytes = |key: &str| report[key].as_u64().unwrap();
    assert!(bytes("predicted_bytes") < smallest, "{report}");
    assert!(bytes("peak_rss_bytes") <= smallest, "{report}");
    assert!(report["memory"]["streamed_window_bytes"].is_u64(), "{report}");
    assert!(
        report["weight_passes"]["matmuls"]["stall_seconds"].is_number(),
        "{report}"
    );
    assert_eq!(names(dir.path()), ["proof"]);
    fails(prove("4 pounds"), &["\"4 pounds\" is no amount of memory"]);
}
