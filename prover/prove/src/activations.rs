//! Committing to the activations and opening them (docs/protocol.md, sections 4 and 10): the committed columns of all parts, cut
//! in units, are the tiles of a commitment like that of the weights.

use std::sync::Arc;

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::shape::Shape;
use tessera_verifier::opening::merkle::Digest;
use tessera_verifier::opening::{CommitmentParams, LeafOpening, OpenedColumns};
use tessera_verifier::suite::Suite;

use super::device::{ColumnId, Columns, DeviceError};
use super::opening::{Committed, OpeningProverError, Twiddles};
use tessera_kernels::table::Table;

/// The activations of a chunk, committed to.
pub struct Activations<'a> {
    columns: &'a dyn Columns,
    /// The columns that are committed to, in order.
    list: Vec<ColumnId>,
    committed: Box<dyn Committed + 'a>,
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
            committed: columns.commit(suite, list.clone(), params)?,
            list,
        })
    }

    /// The values of all units at the last coordinates of a point.
    pub fn unit_values(&self, point: &[SecureField]) -> Result<Vec<SecureField>, DeviceError> {
        self.columns.bind_trailing(&self.list, point)
    }
}

impl Committed for Activations<'_> {
    fn params(&self) -> &CommitmentParams {
        self.committed.params()
    }

    fn root(&self) -> &Digest {
        self.committed.root()
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        self.committed.twiddles()
    }

    fn combine(
        &mut self,
        columns: &OpenedColumns,
        weights: &[SecureField],
        fold: SecureField,
    ) -> Result<Table<SecureField>, DeviceError> {
        self.committed.combine(columns, weights, fold)
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        self.committed.open(twiddles, leaves)
    }
}
