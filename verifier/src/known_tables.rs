//! The lookup tables of a key, which a verifier makes from the key's parameters.

use std::sync::{Arc, Mutex, PoisonError};

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::TableColumn;
use tessera_circuits::air::tables::{LookupTables, TableParams};
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::{ModelConfig, ModelParams};

/// The tables that were made last: a key has many proofs, and a proof many chunks.
static LAST: Mutex<Option<Arc<LookupTables>>> = Mutex::new(None);

/// Tables, to be evaluated.
pub struct Known(Arc<LookupTables>);

/// The tables of a model.
pub fn tables(params: &ModelParams, config: &ModelConfig) -> Known {
    let own = TableParams::of(params, config);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tables) = last.as_ref().filter(|known| known.params == own) {
        return Known(Arc::clone(tables));
    }
    let tables = Arc::new(LookupTables::from(own));
    *last = Some(Arc::clone(&tables));
    Known(tables)
}

impl Known {
    /// All columns, row by row.
    pub fn columns(&self) -> &[Vec<BaseField>] {
        &self.0.columns
    }

    /// The multilinear extension of a column at a point; zero of a column that no relation of the model has.
    pub fn at(&self, column: TableColumn, point: &[SecureField]) -> SecureField {
        let own = self.0.column(column).unwrap_or_default();
        dot(own, &eq_table(point))
    }
}

/// Products of elements that add up in 64 bits: `4 (P - 1)^2 < (2 P)^2`, up to which [`BaseField::reduce`] is exact.
const PRODUCTS: usize = 4;

/// The sum of the rows of a column, each with its weight.
pub fn dot(column: &[BaseField], weights: &[SecureField]) -> SecureField {
    let mut sums = [0u64; 4];
    for (values, weights) in column.chunks(PRODUCTS).zip(weights.chunks(PRODUCTS)) {
        let mut products = [0u64; 4];
        for (value, weight) in values.iter().zip(weights) {
            let terms = weight.to_m31_array().map(|own| u64::from(value.0) * u64::from(own.0));
            products.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        }
        let reduced = products.map(|sum| u64::from(BaseField::reduce(sum).0));
        sums.iter_mut().zip(reduced).for_each(|(sum, own)| *sum += own);
    }
    SecureField::from_m31_array(sums.map(BaseField::reduce))
}
