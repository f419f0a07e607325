//! What a plan decides, and what it is about.

use tessera_model::weights::Residency;
use tessera_prover::opening::Split;

/// What a plan decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// How much of the weights stays in memory.
    pub residency: Residency,
    /// How the codeword of the weights is cut while a set-up makes it.
    pub split: Split,
}

impl Default for Choices {
    /// Everything in memory.
    fn default() -> Self {
        Self {
            residency: Residency::Keep,
            split: Split::default(),
        }
    }
}

/// A phase and its predicted peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// As reports call it.
    pub name: &'static str,
    /// Resident bytes, all that is held from earlier phases included.
    pub bytes: u64,
}
