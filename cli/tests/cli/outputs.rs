//! Where results go: into files, through links, and to standard output.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;

use crate::args;
use crate::support::{done, fails, names, tessera, Shared, PROMPT};

fn prove(shared: &Shared, out: &Path) -> Vec<std::ffi::OsString> {
    args![
        "prove",
        "--model",
        shared.model(),
        "--prompt",
        PROMPT,
        "--tokens",
        "12",
        "--out",
        out
    ]
}

/// The proof is all that standard output carries; what a person or a program reads of it goes to standard error.
#[test]
fn a_proof_goes_to_standard_output_and_its_report_to_standard_error() {
    let shared = Shared::get();
    let expected = fs::read(shared.proof()).unwrap();
    let mut ways = vec![Path::new("-")];
    if cfg!(target_os = "linux") {
        ways.push(Path::new("/dev/stdout"));
    }
    for out in ways {
        let text = tessera(prove(shared, out));
        assert_eq!(text.status.code(), Some(0), "{}", String::from_utf8_lossy(&text.stderr));
        assert!(text.stdout == expected, "{}", out.display());
        assert!(String::from_utf8_lossy(&text.stderr).contains("security"));

        let machine = tessera([prove(shared, out), args!["--json", "--quiet"]].concat());
        assert!(machine.stdout == expected, "{}", out.display());
        let report: Value = serde_json::from_slice(&machine.stderr).unwrap();
        assert_eq!(report["proof_bytes"], expected.len());
    }
    let failed = tessera(args![
        "prove",
        "--model",
        shared.model(),
        "--prompt-ids",
        "9999999",
        "--tokens",
        "2",
        "--out",
        "-",
        "--json",
        "--quiet"
    ]);
    assert_eq!((failed.status.code(), failed.stdout.len()), (Some(2), 0));
    let report: Value = serde_json::from_slice(&failed.stderr).unwrap();
    assert!(report["error"].as_str().unwrap().contains("9999999"), "{report}");
}

/// Chunks go through a work directory, which remembers where the proof goes.
#[test]
fn a_job_of_chunks_remembers_standard_output() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let (work, logits) = (dir.path().join("work"), dir.path().join("logits"));
    let job = args![
        "prove",
        "--model",
        shared.model(),
        "--prompt-ids",
        "1,7",
        "--tokens",
        "2",
        "--out",
        "-",
        "--work",
        work,
        "--chunks",
        "2",
        "--prepare"
    ];
    assert_eq!(done(job)["left"], 2);
    let resumed = tessera(args!["resume", work, "--json", "--quiet"]);
    let report: Value = serde_json::from_slice(&resumed.stderr).unwrap();
    assert_eq!(report["chunks"], 2);
    let composed = tessera(args!["compose", work, "--quiet"]);
    assert!(!composed.stdout.is_empty() && composed.stdout == resumed.stdout);

    let generate = args![
        "generate",
        "--model",
        shared.model(),
        "--prompt-ids",
        "1,7",
        "--tokens",
        "2",
        "--quiet"
    ];
    done([generate.clone(), args!["--logits-out", logits]].concat());
    let printed = tessera([generate, args!["--logits-out", "-"]].concat());
    assert!(printed.stdout == fs::read(logits).unwrap());
    assert_eq!(names(dir.path()), ["logits", "work"]);
}

/// A link at the place of the proof leads to it afterwards, and a device is still one.
#[cfg(unix)]
#[test]
fn proofs_follow_links_and_keep_devices() {
    use std::os::unix::fs::{symlink, FileTypeExt};
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let (link, null) = (dir.path().join("link"), dir.path().join("null"));
    symlink("proof", &link).unwrap();
    symlink("/dev/null", &null).unwrap();
    for out in [&link, &null] {
        let mut short = prove(shared, out);
        short[6] = "2".into();
        done(short);
        assert!(out.is_symlink());
    }
    done(args!["verify", "--key", shared.key(), dir.path().join("proof")]);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(names(dir.path()), ["link", "null", "proof"]);
}

/// A result replaces none of the files that it is made of.
#[test]
fn a_proof_replaces_no_file_of_its_model() {
    let shared = Shared::get();
    let model = shared.model();
    for name in ["model.key", "weights.bin", "tokenizer.json"] {
        let before = fs::read(model.join(name)).unwrap();
        fails(
            prove(shared, &model.join(name)),
            &[name, "one of the files that this command reads"],
        );
        assert!(fs::read(model.join(name)).unwrap() == before, "{name}");
    }
}
