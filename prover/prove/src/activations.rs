//! Committing to the activations (docs/protocol.md, section 4): the committed columns of all parts, cut in units, are the tiles
//! of a commitment like the one to the weights.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::shape::{Part, Shape};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::Suite;

use super::bind::bind_trailing;
use super::column::{Cells, Column};
use super::opening::{CommittedUnits, TILE_AREA};

/// The activations of a chunk, committed to.
pub struct Activations<'a> {
    columns: Vec<Cells<'a>>,
    /// The commitment to their units.
    pub units: CommittedUnits<'a>,
}

impl<'a> Activations<'a> {
    /// Commits to the columns of all parts in a code, [`CommitmentParams::of_activations`].
    pub fn commit(suite: Suite, shape: &Shape, columns: &'a [Vec<Column>], params: CommitmentParams) -> Self {
        let columns = committed(shape, columns);
        let units = columns.iter().flat_map(|column| column.chunks(TILE_AREA)).collect();
        Self {
            columns,
            units: CommittedUnits::commit(suite, units, params),
        }
    }

    /// The values of all units at the last coordinates of a point.
    pub fn unit_values(&self, point: &[SecureField]) -> Vec<SecureField> {
        bind_trailing(&self.columns, point)
    }
}

/// The committed columns, in order.
fn committed<'a>(shape: &Shape, columns: &'a [Vec<Column>]) -> Vec<Cells<'a>> {
    let of = |part: &Part| {
        let own = &columns[part.index()];
        let committed = shape.committed(*part).into_iter();
        committed.map(|column| own[column].cells()).collect::<Vec<_>>()
    };
    shape.parts().iter().flat_map(of).collect()
}
