//! Prompts and outputs that a proof hides.

use std::fs;
use std::path::Path;

use serde_json::{json, Value};
use tempfile::tempdir;

use crate::args;
use crate::support::{configured_checkpoint, done, fails, json, Shared};

const SECRET: &str = "Once upon a time, there was a secret";

fn prove(model: &Path, out: &Path, more: &[&str]) -> Value {
    let mut args = args!["prove", "--model", model, "--tokens", "6", "--out", out];
    args.extend(more.iter().map(Into::into));
    done(args)
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).expect("ids")
}

/// Only the field `secret` of the report has hidden ids: no other field, no byte of the proof, and no other command shows them.
#[test]
fn hidden_ids_are_the_provers_alone() {
    let dir = tempdir().expect("a directory");
    let (shared, proof) = (Shared::get(), dir.path().join("hidden.proof"));
    let report = prove(
        &shared.model(),
        &proof,
        &["--prompt", SECRET, "--hide-prompt", "--hide-output"],
    );
    let secret = &report["secret"];
    assert_eq!(secret["prompt_text"], json!(SECRET));
    let (prompt, output) = (ids(&secret["prompt_ids"]), ids(&secret["output_ids"]));
    let key = shared.model().join("model.key");
    let verified = done(args!["verify", "--key", key, proof]);
    let inspected = done(args!["inspect", proof]);
    let nulls = |count: usize| vec![Value::Null; count];
    // The token that begins every text is shown.
    let shown = [vec![json!(prompt[0])], nulls(prompt.len() - 1)].concat();
    for said in [&report, &verified, &inspected] {
        assert_eq!(said["prompt_ids"], json!(shown));
        assert_eq!(said["output_ids"], json!(nulls(output.len())));
        let hidden = json!({"activations": true, "prompt": true, "output": true, "weights": false});
        assert_eq!(said["hidden"], hidden);
    }
    for said in [&report, &verified] {
        assert_eq!(said["prompt_text"], Value::Null);
        assert_eq!(said["output_text"], Value::Null);
        assert_eq!(said["finish_reason"], Value::Null);
        assert_eq!(said["end_tokens_inside"], Value::Null);
        assert_eq!(said["lengths"], json!({"prompt": prompt.len(), "output": output.len()}));
        assert_eq!(said["public_tokens"], json!({"prompt": 1, "output": 0}));
        assert_eq!(said["leading_rows"], json!(1));
    }
    assert!(verified.get("secret").is_none());
    // The page has the ledger of a proof that hides, which has no STARK.
    let page = dir.path().join("report.html");
    done(args!["report", "--key", key, proof, "--out", page]);
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("hiding: products") && !page.contains("STARK: "), "{page}");
    assert!(page.contains("hidden tokens") && !page.contains("secret"), "{page}");
    let bytes = fs::read(&proof).expect("a proof");
    for pair in prompt.windows(2).chain(output.windows(2)) {
        let words: Vec<u8> = pair.iter().flat_map(|id| id.to_le_bytes()).collect();
        assert!(!bytes.windows(8).any(|own| own == words), "{pair:?}");
    }
}

/// Whoever expects what is hidden is told that it is not shown, with exit status 1; what is shown is compared.
#[test]
fn an_expectation_about_something_hidden_is_not_met() {
    let dir = tempdir().expect("a directory");
    let (shared, proof) = (Shared::get(), dir.path().join("hidden.proof"));
    let key = shared.model().join("model.key");
    let reason = |more: &[&str]| {
        let mut args = args!["verify", "--key", key, proof];
        args.extend(more.iter().map(Into::into));
        let (status, value) = json(args);
        (status, value["reason"].as_str().unwrap_or_default().to_owned())
    };
    let report = prove(&shared.model(), &proof, &["--prompt", SECRET, "--hide-prompt"]);
    let (status, why) = reason(&["--expect-prompt", SECRET]);
    assert_eq!(status, 1);
    assert!(
        why.contains("the prompt is not shown to be the expected one: the proof hides"),
        "{why}"
    );
    let hidden = ids(&report["secret"]["prompt_ids"]).len() - 1;
    let raw = format!("1{}", ",4294967294".repeat(hidden));
    assert_eq!(reason(&["--expect-prompt-ids", &raw]).0, 1);
    let (status, why) = reason(&["--expect-prompt-ids", "5,6"]);
    assert_eq!(status, 1);
    assert!(why.contains("it shows id 1") && why.contains("expected 5"), "{why}");
    let output = report["output_text"].as_str().expect("an output that is shown");
    assert_eq!(reason(&["--expect-output", output]).0, 0);
    prove(&shared.model(), &proof, &["--prompt", SECRET, "--hide-output"]);
    assert_eq!(reason(&["--expect-prompt", SECRET]).0, 0);
    for (expected, why_not) in [
        (
            &["--expect-output", output][..],
            "the output is not shown to be the expected one",
        ),
        (
            &["--expect-output-ids", "1"],
            "the output is not shown to be the expected one",
        ),
        (&["--expect-complete"], "the output is not shown to be complete"),
    ] {
        let (status, why) = reason(expected);
        assert_eq!(status, 1);
        assert!(why.contains(why_not), "{why}");
    }
}

/// What cannot be hidden is refused before anything is generated, and no file is written.
#[test]
fn what_cannot_be_hidden_is_refused() {
    let dir = tempdir().expect("a directory");
    let (shared, proof) = (Shared::get(), dir.path().join("hidden.proof"));
    for (more, words) in [
        (
            &["--prompt-ids", "1,80,147", "--hide-prompt"][..],
            &["the first id", "--public-prefix 1"][..],
        ),
        (
            &["--prompt-ids", "1,1,147", "--hide-prompt", "--public-prefix", "1"],
            &["the first 2 ids", "--public-prefix 2"],
        ),
        (
            &[
                "--prompt-ids",
                "1,80,147",
                "--hide-prompt",
                "--public-prefix",
                "2",
                "--public-suffix",
                "1",
            ],
            &["3 ids", "leave none to hide"],
        ),
        (&["--prompt", SECRET, "--public-prefix", "2"], &["--hide-prompt"]),
        (&["--prompt", SECRET, "--hide-output", "--for-chain"], &["--for-chain"]),
        (&["--prompt", SECRET, "--hide-output", "--work", "jobs"], &["--work"]),
    ] {
        let mut args = args!["prove", "--model", shared.model(), "--tokens", "6", "--out", proof];
        args.extend(more.iter().map(Into::into));
        fails(args, words);
        assert!(!proof.exists(), "{more:?}");
    }
}

/// Of a chat the ids of the template are shown, whatever is said in it; and as many as somebody asks for.
#[test]
fn a_template_is_shown_around_what_is_said() {
    let dir = tempdir().expect("a directory");
    let checkpoint = configured_checkpoint(dir.path(), &[]);
    let template = "{{ bos_token }}{% for m in messages %}{{ m.role + '\n' + m.content + eos_token }}{% endfor %}{{ 'assistant\n' }}";
    fs::write(checkpoint.join("chat_template.jinja"), template).expect("it is written");
    let (model, proof) = (dir.path().join("model"), dir.path().join("hidden.proof"));
    done(args!["setup", checkpoint, "--out", model, "--no-fidelity"]);
    let shown = |report: &Value| {
        let all: Vec<Value> = serde_json::from_value(report["prompt_ids"].clone()).expect("ids");
        let shown = |own: &mut dyn Iterator<Item = &Value>| own.take_while(|id| !id.is_null()).count();
        (shown(&mut all.iter()), shown(&mut all.iter().rev()), all)
    };
    let mut around = Vec::new();
    for said in ["Why?", "Once there was a girl"] {
        let report = prove(&model, &proof, &["--chat", "--prompt", said, "--hide-prompt"]);
        let (before, behind, all) = shown(&report);
        assert!(before > 1 && behind > 1 && before + behind < all.len());
        around.push([all[..before].to_vec(), all[all.len() - behind..].to_vec()]);
    }
    assert_eq!(around[0], around[1]);
    let chat = ["--chat", "--prompt", "Why?", "--hide-prompt", "--public-prefix", "2"];
    let (before, behind, _) = shown(&prove(&model, &proof, &chat));
    assert_eq!((before, behind), (2, around[0][1].len()));
    let none = [&chat[..], &["--public-suffix", "0"]].concat();
    let (before, behind, _) = shown(&prove(&model, &proof, &none));
    assert_eq!((before, behind), (2, 0));
}

/// A hidden output is revealed in two steps: each command says what is known, and how many reveals are left.
#[test]
fn hidden_ids_are_revealed_later() {
    let dir = tempdir().expect("a directory");
    let (shared, proof) = (Shared::get(), dir.path().join("hidden.proof"));
    let (secret, some, rest) = (
        dir.path().join("hidden.secret"),
        dir.path().join("some.reveal"),
        dir.path().join("rest.reveal"),
    );
    let key = shared.model().join("model.key");
    let more = ["--prompt", SECRET, "--hide-output", "--reveals", "2", "--secret"];
    let report = prove(
        &shared.model(),
        &proof,
        &[&more[..], &[secret.to_str().expect("a name")]].concat(),
    );
    assert_eq!(report["reveals_left"], json!(2));
    let (prompt, output) = (ids(&report["prompt_ids"]).len(), ids(&report["secret"]["output_ids"]));
    let reveal =
        |rows: &str, out: &Path| args!["reveal", proof, "--key", key, "--secret", secret, "--rows", rows, "--out", out];
    let first = done(reveal(&format!("{prompt}..{},{}", prompt + 2, prompt + 5), &some));
    let positions = [prompt, prompt + 1, prompt + 5];
    assert_eq!(first["revealed"], json!(positions));
    assert_eq!(first["revealed_ids"], json!([output[0], output[1], output[5]]));
    assert_eq!(first["reveals_left"], json!(1));
    let verified = done(args!["verify", "--key", key, proof, "--reveal", some]);
    let shown: Vec<Value> = (0..6)
        .map(|at| positions.contains(&(prompt + at)).then(|| output[at]).into())
        .collect();
    assert_eq!(verified["output_ids"], json!(shown));
    assert_eq!(
        (&verified["revealed"], &verified["reveals_left"]),
        (&json!(positions), &json!(1))
    );
    assert_eq!(verified["hidden"]["output"], json!(true));
    done(reveal("output", &rest));
    let text = report["secret"]["output_text"].as_str().expect("a text");
    let all = done(args![
        "verify",
        "--key",
        key,
        proof,
        "--reveal",
        some,
        "--reveal",
        rest,
        "--expect-output",
        text
    ]);
    assert_eq!(all["output_ids"], json!(output));
    assert_eq!(
        (&all["hidden"]["output"], &all["reveals_left"]),
        (&json!(false), &json!(0))
    );
    assert!(verified["security_bits"].as_f64() > all["security_bits"].as_f64());
    // Without the reveal nothing is known, and the secret is spent.
    assert_eq!(
        done(args!["verify", "--key", key, proof])["output_ids"],
        json!(vec![Value::Null; 6])
    );
    fails(
        reveal("output", &dir.path().join("more.reveal")),
        &["hidden.secret is spent", "room for 2 reveals"],
    );
    assert!(!dir.path().join("more.reveal").exists());
}

/// `verify` names the file of a reveal that it refuses, and `prove` refuses wrong options before it proves anything.
#[test]
fn reveals_are_refused_by_name() {
    let dir = tempdir().expect("a directory");
    let (shared, proof) = (Shared::get(), dir.path().join("hidden.proof"));
    let (secret, out) = (dir.path().join("hidden.secret"), dir.path().join("a.reveal"));
    let key = shared.model().join("model.key");
    let name = secret.to_str().expect("a name");
    let more = ["--prompt", SECRET, "--hide-output", "--reveals", "2", "--secret", name];
    prove(&shared.model(), &proof, &more);
    done(args![
        "reveal", proof, "--key", key, "--secret", secret, "--rows", "output", "--out", out
    ]);
    let other = dir.path().join("other.proof");
    prove(&shared.model(), &other, &["--prompt", SECRET, "--hide-output"]);
    let (status, said) = json(args!["verify", "--key", key, other, "--reveal", out]);
    assert_eq!(status, 1);
    let reason = said["reason"].as_str().expect("a reason");
    assert!(reason.contains("a.reveal: it is about another proof"), "{reason}");
    let (status, said) = json(args!["verify", "--key", key, out]);
    assert_eq!(status, 1);
    assert!(said["reason"]
        .as_str()
        .expect("a reason")
        .contains("is a reveal, not a proof"));
    fails(
        args!["verify", "--key", key, proof, other, "--reveal", out],
        &["--reveal", "one proof"],
    );
    fails(args!["inspect", out], &["a.reveal is a reveal", "verify --reveal"]);
    let none = dir.path().join("none.proof");
    let there = none.to_str().expect("a name");
    for (more, words) in [
        (
            &["--hide-output", "--reveals", "2", "--secret", name][..],
            &["hidden.secret", "exists already"][..],
        ),
        (&["--hide", "--reveals", "1", "--secret", "new"], &["hides no ids"]),
        (&["--hide-output", "--reveals", "1"], &["--secret"]),
        (
            &["--hide-output", "--reveals", "1", "--secret", there],
            &["--secret", "where the proof goes"],
        ),
        (
            &["--hide-output", "--reveals", "1", "--secret", "no folder/new"],
            &["no folder"],
        ),
        (&["--hide-output", "--secret", "new"], &["--reveals"]),
        (
            &["--hide-output", "--reveals", "99", "--secret", "new"],
            &["99 reveals", "at most 20"],
        ),
    ] {
        let mut args = args![
            "prove",
            "--model",
            shared.model(),
            "--prompt",
            SECRET,
            "--tokens",
            "6",
            "--out",
            none
        ];
        args.extend(more.iter().map(Into::into));
        fails(args, words);
        assert!(!none.exists(), "{more:?}");
    }
    for (rows, words) in [
        ("9..7", &["9..7", "no position"][..]),
        ("x", &["positions, such as 5"]),
        ("0", &["position 0 is not hidden"]),
        ("500", &["position 500 is behind the text"]),
        ("prompt", &["no id is hidden in the prompt"]),
    ] {
        fails(
            args!["reveal", proof, "--key", key, "--secret", secret, "--rows", rows, "--out", none],
            words,
        );
        assert!(!none.exists(), "{rows}");
    }
}
