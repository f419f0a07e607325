//! Units in memory with their commitment, as the activations have one.

use std::sync::Arc;

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::parts::{Layout, LeafOpening};
use tessera_verifier::opening::{Commitment, CommitmentName, CommitmentParams, OpenedColumns};
use tessera_verifier::suite::{Digest, Suite};

use super::batches;
use super::committed::Committed;
use super::fft::Twiddles;
use super::tree::Tree;
use super::{OpeningProverError, TILE_AREA};
use crate::bind::combine;
use crate::column::Cells;
use tessera_kernels::device::DeviceError;
use tessera_kernels::table::Table;

/// Units of [`TILE_AREA`] cells, committed to. The codeword is not kept, because entering its memory takes longer than encoding
/// the units again when they are opened.
pub struct CommittedUnits<'a> {
    name: CommitmentName,
    units: Vec<Cells<'a>>,
    params: CommitmentParams,
    twiddles: Arc<Twiddles>,
    tree: Tree,
    root: Digest,
}

impl<'a> CommittedUnits<'a> {
    /// Commits to units. The parameters say how many there are.
    pub fn commit(suite: Suite, name: CommitmentName, units: Vec<Cells<'a>>, params: CommitmentParams) -> Self {
        let twiddles = Arc::new(Twiddles::new(params.log_message, params.log_blowup));
        let tree = batches::commit(suite, &units, &params, &twiddles);
        Self {
            name,
            units,
            params,
            root: tree.root(),
            twiddles,
            tree,
        }
    }
}

impl Committed for CommittedUnits<'_> {
    fn commitment(&self) -> Commitment {
        Commitment {
            name: self.name,
            params: self.params,
            root: self.root,
        }
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
        let length = 1 << columns.log_column_tiles();
        let mut message = Table::new(1 << columns.log_folded());
        let of_slots = message.par_chunks_mut(TILE_AREA / 2).enumerate();
        let opened = self.units.iter().take(columns.tiles().end).skip(columns.tiles().start);
        of_slots.for_each(|(slot, message)| {
            let own: Vec<Cells<'_>> = opened.clone().skip(slot).step_by(length).copied().collect();
            let sums = combine(&own, &weights[..own.len()], TILE_AREA);
            for (folded, pair) in message.iter_mut().zip(sums.as_chunks::<2>().0) {
                let [even, odd] = *pair;
                *folded = even + fold * (odd - even);
            }
        });
        Ok(message)
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        Ok(batches::open(&self.units, &self.params, &self.tree, twiddles, leaves))
    }
}
