//! What is shown of a job in chunks: on a terminal a bar for every chunk under way and one for all, otherwise a line when
//! a chunk begins and ends; and a file of events for other programs.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{json, Value};
use tessera::support::progress::Progress;
use tessera::work::{ChunkRecord, Observer};
use tessera_verdict::rows::{bytes, seconds};

use crate::printer::{rss_bytes, Failure};

/// Phases of a chunk.
const PHASES: u64 = 8;

/// Where the progress of a job goes.
enum View {
    None,
    Lines,
    Bars { all: MultiProgress, whole: ProgressBar },
}

/// Shows a job.
pub struct Watch {
    view: View,
    events: Option<Mutex<File>>,
    chunks: usize,
    done: AtomicUsize,
    /// Chunks that were done before.
    before: usize,
    start: Instant,
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Watch {
    /// For a job of `chunks` chunks, `done` of which are proved already.
    pub fn new(quiet: bool, events: Option<&Path>, chunks: usize, done: usize) -> Result<Self, Failure> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map_err(|e| Failure(format!("cannot write {}: {e}", path.display())))
        };
        let events = events.map(open).transpose()?.map(Mutex::new);
        let view = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => View::None,
            (false, false) => View::Lines,
            (false, true) => {
                let all = MultiProgress::new();
                let whole = all.add(ProgressBar::new(chunks as u64));
                whole.set_style(style("all chunks  {wide_bar} {pos}/{len} {elapsed} {msg}"));
                whole.set_position(done as u64);
                View::Bars { all, whole }
            }
        };
        Ok(Self {
            view,
            events,
            chunks,
            done: AtomicUsize::new(done),
            before: done,
            start: Instant::now(),
        })
    }

    /// Writes an event; a full disk must not end a proof.
    pub fn event(&self, mut event: Value) {
        let Some(file) = &self.events else { return };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        event["unix_milliseconds"] = json!(time.as_millis() as u64);
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(file, "{event}");
    }

    fn line(&self, text: &str) {
        if matches!(self.view, View::Lines) {
            eprintln!("{text}");
        }
    }

    /// Memory, rate and what is left, as far as they are known.
    fn rate(&self, done: usize) -> String {
        let elapsed = self.start.elapsed().as_secs_f64();
        let memory = bytes(rss_bytes());
        match done.saturating_sub(self.before) {
            0 => memory,
            _ if done == self.chunks => memory,
            own => {
                let one = elapsed / own as f64;
                let left = one * self.chunks.saturating_sub(done) as f64;
                format!("{memory}, {} a chunk, {} left", seconds(one), seconds(left))
            }
        }
    }

    /// Clears the bars.
    pub fn finish(&self) {
        if let View::Bars { all, whole } = &self.view {
            whole.finish_and_clear();
            let _ = all.clear();
        }
    }
}

impl Observer for Watch {
    fn begin<'a>(&'a self, chunk: usize, worker: &str) -> Box<dyn Progress + 'a> {
        self.event(json!({"event": "begin", "chunk": chunk, "chunks": self.chunks, "device": worker}));
        self.line(&format!("chunk {chunk} ({} in all): begun on {worker}", self.chunks));
        let bar = match &self.view {
            View::Bars { all, whole } => {
                let bar = all.insert_before(whole, ProgressBar::new(PHASES));
                bar.set_style(style("{prefix:10}  {wide_bar} {msg:14} {elapsed}"));
                bar.set_prefix(format!("chunk {chunk}"));
                bar.enable_steady_tick(std::time::Duration::from_millis(200));
                Some(bar)
            }
            _ => None,
        };
        Box::new(ChunkView {
            watch: self,
            chunk,
            bar,
        })
    }

    fn end(&self, chunk: usize, record: &ChunkRecord) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.event(json!({
            "event": "end", "chunk": chunk, "chunks": self.chunks, "done": done, "device": record.device,
            "milliseconds": record.milliseconds, "proof_bytes": record.proof_bytes,
        }));
        let rate = self.rate(done);
        self.line(&format!(
            "chunk {chunk} ({} in all): proved in {}, {}; {done} done, {rate}",
            self.chunks,
            seconds(record.milliseconds as f64 / 1e3),
            bytes(record.proof_bytes),
        ));
        if let View::Bars { whole, .. } = &self.view {
            whole.set_position(done as u64);
            whole.set_message(rate);
        }
    }
}

struct ChunkView<'a> {
    watch: &'a Watch,
    chunk: usize,
    bar: Option<ProgressBar>,
}

impl Progress for ChunkView<'_> {
    fn phase(&self, name: &str, _total: Option<u64>) {
        self.watch
            .event(json!({"event": "phase", "chunk": self.chunk, "phase": name}));
        if let Some(bar) = &self.bar {
            bar.inc(u64::from(!bar.message().is_empty()));
            bar.set_message(name.to_owned());
        }
    }

    fn advance(&self, _n: u64) {}

    fn done(&self) {}
}

impl Drop for ChunkView<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
