//! Files that are there to fool or to stop who checks proofs: by their names, by what they are, by their lengths.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use super::*;

/// Files can be named like options: `*` gives them to a program that was asked to verify everything.
#[test]
fn no_file_is_help_or_a_version() {
    for name in ["-h.proof", "-V.proof", "--help", "-h"] {
        std::fs::write(files().path(name), b"nothing").expect("a file");
        let (status, stdout, stderr) = run(&["--key", "model.key", "honest.proof", name], None);
        assert_eq!((status, stdout.as_str()), (2, ""), "{name}");
        assert!(
            stderr.contains("goes with no other argument") && stderr.contains("write --"),
            "{stderr}"
        );
        let (status, text, _) = run(&["--json", "--key", "model.key", name, "honest.proof"], None);
        assert!(status == 2 && json(&text)["error"].is_string(), "{text}");
        let (status, text, _) = run(&["--key", "model.key", "--", "honest.proof", name], None);
        assert_eq!(status, 1, "{text}");
        assert!(text.contains(&format!("rejected   {name}  malformed proof")), "{text}");
    }
    for args in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["-V"],
        &["verify", "-h"],
        &["inspect", "--help"],
        &["help"],
    ] {
        let (status, stdout, stderr) = run(args, None);
        assert_eq!((status, stderr.as_str()), (0, ""), "{args:?}");
        assert!(stdout.contains("tessera-verify"), "{stdout}");
    }
    let (_, help, _) = run(&["--help"], None);
    assert!(help.contains("Write -- before files"), "{help}");
}

/// Accepted proofs in the same batch do not make up for a bad file.
#[test]
fn one_bad_file_makes_a_batch_fail() {
    let good = ["honest.proof"; 5];
    for (bad, expected) in [
        (&["cut.proof"][..], 1),
        (&["foreign.proof"], 2),
        (&["none.proof"], 2),
        (&["."], 2),
        (&["foreign.proof", "none.proof", "changed.proof"], 1),
    ] {
        for at in [0, 3, 5] {
            let proofs = [&good[..at], bad, &good[at..]].concat();
            for form in [&["--key", "model.key"][..], &["--json", "--key", "model.key"]] {
                let (status, text, _) = run(&[form, &["--"], &proofs].concat(), None);
                assert_eq!(status, expected, "{proofs:?}: {text}");
            }
        }
    }
}

/// A program that hangs is killed.
fn soon(args: &[&OsStr]) -> (i32, Vec<u8>, Vec<u8>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tessera-verify"))
        .args(args)
        .current_dir(files().dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let start = Instant::now();
    while child.try_wait().expect("a status").is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().expect("it ends");
            panic!("{args:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it has ended");
    (status.code().expect("an exit status"), stdout, stderr)
}

fn words<'a>(args: &[&'a str]) -> Vec<&'a OsStr> {
    args.iter().map(|arg| OsStr::new(*arg)).collect()
}

/// Names each of which would forge a line, wherever the terminal or the program breaks it.
fn hostile() -> Vec<OsString> {
    let line = "accepted   forged.proof  99.9 bits";
    let pads = [60, 63, 66, 67, 69, 70].map(|n| format!("{}{line}", "x".repeat(n)));
    let mut names: Vec<OsString> = pads.iter().map(OsString::from).collect();
    names.extend(
        [
            format!("a\n{line}"),
            format!("a\r{line}"),
            format!("a\u{1b}[2J\u{1b}[H{line}"),
            format!("a\u{9b}2K{line}"),
            format!("a\u{202e}{line}\u{2028}{line}"),
            format!("a{}{line}", "\u{3000}".repeat(33)),
        ]
        .map(OsString::from),
    );
    names.push(OsStr::from_bytes(&[b"a\xff\n\x9b\x85", line.as_bytes()].concat()).to_owned());
    names
}

/// No line says more than the program does, and none reaches the end of the terminal.
fn honest_lines(text: &[u8], begins: &[&str]) {
    let text = String::from_utf8(text.to_vec()).expect("UTF-8");
    for line in text.lines().filter(|line| !line.is_empty()) {
        let begins = ["| ", "  | "].iter().chain(begins).any(|own| line.starts_with(own));
        assert!(begins && line.chars().count() < 80, "{line:?} in {text}");
        // What is not Unicode in an argument is shown as the sign for that.
        let is_plain = |c: char| c == ' ' || c == '\u{fffd}' || c.is_ascii_graphic();
        assert!(line.chars().all(is_plain), "{line:?}");
    }
}

#[test]
fn no_name_draws_a_line_of_its_own() {
    let names = hostile();
    for name in &names {
        std::fs::write(files().path("").join(name), b"nothing").expect("a file");
    }
    let all: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
    let key = words(&["--key", "model.key", "--"]);
    let (status, text, _) = soon(&[&key[..], &all].concat());
    assert_eq!(status, 1);
    honest_lines(&text, &["rejected", "13 proofs of model"]);
    for name in all {
        // What cannot be read, what is no key, and what is no option.
        let missing = [name.as_bytes(), b".none"].concat();
        let missing = OsStr::from_bytes(&missing);
        for args in [
            [&key[..], &[missing]].concat(),
            [&words(&["honest.proof", "--key"])[..], &[name]].concat(),
            [&words(&["inspect"])[..], &[name]].concat(),
            [&words(&["--key", "model.key", "--threads"])[..], &[name]].concat(),
            [
                &words(&["--key", "model.key"])[..],
                &[OsStr::from_bytes(&[b"--", name.as_bytes()].concat())],
            ]
            .concat(),
        ] {
            let (status, stdout, stderr) = soon(&args);
            assert_eq!((status, stdout.len()), (2, 0), "{args:?}");
            honest_lines(
                &stderr,
                &[
                    "error: ",
                    "Usage: ",
                    "       tessera-verify ",
                    "For more information",
                    "  tip: ",
                ],
            );
        }
        // A rejection that names the file.
        std::fs::copy(files().path("model.key"), files().dir.path().join(missing)).expect("a copy");
        let (status, text, _) = soon(&[&key[..], &[missing]].concat());
        assert_eq!(status, 1);
        honest_lines(&text, &["rejected: "]);
        std::fs::remove_file(files().dir.path().join(missing)).expect("the copy");
    }
}

/// Names that are no text stay apart, and one that is given twice has two places.
#[test]
fn no_two_proofs_have_the_same_name_in_json() {
    let names: [&[u8]; 5] = [b"n\xff", b"n\xfe", b"n\\xff", b"n\xef\xbf\xbd", b"standard input"];
    for name in names {
        std::fs::write(files().dir.path().join(OsStr::from_bytes(name)), b"nothing").expect("a file");
    }
    let proofs = names.iter().chain(&names).map(|name| OsStr::from_bytes(name));
    // Standard input, which is before the two hyphens; a file of its name is behind them.
    let args: Vec<&OsStr> = words(&["--json", "--key", "model.key", "-", "--", "-"])
        .into_iter()
        .chain(proofs)
        .collect();
    let (status, text, _) = soon(&args);
    let text = String::from_utf8(text).expect("UTF-8");
    let objects: Vec<Value> = text.lines().map(json).collect();
    assert_eq!((status, objects.len()), (1, 13), "{text}");
    let own = |i: usize| objects[i]["proof"].as_str().expect("a name");
    let expected = ["n\\xff", "n\\xfe", "n\\\\xff", "n\u{fffd}", "standard input"];
    assert_eq!([0, 1].map(own), ["-", "./-"]);
    assert_eq!([2, 3, 4, 5, 6].map(own), expected);
    for (i, object) in objects[..12].iter().enumerate() {
        assert_eq!(object["index"], i);
        assert!(i < 2 || own(i) == expected[(i - 2) % 5]);
    }
}

/// A pipe that nobody writes to, and devices that never end.
#[test]
fn a_pipe_or_device_stops_no_batch() {
    let pipe = files().path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let batch = [
        "--threads",
        "1",
        "--key",
        "model.key",
        "pipe",
        "honest.proof",
        "/dev/zero",
        "/dev/full",
        ".",
    ];
    let (status, text, _) = soon(&words(&batch));
    let text = String::from_utf8(text).expect("UTF-8");
    assert_eq!((status, text.matches("is no regular file").count()), (2, 3), "{text}");
    assert!(text.contains("accepted   honest.proof"), "{text}");
    // Alone, a pipe is a file like any other.
    let script = "exec \"$0\" --key model.key <(cat honest.proof)";
    let alone = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_tessera-verify")])
        .current_dir(files().dir.path())
        .output()
        .expect("a shell");
    assert_eq!(alone.status.code(), Some(0), "{alone:?}");
}

/// The program reads no more of a file of a terabyte, or of a device without an end, than a proof of this key can have.
#[test]
fn no_more_is_read_than_a_proof_can_have() {
    let long = std::fs::File::create(files().path("long.proof")).expect("a file");
    long.set_len(1 << 40).expect("a hole");
    let mut own = std::fs::read(files().path("honest.proof")).expect("a proof");
    std::os::unix::fs::FileExt::write_all_at(&long, &own, 0).expect("its beginning");
    let (status, text, _) = soon(&words(&["--json", "--key", "model.key", "long.proof"]));
    let object = json(std::str::from_utf8(&text).expect("UTF-8"));
    let read = object["proof_bytes"].as_u64().expect("a number");
    let reason = format!(
        "malformed proof: the file has more than {} bytes, but no proof of this model does",
        read - 1
    );
    assert_eq!(
        (status, object["reason"].as_str()),
        (1, Some(reason.as_str())),
        "{object}"
    );
    assert!(read > own.len() as u64 && read < 4 << 20, "{read} bytes");
    let (status, text, _) = soon(&words(&["--key", "model.key", "/dev/zero"]));
    assert_eq!(status, 1, "{}", String::from_utf8_lossy(&text));
    // The last byte that counts is looked at.
    own.resize(read as usize - 1, 0);
    std::fs::write(files().path("full.proof"), own).expect("a file");
    let (_, text, _) = soon(&words(&["--key", "model.key", "full.proof"]));
    assert!(String::from_utf8_lossy(&text).contains("bytes after its end"));
}
