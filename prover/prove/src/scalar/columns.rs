//! The columns of a chunk, as field elements.

use crate::bind::eq_table;
use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::{tables, Relations};
use tessera_circuits::shape::Part;
use tessera_circuits::trees::LookupTree;
use tessera_verifier::opening::{CommitmentName, CommitmentParams};
use tessera_verifier::suite::Suite;

use super::commitment::Codewords;
use super::layers::Trees;
use crate::column::{elements, Cells, Column};
use crate::device::{ColumnId, Columns, DeviceError, Entries, Layers, Weights};
use crate::hiding::Secrets;
use crate::opening::{Committed, TILE_AREA};

type K = SecureField;

/// Columns by part.
pub(super) struct ScalarColumns(Vec<Vec<Vec<BaseField>>>);

impl ScalarColumns {
    pub fn new(cells: &[Vec<Column>]) -> Self {
        Self(cells.iter().map(|part| elements(part)).collect())
    }

    fn cells(&self, column: ColumnId) -> &[BaseField] {
        &self.0[column.part.index()][column.index]
    }
}

impl Columns for ScalarColumns {
    fn read(&self, column: ColumnId) -> Result<Vec<BaseField>, DeviceError> {
        Ok(self.cells(column).to_vec())
    }

    fn count(&self, relations: &[Relation], trees: &[LookupTree]) -> Result<Vec<Vec<BaseField>>, DeviceError> {
        let mut counts = vec![vec![BaseField::zero(); 1 << tables::LOG_ROWS]; relations.len()];
        for plane in trees.iter().flat_map(|tree| &tree.planes) {
            let (own, lookup) = (&self.0[plane.part.index()], &plane.lookup);
            let relation = relations.iter().position(|own| *own == lookup.relation);
            let counts = &mut counts[relation.expect("a relation of the model")];
            let used = (0..1usize << plane.log_rows).map(|row| {
                let value = |i: usize| lookup.tuple.get(i).map(|form| form.eval(|column| own[column][row]));
                let [first, second] = [0, 1].map(|i| value(i).unwrap_or_default());
                lookup.relation.row(first, second)
            });
            for used in used {
                // A value outside its table has no row.
                if let Some(count) = used.and_then(|row| counts.get_mut(row)) {
                    *count += BaseField::from(1);
                }
            }
        }
        Ok(counts)
    }

    fn bind(
        &self,
        terms: &[(ColumnId, K)],
        weights: Weights<'_>,
        [outer, inner]: [usize; 2],
    ) -> Result<Vec<K>, DeviceError> {
        let (entries, length): (Vec<(usize, K)>, usize) = match weights {
            Weights::All(weights) => (weights.iter().copied().enumerate().collect(), weights.len()),
            Weights::Some { entries, length } => (entries.to_vec(), length),
        };
        let mut out = vec![K::zero(); outer * inner];
        for (column, factor) in terms {
            let cells = self.cells(*column);
            for (at, out) in out.iter_mut().enumerate() {
                let (o, i) = (at / inner, at % inner);
                let term = |(m, weight): &(usize, K)| *weight * cells[(o * length + m) * inner + i];
                *out += *factor * entries.iter().map(term).sum::<K>();
            }
        }
        Ok(out)
    }

    fn bind_leading(&self, columns: &[ColumnId], point: &[K]) -> Result<Vec<Vec<K>>, DeviceError> {
        let weights = eq_table(point);
        let bind = |column: &ColumnId| {
            let inner = self.cells(*column).len() / weights.len();
            self.bind(&[(*column, K::from(1))], Weights::All(&weights), [1, inner])
        };
        columns.iter().map(bind).collect()
    }

    fn bind_trailing(&self, columns: &[ColumnId], point: &[K]) -> Result<Vec<K>, DeviceError> {
        let weights = eq_table(point);
        let rows = columns
            .iter()
            .flat_map(|column| self.cells(*column).chunks(weights.len()));
        let bind = |row: &[BaseField]| row.iter().zip(&weights).map(|(v, w)| *w * *v).sum();
        Ok(rows.map(bind).collect())
    }

    fn add(&mut self, part: Part, cells: Vec<Column>) -> Result<(), DeviceError> {
        self.0.resize_with(self.0.len().max(part.index() + 1), Vec::new);
        self.0[part.index()] = elements(&cells);
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
        let cells: Vec<BaseField> = columns
            .into_iter()
            .flat_map(|column| self.cells(column))
            .copied()
            .collect();
        let cells = match secrets {
            Some(secrets) => {
                let units = secrets.units(Cells::Elements(&cells).chunks(TILE_AREA).collect());
                units
                    .iter()
                    .flat_map(|unit| (0..unit.len()).map(|i| unit.get(i)))
                    .collect()
            }
            None => cells,
        };
        Ok(Box::new(Codewords::commit(
            suite,
            CommitmentName::Activations,
            cells,
            params,
        )))
    }
}
