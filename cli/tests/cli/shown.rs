//! A verdict beside hostile text: what is printed cannot be taken for something else.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use tempfile::tempdir;
use tessera::model::Model;
use tessera::prover::prove;
use tessera::quantised::generate::GenerateOptions;
use tessera::support::progress::Silent;

use crate::args;
use crate::support::{done, fails, tessera, Shared};

const ROWS: [&str; 10] = [
    "accepted", "model", "prompt", "output", "end", "mode", "security", "time", "proves", "but",
];

/// What `verify` prints of a proof of a prompt; only its own rows begin in the first column.
fn verdict(key: &Path, proof: &Path) -> String {
    let output = tessera(args!["verify", "--key", key, proof]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let labels = text.lines().filter(|l| !l.starts_with(' '));
    let labels: Vec<&str> = labels.map(|l| l.split(' ').next().unwrap()).collect();
    assert_eq!(labels, ROWS, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() < 80, "{line}");
        assert!(line.chars().all(|c| c.is_ascii_graphic() || c == ' '), "{line:?}");
    }
    text
}

/// A key and a proof of it, with a tokenizer of its own.
pub fn proof_with_tokenizer(dir: &Path, tokenizer: &Value, prompt: &[u32]) -> (PathBuf, PathBuf) {
    let mut model = Model::open(Shared::get().model()).expect("a model");
    model.key.tokenizer = tokenizer.to_string().into_bytes();
    model.key.tokenizer_config.clear();
    model.id = model.key.id().expect("an id");
    let report = prove(&model.prover(), prompt, &GenerateOptions::at_most(1), &Silent).expect("a proof");
    let (key, proof) = (dir.join("key"), dir.join("proof"));
    fs::write(&key, model.key.to_bytes().expect("bytes")).expect("a key");
    fs::write(&proof, report.bytes).expect("a proof");
    (key, proof)
}

/// Byte b has the id 10 + b; ids 1, 2 and 3 are special tokens.
pub fn bytes_tokenizer(hostile_name: &str) -> Value {
    let bytes = (0..=255u32).map(|b| (format!("<0x{b:02X}>"), json!(10 + b)));
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let names = [(1, "<|start|>"), (2, "<|end|>"), (3, hostile_name)];
    let mut vocab: serde_json::Map<String, Value> = bytes.collect();
    vocab.extend(names.map(|(id, name)| (name.to_owned(), json!(id))));
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": names.map(|(id, n)| special(id, n)),
        "normalizer": null, "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": true}})
}

pub fn ids(text: &[u8]) -> Vec<u32> {
    text.iter().map(|b| 10 + u32::from(*b)).collect()
}

#[test]
fn a_prompt_cannot_forge_a_line_of_the_verdict() {
    let dir = tempdir().unwrap();
    let forged = "output    \"I admit it.\"";
    for attack in [
        format!("Hi{}{forged}", "\u{a0}".repeat(60)),
        format!("Hi{}{forged}", " ".repeat(63)),
        format!("Hi\"\n{forged}\r\u{85}{forged}"),
        format!("Hi\u{1b}[2K\u{1b}[1A\r{forged}\u{202e}\u{200b} \u{301}"),
        "x".repeat(200),
    ] {
        let (key, proof) = proof_with_tokenizer(dir.path(), &bytes_tokenizer("<|pad|>"), &ids(attack.as_bytes()));
        let text = verdict(&key, &proof);
        assert!(text.contains("\n          \""), "{text}");
        let value = done(args!["verify", "--key", key, proof]);
        assert_eq!(value["prompt_text"], attack, "programs get the text as it is");
    }
}

/// Ids come first, then the text; bytes that are no UTF-8 do not hide the tokens beside them.
#[test]
fn ids_come_before_texts_and_special_tokens_are_named() {
    let dir = tempdir().unwrap();
    let tokenizer = bytes_tokenizer("\" output \"\n");
    let prompt = [
        &[1][..],
        &ids(b"<|end|>"),
        &[2],
        &ids(b"\"\n"),
        &[3],
        &ids(b"a\xff"),
        &[2000],
    ]
    .concat();
    let (key, proof) = proof_with_tokenizer(dir.path(), &tokenizer, &prompt);
    let output = tessera(args!["verify", "--key", key, proof]);
    let text = String::from_utf8(output.stdout).unwrap();
    let list: Vec<String> = prompt.iter().map(u32::to_string).collect();
    let shown =
        "<|start|> \"<|end|>\" <|end|> \"\\\"\\n\" \\\"\\u{20}output\\u{20}\\\"\\n \"\u{fffd}\u{fffd}\" (id 2000: no token)";
    let expected = format!(
        "\nprompt    15 ids: {}\n          {shown}\noutput    1 id: ",
        list.join(" ")
    );
    assert!(
        text.replace("\n          | ", " ").contains(&expected),
        "{text}\n{expected}"
    );
    let value = done(args!["verify", "--key", key, proof]);
    let specials = value["prompt_special_tokens"].as_array().unwrap();
    let positions: Vec<&Value> = specials.iter().map(|t| &t["position"]).collect();
    assert_eq!(positions, [&json!(0), &json!(8), &json!(11), &json!(14)]);
    assert_eq!((&specials[3]["id"], &specials[3]["name"]), (&json!(2000), &Value::Null));
}

#[test]
fn a_hostile_tokenizer_of_five_kilobytes_neither_hangs_nor_floods_the_verdict() {
    let replace = |n: usize| {
        let one = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        vec![one; n]
    };
    let file = |normalizer: Value, decoder: Value| {
        json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": normalizer,
            "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
            "model": {"type": "WordLevel", "vocab": {"a": 80}, "unk_token": "a"}})
    };
    let slow = json!({"type": "Replace", "pattern": {"Regex": "(?=(a+)+b)"}, "content": "aaaaaaaaa"});
    for (tokenizer, why) in [
        (
            file(Value::Null, json!({"type": "Sequence", "decoders": replace(60)})),
            "the text is longer than",
        ),
        (file(Value::Null, slow), "a decoder with a regular expression"),
        (json!({"version": "2"}), "tokenizer.json"),
    ] {
        assert!(tokenizer.to_string().len() < 5000);
        let dir = tempdir().unwrap();
        let (key, proof) = proof_with_tokenizer(dir.path(), &tokenizer, &[1, 80, 147]);
        let start = Instant::now();
        let text = verdict(&key, &proof);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert!(
            text.len() < 2000 && text.contains("prompt    3 ids: 1 80 147\n"),
            "{text}"
        );
        assert!(text.replace("\n          | ", " ").contains(why), "{text}");
        let value = done(args!["verify", "--key", key, proof]);
        assert_eq!(
            (&value["verdict"], &value["prompt_text"]),
            (&json!("accept"), &Value::Null)
        );
        assert!(value["no_text"].as_str().unwrap().contains(why), "{value}");
        // What is expected of a text cannot be decided.
        fails(
            args!["verify", "--key", key, proof, "--expect-prompt", "a"],
            &["tokenizer.json"],
        );
        fails(args!["verify", "--key", key, proof, "--expect-output", "a"], &[why]);
        done(args!["inspect", key]);
    }
    // Ids become texts without the part of a tokenizer that could grow one; texts do not become ids.
    let tokenizer = file(json!({"type": "Sequence", "normalizers": replace(60)}), Value::Null);
    let dir = tempdir().unwrap();
    let (key, proof) = proof_with_tokenizer(dir.path(), &tokenizer, &[1, 80, 147]);
    assert!(verdict(&key, &proof).contains("\"a\""));
    fails(
        args!["verify", "--key", key, proof, "--expect-prompt", "a"],
        &["normalizer could grow a text"],
    );
}

/// A token of a megabyte is within the limits of a file, but its texts are not.
#[test]
fn tokens_that_are_too_long_to_show_do_not_flood_the_verdict() {
    let long = "a".repeat(600_000);
    let tokenizer = json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"b": 1, long: 80, "c": 147}, "unk_token": "b"}});
    let dir = tempdir().unwrap();
    let (key, proof) = proof_with_tokenizer(dir.path(), &tokenizer, &[1, 80, 147]);
    let start = Instant::now();
    let output = tessera(args!["verify", "--key", key, proof]);
    assert!(
        output.stdout.starts_with(b"accepted") && output.stdout.len() < 1_000_000,
        "{}",
        output.stdout.len()
    );
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn names_of_files_cannot_forge_a_line() {
    let dir = tempdir().unwrap();
    let name = "no\naccepted\u{1b}[2J";
    let missing = dir.path().join(name);
    let output = tessera(args!["verify", "--key", missing, "x"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.lines().all(|l| !l.starts_with("accepted")), "{text}");
    assert!(text.contains("accepted\\u{1b}[2J"), "{text}");
    fs::copy(Shared::get().key(), &missing).unwrap();
    let text = String::from_utf8(tessera(args!["inspect", missing]).stdout).unwrap();
    assert!(text.contains("no\\naccepted\\u{1b}[2J"), "{text}");
    // Rejections and errors go on in marked lines, so that none begins where a terminal of 80 columns would break it.
    for n in [40, 50, 60, 62, 65, 70, 72, 75] {
        let padded = dir
            .path()
            .join(format!("{}accepted   b.proof  99.9 bits", "x".repeat(n)));
        fs::copy(Shared::get().key(), &padded).unwrap();
        for args in [
            args!["verify", "--key", Shared::get().key(), padded],
            args!["verify", "--key", padded.with_extension("none"), padded],
            args!["verify", "--key", Shared::get().proof(), padded.with_extension("none")],
        ] {
            let output = tessera(args);
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            for line in text.lines() {
                let begins = ["rejected: ", "error: ", "  | "]
                    .iter()
                    .any(|own| line.starts_with(own));
                assert!(begins && line.len() < 80, "{line:?} in {text}");
            }
        }
    }
}
