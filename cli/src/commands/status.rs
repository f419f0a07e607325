//! `tessera status`: how far the chunks of a work directory are, once or again and again.

use std::io::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use console::Term;
use serde_json::{json, Value};
use tessera::circuits::chunk::Chunk;
use tessera::work::{ChunkState, WorkDir};
use tessera_verdict::rows::{bytes, seconds, Rows};
use tessera_verdict::shown;

use crate::args::StatusArgs;
use crate::printer::{Failure, Report};

/// Time between two looks at a job.
const PERIOD: Duration = Duration::from_secs(1);

pub fn run(args: &StatusArgs, quiet: bool) -> Result<Report, Failure> {
    let job = WorkDir::open(&args.dir)?;
    if !args.watch {
        return report(&job);
    }
    let term = Term::stderr();
    let mut view = match (quiet, term.is_term()) {
        (true, _) => View::None,
        (false, true) => View::Screen { term, lines: 0 },
        (false, false) => View::Lines(Vec::new()),
    };
    loop {
        let now = report(&job)?;
        if now.json["left"] == json!(0) {
            view.end()?;
            return Ok(now);
        }
        view.show(&now)?;
        sleep(PERIOD);
    }
}

/// Where the progress of a job is shown while somebody watches it.
enum View {
    None,
    /// A line for every chunk whose state has changed; the states as they were.
    Lines(Vec<String>),
    /// The whole report, in place of the one before.
    Screen {
        term: Term,
        lines: usize,
    },
}

impl View {
    fn show(&mut self, now: &Report) -> Result<(), Failure> {
        let left = time_left(&now.json);
        match self {
            Self::None => {}
            Self::Lines(before) => {
                let states: Vec<String> = now
                    .text
                    .lines()
                    .filter(|line| line.starts_with("chunk "))
                    .map(str::to_owned)
                    .collect();
                let old = before.iter().map(String::as_str).chain(std::iter::repeat(""));
                for (state, _) in states.iter().zip(old).filter(|(state, old)| state != old) {
                    writeln!(std::io::stderr(), "{state}{left}")?;
                }
                *before = states;
            }
            Self::Screen { term, lines } => {
                term.clear_last_lines(*lines)?;
                let text = format!("{}{}", now.text, left.trim_start_matches("; "));
                let text = text.trim_end();
                term.write_line(text)?;
                *lines = text.lines().count();
            }
        }
        Ok(())
    }

    /// Makes room for the last report.
    fn end(&mut self) -> Result<(), Failure> {
        match self {
            Self::Screen { term, lines } => Ok(term.clear_last_lines(*lines)?),
            Self::None | Self::Lines(_) => Ok(()),
        }
    }
}

/// The time that the open chunks take, if they take as long as those that are done.
fn time_left(json: &Value) -> String {
    let chunks = || json["chunks"].as_array().into_iter().flatten();
    let of = |state: &str| chunks().filter(|chunk| chunk["state"] == state).count() as f64;
    let times = chunks().filter_map(|chunk| chunk["checkpoint"]["milliseconds"].as_f64());
    let (done, busy) = (of("done"), of("busy"));
    let left = json["left"].as_f64().unwrap_or(0.0);
    match (done > 0.0, busy > 0.0) {
        (_, false) => "; nobody is proving".to_owned(),
        (false, true) => String::new(),
        (true, true) => format!(
            "; about {} left",
            seconds(left * times.sum::<f64>() / done / busy / 1e3)
        ),
    }
}

/// How far a job is.
pub(super) fn report(job: &WorkDir) -> Result<Report, Failure> {
    let mut list = Vec::new();
    let mut rows = Rows::default()
        .path("job", job.dir())
        .row("model", &job.job.model)
        .path("proof", &job.job.out);
    let mut done = 0;
    for (i, chunk) in job.chunks.iter().enumerate() {
        // A damaged checkpoint is part of the state: it is shown, and the other chunks after it.
        let (state, text, value) = match job.state(i) {
            Ok(ChunkState::Open) => ("open", "open".to_owned(), Value::Null),
            Ok(ChunkState::Busy) => ("busy", "being proved".to_owned(), Value::Null),
            Ok(ChunkState::Done(c)) => {
                done += 1;
                let (time, size) = (seconds(c.milliseconds as f64 / 1e3), bytes(c.proof_bytes));
                ("done", format!("proved in {time} on {}, {size}", c.device), json!(c))
            }
            Err(error) => (
                "damaged",
                shown::line(&error.to_string()),
                json!({ "error": error.to_string() }),
            ),
        };
        rows = rows.row(format!("chunk {i}"), format!("{}: {text}", layers(chunk)));
        list.push(json!({
            "chunk": i, "layers": [chunk.start, chunk.end], "state": state, "checkpoint": value,
        }));
    }
    let left = job.chunks.len() - done;
    let rows = rows
        .row("left", left)
        .maybe("go on with", (left > 0).then(|| resume_command(job.dir())));
    let json = json!({
        "model_id": job.job.model,
        "prompt_ids": job.job.prompt,
        "output_ids": job.job.output,
        "proof": job.job.out.display().to_string(),
        "chunks": list,
        "done": done,
        "left": left,
    });
    Ok(Report::done(rows.to_string(), json))
}

pub(super) fn layers(chunk: &Chunk) -> String {
    match chunk.layers().len() {
        1 => format!("layer {}", chunk.start),
        _ => format!("layers {} to {}", chunk.start, chunk.end - 1),
    }
}

pub(super) fn resume_command(dir: &Path) -> String {
    format!("tessera resume {}", dir.display())
}
