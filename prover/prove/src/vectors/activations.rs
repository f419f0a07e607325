//! The committed columns of a chunk, cut in units.

use std::sync::Arc;

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_verifier::opening::merkle::Digest;
use tessera_verifier::opening::{CommitmentParams, LeafOpening, OpenedColumns};
use tessera_verifier::suite::Suite;

use super::bind::combine;
use crate::column::Cells;
use crate::device::DeviceError;
use crate::opening::{batches, Committed, OpeningProverError, Tree, Twiddles};
use tessera_kernels::table::Table;

/// Cells of a unit.
const UNIT: usize = 1 << MIN_ROWS_LOG;

/// Units of columns with the tree of their codeword, which is not kept: entering its memory takes longer than encoding the columns
/// again when they are opened.
pub struct Units<'a> {
    columns: Vec<Cells<'a>>,
    params: CommitmentParams,
    twiddles: Arc<Twiddles>,
    tree: Tree,
    root: Digest,
}

impl<'a> Units<'a> {
    /// Commits to the units of some columns.
    pub fn commit(suite: Suite, columns: Vec<Cells<'a>>, params: CommitmentParams) -> Self {
        let twiddles = Arc::new(Twiddles::new(params.log_message, params.log_blowup));
        let tree = batches::commit(suite, &units(&columns), &params, &twiddles);
        Self {
            columns,
            params,
            root: tree.root(),
            twiddles,
            tree,
        }
    }
}

/// The units of columns, in order.
fn units<'a>(columns: &[Cells<'a>]) -> Vec<Cells<'a>> {
    columns.iter().flat_map(|column| column.chunks(UNIT)).collect()
}

impl Committed for Units<'_> {
    fn params(&self) -> &CommitmentParams {
        &self.params
    }

    fn root(&self) -> &Digest {
        &self.root
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        Arc::clone(&self.twiddles)
    }

    fn combine(
        &mut self,
        columns: &OpenedColumns,
        weights: &[SecureField],
        fold: SecureField,
    ) -> Result<Table<SecureField>, DeviceError> {
        let (units, length) = (units(&self.columns), 1 << columns.params.log_column_tiles());
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
        Ok(message)
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        Ok(batches::open(
            &units(&self.columns),
            &self.params,
            &self.tree,
            twiddles,
            leaves,
        ))
    }
}
