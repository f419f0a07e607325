//! Many proofs of one model, in parallel: a line for each, in the order in which they were given, and a summary.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::{json, Map, Value};
use tessera_verdict::expected::Expected;
use tessera_verdict::input;
use tessera_verdict::rows::{count, seconds};
use tessera_verdict::{shown, Key, Outcome, Status, Verdict};

use crate::args::VerifyArgs;
use crate::judge::judge;
use crate::output::{delivered, line};

/// What was found of one proof.
struct Line {
    status: Status,
    bits: Option<f64>,
    text: String,
    json: Map<String, Value>,
}

/// Lines that wait for those before them.
struct Waiting {
    lines: Vec<Option<Line>>,
    printed: usize,
    written: io::Result<()>,
}

/// What all proofs come to.
#[derive(Default)]
struct Summary {
    counts: [usize; 3],
    /// Of the accepted proofs, the fewest.
    bits: Option<f64>,
}

/// Verifies all proofs; returns the exit status.
pub fn run(key: &Key, args: &VerifyArgs, expected: &Expected, threads: usize, json: bool) -> u8 {
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
        let line = Line::of(proof, &key_name, judge(key, proof, expected));
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.lines[at] = Some(line);
        waiting.print(json);
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
    let text = match json {
        true => Value::Object(summary.json(key, time)).to_string(),
        false => summary.text(key, time),
    };
    let written = waiting.written.and_then(|()| line(io::stdout(), &text));
    delivered(summary.status(), written)
}

impl Waiting {
    /// Prints what is complete up to the first gap.
    fn print(&mut self, json: bool) {
        while let Some(Some(next)) = self.lines.get(self.printed) {
            let text = match json {
                true => Value::Object(next.json.clone()).to_string(),
                false => next.text.clone(),
            };
            if self.written.is_ok() {
                self.written = writeln!(io::stdout(), "{text}");
            }
            self.printed += 1;
        }
    }
}

impl Line {
    fn of(proof: &Path, key: &str, found: Result<(Verdict, f64), String>) -> Self {
        let name = input::name(proof);
        let (status, bits, reason, mut json) = match found {
            Ok((verdict, time)) => {
                let bits = match &verdict.outcome {
                    Outcome::Accepted(proved) => Some(proved.security_bits()),
                    _ => None,
                };
                let reason = verdict.reason(&name, key);
                (verdict.status(), bits, reason, verdict.json(&name, key, Some(time)))
            }
            Err(error) => {
                let json = Map::from_iter([("error".to_owned(), json!(error))]);
                (Status::Undecided, None, Some(error), json)
            }
        };
        json.insert("proof".to_owned(), json!(name));
        let word = match status {
            Status::Accepted => "accepted ",
            Status::Rejected => "rejected ",
            Status::Undecided => "undecided",
        };
        let shown_name = shown::path(proof);
        let text = match (bits, reason) {
            (Some(bits), _) => format!("{word}  {shown_name}  {bits:.1} bits"),
            (None, reason) => format!("{word}  {shown_name}  {}", shown::line(&reason.unwrap_or_default())),
        };
        Self {
            status,
            bits,
            text,
            json,
        }
    }
}

impl Summary {
    fn add(&mut self, line: &Line) {
        self.counts[usize::from(line.status.code())] += 1;
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
