//! A verdict as a page, and what the program says of itself.

use std::fs;

use tempfile::tempdir;

use crate::args;
use crate::support::{done, fails, json, names, tessera, Shared, CHECKPOINT};

#[test]
fn a_report_has_the_verdict_the_text_and_the_commands_that_check_it() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let page = dir.path().join("page.html");
    let report = done(args!["report", "--key", shared.key(), shared.proof(), "--out", page]);
    assert_eq!(report["verdict"], "accept");
    assert_eq!(report["report"], page.display().to_string());
    let html = fs::read_to_string(&page).unwrap();
    let id = shared.prove["model_id"].as_str().unwrap();
    for words in [
        "<h1>Accepted</h1>",
        id,
        "Once upon a time",
        "sha256sum --check",
        "tessera verify --key",
        "<svg",
    ] {
        assert!(html.contains(words), "{words}");
    }
    // The same verdict as of `verify`, without the time.
    let mut verified = done(args!["verify", "--key", shared.key(), shared.proof()]);
    let mut own = report.clone();
    for fields in [&mut verified, &mut own] {
        let fields = fields.as_object_mut().unwrap();
        fields.remove("verify_seconds");
        fields.remove("report");
    }
    assert_eq!(own, verified);
    // To standard output the page alone goes.
    let output = tessera(args!["report", "--key", shared.key(), shared.proof(), "--out", "-"]);
    assert!(output.stdout.starts_with(b"<!doctype html>") && output.stdout.ends_with(b"</html>\n"));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("accepted\n"));
}

#[test]
fn a_rejected_proof_has_a_report_and_status_one() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let [page, changed] = ["page.html", "changed.proof"].map(|name| dir.path().join(name));
    let mut bytes = fs::read(shared.proof()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&changed, bytes).unwrap();
    let (status, report) = json(args!["report", "--key", shared.key(), changed, "--out", page]);
    assert_eq!((status, &report["verdict"]), (1, &"reject".into()));
    let html = fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("<h1>REJECTED</h1>") && !html.contains("Once upon"),
        "{html}"
    );
}

#[test]
fn what_decides_nothing_leaves_no_report() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let [page, other] = ["page.html", "other"].map(|name| dir.path().join(name));
    done(args![
        "setup",
        CHECKPOINT,
        "--strategy",
        "w8",
        "--no-fidelity",
        "--out",
        other
    ]);
    let report = |key, proof, out| args!["report", "--key", key, proof, "--out", out];
    fails(
        report(other.join("model.key"), shared.proof(), page.clone()),
        &["is the key of another model"],
    );
    fails(report(shared.proof(), shared.proof(), page.clone()), &["a proof"]);
    fails(report(shared.key(), dir.path().join("none"), page.clone()), &["none"]);
    assert!(!page.exists());
    let key = dir.path().join("model.key");
    fs::copy(shared.key(), &key).unwrap();
    fails(
        report(key.clone(), shared.proof(), key),
        &["one of the files that this command reads"],
    );
}

#[test]
fn shells_and_readers_get_to_know_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = tessera(args!["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.len() > 5000, "{shell}");
        for word in ["prove-chunk", "expect-output", "completions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    fails(args!["completions", "sh"], &["bash"]);
    let dir = tempdir().unwrap();
    let pages = dir.path().join("man1");
    let report = done(args!["man", "--out-dir", pages]);
    let files = names(&pages);
    assert_eq!(report["pages"].as_array().unwrap().len(), files.len());
    for name in [
        "tessera.1",
        "tessera-verify.1",
        "tessera-chain-plan.1",
        "tessera-report.1",
    ] {
        let page = fs::read_to_string(pages.join(name)).unwrap_or_else(|e| panic!("{name} of {files:?}: {e}"));
        assert!(page.contains(".SH OPTIONS") || name == "tessera.1", "{page}");
    }
    let verify = fs::read_to_string(pages.join("tessera-verify.1")).unwrap();
    assert!(
        verify.contains("\\-\\-key") && verify.contains(".TH TESSERA-VERIFY"),
        "{verify}"
    );
}

/// The commit may be unknown, but is said to be so.
#[test]
fn the_version_names_commit_protocol_and_files() {
    let text = |option: &str| String::from_utf8(tessera(args![option]).stdout).unwrap();
    assert_eq!(text("-V"), format!("tessera {}\n", env!("CARGO_PKG_VERSION")));
    let long = text("--version");
    let words: Vec<&str> = long.split_whitespace().take(3).collect();
    assert_eq!(words, ["tessera", env!("CARGO_PKG_VERSION"), "(commit"]);
    for words in ["protocol tessera/", "proofs ", "keys ", "model directories "] {
        assert!(long.contains(words), "{long}");
    }
}
