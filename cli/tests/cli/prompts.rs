//! Every way to give a prompt, and what is wrong with those that are none.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{json, Value};
use tempfile::tempdir;

use crate::args;
use crate::support::{done, fails, Shared, PROMPT};

fn generate(prompt: Vec<OsString>) -> Vec<OsString> {
    let mut args = args!["generate", "--model", Shared::get().model(), "--tokens", "2"];
    args.extend(prompt);
    args
}

/// The ids of a prompt.
fn ids(prompt: Vec<OsString>) -> Value {
    done(generate(prompt))["prompt_ids"].clone()
}

/// The same, with this on standard input.
fn ids_of_stdin(prompt: Vec<OsString>, input: &[u8]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command
        .args(generate(prompt))
        .arg("--json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    value["prompt_ids"].clone()
}

#[test]
fn texts_come_from_arguments_files_and_standard_input() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("prompt");
    let expected = ids(args!["--prompt", PROMPT]);
    for end in ["", "\n", "\r\n"] {
        let text = format!("{PROMPT}{end}");
        fs::write(&file, &text).unwrap();
        assert_eq!(ids(args!["--prompt-file", file]), expected, "{end:?}");
        for option in ["--prompt", "--prompt-file"] {
            assert_eq!(ids_of_stdin(args![option, "-"], text.as_bytes()), expected, "{end:?}");
        }
    }
    // Only one line end is not meant.
    fs::write(&file, format!("{PROMPT}\n\n")).unwrap();
    assert_ne!(ids(args!["--prompt-file", file]), expected);
}

#[test]
fn a_prompt_may_begin_with_a_hyphen() {
    let ids = |text: &str| ids(args!["--prompt", text]);
    assert_ne!(ids("-x"), ids("x"));
    assert_ne!(ids("--tokens"), ids("tokens"));
}

#[test]
fn ids_are_written_as_people_and_programs_write_them() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("ids");
    for text in [
        "1,403,407",
        "1, 403, 407",
        "1 403 407",
        "[1, 403, 407]",
        " 1\n403\t407\n",
        "[1,403,\n407]\n",
    ] {
        assert_eq!(ids(args!["--prompt-ids", text]), json!([1, 403, 407]), "{text:?}");
        fs::write(&file, text).unwrap();
        assert_eq!(ids(args!["--prompt-ids-file", file]), json!([1, 403, 407]), "{text:?}");
    }
    let expected = Shared::get().prove["prompt_ids"].to_string();
    let (key, proof) = (Shared::get().key(), Shared::get().proof());
    let verdict = done(args!["verify", "--key", key, proof, "--expect-prompt-ids", expected]);
    assert_eq!(verdict["verdict"], "accept");
}

#[test]
fn what_is_no_prompt_is_explained() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("prompt");
    for (content, words) in [
        (&b"Once \xff"[..], &["prompt is not UTF-8", "byte at 5"][..]),
        (b"1,2,x", &["prompt: \"x\" is not a token id"]),
        (b"[]", &["prompt: no token ids"]),
        (b"1,-2", &["\"-2\" is not a token id"]),
        (b"1 2048", &["token id 2048 at position 1", "ends at 2047"]),
    ] {
        fs::write(&file, content).unwrap();
        let option = if content.starts_with(b"Once") {
            "--prompt-file"
        } else {
            "--prompt-ids-file"
        };
        fails(generate(args![option, file]), words);
    }
    fails(
        generate(args!["--prompt-file", dir.path().join("none")]),
        &["cannot read", "none"],
    );
    fails(generate(args!["--prompt-ids", "1,x"]), &["\"x\" is not a token id"]);
    fails(generate(args!["--prompt-ids", ""]), &["no token ids"]);
    fails(
        generate(args!["--prompt", "a", "--prompt-file", file]),
        &["cannot be used with"],
    );
    fails(generate(args![]), &["--prompt <TEXT>"]);
    let endless = fs::File::open("/dev/zero");
    if endless.is_ok() {
        fails(
            generate(args!["--prompt-file", "/dev/zero"]),
            &["more than 16777216 bytes"],
        );
    }
}

/// A tokenizer that puts nothing around a text makes nothing of an empty one.
#[test]
fn a_prompt_that_encodes_to_nothing_is_refused() {
    let dir = tempdir().unwrap();
    let checkpoint = crate::support::configured_checkpoint(dir.path(), &[]);
    let path = checkpoint.join("tokenizer.json");
    let mut tokenizer: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    tokenizer["post_processor"] = Value::Null;
    fs::write(&path, tokenizer.to_string()).unwrap();
    fs::remove_file(checkpoint.join("tokenizer_config.json")).unwrap();
    let model = dir.path().join("model");
    done(args!["setup", checkpoint, "--out", model]);
    fails(
        args!["generate", "--model", model, "--prompt", "", "--tokens", "2"],
        &["the prompt has no tokens", "encodes to nothing"],
    );
}
