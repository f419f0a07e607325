//! How much gas contracts take to verify a proof (docs/chain.md).

use tessera_plan::{has_plans, NoPlan, Plan, MOST_OUTPUTS};
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::ModelKey;
use tessera_verifier::suite::Suite;
use thiserror::Error;

/// The gas of a proof that nobody has made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gas {
    /// Of all calls, each in a transaction of its own; a rough figure.
    pub gas: u64,
    /// The output tokens that it was predicted for.
    pub outputs: usize,
}

/// Why contracts verify no such proof.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoGas {
    /// The key is of another suite than Keccak-256.
    #[error("contracts verify proofs under keys of Keccak-256 alone: tessera setup --hash keccak")]
    Suite,
    /// No number of chunks has enough security.
    #[error("such a statement cannot be proved")]
    Unprovable,
    /// It takes so many chunks of layers.
    #[error(
        "contracts verify proofs in one piece, and such a proof has {0} chunks; with fewer tokens, one piece may do"
    )]
    Chunks(usize),
    /// There is no plan of such a statement.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// The key cannot be encoded.
    #[error(transparent)]
    Key(#[from] CodecError),
}

/// The gas of a proof of so many token rows in the fewest chunks.
pub(super) fn predicted(key: &ModelKey, rows: usize, fewest_chunks: Option<usize>) -> Result<Gas, NoGas> {
    // Another hash would not help.
    if !has_plans(&key.config) {
        return Err(NoPlan::Model.into());
    }
    if key.header.hash_suite != Suite::Keccak {
        return Err(NoGas::Suite);
    }
    match fewest_chunks {
        Some(1) => {}
        Some(chunks) => return Err(NoGas::Chunks(chunks)),
        None => return Err(NoGas::Unprovable),
    }
    // As many output tokens as there can be: each takes gas of its own.
    let outputs = rows.min(MOST_OUTPUTS);
    let plan = Plan::new(key, rows, outputs)?;
    let calls = plan.expected_calls(key, rows)?;
    let gas = calls.iter().map(|call| call.gas).sum();
    Ok(Gas { gas, outputs })
}
