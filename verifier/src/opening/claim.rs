//! What an opening is about: a list of claims on commitments. Its order is that of the conversation.

use stwo::core::fields::qm31::SecureField;

use super::error::CommitmentName;
use super::params::{CommitmentParams, OpenedColumns};
use crate::suite::Digest;

/// A commitment, as a statement names it. Claims with equal commitments are about the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commitment {
    /// Its name in errors.
    pub name: CommitmentName,
    /// The shape of what was committed to.
    pub params: CommitmentParams,
    /// The root of its tree.
    pub root: Digest,
}

/// The claim `sum_B gamma[B] B~(point) = value` about the bands `B` of a commitment.
#[must_use = "a claim that is not opened is not proved"]
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a, V = SecureField> {
    /// The commitment that the claim is about.
    pub commitment: Commitment,
    /// The columns of it that hold the bands ([`CommitmentParams::columns_of`]).
    pub columns: OpenedColumns,
    /// Coordinates of the index within a band, MSB-first: `log_band` of the tile, six of the input, six of the output.
    pub point: &'a [SecureField],
    /// The weight of every band of the columns.
    pub gamma: &'a [SecureField],
    /// The value of the sum.
    pub value: V,
}
