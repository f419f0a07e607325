//! Progress on stderr: a bar where the amount of work is known, a spinner where it is not. Nothing is drawn
//! in the first second, so that short operations stay silent.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tessera::support::progress::{Progress, Silent};

/// Operations shorter than this show no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// The progress display: none if it is not wanted or stderr is no terminal.
pub fn progress(quiet: bool) -> Box<dyn Progress> {
    if quiet || !std::io::stderr().is_terminal() {
        return Box::new(Silent);
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    Box::new(Bar {
        bar,
        start: Instant::now(),
        shown: Mutex::new(false),
    })
}

struct Bar {
    bar: ProgressBar,
    start: Instant,
    shown: Mutex<bool>,
}

impl Bar {
    fn show_when_due(&self) {
        let mut shown: MutexGuard<'_, bool> = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if !*shown && self.start.elapsed() >= PATIENCE {
            *shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(Duration::from_millis(100));
        }
    }
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

impl Progress for Bar {
    fn phase(&self, name: &str, total: Option<u64>) {
        self.show_when_due();
        self.bar.reset();
        let template = match total {
            Some(total) => {
                self.bar.set_length(total);
                "{msg:24} {wide_bar} {pos}/{len} {elapsed}{left}"
            }
            None => {
                self.bar.unset_length();
                "{msg:24} {spinner} {elapsed}"
            }
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar.set_style(style.with_key("left", left));
        self.bar.set_message(name.to_owned());
    }

    fn advance(&self, n: u64) {
        self.show_when_due();
        self.bar.inc(n);
    }

    fn done(&self) {
        self.bar.finish_and_clear();
    }
}
