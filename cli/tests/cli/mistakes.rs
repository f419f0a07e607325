//! Files and directories in the place of others: the error says what they are, and what to do.

use std::fs;

use tempfile::tempdir;

use crate::args;
use crate::support::{configured_checkpoint, fails, json, names, tessera, Shared, CHECKPOINT, PROMPT};

#[test]
fn a_git_lfs_pointer_is_called_one() {
    let dir = tempdir().unwrap();
    let checkpoint = configured_checkpoint(dir.path(), &[]);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 2624000\n";
    fs::write(checkpoint.join("model.safetensors"), pointer).unwrap();
    let words = ["model.safetensors", "git-LFS pointer", "git lfs pull"];
    fails(args!["setup", checkpoint, "--out", dir.path().join("model")], &words);
    fails(args!["inspect", checkpoint], &words);
    assert_eq!(names(dir.path()), ["checkpoint"]);
}

#[test]
fn a_checkpoint_of_pytorch_is_to_be_converted() {
    let dir = tempdir().unwrap();
    let model = dir.path().join("model");
    for name in ["pytorch_model.bin", "consolidated.00.pth"] {
        let checkpoint = configured_checkpoint(dir.path(), &[]);
        fs::rename(checkpoint.join("model.safetensors"), checkpoint.join(name)).unwrap();
        fails(
            args!["setup", checkpoint, "--out", model],
            &[name, "PyTorch", "safetensors", "convert"],
        );
        fails(
            args!["setup", checkpoint.join(name), "--out", model],
            &[name, "PyTorch", "convert"],
        );
        fs::remove_dir_all(&checkpoint).unwrap();
    }
    let tensors = format!("{CHECKPOINT}/model.safetensors");
    fails(
        args!["setup", tensors, "--out", model],
        &["file of tensors", "config.json"],
    );
    assert!(names(dir.path()).is_empty());
}

/// Whatever command it is given to, a checkpoint is no model directory, and the other way round.
#[test]
fn checkpoints_and_model_directories_are_told_apart() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let (out, work) = (dir.path().join("proof"), dir.path().join("work"));
    let prove =
        |model: &std::ffi::OsStr| args!["prove", "--model", model, "--prompt", PROMPT, "--tokens", "2", "--out", out];
    let setup = format!("tessera setup {CHECKPOINT}");
    let words = ["is a checkpoint, not a model directory", setup.as_str()];
    fails(prove(CHECKPOINT.as_ref()), &words);
    fails([prove(CHECKPOINT.as_ref()), args!["--work", work]].concat(), &words);
    fails(
        args!["generate", "--model", CHECKPOINT, "--prompt", "a", "--tokens", "2"],
        &words,
    );
    fails(args!["setup", "--rebuild-cache", "--out", CHECKPOINT], &words);
    let text = format!("{CHECKPOINT}/config.json");
    fails(
        args![
            "fidelity",
            "--model",
            CHECKPOINT,
            "--checkpoint",
            CHECKPOINT,
            "--text",
            text
        ],
        &words,
    );
    fails(
        prove(shared.key().as_ref()),
        &["model key without weights", "directory"],
    );
    fails(prove(shared.proof().as_ref()), &["is a proof"]);

    let model = shared.model();
    let setup = args!["setup", model, "--out", dir.path().join("again")];
    fails(setup, &["is a model directory", "prove --model"]);
    fails(
        args!["setup", shared.key(), "--out", dir.path().join("again")],
        &["is a model key, not a checkpoint"],
    );

    fs::create_dir(dir.path().join("half.partial")).unwrap();
    fails(
        prove(dir.path().join("half").as_ref()),
        &["half.partial", "interrupted"],
    );
    assert_eq!(names(dir.path()), ["half.partial"]);
}

#[test]
fn keys_and_proofs_are_told_apart() {
    let shared = Shared::get();
    let (key, proof, model) = (shared.key(), shared.proof(), shared.model());
    fails(
        args!["verify", "--key", proof, key],
        &["is a proof, not a model key", "model.key"],
    );
    fails(
        args!["verify", "--key", model, proof],
        &["is a model directory", "model.key"],
    );
    fails(
        args!["verify", "--key", CHECKPOINT, proof],
        &["is a checkpoint", "setup"],
    );
    // What is no proof is rejected, whatever else it is.
    let (status, report) = json(args!["verify", "--key", key, key]);
    assert_eq!((status, report["verdict"].as_str()), (1, Some("reject")));
    assert!(
        report["reason"]
            .as_str()
            .unwrap()
            .contains("is a model key, not a proof"),
        "{report}"
    );
}

/// `4G` is what other programs call it; a wrong amount is answered with the units that there are.
#[test]
fn amounts_of_memory_are_read_as_people_write_them() {
    let shared = Shared::get();
    let generate = |memory: &str| {
        let run = args![
            "generate",
            "--model",
            shared.model(),
            "--prompt-ids",
            "1",
            "--tokens",
            "2",
            "--memory",
            memory
        ];
        tessera(run)
    };
    for amount in ["4G", "4GiB", "4GB", "4096M"] {
        assert_eq!(generate(amount).status.code(), Some(0), "{amount}");
    }
    let output = generate("4X");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && text.contains("\"4X\"") && text.contains("GiB"),
        "{text}"
    );
}

/// Help is wrapped for the terminal, at words.
#[test]
fn help_fits_into_the_terminal() {
    for command in ["prove", "setup", "verify", "synth"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tessera"))
            .args([command, "--help"])
            .env("COLUMNS", "80")
            .output()
            .expect("the binary runs");
        let text = String::from_utf8(output.stdout).unwrap();
        let usage = text.lines().filter(|l| !l.starts_with("Usage:"));
        for line in usage {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
}
