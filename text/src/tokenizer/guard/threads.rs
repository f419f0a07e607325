//! Work on a thread of its own, whose time and memory are looked at.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::error::GuardError;

/// How often time and memory are looked at.
const INTERVAL: Duration = Duration::from_millis(4);
/// Stack of the thread: what is parsed and rendered is nested.
const STACK: usize = 16 << 20;
/// How much longer by the clock work may take than by the processor: other programs may have it most of the time.
const PATIENCE: u32 = 20;

/// Runs `work`, whose panics are errors, for at most `time` of the processor, and [`PATIENCE`] times as much by the clock, while the process grows by at most `memory` bytes.
pub(super) fn within<T: Send + 'static>(
    time: Duration,
    memory: u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, GuardError> {
    let (sender, receiver) = mpsc::channel();
    let thread = Arc::new(OnceLock::new());
    let own = Arc::clone(&thread);
    let caught = move || {
        // Where the system tells of this thread, if it does.
        let _ = own.set(std::fs::read_link("/proc/thread-self").map(|name| Path::new("/proc").join(name)));
        // Nobody listens any more where the work was given up.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    };
    let (start, before) = (Instant::now(), resident_bytes());
    let spawned = Builder::new().name("text".to_owned()).stack_size(STACK).spawn(caught);
    let spawned = spawned.map_err(|e| GuardError::Thread(e.to_string()))?;
    // Where the system does not tell what the thread has used, all that has passed counts.
    let is_over = || {
        let passed = start.elapsed();
        let used = thread.get().and_then(|path| processor_time(path.as_ref().ok()?));
        passed > time && (used.is_none_or(|used| used > time) || passed > PATIENCE * time)
    };
    let result = loop {
        match receiver.recv_timeout(INTERVAL) {
            Ok(result) => break result.map_err(|panic| GuardError::Panicked(reason(panic.as_ref()))),
            Err(RecvTimeoutError::Disconnected) => break Err(GuardError::Panicked("no reason given".to_owned())),
            Err(RecvTimeoutError::Timeout) if is_over() => return Err(GuardError::Time(time)),
            Err(RecvTimeoutError::Timeout) if resident_bytes() > before.saturating_add(memory) => {
                return Err(GuardError::Memory(memory));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    // It has said its last word, and ends.
    let _ = spawned.join();
    result
}

/// Processor time of a thread, which the system describes there; `None` if it does not tell.
fn processor_time(thread: &Path) -> Option<Duration> {
    let stat = std::fs::read_to_string(thread.join("stat")).ok()?;
    // The name, in parentheses, may have spaces; user and system time are the 12th and 13th fields after it, in hundredths of
    // a second.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).take(2);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (next()? + next()?)))
}

fn reason(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no reason given").to_owned()
}

/// Resident memory of this process; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(0, |k| k.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::super::time_for;
    use super::*;

    // The memory is that of the whole process, so tests that run beside one another see what the others take. Those that
    // expect something else are given any amount, and the one that eats is stopped before it takes much.
    const ANY: u64 = u64::MAX;

    #[test]
    fn work_that_never_ends_is_given_up() {
        let time = Duration::from_millis(30);
        let start = Instant::now();
        let result = within(time, ANY, || loop {
            std::thread::sleep(INTERVAL);
        });
        assert_eq!(result, Err::<(), _>(GuardError::Time(time)));
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(within(time, ANY, || 7), Ok(7));
    }

    /// A good file is not refused because other programs have the processor.
    #[test]
    #[cfg(target_os = "linux")]
    fn work_that_waits_has_more_time_by_the_clock() {
        let work = || {
            std::thread::sleep(Duration::from_millis(150));
            7
        };
        assert_eq!(within(Duration::from_millis(60), ANY, work), Ok(7));
    }

    #[test]
    fn a_panic_is_an_error_with_its_reason() {
        let result = within(time_for(0), ANY, || -> u8 { panic!("at {}", 5) });
        assert_eq!(result, Err(GuardError::Panicked("at 5".to_owned())));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn work_that_eats_memory_is_given_up() {
        let memory = 64 << 20;
        let result = within(Duration::from_secs(60), memory, || {
            let mut eaten: Vec<Vec<u8>> = Vec::new();
            // Touched, so that it is resident; twice the limit if nobody stops it, and then it stays for a while, as
            // neighbours may give back what they had.
            while eaten.len() < 32 {
                eaten.push(vec![1; 4 << 20]);
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_secs(10));
            eaten.len()
        });
        assert_eq!(result, Err(GuardError::Memory(memory)));
    }
}
