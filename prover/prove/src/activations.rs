//! Committing to the activations and opening them (docs/protocol.md, sections 4 and 10): the committed columns of all parts, cut
//! in units, are the tiles of a commitment like that of the weights.

use std::sync::Arc;

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::shape::{Part, Shape};
use tessera_verifier::opening::merkle::Digest;
use tessera_verifier::opening::{CommitmentParams, LeafOpening, OpenedColumns};
use tessera_verifier::suite::Suite;

use super::bind::{bind_trailing, combine};
use super::column::{Cells, Column};
use super::opening::batches;
use super::opening::{Committed, OpeningProverError, Tree, Twiddles};
use tessera_kernels::table::Table;

/// Cells of a unit.
const UNIT: usize = 1 << MIN_ROWS_LOG;

/// The activations of a chunk, committed to.
pub struct Activations<'a> {
    shape: &'a Shape,
    columns: &'a [Vec<Column>],
    params: CommitmentParams,
    twiddles: Arc<Twiddles>,
    tree: Tree,
    root: Digest,
}

impl<'a> Activations<'a> {
    /// Commits to the columns of all parts in a code, [`CommitmentParams::of_activations`]. The codeword is not kept, as entering
    /// its memory takes longer than encoding the activations again when they are opened.
    pub fn commit(suite: Suite, shape: &'a Shape, columns: &'a [Vec<Column>], params: CommitmentParams) -> Self {
        let units = units(shape, columns);
        let twiddles = Arc::new(Twiddles::new(params.log_message, params.log_blowup));
        let tree = batches::commit(suite, &units, &params, &twiddles);
        Self {
            shape,
            columns,
            params,
            root: tree.root(),
            twiddles,
            tree,
        }
    }

    /// The values of all units at the last coordinates of a point.
    pub fn unit_values(&self, point: &[SecureField]) -> Vec<SecureField> {
        bind_trailing(&self.committed(), point)
    }

    fn committed(&self) -> Vec<Cells<'a>> {
        committed(self.shape, self.columns)
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

/// The units of the committed columns, in order.
fn units<'a>(shape: &Shape, columns: &'a [Vec<Column>]) -> Vec<Cells<'a>> {
    committed(shape, columns)
        .into_iter()
        .flat_map(|column| column.chunks(UNIT))
        .collect()
}

impl Committed for Activations<'_> {
    fn params(&self) -> &CommitmentParams {
        &self.params
    }

    fn root(&self) -> &Digest {
        &self.root
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        Arc::clone(&self.twiddles)
    }

    fn combine(&mut self, columns: &OpenedColumns, weights: &[SecureField], fold: SecureField) -> Table<SecureField> {
        let (units, length) = (units(self.shape, self.columns), 1 << columns.params.log_column_tiles());
        let mut message = Table::new(1 << (columns.params.log_message - 1));
        let of_slots = message.par_chunks_mut(UNIT / 2).enumerate();
        of_slots.for_each(|(slot, message)| {
            let own: Vec<Cells<'_>> = units.iter().skip(slot).step_by(length).copied().collect();
            let sums = combine(&own, &weights[..own.len()], UNIT);
            for (folded, pair) in message.iter_mut().zip(sums.as_chunks::<2>().0) {
                let [even, odd] = *pair;
                *folded = even + fold * (odd - even);
            }
        });
        message
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        let units = units(self.shape, self.columns);
        Ok(batches::open(&units, &self.params, &self.tree, twiddles, leaves))
    }
}
