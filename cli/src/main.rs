//! The `tessera` binary: arguments, one call into the libraries, a report and an exit status.

mod args;
mod bars;
mod commands;
mod printer;
mod shown;
mod watch;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Parser;

use crate::args::Cli;
use crate::printer::{finish, Failure, Report};

fn main() -> ExitCode {
    tessera_prover::kernels::pages::keep_blocks_apart();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let json = cli.global.json;
    ExitCode::from(finish(run(&cli), json))
}

/// Wrong usage is a failure like any other; help and version are not.
fn usage(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|a| a == "--json");
    if json && error.use_stderr() {
        let text = error.to_string();
        let message = text.trim().trim_start_matches("error: ").to_owned();
        return ExitCode::from(finish(Err(Failure(message)), true));
    }
    let printed = error.print();
    ExitCode::from(if error.use_stderr() || printed.is_err() { 2 } else { 0 })
}

/// Runs the command. A panic is a defect of this program: it is reported as a failure, so that the exit
/// status still says that nothing was decided.
fn run(cli: &Cli) -> Result<Report, Failure> {
    if let Some(threads) = cli.global.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads.into())
            .build_global()?;
    }
    static PANIC: Mutex<Option<String>> = Mutex::new(None);
    panic::set_hook(Box::new(|info| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
    }));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let progress = bars::progress(cli.global.quiet);
        let outcome = commands::run(&cli.command, progress.as_ref(), cli.global.quiet);
        progress.done();
        outcome
    }));
    let _ = panic::take_hook();
    outcome.unwrap_or_else(|_| {
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
