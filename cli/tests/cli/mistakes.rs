//! Files and directories in the place of others: the error says what they are, and what to do.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{json, Value};
use tempfile::tempdir;

use crate::args;
use crate::support::{
    configured_checkpoint, done, edited_checkpoint, fails, json, names, tessera, Shared, CHECKPOINT, PROMPT,
};

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

/// `inspect` reads a tokenizer as set-up does: what that refuses is not called provable.
#[test]
fn a_checkpoint_whose_tokenizer_cannot_be_read_is_not_provable() {
    for (file, content, words) in [
        ("tokenizer.json", "hello", "tokenizer.json: the file is not JSON"),
        ("tokenizer.json", "{\"model\": ", "tokenizer.json: the file is cut off"),
        ("tokenizer.json", "{\"model\": 3}", "tokenizer.json: "),
        (
            "tokenizer_config.json",
            "[",
            "tokenizer_config.json: the file is cut off",
        ),
    ] {
        let dir = tempdir().unwrap();
        let checkpoint = configured_checkpoint(dir.path(), &[]);
        fs::write(checkpoint.join(file), content).unwrap();
        let report = done(args!["inspect", checkpoint]);
        let error = report["tokenizer_error"].as_str().expect("an error");
        assert!(error.contains(words) && error.contains("ids"), "{error}");
        assert_eq!(
            (&report["provable"], &report["tokenizer"]),
            (&false.into(), &false.into())
        );
        fails(args!["setup", checkpoint, "--out", dir.path().join("model")], &[error]);
        // Nothing else is wrong with it.
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            let _ = fs::remove_file(checkpoint.join(file));
        }
        let report = done(args!["inspect", checkpoint]);
        assert_eq!(
            (&report["provable"], &report["tokenizer"]),
            (&true.into(), &false.into())
        );
    }
}

/// The error names the file and what helps, and the path once.
#[test]
fn a_damaged_checkpoint_is_said_to_be_damaged_and_where() {
    let tensor = "model.layers.0.self_attn.q_proj.weight";
    for (file, change, words) in [
        (
            "model.safetensors",
            Change::Cut(0),
            "the file is empty: download it again",
        ),
        (
            "model.safetensors",
            Change::Cut(100),
            "cut off: it ends after 100 bytes",
        ),
        (
            "model.safetensors",
            Change::Cut(100_000),
            "cut off: it has 100000 bytes, and its tensors end at byte 26",
        ),
        (
            "model.safetensors",
            Change::Text("\u{7}\0\0\0\0\0\0\0hello"),
            "is not safetensors",
        ),
        (
            "model.safetensors",
            Change::Field("dtype", json!("Q9")),
            "dtype: unknown variant `Q9`",
        ),
        (
            "model.safetensors",
            Change::Field("shape", json!([1, 2])),
            "shape [1, 2] do not take the 65536 bytes",
        ),
        ("config.json", Change::Cut(0), "config.json: the file is empty"),
        ("config.json", Change::Cut(30), "config.json: the file is cut off"),
        (
            "config.json",
            Change::Text("[1]"),
            "config.json: the file holds no JSON object",
        ),
        (
            "config.json",
            Change::Text("hello"),
            "config.json: the file is not JSON",
        ),
    ] {
        let dir = tempdir().unwrap();
        let checkpoint = match &change {
            Change::Field(field, value) => {
                edited_checkpoint(dir.path(), |header, _| header[tensor][field] = value.clone())
            }
            _ => configured_checkpoint(dir.path(), &[]),
        };
        let path = checkpoint.join(file);
        match change {
            Change::Cut(bytes) => fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(bytes)
                .unwrap(),
            Change::Text(text) => fs::write(&path, text).unwrap(),
            Change::Field(..) => {}
        }
        for command in [
            args!["inspect", checkpoint],
            args!["setup", checkpoint, "--out", dir.path().join("model")],
        ] {
            fails(command.clone(), &[file, words]);
            let (_, report) = self::json(command);
            let error = report["error"].as_str().unwrap();
            assert_eq!(error.matches(&*checkpoint.to_string_lossy()).count(), 1, "{error}");
        }
    }
}

enum Change {
    Cut(u64),
    Text(&'static str),
    /// Of a tensor in the header.
    Field(&'static str, Value),
}

/// As `tessera-verify` does.
#[test]
fn standard_input_can_be_the_key_or_the_proof() {
    let shared = Shared::get();
    let (key, proof) = (shared.key(), shared.proof());
    let run = |args: Vec<OsString>, input: &Path| {
        let child = Command::new(env!("CARGO_BIN_EXE_tessera"))
            .args(args)
            .stdin(fs::File::open(input).unwrap())
            .output();
        let output = child.expect("the binary runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code().unwrap(), text)
    };
    for (args, input, status, words) in [
        (args!["verify", "--key", key, "-"], &proof, 0, "accepted"),
        (args!["verify", "--key", "-", proof], &key, 0, "accepted"),
        (
            args!["verify", "--key", "-", "-"],
            &key,
            2,
            "only one of key and proofs",
        ),
        (
            args!["verify", "--key", key, "-"],
            &key,
            1,
            "standard input is a model key",
        ),
        (
            args!["verify", "--key", "-", proof],
            &proof,
            2,
            "standard input is a proof, not a model key",
        ),
        (args!["inspect", "-"], &key, 0, "standard input"),
        (args!["inspect", "-"], &proof, 0, "not verified"),
    ] {
        let (got, text) = run(args, input);
        assert!(got == status && text.contains(words), "{got} {text}");
    }
    fails(args!["verify", "--key", key, shared.model()], &["is a directory"]);
}

/// A file may be called like an option; help is for who asks for nothing else.
#[test]
fn help_beside_other_arguments_is_wrong_usage() {
    let shared = Shared::get();
    let (key, proof) = (shared.key(), shared.proof());
    for own in ["-h", "--help", "-h.proof", "-V", "--version"] {
        let wrong = match own {
            // No command has a version.
            "-V" | "--version" => "unexpected argument",
            _ => "goes with no other argument",
        };
        fails(args!["verify", "--key", key, own], &[wrong]);
        fails(args!["verify", "--key", key, proof, own], &[wrong]);
    }
    fails(
        args!["--version", "verify", "--key", key, proof],
        &["goes with no other argument"],
    );
    for asked in [
        args!["--help"],
        args!["-V"],
        args!["verify", "-h"],
        args!["help", "chain", "plan"],
        args!["chain", "plan", "--help"],
    ] {
        assert_eq!(tessera(&asked).status.code(), Some(0), "{asked:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("-h"), b"nothing").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tessera"))
        .args(args!["verify", "--key", key, "--", "-h"])
        .current_dir(dir.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
