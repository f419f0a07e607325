//! Opened rows of a commitment: they are those of its root, and their combination is a part of the first oracle (docs/protocol.md, section 10,
//! step 5).

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::claim::Commitment;
use super::error::{OpeningError, TreeName};
use super::merkle::{hash_base_leaf, verify_batch, CommittedTree};
use super::params::{CommitmentParams, Layout, FIBRE, MASK_COLUMNS};
use super::proof::{CodeOpening, LeafOpening};
use super::{circle, lift};
use crate::message::Unread;
use crate::suite::Suite;

/// The coordinates of an element of the extension field.
const COORDINATES: [SecureField; MASK_COLUMNS] = [
    SecureField::from_u32_unchecked(1, 0, 0, 0),
    SecureField::from_u32_unchecked(0, 1, 0, 0),
    SecureField::from_u32_unchecked(0, 0, 1, 0),
    SecureField::from_u32_unchecked(0, 0, 0, 1),
];

/// A value that an oracle must hold at an index.
type Expected = (usize, SecureField);

/// The rows of a commitment, and what they add to the first oracle.
pub(super) struct Rows<'a> {
    pub commitment: &'a Commitment,
    /// The factor of the combination of the columns.
    pub scale: SecureField,
    /// The weight of each column in it.
    pub weights: &'a [SecureField],
    /// The challenge of the first fold.
    pub fold: SecureField,
    /// The factors of mask and tape, if they are committed to behind these columns.
    pub mask: Option<(SecureField, SecureField)>,
}

impl Rows<'_> {
    /// Step 5: opens the rows of a commitment and adds, `scale` times, the lifted and folded combination of its columns to the
    /// values of the virtual first oracle.
    pub fn add(
        &self,
        suite: Suite,
        expected: &mut [Expected],
        long: &CommitmentParams,
        own: Unread<'_, CodeOpening>,
    ) -> Result<(), OpeningError> {
        let params = &self.commitment.params;
        let lifted = long.log_message.saturating_sub(params.log_message);
        let mut leaves: Vec<usize> = expected.iter().map(|(position, _)| position >> lifted).collect();
        leaves.dedup();
        let rows = own.part(|p| &p.rows).bound("leaves of a committed tree")?;
        let rows = open_rows(suite, self.commitment, &leaves, rows)?;
        let mut rows = leaves.into_iter().zip(rows).peekable();
        let mut folded = None;
        for (position, sum) in expected {
            while let Some((leaf, values)) = rows.next_if(|(leaf, _)| *leaf <= *position >> lifted) {
                folded = Some(self.folded(values, circle::circle_fibre(params.log_leaves(), leaf)));
            }
            *sum += folded.unwrap_or_default() * lift::factor(long.log_leaves(), *position, lifted);
        }
        Ok(())
    }

    /// The share of a leaf in the first oracle.
    fn folded(&self, leaf: &[BaseField], y: BaseField) -> SecureField {
        let (a, b) = combine_columns(leaf, self.weights);
        let own = self.scale * circle::fold_pair(a, b, y, self.fold);
        let Some((mask, tape)) = self.mask else {
            return own;
        };
        // The last four columns are the coordinates of one message, whose even coefficients are the mask and whose odd ones are the tape.
        let last = leaf.len().saturating_sub(MASK_COLUMNS * FIBRE);
        let (_, coordinates) = leaf.split_at(last);
        let (a, b) = combine_columns(coordinates, &COORDINATES);
        let half = |challenge| circle::fold_pair(a, b, y, challenge);
        own + mask * half(SecureField::zero()) + tape * half(SecureField::one())
    }
}

/// Checks the opened leaves of a committed tree and returns their values, leaf by leaf.
fn open_rows<'a>(
    suite: Suite,
    Commitment { name, params, root }: &Commitment,
    leaves: &[usize],
    rows: &'a LeafOpening,
) -> Result<impl Iterator<Item = &'a [BaseField]>, OpeningError> {
    let tree = TreeName::Committed(*name);
    let leaf_len = params.columns() * FIBRE;
    let (got, expected) = (rows.values.len(), leaves.len() * leaf_len);
    if got != expected {
        return Err(OpeningError::OpenedValues { tree, got, expected });
    }
    let values = || rows.values.chunks_exact(leaf_len);
    let digests = values().map(|leaf| hash_base_leaf(suite, leaf));
    let digests = leaves.iter().copied().zip(digests).collect();
    let committed = CommittedTree {
        name: tree,
        suite,
        root,
        depth: params.log_leaves(),
    };
    verify_batch(&committed, digests, &rows.path)?;
    Ok(values())
}

/// The two values of the combination of all columns in a leaf.
fn combine_columns(leaf: &[BaseField], column_weights: &[SecureField]) -> (SecureField, SecureField) {
    let zero = (SecureField::zero(), SecureField::zero());
    leaf.chunks_exact(FIBRE)
        .zip(column_weights)
        .fold(zero, |(a, b), (pair, &weight)| match *pair {
            [p, q] => (a + weight * p, b + weight * q),
            _ => (a, b),
        })
}
