//! The golden and tampered proofs, and the table of policies: this program says of each what the golden files say, as every other front
//! end has to. The files are written by the tests `tamper` of the prover and `cli` of the command, where `TESSERA_GOLDEN_PROOFS` says.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tessera_verdict::policy::OPTIONS;

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden-proofs.json");

/// Of a proof that this key cannot decide about.
const OTHER: &str = "is the key of another model";

fn read(path: &std::path::Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
#[ignore = "reads the files that TESSERA_GOLDEN_PROOFS names, as CI does after the tests that write them"]
fn the_verdicts_on_golden_and_tampered_proofs_are_the_golden_ones() {
    let directory = PathBuf::from(std::env::var_os("TESSERA_GOLDEN_PROOFS").expect("TESSERA_GOLDEN_PROOFS"));
    let program = std::env::var_os("TESSERA_VERIFY").unwrap_or_else(|| env!("CARGO_BIN_EXE_tessera-verify").into());
    let (cases, expected) = (read(&directory.join("cases.json")), read(EXPECTED.as_ref()));
    let (cases, expected) = (
        cases.as_array().expect("cases"),
        expected["verdicts"].as_array().expect("verdicts"),
    );
    assert_eq!(cases.len(), expected.len());
    let mut compared = 0;
    for (case, expected) in cases.iter().zip(expected) {
        let proofs = case[1].as_array().expect("proofs");
        let path = |value: &Value| value.as_str().expect("a path").to_owned();
        let output = Command::new(&program)
            .args(["--json", "--lines", "--key", &path(&case[0])])
            .args(proofs.iter().map(|proof| path(&proof[1])))
            .output()
            .expect("the program runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        let expected = expected.as_array().expect("verdicts of a case");
        assert_eq!((lines.len(), proofs.len()), (expected.len() + 1, expected.len()));
        for ((line, proof), expected) in lines.iter().zip(proofs).zip(expected) {
            assert_eq!(proof[0], expected[0]);
            let said = said(line);
            let words = expected[1].as_str().expect("a verdict");
            // The program names the files in place of "the proof" and "the key".
            match words.starts_with("the proof is about model") {
                true => assert!(line["error"].is_string() && said.contains(OTHER), "{line}"),
                false => assert_eq!(said, words, "{}", proof[0]),
            }
            compared += 1;
        }
    }
    assert!(compared > 100, "only {compared} proofs");
}

const POLICIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/policies.json");

/// A text of the table as a command line spells it: `{--chat}` is an option, `{--chat!}` a flag that is given.
fn spelled(text: &str) -> String {
    OPTIONS.iter().fold(text.to_owned(), |text, option| {
        let name = option.name;
        text.replace(&format!("{{--{name}}}"), &format!("--{name}"))
            .replace(&format!("{{--{name}!}}"), &format!("--{name}"))
    })
}

#[test]
#[ignore = "reads the files that TESSERA_GOLDEN_PROOFS names, as CI does after the tests that write them"]
fn every_case_of_the_policies_has_the_verdict_of_the_table() {
    let directory = PathBuf::from(std::env::var_os("TESSERA_GOLDEN_PROOFS").expect("TESSERA_GOLDEN_PROOFS"));
    let program = std::env::var_os("TESSERA_VERIFY").unwrap_or_else(|| env!("CARGO_BIN_EXE_tessera-verify").into());
    let directory = directory.join("policies");
    let scratch = tempfile::tempdir().expect("a directory");
    let cases = read(POLICIES.as_ref());
    let cases = cases.as_array().expect("cases");
    assert!(cases.len() >= 40);
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let mut command = Command::new(&program);
        command.current_dir(&directory).args(["--json", "--key"]);
        command.args([&case["key"], &case["proof"]].map(|file| file.as_str().expect("a file")));
        for (option, value) in case["policy"].as_object().expect("a policy") {
            let option = option.replace('_', "-");
            command.arg(format!("--{option}"));
            match value {
                Value::Bool(true) => {}
                Value::Array(texts) if option == "expect-pair" => {
                    command.args(texts.iter().map(|text| text.as_str().expect("a text")));
                }
                value if matches!(option.as_str(), "expect-messages" | "tools" | "chat-template") => {
                    let path = scratch.path().join(option);
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    std::fs::write(&path, text).expect("a file");
                    command.arg(path);
                }
                Value::String(text) => drop(command.arg(text)),
                value => drop(command.arg(value.to_string())),
            }
        }
        let output = command.output().expect("the program runs");
        let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            output.status.code().map(Value::from).as_ref(),
            Some(&case["status"]),
            "{name}: {said}"
        );
        let fields = if case["status"] == 2 {
            &["error"][..]
        } else {
            &["reason", "help"]
        };
        for field in fields {
            let words = case[*field].as_str().map(spelled);
            assert_eq!(said[*field].as_str().map(str::to_owned), words, "{name}: {field}");
        }
        assert_eq!(said["warnings"], case["warnings"], "{name}");
        for (aspect, met) in case["met"].as_object().into_iter().flatten() {
            assert_eq!(&said["policy"][aspect]["met"], met, "{name}: {aspect}");
        }
    }
}

/// `accepted`, or why not.
fn said(line: &Value) -> String {
    match (&line["verdict"], &line["reason"], &line["error"]) {
        (Value::String(verdict), _, _) if verdict == "accept" => "accepted".to_owned(),
        (_, Value::String(reason), _) | (_, _, Value::String(reason)) => reason.clone(),
        _ => panic!("neither verdict nor error: {line}"),
    }
}
