//! The choices of a plan, and its phases.

use tessera_model::weights::Residency;
use tessera_prover::opening::Split;

/// The choices that a plan makes to stay within its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// How much of the weights stays in memory.
    pub residency: Residency,
    /// How the codeword of the weights is cut while a set-up makes it.
    pub split: Split,
}

impl Default for Choices {
    /// Keeps everything in memory, which is fastest.
    fn default() -> Self {
        Self {
            residency: Residency::Keep,
            split: Split::default(),
        }
    }
}

/// A phase of a task, with its predicted peak of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Name of the phase in reports.
    pub name: &'static str,
    /// Predicted peak of resident memory in bytes, with all that earlier phases leave in memory.
    pub bytes: u64,
}
