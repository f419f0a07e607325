//! Many requests with one model: proofs as if each were made alone, and a batch that goes on where it was interrupted.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use serde_json::{json, Value};
use tempfile::{tempdir, TempDir};

use crate::args;
use crate::support::{done, fails, names, tessera, Shared, PROMPT};

/// A file of requests and a directory for their proofs.
struct Batch {
    dir: TempDir,
}

impl Batch {
    fn new() -> Self {
        let dir = tempdir().expect("a temporary directory");
        Self { dir }
    }

    fn proofs(&self) -> PathBuf {
        self.dir.path().join("proofs")
    }

    fn proof(&self, id: &str) -> PathBuf {
        self.proofs().join(format!("{id}.proof"))
    }

    fn command(&self, requests: &[Value]) -> Vec<OsString> {
        let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
        self.of_text(&lines.join("\n"))
    }

    fn of_text(&self, text: &str) -> Vec<OsString> {
        let file = self.dir.path().join("requests.jsonl");
        fs::write(&file, text).expect("it is written");
        args![
            "prove",
            "--model",
            Shared::get().model(),
            "--batch",
            file,
            "--out-dir",
            self.proofs()
        ]
    }

    /// The exit status, and the objects that are printed: one for each request, and one for all.
    fn run(&self, requests: &[Value]) -> (i32, Vec<Value>) {
        self.run_with(requests, &[])
    }

    /// Runs a batch with more options.
    fn run_with(&self, requests: &[Value], more: &[&str]) -> (i32, Vec<Value>) {
        let mut args = self.command(requests);
        args.extend(["--json"].iter().chain(more).map(OsString::from));
        let output = tessera(args);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let objects = text.lines().map(|line| serde_json::from_str(line).expect("an object"));
        (output.status.code().expect("an exit status"), objects.collect())
    }
}

fn statuses(objects: &[Value]) -> Vec<(&str, &str)> {
    let requests = objects.iter().filter(|object| object.get("status").is_some());
    requests
        .map(|object| {
            (
                object["id"].as_str().expect("an id"),
                object["status"].as_str().expect("a status"),
            )
        })
        .collect()
}

/// A proof of a request that is made alone.
fn alone(dir: &Path, more: &[&str]) -> Vec<u8> {
    let out = dir.join("alone");
    let mut args = args!["prove", "--model", Shared::get().model(), "--out", out, "--quiet"];
    args.extend(more.iter().map(OsString::from));
    let output = tessera(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(out).expect("a proof")
}

const CONTEXT: &str = "0x0000000000000000000000000000000000000000000000000000000000000007";

#[test]
fn proofs_of_a_batch_are_those_that_are_made_alone() {
    let batch = Batch::new();
    let requests = [
        json!({"id": "story", "prompt": PROMPT, "tokens": 12}),
        json!({"prompt_ids": [1, 80, 147], "tokens": 3, "ignore_eos": true}),
        json!({"id": "tied", "prompt": "The cat", "tokens": 2, "context": CONTEXT}),
    ];
    let (status, objects) = batch.run(&requests);
    assert_eq!(status, 0, "{objects:?}");
    assert_eq!(
        statuses(&objects),
        [("story", "proved"), ("2", "proved"), ("tied", "proved")]
    );
    let all = objects.last().unwrap();
    assert_eq!(
        (&all["requests"], &all["proved"], &all["failed"]),
        (&json!(3), &json!(3), &json!(0))
    );
    let dir = batch.dir.path();
    assert_eq!(
        fs::read(batch.proof("story")).unwrap(),
        fs::read(Shared::get().proof()).unwrap()
    );
    let ids = alone(dir, &["--prompt-ids", "1,80,147", "--tokens", "3", "--ignore-eos"]);
    assert_eq!(fs::read(batch.proof("2")).unwrap(), ids);
    let tied = alone(dir, &["--prompt", "The cat", "--tokens", "2", "--context", CONTEXT]);
    assert_eq!(fs::read(batch.proof("tied")).unwrap(), tied);
    assert_eq!(objects[0]["output_ids"], Shared::get().prove["output_ids"]);
}

#[test]
fn a_batch_goes_on_by_what_the_proofs_say() {
    let batch = Batch::new();
    let request = |tokens: usize| json!({"id": "a", "prompt": PROMPT, "tokens": tokens});
    let requests = [request(2), json!({"id": "b", "prompt": "The cat", "tokens": 2})];
    assert_eq!(statuses(&batch.run(&requests).1), [("a", "proved"), ("b", "proved")]);
    let before = [batch.proof("a"), batch.proof("b")].map(|path| fs::read(path).unwrap());
    let (status, objects) = batch.run(&requests);
    assert_eq!(
        (status, statuses(&objects)),
        (0, vec![("a", "present"), ("b", "present")])
    );
    assert_eq!(objects[0]["output_ids"].as_array().unwrap().len(), 2);
    // A file that is torn, one that is changed, and one that is something else are not trusted.
    let torn = &before[0][..before[0].len() / 2];
    let mut changed = before[1].clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(batch.proof("a"), torn).unwrap();
    fs::write(batch.proof("b"), changed).unwrap();
    assert_eq!(statuses(&batch.run(&requests).1), [("a", "proved"), ("b", "proved")]);
    fs::write(batch.proof("a"), b"").unwrap();
    fs::copy(batch.proof("a"), batch.proof("b")).unwrap();
    assert_eq!(statuses(&batch.run(&requests).1), [("a", "proved"), ("b", "proved")]);
    assert_eq!(
        [batch.proof("a"), batch.proof("b")].map(|path| fs::read(path).unwrap()),
        before
    );
    // So is the proof of another request: of another prompt, length, answer or context.
    fs::copy(batch.proof("b"), batch.proof("a")).unwrap();
    assert_eq!(statuses(&batch.run(&requests[..1]).1), [("a", "proved")]);
    assert_eq!(statuses(&batch.run(&[request(3)]).1), [("a", "proved")]);
    assert_eq!(statuses(&batch.run(&[request(3)]).1), [("a", "present")]);
    let tied = json!({"id": "a", "prompt": PROMPT, "tokens": 3, "context": CONTEXT});
    assert_eq!(statuses(&batch.run(slice::from_ref(&tied)).1), [("a", "proved")]);
    assert_eq!(statuses(&batch.run(&[tied]).1), [("a", "present")]);
    assert_eq!(statuses(&batch.run(&[request(3)]).1), [("a", "proved")]);
    let said: Vec<u64> = Shared::get().prove["output_ids"].as_array().unwrap()[..3]
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect();
    let expecting = |ids: &[u64]| json!({"id": "a", "prompt": PROMPT, "tokens": 3, "answer_ids": ids});
    assert_eq!(statuses(&batch.run(&[expecting(&said)]).1), [("a", "present")]);
    let kept = fs::read(batch.proof("a")).unwrap();
    let (status, objects) = batch.run(&[expecting(&[said[0], said[1], 5])]);
    assert_eq!((status, statuses(&objects)), (1, vec![("a", "differs")]));
    assert_eq!(
        fs::read(batch.proof("a")).unwrap(),
        kept,
        "a proof of something else stays"
    );
}

/// A proof that hides is not taken for one that does not, or the reverse, and all that is said of it says what it hides.
#[test]
fn a_batch_hides_what_it_is_asked_to_hide() {
    let batch = Batch::new();
    let request = [json!({"id": "a", "prompt": PROMPT, "tokens": 2})];
    for (more, status) in [
        (&[][..], "proved"),
        (&["--hide"], "proved"),
        (&["--hide"], "present"),
        (&[], "proved"),
    ] {
        let (_, objects) = batch.run_with(&request, more);
        assert_eq!(statuses(&objects), [("a", status)], "{more:?}");
        let hidden = objects[0].get("hidden").map(|hidden| hidden["activations"].clone());
        assert_eq!(hidden, (!more.is_empty()).then_some(json!(true)));
        let key = Shared::get().model().join("model.key");
        let verified = done(args!["verify", "--key", key, batch.proof("a")]);
        assert_eq!(verified.get("hidden"), objects[0].get("hidden"));
    }
}

#[test]
fn an_error_of_one_request_keeps_no_other_from_being_proved() {
    let batch = Batch::new();
    fs::create_dir_all(batch.proof("taken")).unwrap();
    let requests = [
        json!({"id": "unknown", "prompt_ids": [9999], "tokens": 2}),
        json!({"id": "long", "prompt": PROMPT, "tokens": 5000}),
        json!({"id": "taken", "prompt": PROMPT, "tokens": 2}),
        json!({"id": "vector", "embed": "x"}),
        json!({"id": "fine", "prompt": PROMPT, "tokens": 2}),
    ];
    let (status, objects) = batch.run(&requests);
    let failed = |id| (id, "failed");
    let expected = [
        failed("unknown"),
        failed("long"),
        failed("taken"),
        failed("vector"),
        ("fine", "proved"),
    ];
    assert_eq!((status, statuses(&objects)), (2, expected.to_vec()), "{objects:?}");
    for (object, words) in objects
        .iter()
        .zip(["9999", "context of 512", "no regular file", "no encoder"])
    {
        assert!(object["error"].as_str().unwrap().contains(words), "{object}");
    }
    // An answer that differs is the worst that can happen.
    let differs = json!({"id": "other", "prompt": PROMPT, "answer": "No."});
    let (status, objects) = batch.run(&[requests[0].clone(), differs]);
    assert_eq!(
        (status, statuses(&objects)),
        (1, vec![failed("unknown"), ("other", "differs")])
    );
    assert_eq!(objects[1]["answer"]["differs_at"], 0);
    // As text, what went wrong goes to standard error, with --quiet nothing else is said.
    let output = tessera(batch.command(&requests));
    let (said, wrong) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(
        said.contains("fine  there already") && said.contains("5 requests: 0 proved, 1 there already"),
        "{said}"
    );
    assert!(
        wrong.contains("unknown  failed: ") && wrong.lines().filter(|l| l.contains("failed")).count() == 4,
        "{wrong}"
    );
    let mut quiet = batch.command(&requests);
    quiet.push("--quiet".into());
    let output = tessera(quiet);
    assert!(output.stdout.is_empty() && output.stderr == wrong.as_bytes());
}

#[test]
fn requests_that_are_none_are_refused_before_any_work() {
    let batch = Batch::new();
    let fine = json!({"id": "fine", "prompt": PROMPT, "tokens": 2});
    for (bad, words) in [
        (
            json!({"id": "../x", "prompt": "a", "tokens": 1}),
            "cannot be the name of a proof",
        ),
        (
            json!({"id": "a/b", "prompt": "a", "tokens": 1}),
            "cannot be the name of a proof",
        ),
        (
            json!({"id": "a\u{1b}[2J", "prompt": "a", "tokens": 1}),
            "cannot be the name of a proof",
        ),
        (
            json!({"id": "FINE", "prompt": "a", "tokens": 1}),
            "the same as that of line 1",
        ),
        (
            json!({"id": "x", "prompt": "a", "tokens": 1, "top_p": 0.9}),
            "sampling is not proved",
        ),
        (
            json!({"id": "x", "prompt": "a", "tokens": 1, "answr": "b"}),
            "\"answr\"",
        ),
        (json!({"id": "x", "tokens": 1}), "no prompt"),
    ] {
        fails(
            batch.command(&[fine.clone(), bad]),
            &["requests.jsonl: line 2: ", words],
        );
        assert_eq!(names(batch.dir.path()), ["requests.jsonl"], "{words}");
    }
    fails(batch.of_text("\n\n"), &["no request"]);
    fails(batch.of_text("{"), &["line 1", "JSON"]);
    let mut both = batch.command(&[fine]);
    both.extend(args!["--tokens", "3"]);
    fails(both, &["--batch", "--tokens"]);
}

#[test]
fn one_process_at_a_time_proves_into_a_directory() {
    let batch = Batch::new();
    fs::create_dir(batch.proofs()).unwrap();
    let lock = fs::File::create(batch.proofs().join(".tessera-batch.lock")).unwrap();
    lock.lock().unwrap();
    let request = json!({"id": "a", "prompt": PROMPT, "tokens": 2});
    fails(batch.command(slice::from_ref(&request)), &["another process"]);
    drop(lock);
    // What a process that was killed has left is removed.
    let left = batch.proofs().join(".tessera-left.tmp");
    fs::write(&left, "x").unwrap();
    assert_eq!(statuses(&batch.run(&[request]).1), [("a", "proved")]);
    assert!(!left.exists());
}
