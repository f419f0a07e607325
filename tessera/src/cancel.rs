//! Ending a task from another thread.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use tessera_support::progress::Progress;

use crate::Error;

/// A switch that ends a task: give a clone of it to the thread that may end the task.
///
/// A task looks at the switch whenever it reports progress, so it ends after the step that it is at: a token, a matrix or a
/// phase. Nothing unfinished is left on disk, except in directories that say so (`<out>.partial` of a set-up, and work
/// directories), from which the same task goes on.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends every task that was given this switch.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs a task with a progress that looks at this switch.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the switch ended the task, and otherwise the errors of the task.
    ///
    /// ```
    /// use tessera::{Cancel, Error, Silent};
    ///
    /// let cancel = Cancel::default();
    /// let steps = |progress: &dyn tessera::Progress| {
    ///     for step in 0.. {
    ///         progress.advance(1);
    ///         if step == 3 {
    ///             cancel.cancel();
    ///         }
    ///     }
    ///     Ok(())
    /// };
    /// assert!(matches!(cancel.run(&Silent, steps), Err(Error::Cancelled)));
    /// ```
    pub fn run<T>(
        &self,
        progress: &dyn Progress,
        task: impl FnOnce(&dyn Progress) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let watched = Watched { cancel: self, progress };
        // A cancelled task is unwound: its files clean up after themselves as they are dropped, and nothing else of it is seen again.
        match catch_unwind(AssertUnwindSafe(|| task(&watched))) {
            Ok(result) => result,
            Err(payload) if payload.is::<Cancelled>() => Err(Error::Cancelled),
            Err(payload) => resume_unwind(payload),
        }
    }
}

/// The payload with which a cancelled task is unwound.
struct Cancelled;

struct Watched<'a> {
    cancel: &'a Cancel,
    progress: &'a dyn Progress,
}

impl Watched<'_> {
    fn look(&self) {
        if self.cancel.is_cancelled() {
            resume_unwind(Box::new(Cancelled));
        }
    }
}

impl Progress for Watched<'_> {
    fn phase(&self, name: &str, total: Option<u64>) {
        self.look();
        self.progress.phase(name, total);
    }

    fn advance(&self, n: u64) {
        self.look();
        self.progress.advance(n);
    }

    fn done(&self) {
        self.progress.done();
    }
}
