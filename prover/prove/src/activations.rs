//! Committing to the activations (docs/protocol.md, section 4): the committed columns of all parts, cut in units, are the tiles
//! of a commitment like the one to the weights.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::shape::Shape;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::{Digest, Suite};

use super::device::{ColumnId, Columns, DeviceError};
use super::opening::Committed;

/// The activations of a chunk, committed to.
pub struct Activations<'a> {
    columns: &'a dyn Columns,
    /// The columns that are committed to, in order.
    list: Vec<ColumnId>,
    /// The commitment to their units.
    pub units: Box<dyn Committed + 'a>,
}

impl<'a> Activations<'a> {
    /// Commits to the columns of all parts in a code, [`CommitmentParams::of_activations`].
    pub fn commit(
        suite: Suite,
        shape: &Shape,
        columns: &'a dyn Columns,
        params: CommitmentParams,
    ) -> Result<Self, DeviceError> {
        let of_part = |part| {
            let own = shape.committed(part).into_iter();
            own.map(move |index| ColumnId { part, index })
        };
        let list: Vec<ColumnId> = shape.parts().iter().copied().flat_map(of_part).collect();
        Ok(Self {
            columns,
            units: columns.commit(suite, list.clone(), params)?,
            list,
        })
    }

    /// The root of the commitment's tree.
    pub fn root(&self) -> Digest {
        self.units.commitment().root
    }

    /// The values of all units at the last coordinates of a point.
    pub fn unit_values(&self, point: &[SecureField]) -> Result<Vec<SecureField>, DeviceError> {
        self.columns.bind_trailing(&self.list, point)
    }
}
