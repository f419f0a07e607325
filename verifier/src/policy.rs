//! Security parameters (docs/security.md, protocol section 14). They are constants of this verifier; none is read from a
//! proof.

use serde::{Deserialize, Serialize};
use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
use tessera_circuits::shape::Shape;

/// Verification refuses statements whose ledger falls below this.
pub const MIN_BITS: f64 = 90.0;
/// What every shipped parameter set must reach for the statements it is meant for.
pub const TARGET_BITS: f64 = 96.0;

/// Statements with more committed cells than this use the code of rate 1/2, which halves memory, instead of the one
/// of rate 1/4, which has smaller proofs.
pub const LARGE_TRACE: u128 = 1 << 25;
/// Proof of work before the trace queries.
pub const TRACE_WORK_BITS: u32 = 20;
/// FRI folds per layer.
pub const TRACE_FOLD_STEP: u32 = 3;
/// log2 of the degree bound of the last FRI layer.
pub const TRACE_LOG_LAST_LAYER: u32 = 5;
/// Bits of security that the queries, of the trace and of the weights, have without the proof of work before them.
pub const QUERY_BITS: f64 = 80.0;
/// Proof of work before the weight queries.
pub const WEIGHT_WORK_BITS: u32 = 20;

/// The fewest queries that have [`QUERY_BITS`] in the unique-decoding regime at rate `2^-log_blowup`.
pub const fn queries(log_blowup: u32) -> usize {
    match log_blowup {
        0 | 1 => 193,
        2 => 118,
        3 => 97,
        _ => 88,
    }
}

/// The code of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracePolicy {
    /// log2 of the inverse rate.
    pub log_blowup: u32,
}

impl TracePolicy {
    /// Every policy, in the order of the tables' roots in a key.
    pub const ALL: [Self; 2] = [Self { log_blowup: 1 }, Self { log_blowup: 2 }];

    /// The policy for a statement, by its size alone.
    pub fn of(shape: &Shape) -> Self {
        let [large, small] = Self::ALL;
        match shape.cells() > LARGE_TRACE {
            true => large,
            false => small,
        }
    }

    /// FRI queries.
    pub const fn queries(self) -> usize {
        queries(self.log_blowup)
    }

    /// stwo's configuration.
    pub fn pcs_config(self) -> PcsConfig {
        PcsConfig {
            pow_bits: TRACE_WORK_BITS,
            fri_config: FriConfig::new(TRACE_LOG_LAST_LAYER, self.log_blowup, self.queries(), TRACE_FOLD_STEP),
            lifting_log_size: None,
        }
    }
}

/// Query parameters of an opening of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningPolicy {
    /// Number of query positions drawn.
    pub queries: usize,
    /// Bits of the proof of work before the queries are drawn, at most 32.
    pub work_bits: u32,
}

/// The policy for openings of weights at rate `2^-log_blowup`. The rate is that of the key, which is checked and trusted.
pub const fn opening_policy(log_blowup: u32) -> OpeningPolicy {
    OpeningPolicy {
        queries: queries(log_blowup),
        work_bits: WEIGHT_WORK_BITS,
    }
}

/// All parameters as words, absorbed by the transcript first. Weights are at rate `2^-log_blowup`.
pub const fn parameter_words(log_blowup: u32, trace: TracePolicy) -> [u32; 7] {
    let opening = opening_policy(log_blowup);
    [
        trace.log_blowup,
        trace.queries() as u32,
        TRACE_WORK_BITS,
        TRACE_FOLD_STEP,
        TRACE_LOG_LAST_LAYER,
        opening.queries as u32,
        opening.work_bits,
    ]
}
