//! How long the phases of a proof take, and what they read of the weights.

use std::time::Instant;

use tessera_model::passes::Traffic;
use tessera_support::progress::Progress;

/// Measures phases, and tells whoever watches.
pub(super) struct Stopwatch<'a> {
    progress: &'a dyn Progress,
    /// Seconds of each phase, in order.
    pub phases: Vec<(String, f64)>,
    /// What phases have read of the weights.
    pub weights: Vec<(String, Traffic)>,
}

/// Adds to the entry of `name`, which is made if there is none.
fn add<T: std::ops::AddAssign>(list: &mut Vec<(String, T)>, name: &str, value: T) {
    match list.iter_mut().find(|(known, _)| known == name) {
        Some((_, sum)) => *sum += value,
        None => list.push((name.to_owned(), value)),
    }
}

impl<'a> Stopwatch<'a> {
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self {
            progress,
            phases: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Measures `work`.
    pub fn phase<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        self.progress.phase(name, None);
        let start = Instant::now();
        let result = work();
        add(&mut self.phases, name, start.elapsed().as_secs_f64());
        result
    }

    /// Notes what a phase has read of the weights.
    pub fn read(&mut self, name: &str, traffic: Traffic) {
        add(&mut self.weights, name, traffic);
    }

    /// Says that all is done.
    pub fn done(&self) {
        self.progress.done();
    }
}
