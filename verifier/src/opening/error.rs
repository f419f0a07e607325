//! Why an opening is not accepted.

use thiserror::Error;

use crate::listen::TapeError;
use crate::message::{NoWork, NotCanonical};

/// The name of a commitment that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitmentName {
    /// The key's commitment to the weights.
    Weights,
    /// The chunk's commitment to the activations.
    Activations,
    /// The commitment to what enters the chunk.
    Input,
    /// The commitment to what leaves the chunk.
    Output,
    /// The commitment to hidden activations of a proof, as a reveal opens it.
    Revealed,
    /// The commitment to mask and tape of a reveal.
    Mask,
}

impl std::fmt::Display for CommitmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Weights => "weights",
            Self::Activations => "activations",
            Self::Input => "boundary before the chunk",
            Self::Output => "boundary after the chunk",
            Self::Revealed => "activations of the proof",
            Self::Mask => "mask of the reveal",
        })
    }
}

/// Names one Merkle tree of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeName {
    /// The tree of a commitment.
    Committed(CommitmentName),
    /// A folded oracle, counted from 0.
    Oracle(usize),
}

impl std::fmt::Display for TreeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Committed(name) => write!(f, "committed tree of the {name}"),
            Self::Oracle(i) => write!(f, "tree of folded oracle {i}"),
        }
    }
}

/// Why an opening is not accepted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum OpeningError {
    #[error("{what} is {value}, but must be in {min}..={max}")]
    OutOfRange {
        what: &'static str,
        value: usize,
        min: usize,
        max: usize,
    },
    #[error("policy with {queries} queries and {grind_bits} bits of work: 1 to 4096 queries and at most 32 bits")]
    Policy { queries: usize, grind_bits: u32 },
    #[error("an opening of no claims")]
    NoClaims,
    #[error("{claims} claims on commitments that have a mask, but an opening under a mask has exactly one")]
    Mask { claims: usize },
    #[error("codes of different rates are opened together: 2^-{first} and 2^-{other}")]
    Rates { first: u32, other: u32 },
    #[error("{what}: {got} entries, expected {expected}")]
    Length {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error("{tree}: {got} opened values, expected {expected}")]
    OpenedValues {
        tree: TreeName,
        got: usize,
        expected: usize,
    },
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    #[error("{commitment}: the band sumcheck does not end at the claimed evaluation")]
    BandClaim { commitment: CommitmentName },
    #[error("the folding sumcheck does not end at the final message")]
    FoldClaim,
    #[error(transparent)]
    Work(#[from] NoWork),
    #[error(transparent)]
    Tape(#[from] TapeError),
    #[error("{tree}: the authentication path is too short")]
    PathTooShort { tree: TreeName },
    #[error("{tree}: {unused} nodes of the authentication path are not used")]
    PathTooLong { tree: TreeName, unused: usize },
    /// Of a folded oracle also where it is not the fold of the oracle before it: that is a part of the opened leaves.
    #[error("{tree}: the opened leaves do not hash to the root")]
    Root { tree: TreeName },
    #[error("the final message at position {position} is not the fold of the last oracle")]
    FinalMessage { position: usize },
}

pub(super) fn range(what: &'static str, value: usize, min: usize, max: usize) -> Result<(), OpeningError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(OpeningError::OutOfRange { what, value, min, max }),
    }
}

pub(super) fn length(what: &'static str, got: usize, expected: usize) -> Result<(), OpeningError> {
    match got == expected {
        true => Ok(()),
        false => Err(OpeningError::Length { what, got, expected }),
    }
}
