//! What is claimed of a commitment, and the proof of it.

use serde::{Deserialize, Serialize};
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;

use super::error::OpeningError;
use super::merkle::Digest;
use super::multilinear::Round;
use super::params::OpenedColumns;

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

/// Opened leaves of the weight tree, in increasing order.
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
    /// Per leaf: `2^FOLD_LOG` values.
    pub values: Vec<SecureField>,
    /// Merkle nodes, as `merkle::verify_batch` reads them.
    pub path: Vec<Digest>,
}

/// Proof of one opening.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningProof {
    /// Sumcheck over the band index, most significant bit first.
    pub band_rounds: Vec<Round>,
    /// `W~(rho, local_point)`, the evaluation that the band sumcheck ends at.
    pub band_value: SecureField,
    /// Sumcheck over the index in the column, from its second bit on, least significant bit first, down to the final message.
    pub fold_rounds: Vec<Round>,
    /// Roots of the folded oracles.
    pub roots: Vec<Digest>,
    /// The last folded message, `2^log_final` coefficients.
    pub final_message: Vec<SecureField>,
    /// Nonce of the proof of work.
    pub nonce: u64,
    /// Opened leaves of the weight tree.
    pub rows: LeafOpening,
    /// Opened leaves of the folded oracles.
    pub oracles: Vec<OracleOpening>,
}

impl OpeningProof {
    /// Checks that every field element is the canonical representative, in `0..p`.
    pub(super) fn check_canonical(&self) -> Result<(), OpeningError> {
        let secure =
            |what, values: &[SecureField]| match values.iter().all(|v| v.to_m31_array().iter().all(|c| c.0 < P)) {
                true => Ok(()),
                false => Err(OpeningError::NotCanonical { what }),
            };
        secure("band sumcheck", self.band_rounds.as_flattened())?;
        secure("evaluation of the weights", &[self.band_value])?;
        secure("folding sumcheck", self.fold_rounds.as_flattened())?;
        secure("final message", &self.final_message)?;
        for oracle in &self.oracles {
            secure("leaves of a folded oracle", &oracle.values)?;
        }
        match self.rows.values.iter().all(|v| v.0 < P) {
            true => Ok(()),
            false => Err(OpeningError::NotCanonical {
                what: "leaves of the weight tree",
            }),
        }
    }
}
