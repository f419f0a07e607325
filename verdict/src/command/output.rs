//! What is written, and what it means if that fails.

use std::io::{self, Write};

use crate::Status;

/// The exit status of a program whose output was written, or not. Whoever closed the pipe has seen enough; a verdict that could not be delivered for another reason must not look like an
/// acceptance.
pub fn delivered(status: Status, written: io::Result<()>) -> u8 {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Status::Undecided.code(),
        _ => status.code(),
    }
}

/// Writes a line, at once.
///
/// # Errors
/// If that fails.
pub fn line(mut to: impl Write, text: &str) -> io::Result<()> {
    writeln!(to, "{text}")?;
    to.flush()
}
