//! Answers that exist already: the model's own are proved, all others are told apart before anything is proved.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{json, Value};
use tempfile::tempdir;

use crate::args;
use crate::ending::Ending;
use crate::support::{configured_checkpoint, done, fails, json as run, names, tessera, Shared, GOLDEN, PROMPT};

/// A proof of an answer to the shared prompt.
fn prove(out: &Path, more: &[&str]) -> Vec<OsString> {
    let mut args = args![
        "prove",
        "--model",
        Shared::get().model(),
        "--prompt",
        PROMPT,
        "--out",
        out
    ];
    args.extend(more.iter().map(Into::into));
    args
}

/// The shared answer as text, and as ids.
fn answer() -> (String, Vec<u64>) {
    let report = &Shared::get().prove;
    let ids = report["output_ids"].as_array().expect("ids");
    let text = report["output_text"].as_str().expect("a text").to_owned();
    (text, ids.iter().map(|id| id.as_u64().expect("an id")).collect())
}

fn listed(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// What is said of an answer that the model does not give: nothing is proved, and nothing is written.
fn difference(out: &Path, more: &[&str]) -> (Value, String) {
    let args = prove(out, more);
    let output = tessera(&args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{text}");
    let (status, value) = run(args);
    assert!(status == 1 && !out.exists(), "{value}");
    let message = value["error"].as_str().unwrap();
    let whole = text.replace("\n  | ", "");
    assert!(whole.contains(message), "{message} is not in {whole}");
    (value["answer"].clone(), whole)
}

#[test]
fn the_models_own_answer_is_proved_and_the_proof_is_the_one_without_it() {
    let dir = tempdir().unwrap();
    let (text, ids) = answer();
    let file = dir.path().join("answer.txt");
    fs::write(&file, format!("{text}\n")).unwrap();
    let ids = listed(&ids);
    for (way, given) in [
        ("--answer", text.as_str()),
        ("--answer-file", file.to_str().unwrap()),
        ("--answer-ids", &ids),
    ] {
        let out = dir.path().join("proof");
        // The answer is cut: it has as many tokens as there may be.
        let report = done(prove(&out, &["--tokens", "12", way, given]));
        let expected = json!({"comparison": "exact", "differs_at": null, "other_tokens_from": null});
        assert_eq!(
            (&report["answer"], &report["finish_reason"]),
            (&expected, &json!("length")),
            "{way}"
        );
        assert_eq!(
            fs::read(&out).unwrap(),
            fs::read(Shared::get().proof()).unwrap(),
            "{way}"
        );
        fs::remove_file(out).unwrap();
    }
    assert_eq!(Shared::get().prove["answer"], Value::Null);
}

/// The margin is that of the logits.
#[test]
fn another_answer_is_told_apart_where_it_differs_before_anything_is_proved() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    let (_, ids) = answer();
    for at in [0, 3, 11] {
        let mut other = ids.clone();
        other[at] = 115;
        let (found, text) = difference(&out, &["--tokens", "12", "--answer-ids", &listed(&other)]);
        assert_eq!(
            (&found["differs_at"], &found["expected_id"], &found["model_id"]),
            (&json!(at), &json!(115), &json!(ids[at]))
        );
        assert!(
            text.starts_with(&format!("differs at token {at} (counted from 0)")),
            "{text}"
        );
        assert_eq!(found["expected_text"], "was ");
        let logits = dir.path().join("logits");
        let model = Shared::get().model();
        let mut generate = args!["generate", "--model", model, "--prompt", PROMPT, "--tokens", "12"];
        generate.extend(args!["--logits-out", logits]);
        let prompt = done(generate)["prompt_ids"].as_array().unwrap().len();
        let bytes = fs::read(logits).unwrap();
        let row = (prompt - 1 + at) * 2048;
        let logit = |id: u64| {
            let at = 2 * (row + id as usize);
            f64::from(i16::from_le_bytes([bytes[at], bytes[at + 1]]))
        };
        let unit = (logit(ids[at]) - logit(115)) / found["margin_nats"].as_f64().unwrap();
        assert!(unit.log2().fract() == 0.0 && (1.0..32768.0).contains(&unit), "{unit}");
    }
    assert_eq!(names(dir.path()), ["logits"]);
}

#[test]
fn a_complete_answer_has_to_end_the_text_and_a_cut_one_has_as_many_tokens_as_there_may_be() {
    let (ending, dir) = (Ending::get(), tempdir().unwrap());
    let (plain, out) = (dir.path().join("plain"), dir.path().join("out"));
    let [plain_name, out_name] = [&plain, &out].map(|path| path.to_str().unwrap());
    let report = done(ending.command("prove", "12", &["--out", plain_name]));
    let said = report["output_text"].as_str().unwrap();
    let ids: Vec<u64> = report["output_ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect();
    let (end, before) = ids.split_last().unwrap();
    // The token that ends this text is one that reads like something.
    let complete = said.strip_suffix(report_text(*end).as_str()).unwrap();
    let prove = |more: &[&str]| {
        let mut args = args![
            "prove",
            "--model",
            ending.model(),
            "--prompt",
            PROMPT,
            "--out",
            out_name
        ];
        args.extend(more.iter().map(OsString::from));
        args
    };
    for more in [
        &["--answer", complete][..],
        &["--answer", complete, "--tokens", "12"],
        &["--answer-ids", &listed(before)],
        &["--answer-ids", &listed(&ids)],
    ] {
        let report = done(prove(more));
        assert_eq!(
            (&report["finish_reason"], &report["end_token"]),
            (&json!("stop"), &json!(end)),
            "{more:?}"
        );
        assert_eq!(fs::read(&out).unwrap(), fs::read(&plain).unwrap(), "{more:?}");
        fs::remove_file(&out).unwrap();
    }
    // Without its last token it is no complete answer, but one that was cut there.
    let (cut, tokens) = (listed(&before[..before.len() - 1]), (before.len() - 1).to_string());
    let (status, value) = run(prove(&["--answer-ids", &cut]));
    assert_eq!((status, &value["answer"]["differs_at"]), (1, &json!(before.len() - 1)));
    assert_eq!(
        (&value["answer"]["expected_end"], &value["answer"]["expected_id"]),
        (&json!(true), &Value::Null)
    );
    assert!(value["answer"]["margin_nats"].as_f64().unwrap() > 0.0, "{value}");
    assert_eq!(
        done(prove(&["--answer-ids", &cut, "--tokens", &tokens]))["finish_reason"],
        "length"
    );
    // What follows the end can be proved as ids alone.
    let on: Vec<u64> = ending.free.iter().map(|id| id.as_u64().unwrap()).collect();
    fails(
        prove(&["--answer-ids", &listed(&on)]),
        &["goes on after the token", "--ignore-eos"],
    );
    fails(prove(&["--answer", "x", "--ignore-eos"]), &["--answer-ids"]);
    assert_eq!(
        done(prove(&["--answer-ids", &listed(&on), "--ignore-eos"]))["output_ids"],
        json!(on)
    );
}

/// What a token of the bundled model reads like.
fn report_text(id: u64) -> String {
    let report = done(args![
        "generate",
        "--model",
        Shared::get().model(),
        "--prompt-ids",
        id.to_string(),
        "--tokens",
        "1"
    ]);
    report["prompt_text"].as_str().unwrap().to_owned()
}

#[test]
fn an_empty_answer_is_one_that_ends_at_once() {
    let (ending, dir) = (Ending::get(), tempdir().unwrap());
    let out = dir.path().join("proof");
    let (found, text) = difference(&out, &["--answer", ""]);
    assert_eq!(
        (&found["differs_at"], &found["expected_end"]),
        (&json!(0), &json!(true))
    );
    assert!(text.contains("the answer ends, the model says"), "{text}");
    let prompt = done(ending.command("generate", "1", &[]))["prompt_ids"].clone();
    let before = ending.free[..ending.at].to_vec();
    let ids: Vec<String> = prompt
        .as_array()
        .unwrap()
        .iter()
        .chain(&before)
        .map(Value::to_string)
        .collect();
    let report = done(args![
        "prove",
        "--model",
        ending.model(),
        "--prompt-ids",
        ids.join(","),
        "--answer",
        "",
        "--out",
        out
    ]);
    assert_eq!(
        (&report["output_ids"], &report["finish_reason"]),
        (&json!([ending.id]), &json!("stop"))
    );
}

/// The model says some texts in other tokens than those that they are encoded to, even in fewer; and one spells a special token.
#[test]
fn a_text_is_the_models_own_in_whichever_tokens_it_says_it() {
    let dir = tempdir().unwrap();
    let model = Shared::get().model();
    let golden: Value = serde_json::from_str(fs::read_to_string(GOLDEN).unwrap().lines().nth(9).unwrap()).unwrap();
    let story = golden["text"].as_str().unwrap().trim_start_matches("<|start_story|>");
    let beginning: Vec<&str> = story.split(' ').take(115).collect();
    let (work, out) = (dir.path().join("work"), dir.path().join("out"));
    for (prompt, other) in [
        (beginning.join(" ").as_str(), true),
        ("Tom and Sam went to the zoo.", false),
    ] {
        let common = [
            "--model".into(),
            model.clone().into_os_string(),
            "--prompt".into(),
            prompt.into(),
            "--tokens".into(),
            "40".into(),
        ];
        let said = done([&args!["generate"][..], &common].concat());
        let answer = said["output_text"].as_str().unwrap();
        assert!(other || answer == "<|end_story|>", "{answer}");
        // Only the job is of interest here.
        let job = |answer: &str| {
            let more = args!["--out", out, "--work", work, "--prepare", "--answer", answer];
            run([&args!["prove"][..], &common, &more].concat())
        };
        let (status, report) = job(answer);
        assert_eq!((status, &report["output_ids"]), (0, &said["output_ids"]), "{report}");
        assert_eq!(report["answer"]["other_tokens_from"].is_u64(), other, "{report}");
        fs::remove_dir_all(&work).unwrap();
        // One letter more is another answer, or one for which there is no room.
        let (status, report) = job(&format!("{answer}x"));
        assert_ne!(status, 0, "{report}");
        assert!(!work.exists());
    }
}

#[test]
fn an_answer_that_no_model_can_give_is_refused_by_name() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    let many = listed(&[5; 600]);
    let (text, _) = answer();
    for (more, expected) in [
        (
            &["--answer-ids", "5,2048"][..],
            &["token id 2048 at position 1", "ends at 2047"][..],
        ),
        (&["--answer-ids", ""], &["no token ids"]),
        (
            &["--answer-ids", "5,2,5"],
            &["the token 2 at position 1", "--ignore-eos"],
        ),
        (
            &["--answer-ids", "5,6,7", "--tokens", "2"],
            &["the answer has 3 tokens", "--tokens"],
        ),
        (
            &["--answer-ids", &many],
            &["a prompt of 6 tokens and an answer of 600", "the context of 512"],
        ),
        (&["--answer", &text, "--tokens", "11"], &["only 11 tokens", "goes on"]),
        (&["--answer", "x", "--answer-ids", "5"], &["cannot be used with"]),
        (&["--answer-file", "nowhere.txt"], &["nowhere.txt"]),
        (
            &["--tokens", "3", "--temperature", "0.7"],
            &["sampling is not proved", "--temperature", "greedy"],
        ),
        (
            &["--tokens", "3", "--top-p=0.9"],
            &["sampling is not proved", "--top-p"],
        ),
        (&["--tokens", "3", "--seed", "1"], &["sampling is not proved", "--seed"]),
        (&[], &["--tokens"]),
    ] {
        fails(prove(&out, more), expected);
    }
    let both = args![
        "prove",
        "--model",
        Shared::get().model(),
        "--prompt",
        "-",
        "--answer",
        "-",
        "--out",
        out
    ];
    fails(both, &["standard input"]);
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn an_answer_comes_from_standard_input_too() {
    let dir = tempdir().unwrap();
    let args = prove(
        &dir.path().join("proof"),
        &["--tokens", "12", "--answer", "-", "--brief"],
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let (text, _) = answer();
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text.as_bytes())
        .expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && said.contains("exactly this answer"),
        "{said}"
    );
}

/// A model with a template whose answers end with the bundled model's sixth token.
fn chat(dir: &Path) -> PathBuf {
    let checkpoint = configured_checkpoint(dir, &[]);
    let template = "{% for m in messages %}{{ m.role + ': ' + m.content + ' ' }}{% endfor %}";
    fs::write(checkpoint.join("chat_template.jinja"), template).unwrap();
    let model = dir.join("model");
    done(args!["setup", checkpoint, "--out", model, "--no-fidelity"]);
    model
}

#[test]
fn the_last_message_of_an_assistant_is_the_answer() {
    let dir = tempdir().unwrap();
    let model = chat(dir.path());
    let (file, out) = (dir.path().join("messages.json"), dir.path().join("proof"));
    let prove = |messages: Value, more: &[&str]| {
        fs::write(&file, messages.to_string()).unwrap();
        let mut args = args!["prove", "--model", model, "--messages", file, "--out", out];
        args.extend(more.iter().map(OsString::from));
        args
    };
    let asked = json!({"role": "user", "content": "Tell me a story."});
    let said = done(prove(json!([asked]), &["--tokens", "6"]));
    let text = said["output_text"].as_str().unwrap();
    let plain = fs::read(&out).unwrap();
    for content in [json!(text), json!([{"type": "text", "text": text}])] {
        let answer = json!({"role": "assistant", "content": content});
        let report = done(prove(json!([asked, answer]), &["--tokens", "6"]));
        assert_eq!(
            (&report["prompt_ids"], &report["answer"]["comparison"]),
            (&said["prompt_ids"], &json!("exact"))
        );
        assert_eq!(fs::read(&out).unwrap(), plain);
    }
    let other = json!({"role": "assistant", "content": "I do not."});
    let (status, value) = run(prove(json!([asked, other]), &["--tokens", "6"]));
    assert_eq!((status, &value["answer"]["differs_at"]), (1, &json!(0)), "{value}");
    fails(
        prove(json!([asked, other]), &["--answer", "x"]),
        &["the last message", "leave one"],
    );
    fails(prove(json!([other]), &[]), &["nobody has asked"]);
    let calls = json!({"role": "assistant", "content": "x", "tool_calls": []});
    fails(prove(json!([asked, calls]), &[]), &["\"tool_calls\"", "--answer-ids"]);
    // Without an answer the number of tokens is needed, as ever.
    fails(prove(json!([asked]), &[]), &["--tokens"]);
}

/// A character that no token reads like is an answer that the model does not give, as any other one: told apart where it differs, and
/// never taken for the model's own, not even where the model ends its text at once.
#[test]
fn characters_that_the_model_cannot_say_are_another_answer() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    let (text, ids) = answer();
    for (more, given, at) in [
        (&["--tokens", "12"][..], "\u{732b}", 0),
        (&[], "\u{732b} and more", 0),
        (&[], &format!("{text}\u{732b}"), ids.len()),
        // Nothing is proved, so that the number of tokens does not matter.
        (&["--tokens", "3"], &format!("{text}\u{732b}"), ids.len()),
    ] {
        let (found, message) = difference(&out, &[more, &["--answer", given]].concat());
        assert_eq!(
            (&found["differs_at"], &found["unknown_characters"]),
            (&json!(at), &json!("\u{732b}"))
        );
        assert!(
            message.contains("no tokens of this model read like \"\u{732b}\""),
            "{message}"
        );
    }
    let (found, _) = difference(&out, &["--answer", "No."]);
    assert_eq!(found["unknown_characters"], Value::Null);

    let ending = Ending::get();
    let prompt: Vec<u64> = Shared::get().prove["prompt_ids"]
        .as_array()
        .unwrap()
        .iter()
        .chain(&ending.free[..ending.at])
        .map(|id| id.as_u64().unwrap())
        .collect();
    let prove = |more: &[&str]| {
        let mut args = args![
            "prove",
            "--model",
            ending.model(),
            "--prompt-ids",
            listed(&prompt),
            "--out",
            out
        ];
        args.extend(more.iter().map(OsString::from));
        run(args)
    };
    let (status, value) = prove(&["--answer", "\u{732b}"]);
    assert_eq!(
        (status, &value["answer"]["differs_at"], &value["answer"]["model_id"]),
        (1, &json!(0), &json!(ending.id))
    );
    assert!(!out.exists(), "{value}");
    assert_eq!(prove(&["--answer", ""]).0, 0);
}

/// Whoever has only the beginning of an answer hears so, and which option proves it.
#[test]
fn the_beginning_of_an_answer_is_named_as_one() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    let (text, ids) = answer();
    let beginning = |more: &[&str]| {
        let (found, message) = difference(&out, more);
        (found["beginning"].clone(), message)
    };
    let own = json!({"tokens": 12, "ends_inside_token": false});
    for more in [&["--answer", text.as_str()][..], &["--answer-ids", &listed(&ids)]] {
        let (found, message) = beginning(more);
        assert_eq!(found, own, "{message}");
        assert!(
            message.contains("only the beginning of what the model says") && message.contains("--tokens 12"),
            "{message}"
        );
    }
    // The second token is "little girl named ".
    let (found, message) = beginning(&["--answer", ", a little girl"]);
    assert_eq!(found, json!({"tokens": 2, "ends_inside_token": true}), "{message}");
    assert!(message.contains("--tokens 2"), "{message}");
    let (found, message) = beginning(&["--answer", ", a little boy"]);
    assert!(found.is_null() && !message.contains("beginning"), "{message}");
}

/// Hostile text in a token or an answer cannot look like a line of the report.
#[test]
fn a_hostile_answer_draws_nothing() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    let output = tessera(prove(&out, &["--answer", "\u{1b}[2J\nend  complete"]));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(text.lines().all(|line| !line.starts_with("end")), "{text}");
    assert_ne!(output.status.code(), Some(0));
}
