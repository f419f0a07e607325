//! The program on keys and proofs in files: words, fields and exit statuses are those of `tessera verify`.

#[cfg(unix)]
#[path = "program/hostile.rs"]
mod hostile;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_testkit::{odd_config, random_ids, random_model, TestModel};

/// A key and its proofs: honest ones, one that was changed, and one of another model.
struct Files {
    dir: TempDir,
    ids: [Vec<u32>; 2],
}

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn files() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let config = ModelConfig {
            layers: 2,
            ..odd_config()
        };
        let model = |seed| TestModel::new(random_model(config.clone(), WeightFormat::Int16, seed));
        let [own, other] = [7, 8].map(model);
        let prompt = random_ids(&config, 4, 3);
        let honest = own.prove_chunks(&prompt, 3, &[2]);
        let bytes = |proof: &tessera_verifier::proof::Proof| proof.to_bytes().expect("a proof");
        let mut changed = honest.clone();
        changed.chunks[0]
            .tables
            .stark_mut()
            .expect("a STARK")
            .stark
            .0
            .decommitments
            .0
            .pop();
        let foreign = other.prove_chunks(&prompt, 3, &[2]);
        for (name, content) in [
            ("model.key", own.key.to_bytes().expect("a key")),
            ("honest.proof", bytes(&honest)),
            ("chain.proof", bytes(&own.prove_chunks(&prompt, 3, &[1, 1]))),
            ("changed.proof", bytes(&changed)),
            ("foreign.proof", bytes(&foreign)),
            ("cut.proof", bytes(&honest)[..1000].to_vec()),
        ] {
            std::fs::write(dir.path().join(name), content).expect("a file");
        }
        let ids = [honest.statement.prompt, honest.statement.output];
        Files { dir, ids }
    })
}

fn run(args: &[&str], stdin: Option<&Path>) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tessera-verify"))
        .args(args)
        .current_dir(files().dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("its input");
    if let Some(path) = stdin {
        input
            .write_all(&std::fs::read(path).expect("a file"))
            .expect("it reads");
    }
    drop(input);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit status"), text(stdout), text(stderr))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{text:?}: {e}"))
}

#[test]
fn one_proof_has_the_verdict_of_tessera_verify() {
    let ids = |ids: &[u32]| ids.iter().map(|id| format!(" {id}")).collect::<String>();
    let [prompt, output] = &files().ids;
    let (status, text, _) = run(&["--key", "model.key", "honest.proof"], None);
    assert_eq!(status, 0, "{text}");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("accepted"));
    assert!(lines.next().is_some_and(|l| l.starts_with("model     ")), "{text}");
    for line in [
        format!("prompt    4 ids:{}", ids(prompt)),
        "          (no text: the model has no tokenizer)".to_owned(),
        format!("output    3 ids:{}", ids(output)),
        "mode      unified: all layers in one piece".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is not in {text}");
    }
    let (status, same, _) = run(&["verify", "--key", "model.key", "honest.proof", "--json"], None);
    let object = json(&same);
    assert_eq!((status, &object["verdict"]), (0, &"accept".into()));
    assert_eq!(object["prompt_ids"], Value::from(prompt.clone()));
    let fields: Vec<&str> = object
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "chunks",
        "end_token",
        "end_tokens_inside",
        "finish_reason",
        "mode",
        "model_id",
        "no_text",
        "output_ids",
        "output_special_tokens",
        "output_text",
        "prompt_ids",
        "prompt_special_tokens",
        "prompt_text",
        "proof_bytes",
        "security_bits",
        "verdict",
        "verify_seconds",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn every_way_to_be_no_accepted_proof_has_its_status_and_reason() {
    for (args, status, words) in [
        (
            &["--key", "model.key", "changed.proof"][..],
            1,
            "STARK: decommitments has ",
        ),
        (
            &["--key", "model.key", "cut.proof"],
            1,
            "malformed proof: proof file ends early",
        ),
        (
            &["--key", "model.key", "model.key"],
            1,
            "model.key is a model key, not a proof",
        ),
        (
            &["--key", "model.key", "honest.proof", "--expect-prompt-ids", "1 2"],
            1,
            "the prompt is not the expected one",
        ),
        (
            &["--key", "model.key", "honest.proof", "--expect-output-ids", "[9]"],
            1,
            "the output is not the expected one",
        ),
        (
            &["--key", "model.key", "foreign.proof"],
            2,
            "model.key is the key of another model",
        ),
        (
            &["--key", "model.key", "honest.proof", "--expect-output", "x"],
            2,
            "the model has no tokenizer",
        ),
        (&["--key", "model.key", "none.proof"], 2, "cannot read none.proof"),
        (
            &["--key", "honest.proof", "honest.proof"],
            2,
            "is a proof, not a model key",
        ),
        (
            &["--key", ".", "honest.proof"],
            2,
            "is a model directory: its key is ./model.key",
        ),
        (&["--key", "model.key"], 2, "<PROOFS>"),
        (&["inspect", "none"], 2, "cannot read none"),
    ] {
        let (got, stdout, stderr) = run(args, None);
        assert_eq!(got, status, "{args:?}: {stdout}{stderr}");
        let text = if status == 1 { &stdout } else { &stderr };
        assert!(text.contains(words), "{args:?}: {text}");
        let (got, stdout, _) = run(&[args, &["--json"]].concat(), None);
        let object = json(&stdout);
        let field = if status == 1 { "reason" } else { "error" };
        assert_eq!(got, status);
        assert!(
            object[field].as_str().is_some_and(|text| text.contains(words)),
            "{args:?}: {object}"
        );
    }
}

/// The order is that of the arguments, whoever finishes first; one that is rejected decides.
#[test]
fn a_batch_has_a_line_for_each_proof_and_a_summary() {
    let batch = [
        "--key",
        "model.key",
        "chain.proof",
        "changed.proof",
        "-",
        "foreign.proof",
        "honest.proof",
    ];
    let honest = files().path("honest.proof");
    for threads in ["1", "3"] {
        let (status, text, _) = run(&[&batch[..], &["--threads", threads]].concat(), Some(&honest));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((status, lines.len()), (1, 6), "{text}");
        for (line, start) in lines.iter().zip([
            "accepted   chain.proof  ",
            "rejected   changed.proof  STARK: decommitments",
            "accepted   -  ",
            "undecided  foreign.proof  foreign.proof is about model ",
            "accepted   honest.proof  ",
            "5 proofs of model ",
        ]) {
            assert!(line.starts_with(start), "{line:?}, not {start:?}");
        }
        assert!(lines[5].contains(": 3 accepted, at least 9") && lines[5].contains("1 rejected, 1 undecided, in "));
        let (status, text, _) = run(&[&batch[..], &["--threads", threads, "--json"]].concat(), Some(&honest));
        let objects: Vec<Value> = text.lines().map(json).collect();
        let verdicts: Vec<&Value> = objects.iter().map(|o| &o["verdict"]).collect();
        assert_eq!(status, 1);
        assert_eq!(
            verdicts,
            ["accept", "reject", "accept", "", "accept", ""]
                .map(|v| match v {
                    "" => Value::Null,
                    v => v.into(),
                })
                .iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(objects[3]["proof"], "foreign.proof");
        let counts = ["proofs", "accepted", "rejected", "undecided"].map(|name| objects[5][name].as_u64());
        assert_eq!(counts, [5, 3, 1, 1].map(Some));
    }
    for (proofs, expected) in [
        (&["chain.proof", "honest.proof"][..], 0),
        (&["chain.proof", "foreign.proof"], 2),
        (&["none.proof", "cut.proof"], 1),
    ] {
        let (status, text, _) = run(&[&["--key", "model.key"], proofs].concat(), None);
        assert_eq!(status, expected, "{text}");
    }
    let (status, text, _) = run(&["--key", "model.key", "--lines", "honest.proof"], None);
    assert_eq!((status, text.lines().count()), (0, 2), "{text}");
}

#[test]
fn a_name_with_line_ends_forges_no_line() {
    let name = "x\naccepted   forged.proof  99.9 bits";
    std::fs::write(files().path(name), b"nothing").expect("a file");
    let (status, text, _) = run(&["--key", "model.key", "--lines", name], None);
    let own = text.lines().filter(|line| !line.starts_with("| "));
    assert_eq!((status, own.count()), (1, 2), "{text}");
}

#[test]
fn keys_and_proofs_are_described_without_a_verdict() {
    let (status, text, _) = run(&["inspect", "model.key"], None);
    assert_eq!(status, 0);
    for words in [
        "model key     model.key",
        "tokenizer     none",
        "bits for 26 tokens (the context and one more)",
        "fidelity",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let (_, text, _) = run(&["inspect", "changed.proof", "--json"], None);
    let object = json(&text);
    assert_eq!((&object["kind"], &object["verified"]), (&"proof".into(), &false.into()));
    let (status, _, error) = run(&["inspect", "."], None);
    assert_eq!(status, 2, "{error}");
}
