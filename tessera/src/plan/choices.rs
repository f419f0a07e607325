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

/// The memory that bytes of a plan lie in. A device with memory of its own gets a place of its own, with phases that are planned for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The memory of the machine, in which the cores work, too.
    Host,
}

/// A phase of a task, with its predicted peak of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Name of the phase in reports.
    pub name: &'static str,
    /// The memory that the phase takes its bytes of.
    pub place: Place,
    /// Predicted peak of resident memory in bytes, with all that earlier phases leave in memory.
    pub bytes: u64,
}

impl Phase {
    /// A phase in the memory of the host.
    pub(super) const fn on_host(name: &'static str, bytes: u64) -> Self {
        let place = Place::Host;
        Self { name, place, bytes }
    }
}
