//! The proof of an opening.

use serde::{Deserialize, Serialize};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use crate::message::{Bound, Unread};
use crate::suite::Digest;
use crate::sumcheck::Round;

/// Opened leaves of a committed tree, in increasing order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafOpening {
    /// Per leaf: `columns * 2` values, column by column.
    pub values: Vec<BaseField>,
    /// Merkle nodes, as `merkle::verify_batch` reads them.
    pub path: Vec<Digest>,
}

/// Opened leaves of a folded oracle, in increasing order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleOpening {
    /// Per leaf: those of the `2^FOLD_LOG` values that do not follow from the oracle before.
    pub values: Vec<SecureField>,
    /// Merkle nodes, as `merkle::verify_batch` reads them.
    pub path: Vec<Digest>,
}

/// What an opening has of each claim alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeOpening {
    /// Sumcheck over the band index, most significant bit first.
    pub band_rounds: Vec<Round>,
    /// Nonces of the proofs of work before the challenges that weigh columns: of the first rounds, one for each variable of columns.
    pub column_work: Vec<u64>,
    /// `W~(rho, local_point)`, the evaluation that the band sumcheck ends at.
    pub band_value: SecureField,
    /// Opened leaves of the committed tree.
    pub rows: LeafOpening,
}

/// The proof of an opening. Others hold it and pass it on, because only the openings know its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpeningProof(ProofParts);

/// The parts of a proof.
pub const fn parts_of(proof: &OpeningProof) -> &ProofParts {
    &proof.0
}

/// The parts of a proof, to be changed: for tests.
pub const fn parts_of_mut(proof: &mut OpeningProof) -> &mut ProofParts {
    &mut proof.0
}

/// The parts of a proof that is not read yet.
pub(super) fn unread(proof: Unread<'_, OpeningProof>) -> Unread<'_, ProofParts> {
    proof.part(|proof| &proof.0)
}

/// The proof that is made of these parts.
pub const fn proof_of(parts: ProofParts) -> OpeningProof {
    OpeningProof(parts)
}

/// The parts of a proof that opens a list of claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofParts {
    /// Of every claim alone, in their order.
    pub codes: Vec<CodeOpening>,
    /// The values of every folded column at the points of all other claims: by point, then by column.
    pub cross_values: Vec<SecureField>,
    /// Nonce of the proof of work before the columns are added.
    pub sum_work: u64,
    /// Sumcheck over the index in the longest of the folded columns for the sum of all, least significant bit first, down to the
    /// final message.
    pub fold_rounds: Vec<Round>,
    /// Nonces of the proofs of work before the first challenges of this sumcheck.
    pub fold_work: Vec<u64>,
    /// Roots of the folded oracles.
    pub roots: Vec<Digest>,
    /// The last folded message, `2^log_final` coefficients.
    pub final_message: Vec<SecureField>,
    /// Nonce of the proof of work before the queries.
    pub nonce: u64,
    /// Opened leaves of the folded oracles.
    pub oracles: Vec<OracleOpening>,
}

impl Bound for LeafOpening {}
impl Bound for OracleOpening {}
