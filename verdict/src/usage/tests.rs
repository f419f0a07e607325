//! Arguments that files with hostile names become.

use clap::{Args, Parser, Subcommand};

use super::*;

#[derive(Debug, Parser)]
#[command(name = "program", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Inner>,
    files: Vec<OsString>,
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Inner {
    /// Does something
    Work(Work),
}

#[derive(Debug, Args)]
struct Work {
    number: String,
}

fn read(args: &[&str]) -> Result<Cli, Usage> {
    let args: Vec<OsString> = ["program"].iter().chain(args).map(OsString::from).collect();
    parse(&args)
}

#[test]
fn help_and_version_are_for_those_who_ask_for_nothing_else() {
    for args in [
        &["-h"][..],
        &["--help"],
        &["-V"],
        &["--version"],
        &["work", "-h"],
        &["work", "--help"],
        &["help"],
        &["help", "work"],
    ] {
        assert!(matches!(read(args), Err(Usage::Asked(_))), "{args:?}");
    }
    for args in [&["--json", "-V"][..], &["--version", "--json"]] {
        assert!(matches!(read(args), Err(Usage::Version)), "{args:?}");
    }
    for args in [
        &["--json", "-V", "a.proof"][..],
        &["--json.proof", "-V"],
        &["-h.proof"],
        &["a.proof", "-h"],
        &["a.proof", "-h.proof", "b.proof"],
        &["--json", "--help"],
        &["--help", "--json"],
        &["-V", "a.proof"],
        &["-Version.proof"],
        &["work", "7", "-h"],
        &["-h", "-h"],
        &["--json", "help"],
    ] {
        let Err(Usage::Wrong(wrong)) = read(args) else {
            panic!("{args:?}");
        };
        assert!(!wrong.is_empty(), "{args:?}");
    }
    let Err(Usage::Wrong(wrong)) = read(&["a.proof", "-h.proof"]) else {
        panic!("help");
    };
    assert!(
        wrong.contains("'./-h.proof'") && wrong.contains("write -- before"),
        "{wrong}"
    );
    let files = read(&["--json", "--", "-h.proof", "--version", "help"])
        .expect("files")
        .files;
    assert_eq!(files, ["-h.proof", "--version", "help"]);
}

#[test]
fn what_was_given_draws_no_line_in_an_error() {
    let hostile = "--x\naccepted   forged.proof  99.9 bits\u{1b}[2J\u{202e}\r";
    let long = format!("--{}accepted  b.proof  99.9 bits", "x".repeat(73));
    for args in [&["work", hostile][..], &[hostile], &["work", "1", hostile], &[&long]] {
        let Err(Usage::Wrong(wrong)) = read(args) else {
            panic!("{args:?}");
        };
        for columns in [40, 80, usize::MAX] {
            let text = wrapped(&wrong, columns);
            assert!(text.starts_with("error: "), "{text}");
            assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']), "{text:?}");
            for line in text.lines() {
                assert!(
                    !line.starts_with("accepted") && line.chars().count() < columns,
                    "{text}"
                );
            }
        }
    }
}

/// A file may have the name by which standard input is called.
#[test]
fn behind_two_hyphens_a_hyphen_is_a_file() {
    let files = |args: &[&str]| read(args).expect("files").files;
    assert_eq!(files(&["-", "a"]), ["-", "a"]);
    assert_eq!(files(&["-", "--", "-", "--", "-h"]), ["-", "./-", "--", "-h"]);
}

#[cfg(unix)]
#[test]
fn what_is_no_text_is_named() {
    use std::os::unix::ffi::OsStringExt;
    let args = ["program", "work"].map(OsString::from).into_iter();
    let args: Vec<OsString> = args.chain([OsString::from_vec(b"a\xff\n".to_vec())]).collect();
    let Err(Usage::Wrong(wrong)) = parse::<Cli>(&args) else {
        panic!("{args:?}");
    };
    assert!(wrong.starts_with(r"'a\xff\n' is not UTF-8 text"), "{wrong}");
}
