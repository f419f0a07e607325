//! Many proofs of one model, in parallel: a line for each, in the order in which they were given, and a summary.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::{json, Map, Value};

use super::args::VerifyArgs;
use super::judge::judge;
use super::report::{How, Report};
use crate::input;
use crate::policy::Expectations;
use crate::rows::{count, seconds};
use crate::{shown, Key, Outcome, Status, Verdict};

/// What was found of one proof.
struct Line {
    status: Status,
    bits: Option<f64>,
    text: String,
}

/// Lines that wait for those before them.
struct Waiting {
    lines: Vec<Option<Line>>,
    printed: usize,
    written: io::Result<()>,
}

/// What all proofs come to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    counts: [usize; 3],
    /// Of the accepted proofs, the fewest.
    bits: Option<f64>,
}

/// Verifies all proofs and prints a line for each; returns the summary.
pub(super) fn run(key: &Key, args: &VerifyArgs, expectations: &Expectations<'_>, how: How) -> Result<Report, String> {
    let How { columns, threads } = how;
    let clock = Instant::now();
    let key_name = input::name(&args.key);
    let proofs = &args.proofs;
    let next = AtomicUsize::new(0);
    let waiting = Mutex::new(Waiting {
        lines: proofs.iter().map(|_| None).collect(),
        printed: 0,
        written: Ok(()),
    });
    let worker = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(proof) = proofs.get(at) else { return };
        let found = match proofs.len() {
            1 => judge(key, proof, &[], expectations),
            _ => input::regular(proof).and_then(|()| judge(key, proof, &[], expectations)),
        };
        let line = Line::of((at, proof), &key_name, found, columns);
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = waiting.lines.get_mut(at) {
            *place = Some(line);
        }
        waiting.print();
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(proofs.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    let waiting = waiting.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut summary = Summary::default();
    waiting.lines.iter().flatten().for_each(|line| summary.add(line));
    let time = clock.elapsed().as_secs_f64();
    // Whoever closed the pipe has seen enough.
    if let Err(error) = waiting.written {
        if error.kind() != io::ErrorKind::BrokenPipe {
            return Err(format!("cannot write the verdicts: {error}"));
        }
    }
    Ok(Report {
        status: summary.status(),
        text: columns.map_or_else(String::new, |columns| wrapped(&summary.text(key, time), columns)),
        json: Value::Object(summary.json(key, time)),
    })
}

impl Waiting {
    /// Prints what is complete up to the first gap.
    fn print(&mut self) {
        while let Some(Some(next)) = self.lines.get(self.printed) {
            if self.written.is_ok() {
                self.written = writeln!(io::stdout(), "{}", next.text);
            }
            self.printed += 1;
        }
    }
}

impl Line {
    /// The line for a proof and its place among the files.
    fn of(
        (at, proof): (usize, &Path),
        key: &str,
        found: Result<(Verdict, f64), String>,
        columns: Option<usize>,
    ) -> Self {
        let name = input::name(proof);
        let (status, bits, reason, mut json) = match found {
            Ok((verdict, time)) => {
                let bits = match &verdict.outcome {
                    Outcome::Accepted(proved) => Some(proved.security_bits()),
                    _ => None,
                };
                let mut said: Vec<String> = verdict.reason(&name, key).into_iter().collect();
                said.extend(verdict.help().map(|help| format!("help: {help}")));
                said.extend(verdict.warnings().map(|warning| format!("WARNING: {warning}")));
                let reason = (!said.is_empty()).then(|| said.join("  "));
                (verdict.status(), bits, reason, verdict.json(&name, key, Some(time)))
            }
            Err(error) => {
                let json = Map::from_iter([("error".to_owned(), json!(error))]);
                (Status::Undecided, None, Some(error), json)
            }
        };
        json.insert("index".to_owned(), json!(at));
        json.insert("proof".to_owned(), json!(shown::spelled(proof)));
        let context = json.get("context").and_then(Value::as_str).map(str::to_owned);
        let text = match columns {
            None => Value::Object(json).to_string(),
            Some(columns) => wrapped(&sentence(status, proof, bits, context, reason), columns),
        };
        Self { status, bits, text }
    }
}

/// The verdict on a proof, in one line.
fn sentence(
    status: Status,
    proof: &Path,
    bits: Option<f64>,
    context: Option<String>,
    reason: Option<String>,
) -> String {
    let word = match status {
        Status::Accepted => "accepted ",
        Status::Rejected => "rejected ",
        Status::Undecided => "undecided",
    };
    let what = match bits {
        Some(bits) => {
            let context = context.map(|context| format!("context {context}"));
            let more: Vec<String> = context
                .into_iter()
                .chain(reason.map(|reason| shown::line(&reason)))
                .collect();
            [&[format!("{bits:.1} bits")], more.as_slice()].concat().join("  ")
        }
        None => shown::line(&reason.unwrap_or_default()),
    };
    format!("{word}  {}  {what}", shown::path(proof))
}

/// A line that goes on in marked ones before the terminal breaks it.
fn wrapped(text: &str, columns: usize) -> String {
    shown::wrapped(text, columns.saturating_sub(1), shown::CONTINUED).join("\n")
}

impl Summary {
    fn add(&mut self, line: &Line) {
        let [accepted, rejected, undecided] = &mut self.counts;
        *match line.status {
            Status::Accepted => accepted,
            Status::Rejected => rejected,
            Status::Undecided => undecided,
        } += 1;
        self.bits = match (self.bits, line.bits) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// One proof that is rejected decides; then one that could not be decided.
    fn status(&self) -> Status {
        let [_, rejected, undecided] = self.counts;
        match (rejected, undecided) {
            (1.., _) => Status::Rejected,
            (0, 1..) => Status::Undecided,
            (0, 0) => Status::Accepted,
        }
    }

    fn text(&self, key: &Key, time: f64) -> String {
        let [accepted, rejected, undecided] = self.counts;
        let bits = self
            .bits
            .map_or_else(String::new, |bits| format!(", at least {bits:.1} bits"));
        format!(
            "{} of model {}: {accepted} accepted{bits}, {rejected} rejected, {undecided} undecided, in {}",
            count(self.counts.iter().sum::<usize>(), "proof"),
            key.id(),
            seconds(time)
        )
    }

    fn json(&self, key: &Key, time: f64) -> Map<String, Value> {
        let [accepted, rejected, undecided] = self.counts;
        [
            ("model_id", json!(key.id().to_string())),
            ("proofs", json!(self.counts.iter().sum::<usize>())),
            ("accepted", json!(accepted)),
            ("rejected", json!(rejected)),
            ("undecided", json!(undecided)),
            ("security_bits", json!(self.bits)),
            ("seconds", json!(time)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}
