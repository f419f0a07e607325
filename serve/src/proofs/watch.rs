//! How far a proof is that is being made.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tessera::{Progress, Timetable};

/// Watches a proof, and says how long it takes from now on.
pub struct Watch {
    state: Mutex<Inner>,
}

struct Inner {
    table: Option<Timetable>,
    /// When the phase that runs began.
    since: Instant,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            state: Mutex::new(Inner {
                table: None,
                since: Instant::now(),
            }),
        }
    }
}

impl Watch {
    /// Takes the phases of the proof.
    pub fn expect(&self, table: Timetable) {
        self.lock().table = Some(table);
    }

    /// Seconds that the proof takes from now on; nothing before enough is known.
    pub fn seconds_left(&self) -> Option<f64> {
        let inner = self.lock();
        let left = inner.table.as_ref()?.left(inner.since.elapsed())?;
        Some(left.as_secs_f64())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Watch {
    fn phase(&self, name: &str, _: Option<u64>) {
        let mut inner = self.lock();
        let before = inner.since.elapsed();
        inner.since = Instant::now();
        if let Some(table) = &mut inner.table {
            table.begin(name, before);
        }
    }

    fn advance(&self, _: u64) {}

    fn done(&self) {}
}
