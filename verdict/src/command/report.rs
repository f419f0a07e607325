//! What a command says in the end, and how.

use serde_json::Value;

use crate::verdict::Status;

/// The status that a command ends with, and its report as text and as JSON.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it comes to.
    pub status: Status,
    /// For people.
    pub text: String,
    /// For programs.
    pub json: Value,
}

/// How a program prints, and how much it does at the same time.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The columns for which lines of several proofs are wrapped; `None` for JSON.
    pub columns: Option<usize>,
    /// The number of proofs that are checked at the same time.
    pub threads: usize,
}
