//! The program `tessera` takes a command from the command line, makes one call into the libraries, and prints a report.
//!
//! For example, `tessera verify` reads a key and a proof, asks `tessera-verdict` for the verdict, and prints it. The
//! exit status tells scripts the same: 0 for done or accepted, 1 for rejected, and 2 if nothing could be done or
//! decided.
#![feature(alloc_error_hook)]

mod args;
mod bars;
mod commands;
mod price;
mod printer;
mod version;
mod watch;

use std::ffi::OsString;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tessera::plan::available::address_space;
use tessera::support::arena::Arena;
use tessera::support::heap;
use tessera::support::progress::Progress;
use tessera_verdict::rows::{bytes, set_width};
use tessera_verdict::usage::{self, Usage};

use crate::args::{sampling, Cli};
use crate::bars::Display;
use crate::printer::{columns, finish, refuse, Failure, Report};

#[global_allocator]
static ARENA: Arena = Arena::new();

fn main() -> ExitCode {
    heap::keep_blocks_apart();
    match address_space(0, 0) {
        Some(_) => heap::share_heaps(),
        None => ARENA.open(),
    }
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = match usage::parse::<Cli>(&args) {
        Ok(cli) => cli,
        Err(Usage::Asked(asked)) => return ExitCode::from(usage::print(&asked)),
        Err(Usage::Version) => {
            let version = Report::done(String::new(), version::VERSION.json());
            return ExitCode::from(finish(Ok(version), true, &[]));
        }
        Err(Usage::Wrong(wrong)) => return ExitCode::from(refuse(sampling(&args).unwrap_or(wrong), &args)),
    };
    let json = cli.global.json;
    if let Some(columns) = columns(&console::Term::stdout()) {
        set_width(columns);
    }
    ExitCode::from(finish(run(&cli), json, &commands::names(&cli.command)))
}

/// The size in bytes of an allocation that failed; 0 as long as none has failed.
static MISSING: AtomicUsize = AtomicUsize::new(0);

/// Runs the command. A panic is a defect of this program, so this function reports it as a failure: the exit status
/// then still says that nothing was decided. No prediction rules out that memory runs out. If it does, the command ends
/// as for any other error, and removes files that are not complete.
fn run(cli: &Cli) -> Result<Report, Failure> {
    std::alloc::set_alloc_error_hook(|layout| {
        MISSING.store(layout.size(), Ordering::Relaxed);
        panic!("no memory");
    });
    // None is one per core.
    let threads = cli.global.threads.unwrap_or_default();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
    pool.build_global()
        .map_err(|e| Failure(format!("cannot start the worker threads: {e}")))?;
    static PANIC: Mutex<Option<String>> = Mutex::new(None);
    panic::set_hook(Box::new(|info| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
    }));
    // On a worker thread: each of the thousands of loops of a proof that another one began would wake the workers first.
    let command = || {
        let display = Display::new(cli.global.quiet);
        let outcome = commands::run(&cli.command, &display, &cli.global);
        display.done();
        outcome
    };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| rayon::scope(|_| command())));
    let _ = panic::take_hook();
    outcome.unwrap_or_else(|_| {
        let missing = MISSING.load(Ordering::Relaxed);
        if missing > 0 {
            return Err(Failure(format!(
                "out of memory: {} could not be had; raise the limit of this process (ulimit -v, control group), or \
                 give a smaller --memory",
                bytes(missing as u64)
            )));
        }
        let message = PANIC
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .unwrap_or_default();
        Err(Failure(format!(
            "internal error, please report it: {}",
            message.replace('\n', " ")
        )))
    })
}
