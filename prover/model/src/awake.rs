//! Threads of a pool that stay awake between the parallel steps of a pass. A token has a few hundred steps of some ten microseconds each: a
//! thread that fell asleep after each of them would take longer to wake up than to compute.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::Yield;

/// How long a thread looks for work before it gives up and may fall asleep. It has to give up: a thread may come upon its share of this
/// in the middle of a step that others wait for.
const PATIENCE: Duration = Duration::from_millis(2);
/// Looks for work between two looks at the clock.
const LOOKS: u32 = 64;

/// Parts of a step for every thread.
const PARTS: usize = 4;

/// Keeps the other threads of the pool of the current thread awake, until it is dropped. They do whatever work there is in the
/// pool. Outside of a pool it does nothing.
pub(crate) struct Awake(Arc<AtomicBool>);

impl Awake {
    pub fn new() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        if let Some(owner) = rayon::current_thread_index().filter(|_| rayon::current_num_threads() > 1) {
            let over = over.clone();
            rayon::spawn_broadcast(move |own| {
                if own.index() != owner {
                    work_until(|| over.load(Ordering::Relaxed));
                }
            });
        }
        Self(over)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does work of the pool as it comes, until it is `over` or there has been none for a while.
fn work_until(over: impl Fn() -> bool) {
    let mut idle = Instant::now();
    while idle.elapsed() < PATIENCE {
        for _ in 0..LOOKS {
            if over() {
                return;
            }
            match rayon::yield_now() {
                Some(Yield::Executed) => idle = Instant::now(),
                Some(Yield::Idle) => std::hint::spin_loop(),
                None => return,
            }
        }
    }
}

/// Works on all items, of which other threads of the pool take some, and does not fall asleep while it waits for these: each item
/// is of some ten microseconds.
pub(crate) fn each<T: Send>(items: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
    let mut items = items.into_iter().peekable();
    let Some(own) = items.next() else { return };
    if items.peek().is_none() {
        return work(own);
    }
    let (left, work) = (&AtomicUsize::new(0), &work);
    rayon::in_place_scope(|scope| {
        for item in items {
            left.fetch_add(1, Ordering::Relaxed);
            scope.spawn(move |_| {
                let _done = Done(left);
                work(item);
            });
        }
        work(own);
        // The scope waits for what is left.
        work_until(|| left.load(Ordering::Acquire) == 0);
    });
}

/// As [`each`], in as few parts as keep all threads busy, of at least so many items.
pub(crate) fn each_of_many<T: Send>(items: Vec<T>, least: usize, work: impl Fn(T) + Sync) {
    let part = items.len().div_ceil(PARTS * rayon::current_num_threads()).max(least);
    let mut items = items.into_iter();
    let parts: Vec<Vec<T>> = std::iter::from_fn(|| Some(items.by_ref().take(part).collect()))
        .take_while(|part: &Vec<T>| !part.is_empty())
        .collect();
    each(parts, |part| part.into_iter().for_each(&work));
}

/// Counts an item as done, even if its work has panicked.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_in_any_pool() {
        let run = || {
            let _awake = Awake::new();
            for items in [0, 1, 2, 7, 100] {
                let mut sums = vec![0usize; items];
                each(sums.iter_mut().enumerate(), |(i, sum)| *sum += i + 1);
                assert_eq!(sums, (1..=items).collect::<Vec<_>>());
            }
        };
        run();
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("a pool").install(run);
        }
    }

    /// Passes at the same time, and each inside of a step of another one, end: nobody waits for one who waits for them.
    #[test]
    fn passes_inside_of_others_end() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
        pool.expect("a pool").install(|| {
            for _ in 0..20 {
                let _awake = Awake::new();
                each(0..6, |_| {
                    let _awake = Awake::new();
                    rayon::join(|| each(0..4, |_| ()), || each(0..4, |_| ()));
                });
            }
        });
    }

    #[test]
    fn a_panic_in_an_item_is_passed_on() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        let run = || each(0..4, |i| assert_ne!(i, 2));
        let run = std::panic::AssertUnwindSafe(|| pool.expect("a pool").install(run));
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
