//! How often an opening is queried.

use super::error::OpeningError;
use crate::labels::QUERY_WORK;
use crate::policy::{queries, CHALLENGE_GRIND_BITS, OPENING_GRIND_BITS};
use crate::transcript::Work;

/// Query parameters of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpeningPolicy {
    /// Number of query positions drawn.
    pub queries: usize,
    /// Bits of the proof of work before the queries are drawn, at most 32.
    pub grind_bits: u32,
    /// Bits of each proof of work before a challenge that weighs columns, adds them, or is one of the first folds.
    pub challenge_bits: u32,
}

impl OpeningPolicy {
    /// The policy at rate `2^-log_blowup`: the rate of the key, which is checked and trusted.
    pub const fn at_rate(log_blowup: u32) -> Self {
        Self {
            queries: queries(log_blowup),
            grind_bits: OPENING_GRIND_BITS,
            challenge_bits: CHALLENGE_GRIND_BITS,
        }
    }

    /// The proof of work before the queries.
    pub const fn before_queries(&self) -> Work {
        Work {
            label: QUERY_WORK,
            bits: self.grind_bits,
        }
    }

    /// The proof of work before a challenge, under the label of its nonce.
    pub const fn before_challenge(&self, label: &'static str) -> Work {
        Work {
            label,
            bits: self.challenge_bits,
        }
    }

    /// Checks that a proof under this policy can exist and means something.
    pub fn check(&self) -> Result<(), OpeningError> {
        if !(1..=1 << 12).contains(&self.queries) || self.grind_bits > 32 {
            return Err(OpeningError::Policy {
                queries: self.queries,
                grind_bits: self.grind_bits,
            });
        }
        Ok(())
    }
}
