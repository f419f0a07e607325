//! What an interruption says.

use std::process::exit;

/// From now on an interruption ends the program with what `kept` says of the work that is done.
pub fn answer(kept: impl Fn() -> String + Send + 'static) {
    // Where no handler can be installed, an interruption is as any other end of the process.
    let _ = ctrlc::set_handler(move || {
        eprintln!("\ninterrupted; {}", kept());
        exit(130);
    });
}
