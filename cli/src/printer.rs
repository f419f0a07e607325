//! What the user sees: one report per command, as text or as one JSON object on stdout.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{json, Value};

/// How a command ended; the exit status follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done, or the proof is accepted.
    Done,
    /// The proof is rejected.
    Rejected,
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

/// Prints the outcome of a command; returns the exit status.
pub fn finish(outcome: Result<Report, Failure>, json: bool) -> u8 {
    let (status, text, value) = match outcome {
        Ok(report) => (
            u8::from(report.status == Status::Rejected),
            Ok(report.text),
            report.json,
        ),
        Err(Failure(message)) => (UNDECIDED, Err(format!("error: {message}")), json!({ "error": message })),
    };
    let written = match (json, text) {
        (true, _) => report(&value.to_string()),
        (false, Ok(text)) => report(text.trim_end()),
        (false, Err(text)) => line(io::stderr(), &text),
    };
    // Whoever closed the pipe has seen enough; a verdict that could not be delivered for another reason
    // must not look like an acceptance.
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

/// Aligned `name  value` rows.
#[derive(Clone, Debug, Default)]
pub struct Rows(Vec<(String, String)>);

impl Rows {
    /// Adds a row; a value of several lines is indented below the first.
    pub fn row(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.0.push((name.into(), value.to_string()));
        self
    }

    /// Adds a row if there is a value.
    pub fn maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.row(name, value),
            None => self,
        }
    }
}

impl std::fmt::Display for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in &self.0 {
            let mut lines = value.lines();
            writeln!(f, "{name:width$}  {}", lines.next().unwrap_or(""))?;
            for line in lines {
                writeln!(f, "{:width$}  {line}", "")?;
            }
        }
        Ok(())
    }
}

/// `1.23 MB`, decimal units.
pub fn bytes(n: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.into_iter().find(|(_, unit)| n as f64 >= *unit) {
        Some((name, unit)) => format!("{} {name}", three_digits(n as f64 / unit)),
        None => format!("{n} B"),
    }
}

/// `1.23 s` or `12.3 ms`.
pub fn seconds(s: f64) -> String {
    if s >= 1.0 {
        format!("{} s", three_digits(s))
    } else {
        format!("{} ms", three_digits(s * 1e3))
    }
}

fn three_digits(v: f64) -> String {
    let decimals = if v >= 100.0 {
        0
    } else if v >= 10.0 {
        1
    } else {
        2
    };
    format!("{v:.decimals$}")
}

/// `4 ids: 1 147 203 9`, wrapped.
pub fn ids(ids: &[u32]) -> String {
    const LINE: usize = 84;
    let mut text = format!("{} ids:", ids.len());
    let mut width = text.len();
    for id in ids {
        let id = id.to_string();
        if width + 1 + id.len() > LINE {
            text.push('\n');
            width = 0;
        } else {
            text.push(' ');
            width += 1;
        }
        width += id.len();
        text.push_str(&id);
    }
    text
}

/// A text of the model between quotation marks. Control characters are escaped: a text is the output of a
/// model and goes to a terminal.
pub fn quoted(text: &str) -> String {
    const LINE: usize = 90;
    let mut out = String::from("\"");
    let mut width = 0;
    for c in text.chars() {
        match c {
            '\n' => {
                out.push('\n');
                width = 0;
                continue;
            }
            ' ' if width >= LINE => {
                out.push('\n');
                width = 0;
                continue;
            }
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
        width += 1;
    }
    out.push('"');
    out
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
    fn quantities_have_three_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(312_456), "312 kB");
        assert_eq!(bytes(1_500_000), "1.50 MB");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(2.5), "2.50 s");
    }

    #[test]
    fn rows_are_aligned_and_long_values_indented() {
        let rows = Rows::default()
            .row("a", 1)
            .row("long", "x\ny")
            .maybe("none", None::<u32>);
        assert_eq!(rows.to_string(), "a     1\nlong  x\n      y\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(quoted("a\u{1b}[2Jb\nc"), "\"a\\u{1b}[2Jb\nc\"");
    }

    #[test]
    fn id_lists_are_wrapped() {
        assert_eq!(ids(&[1, 22]), "2 ids: 1 22");
        let long = ids(&[12345; 40]);
        assert!(
            long.lines().all(|l| l.len() <= 84) && long.lines().count() > 1,
            "{long}"
        );
        assert_eq!(long.split_whitespace().count(), 42);
    }

    #[test]
    fn failures_become_exit_status_two() {
        assert_eq!(finish(Err(Failure("no".to_owned())), true), 2);
        let rejected = Report {
            status: Status::Rejected,
            text: String::new(),
            json: json!({}),
        };
        assert_eq!(finish(Ok(rejected), true), 1);
        assert_eq!(finish(Ok(Report::done(String::new(), json!({}))), true), 0);
    }
}
