//! What `prove` shows: the answer first, then what it cost; as much as somebody wants.

use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;

use crate::args;
use crate::support::{configured_checkpoint, done, tessera, Shared, PROMPT};

fn prove(more: &[&str]) -> (String, String) {
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    let mut args = args![
        "prove",
        "--model",
        Shared::get().model(),
        "--prompt",
        PROMPT,
        "--tokens",
        "40",
        "--out",
        out
    ];
    args.extend(more.iter().map(Into::into));
    let output = tessera(args);
    let [said, wrong] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{wrong}");
    (said, wrong)
}

#[test]
fn the_answer_comes_first_and_no_text_is_broken_in_a_pipe() {
    let (said, _) = prove(&[]);
    let report = &Shared::get().prove;
    let (answer, rows) = said.split_once("\n\n").unwrap();
    let begin = report["output_text"].as_str().unwrap();
    // Only the text's own line ends are line ends, and what follows them is indented.
    assert!(
        answer.starts_with(&format!("\"{begin}")) && answer.ends_with('"'),
        "{said}"
    );
    assert!(answer.contains(".\n Lily had an idea"), "{said}");
    let lines: Vec<&str> = rows.lines().collect();
    let labels: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split("  ").next())
        .filter(|l| !l.is_empty())
        .collect();
    let expected = [
        "end",
        "prompt",
        "output",
        "model",
        "proof",
        "security",
        "time",
        "weight passes",
        "peak memory",
        "saturated",
    ];
    assert_eq!(labels, expected, "{said}");
    let ids = lines.iter().find(|line| line.starts_with("output")).unwrap();
    assert!(
        ids.contains("40 ids: ") && ids.split(' ').filter(|word| word.parse::<u32>().is_ok()).count() == 41,
        "{ids}"
    );
}

#[test]
fn on_a_narrow_terminal_texts_are_wrapped_and_digests_are_not() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.args(args![
        "prove",
        "--model",
        Shared::get().model(),
        "--prompt",
        PROMPT,
        "--tokens",
        "40",
        "--out",
        out
    ]);
    let output = command.env("COLUMNS", "50").output().expect("the binary runs");
    let said = String::from_utf8(output.stdout).unwrap();
    let id = Shared::get().setup["model_id"].as_str().unwrap();
    assert!(said.contains(id), "{said}");
    let long = said
        .lines()
        .filter(|line| line.len() >= 50 && !line.contains(id) && !line.starts_with("proof"));
    assert_eq!(long.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_report_is_as_short_as_somebody_wants_it() {
    let (brief, _) = prove(&["--brief"]);
    let (_, rows) = brief.split_once("\n\n").unwrap();
    let labels: Vec<&str> = rows.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(labels, ["end", "proof", "cost"], "{brief}");
    assert!(brief.starts_with("\", a little girl"), "{brief}");
    assert_eq!(prove(&["--quiet"]), (String::new(), String::new()));
    let (object, wrong) = prove(&["--quiet", "--json"]);
    let object: Value = serde_json::from_str(&object).unwrap();
    assert!(object["output_ids"].is_array() && wrong.is_empty());
}

/// Nobody has run the float model, and the report does not sound as if somebody had.
#[test]
fn clipped_values_say_that_the_float_model_was_not_compared() {
    let dir = tempdir().unwrap();
    // Calibrated on one kind of text, the model clips values of another.
    let checkpoint = configured_checkpoint(dir.path(), &[]);
    let text = dir.path().join("text");
    std::fs::write(&text, "{\"ids\": [5, 5, 5, 5, 5, 5, 5, 5]}\n").unwrap();
    let (model, out) = (dir.path().join("model"), dir.path().join("proof"));
    done(args![
        "setup",
        checkpoint,
        "--out",
        model,
        "--calibration",
        text,
        "--no-fidelity"
    ]);
    let prove = args!["prove", "--model", model, "--prompt", PROMPT, "--tokens", "12", "--out", out];
    let report = done(prove.clone());
    assert!(!report["saturated"].as_object().unwrap().is_empty(), "{report}");
    assert_eq!(report["same_as_float_model"], Value::Null);
    let said = String::from_utf8(tessera(prove).stdout).unwrap();
    assert!(
        said.contains("\nfloat model    not compared: values were clipped"),
        "{said}"
    );
}
