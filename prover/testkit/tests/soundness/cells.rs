//! The cells of one row of a part, which an attack overwrites.

use stwo::core::fields::m31::BaseField;
use tessera_prover::trace::Columns;

/// A row of the columns of a part.
pub struct Cells<'a> {
    pub columns: &'a mut Columns,
    pub row: usize,
}

impl Cells<'_> {
    pub fn at(&mut self, column: usize) -> &mut BaseField {
        &mut self.columns[column][self.row]
    }

    pub fn get(&self, column: usize) -> i64 {
        self.columns[column][self.row].0.into()
    }
}
