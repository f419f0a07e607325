//! What the user sees: one report per command, as text or as one JSON object on stdout.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use console::Term;
use serde_json::{json, Value};
use tessera_verdict::{rows, shown, usage};

/// How a command ended; the exit status follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done, or the proof is accepted.
    Done,
    /// A proof is rejected.
    Rejected,
    /// The model gives another answer than the expected one: nothing is proved.
    Differs,
    /// Something could not be done, or, of several proofs of which none is rejected, one could not be decided.
    Undecided,
}

impl Status {
    const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Rejected | Self::Differs => 1,
            Self::Undecided => UNDECIDED,
        }
    }
}

impl From<tessera_verdict::Status> for Status {
    fn from(status: tessera_verdict::Status) -> Self {
        match status {
            tessera_verdict::Status::Accepted => Self::Done,
            tessera_verdict::Status::Rejected => Self::Rejected,
            tessera_verdict::Status::Undecided => Self::Undecided,
        }
    }
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Report {
    pub status: Status,
    pub text: String,
    pub json: Value,
}

impl Report {
    /// A command that did what it was asked for.
    pub fn done(text: String, json: Value) -> Self {
        Self {
            status: Status::Done,
            text,
            json,
        }
    }
}

/// The command could not do or decide what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Exit status of a failure.
const UNDECIDED: u8 = 2;

/// Whether standard output carries a result of the command.
static STDOUT_TAKEN: AtomicBool = AtomicBool::new(false);

/// From now on standard output carries a result: reports and errors go to standard error, JSON too.
pub fn claim_stdout() {
    STDOUT_TAKEN.store(true, Ordering::Relaxed);
}

/// The narrowest terminal that is wrapped for.
const NARROW: usize = 40;

/// Columns of a terminal, if it is one.
pub fn columns(term: &Term) -> Option<usize> {
    let (_, columns) = term.size_checked()?;
    Some(usize::from(columns).max(NARROW))
}

/// Says what is wrong with the arguments; returns the exit status.
pub fn refuse(wrong: String, args: &[OsString]) -> u8 {
    if args.iter().any(|arg| arg == "--json") {
        return finish(Err(Failure(wrong)), true, &[]);
    }
    let names = args.iter().skip(1).map(Path::new);
    let columns = rows::columns(columns(&Term::stderr()), names);
    delivered(UNDECIDED, line(io::stderr(), &usage::wrapped(&wrong, columns)))
}

/// Prints the outcome of a command about files of these names; returns the exit status.
pub fn finish(outcome: Result<Report, Failure>, json: bool, names: &[&Path]) -> u8 {
    let (status, text, value) = match outcome {
        Ok(report) if report.status == Status::Differs => (report.status.code(), Err(report.text), report.json),
        Ok(report) => (report.status.code(), Ok(report.text), report.json),
        Err(Failure(message)) => {
            let columns = error_columns(names);
            let text = format!("error: {}", shown::message(&message, columns));
            (UNDECIDED, Err(text), json!({ "error": message }))
        }
    };
    let written = match (json, text) {
        (true, _) => report(&value.to_string()),
        // Who wants no report gets not even an empty line.
        (false, Ok(text)) if text.is_empty() => Ok(()),
        (false, Ok(text)) => report(text.trim_end()),
        (false, Err(text)) => line(io::stderr(), &text),
    };
    delivered(status, written)
}

/// Columns of messages on standard error about files of these names.
pub fn error_columns(names: &[&Path]) -> usize {
    rows::columns(columns(&Term::stderr()), names.iter().copied())
}

/// Columns of a report: of the terminal that shows it, or else of the variable `COLUMNS`, as other programs take it. Without either, lines
/// are as long as they are, so that a program that reads them finds no text broken.
pub fn report_columns() -> usize {
    let term = match STDOUT_TAKEN.load(Ordering::Relaxed) {
        true => Term::stderr(),
        false => Term::stdout(),
    };
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    columns(&term)
        .or_else(named)
        .map_or(usize::MAX, |columns: usize| columns.max(NARROW))
}

/// Prints a line of a report that is not all of it yet. What nobody reads any more is no reason to stop.
pub fn progress_line(text: &str) {
    let _ = report(text);
}

/// Whoever closed the pipe has seen enough; a verdict that could not be delivered for another reason must not look like an
/// acceptance.
fn delivered(status: u8, written: io::Result<()>) -> u8 {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => UNDECIDED,
        _ => status,
    }
}

fn report(text: &str) -> io::Result<()> {
    match STDOUT_TAKEN.load(Ordering::Relaxed) {
        true => line(io::stderr(), text),
        false => line(io::stdout(), text),
    }
}

fn line(mut to: impl Write, text: &str) -> io::Result<()> {
    writeln!(to, "{text}")?;
    to.flush()
}

/// Peak resident memory of this process in bytes, 0 where the system does not tell.
pub fn peak_rss_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// Resident memory of this process in bytes, 0 where the system does not tell.
pub fn rss_bytes() -> u64 {
    status_bytes("VmRSS:")
}

fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(field));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(0, |k| k.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_become_exit_status_two() {
        assert_eq!(finish(Err(Failure("no".to_owned())), true, &[]), 2);
        let rejected = Report {
            status: Status::Rejected,
            text: String::new(),
            json: json!({}),
        };
        let differs = Report {
            status: Status::Differs,
            ..rejected.clone()
        };
        assert_eq!(finish(Ok(rejected), true, &[]), 1);
        assert_eq!(finish(Ok(differs), true, &[]), 1);
        assert_eq!(finish(Ok(Report::done(String::new(), json!({}))), true, &[]), 0);
    }
}
