//! What is claimed of a commitment, and the proof of it.

use serde::{Deserialize, Serialize};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::error::Code;
use super::merkle::Digest;
use super::params::{CommitmentParams, OpenedColumns};
use crate::message::Bound;
use crate::sumcheck::Round;

/// What is claimed of a commitment: `sum_B gamma[B] B~(local_point) = value`.
#[derive(Clone, Copy, Debug)]
pub struct OpeningClaim<'a> {
    /// The columns that are opened.
    pub columns: OpenedColumns,
    /// One entry for every band of the columns.
    pub gamma: &'a [SecureField],
    /// Coordinates of the index within a band, MSB-first: `log_band` of the tile, six of the input, six of the output.
    pub local_point: &'a [SecureField],
    /// What the sum is.
    pub value: SecureField,
}

/// A commitment with a claim on it.
#[derive(Clone, Copy, Debug)]
pub struct Claimed<'a> {
    /// The whole commitment; the columns of the claim are some of its columns ([`CommitmentParams::columns_of`]).
    pub commitment: CommitmentParams,
    /// The root of its tree.
    pub root: Digest,
    /// What is claimed of it.
    pub claim: OpeningClaim<'a>,
}

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

/// What an opening has of each commitment alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeOpening {
    /// Sumcheck over the band index, most significant bit first.
    pub band_rounds: Vec<Round>,
    /// `W~(rho, local_point)`, the evaluation that the band sumcheck ends at.
    pub band_value: SecureField,
    /// The value of the folded combination of the columns where the claims are joined.
    pub joined_value: SecureField,
    /// Opened leaves of the committed tree.
    pub rows: LeafOpening,
}

/// Proof that opens both commitments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningProof {
    /// Of the weights alone.
    pub weights: CodeOpening,
    /// Of the activations alone.
    pub activations: CodeOpening,
    /// Sumcheck that takes both claims to one point, over the index in the longer of the folded columns, least significant bit
    /// first.
    pub join_rounds: Vec<Round>,
    /// Sumcheck over the same index for the sum of both, least significant bit first, down to the final message.
    pub fold_rounds: Vec<Round>,
    /// Roots of the folded oracles.
    pub roots: Vec<Digest>,
    /// The last folded message, `2^log_final` coefficients.
    pub final_message: Vec<SecureField>,
    /// Nonce of the proof of work.
    pub nonce: u64,
    /// Opened leaves of the folded oracles.
    pub oracles: Vec<OracleOpening>,
}

impl Bound for LeafOpening {}
impl Bound for OracleOpening {}

impl OpeningProof {
    /// What there is of each commitment alone, in the order of the transcript.
    pub const fn codes(&self) -> [(Code, &CodeOpening); 2] {
        [(Code::Weights, &self.weights), (Code::Activations, &self.activations)]
    }
}
