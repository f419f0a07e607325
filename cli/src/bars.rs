//! Progress on stderr: a bar where the amount of work is known, a spinner where it is not. Nothing is drawn
//! in the first second, so that short operations stay silent. Where stderr is no terminal, a proof writes a line for each phase.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tessera::support::progress::Progress;
use tessera::Timetable;

/// Operations shorter than this show no progress on a terminal.
const PATIENCE: Duration = Duration::from_secs(1);
/// Where there is no terminal, a phase has a line of its own if the last line is as old as this, or if the phase takes as long; but not if
/// the proof is done as soon.
const LINES: Duration = Duration::from_secs(5);
/// Characters of the bar of a whole proof.
const BAR: usize = 8;

enum View {
    None,
    Lines,
    Bar(ProgressBar),
}

/// The progress display of a command.
pub struct Display {
    view: View,
    state: Arc<Mutex<State>>,
}

struct State {
    /// When the display began, and whether it is to be seen.
    start: Instant,
    shown: bool,
    /// What stands before the phase.
    within: String,
    /// The proof that is made, when it began, and when its phase did.
    proof: Option<Timetable>,
    proof_start: Instant,
    phase_start: Instant,
    last_line: Option<Instant>,
}

impl Display {
    /// A display, or none if it is not wanted.
    pub fn new(quiet: bool) -> Self {
        let view = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => View::None,
            (_, false) => View::Lines,
            (_, true) => View::Bar(ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())),
        };
        let now = Instant::now();
        let state = State {
            start: now,
            shown: false,
            within: String::new(),
            proof: None,
            proof_start: now,
            phase_start: now,
            last_line: None,
        };
        Self {
            view,
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the phases are those of a proof.
    pub fn expect(&self, proof: Timetable) {
        let mut state = self.state();
        state.proof = Some(proof);
        state.proof_start = Instant::now();
    }

    /// What stands before every phase from now on.
    pub fn within(&self, text: String) {
        self.state().within = text;
    }

    fn show_when_due(&self, bar: &ProgressBar) {
        // The bar, which reads the state as it is drawn, is not touched while the state is held.
        let due = {
            let mut state = self.state();
            let due = !state.shown && state.start.elapsed() >= PATIENCE;
            state.shown |= due;
            due
        };
        if due {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(100));
        }
    }

    /// Begins a phase of a proof; returns its name with its number.
    fn phase_of_proof(&self, name: &str) -> Option<String> {
        let mut state = self.state();
        let before = state.phase_start.elapsed();
        state.phase_start = Instant::now();
        let (number, of) = state.proof.as_mut()?.begin(name, before)?;
        Some(format!("{}phase {number}/{of}, {name}", state.within))
    }

    /// Writes a line, unless the last one is too near.
    fn line(&self, phase: &str) {
        let mut state = self.state();
        let near = state.last_line.unwrap_or(state.proof_start).elapsed() < LINES;
        let short = state
            .proof
            .as_ref()
            .and_then(Timetable::phase)
            .is_none_or(|own| own < LINES);
        let left = state.left();
        if near && short || left.is_some_and(|left| left < LINES) {
            return;
        }
        state.last_line = Some(Instant::now());
        eprintln!("{}", line(phase, state.proof_start.elapsed(), left));
    }
}

/// A line about a phase of a proof.
fn line(phase: &str, so_far: Duration, left: Option<Duration>) -> String {
    format!("{phase}: {} so far{}", roughly(so_far), rest(left))
}

/// How long the rest takes, behind what is said before it.
fn rest(left: Option<Duration>) -> String {
    left.map_or_else(String::new, |left| format!(", about {} left", roughly(left)))
}

/// A time as people say it.
fn roughly(time: Duration) -> String {
    match time.as_secs() {
        0 => "< 1 s".to_owned(),
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

impl State {
    /// How long the proof takes from now on.
    fn left(&self) -> Option<Duration> {
        self.proof.as_ref()?.left(self.phase_start.elapsed())
    }

    fn share(&self) -> f64 {
        let proof = self.proof.as_ref();
        proof.map_or(0.0, |proof| proof.share(self.phase_start.elapsed()))
    }
}

/// How much of a proof is done, how long that took, and how long the rest takes.
fn seen(state: &Mutex<State>) -> Option<(f64, Duration, Option<Duration>)> {
    let state = state.lock().ok()?;
    Some((state.share(), state.proof_start.elapsed(), state.left()))
}

/// The time left at the mean speed of the phase: steps are too unequal for the speed of the last ones.
fn left(state: &ProgressState, text: &mut dyn Write) {
    let (done, total) = (state.pos(), state.len().unwrap_or(0));
    if done > 0 {
        let left = state.elapsed().mul_f64(total.saturating_sub(done) as f64 / done as f64);
        // A display that fails is no reason to stop.
        let _ = write!(text, ", {:#} left", HumanDuration(left));
    }
}

impl Progress for Display {
    fn phase(&self, name: &str, total: Option<u64>) {
        let proof = self.phase_of_proof(name);
        let bar = match (&self.view, &proof) {
            (View::None, _) | (View::Lines, None) => return,
            (View::Lines, Some(phase)) => return self.line(phase),
            (View::Bar(bar), _) => bar,
        };
        self.show_when_due(bar);
        let template = match (&proof, total) {
            (Some(_), _) => {
                // Another proof was shown before.
                if bar.is_finished() {
                    bar.reset();
                }
                "{msg} {share} {clock}{rest}"
            }
            (None, Some(total)) => {
                bar.reset();
                bar.set_length(total);
                "{msg:24} {wide_bar} {pos}/{len} {elapsed}{left}"
            }
            (None, None) => {
                bar.reset();
                bar.unset_length();
                "{msg:24} {spinner} {elapsed}"
            }
        };
        let own = |state: &Arc<Mutex<State>>| Arc::clone(state);
        let (share, clock, clock_left) = (own(&self.state), own(&self.state), own(&self.state));
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style
            .with_key("left", left)
            .with_key("share", move |_: &ProgressState, text: &mut dyn Write| {
                if let Some((done, ..)) = seen(&share) {
                    let full = (done * BAR as f64) as usize;
                    let _ = write!(text, "[{:-<BAR$}]", "#".repeat(full.min(BAR)));
                }
            })
            .with_key("clock", move |_: &ProgressState, text: &mut dyn Write| {
                if let Some((_, elapsed, _)) = seen(&clock) {
                    let _ = write!(text, "{}", roughly(elapsed));
                }
            })
            .with_key("rest", move |_: &ProgressState, text: &mut dyn Write| {
                if let Some((.., left)) = seen(&clock_left) {
                    let _ = text.write_str(&rest(left));
                }
            });
        bar.set_style(style);
        bar.set_message(proof.unwrap_or_else(|| name.to_owned()));
    }

    fn advance(&self, n: u64) {
        if let View::Bar(bar) = &self.view {
            self.show_when_due(bar);
            bar.inc(n);
        }
    }

    fn done(&self) {
        self.state().proof = None;
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest name of a phase, in a batch of a thousand requests that take hours.
    #[test]
    fn a_line_of_progress_fits_80_columns() {
        let phase = "1000/1000: phase 11/11, commit activations";
        for seconds in [0, 119, 7199, 359_999] {
            let time = Duration::from_secs(seconds);
            let text = line(phase, time, Some(time));
            assert!(text.len() < 80, "{text}");
        }
        let time = Duration::from_secs(7199);
        let bar = format!(
            "999/999: phase 11/11, commit activations [{:-<BAR$}] {}{}",
            "",
            roughly(time),
            rest(Some(time))
        );
        assert!(bar.len() < 80, "{bar}");
    }
}
