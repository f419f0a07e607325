//! The columns of a chunk in the memory of the host.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::Relations;
use tessera_circuits::shape::Part;
use tessera_circuits::trees::LookupTree;
use tessera_verifier::opening::{CommitmentName, CommitmentParams};
use tessera_verifier::suite::Suite;

use super::count::multiplicities;
use super::layers::Trees;
use crate::bind::{bind_middle, bind_sum, bind_trailing, eq_table};
use crate::column::{Cells, Column};
use crate::device::{ColumnId, Columns, DeviceError, Entries, Layers, Weights};
use crate::hiding::Secrets;
use crate::opening::{Committed, CommittedUnits, TILE_AREA};

type K = SecureField;

/// Columns by part.
pub(super) struct VectorColumns(pub Vec<Vec<Column>>);

impl VectorColumns {
    fn cells(&self, column: ColumnId) -> Cells<'_> {
        self.0[column.part.index()][column.index].cells()
    }
}

impl Columns for VectorColumns {
    fn read(&self, column: ColumnId) -> Result<Vec<BaseField>, DeviceError> {
        Ok(self.0[column.part.index()][column.index].elements())
    }

    fn take(mut self: Box<Self>, columns: &[ColumnId]) -> Result<Vec<Column>, DeviceError> {
        let mut take = |own: &ColumnId| {
            let none = Column::of_integers(Vec::new());
            std::mem::replace(&mut self.0[own.part.index()][own.index], none)
        };
        Ok(columns.iter().map(&mut take).collect())
    }

    fn count(&self, relations: &[Relation], trees: &[LookupTree]) -> Result<Vec<Vec<BaseField>>, DeviceError> {
        Ok(multiplicities(relations, trees, &self.0))
    }

    fn bind(
        &self,
        terms: &[(ColumnId, K)],
        weights: Weights<'_>,
        [outer, inner]: [usize; 2],
    ) -> Result<Vec<K>, DeviceError> {
        let terms: Vec<(Cells<'_>, K)> = terms.iter().map(|(column, k)| (self.cells(*column), *k)).collect();
        Ok(match weights {
            Weights::All(weights) => bind_sum(&terms, outer, weights, inner),
            Weights::Some { entries, length } => bind_entries(&terms, outer, entries, [length, inner]),
        })
    }

    fn bind_leading(&self, columns: &[ColumnId], point: &[K]) -> Result<Vec<Vec<K>>, DeviceError> {
        let weights = eq_table(point);
        let bind = |column: &ColumnId| {
            let cells = self.cells(*column);
            bind_middle(cells, 1, &weights, cells.len() >> point.len())
        };
        Ok(columns.par_iter().map(bind).collect())
    }

    fn bind_trailing(&self, columns: &[ColumnId], point: &[K]) -> Result<Vec<K>, DeviceError> {
        let cells: Vec<Cells<'_>> = columns.iter().map(|column| self.cells(*column)).collect();
        Ok(bind_trailing(&cells, point))
    }

    fn add(&mut self, part: Part, cells: Vec<Column>) -> Result<(), DeviceError> {
        self.0.resize_with(self.0.len().max(part.index() + 1), Vec::new);
        self.0[part.index()] = cells;
        Ok(())
    }

    fn layers<'a>(
        &'a self,
        trees: &[LookupTree],
        entries: Option<&Entries<'_>>,
        relations: &Relations,
    ) -> Result<Box<dyn Layers + 'a>, DeviceError> {
        Ok(Box::new(Trees::new(trees, entries, &self.0, relations)))
    }

    fn commit<'a>(
        &'a self,
        suite: Suite,
        columns: Vec<ColumnId>,
        params: CommitmentParams,
        secrets: Option<&'a Secrets>,
    ) -> Result<Box<dyn Committed + 'a>, DeviceError> {
        let units = columns
            .into_iter()
            .flat_map(|column| self.cells(column).chunks(TILE_AREA));
        let units: Vec<Cells<'a>> = units.collect();
        let units = match secrets {
            Some(secrets) => secrets.units(units),
            None => units,
        };
        Ok(Box::new(CommittedUnits::commit(
            suite,
            CommitmentName::Activations,
            units,
            params,
        )))
    }
}

/// As [`bind_sum`], where most weights are zero.
fn bind_entries(terms: &[(Cells<'_>, K)], outer: usize, entries: &[(usize, K)], [length, inner]: [usize; 2]) -> Vec<K> {
    let mut sums = vec![K::zero(); outer * inner];
    for (column, k) in terms {
        let slabs = column.chunks(length * inner).zip(sums.chunks_mut(inner));
        for (slab, sums) in slabs {
            for (i, sum) in sums.iter_mut().enumerate() {
                let terms = entries.iter().map(|(m, w)| *w * slab.get(m * inner + i));
                *sum += *k * terms.fold(K::zero(), |sum, term| sum + term);
            }
        }
    }
    sums
}
