//! The lookup tables of a key, which a verifier makes from the key's parameters.

use std::sync::{Arc, Mutex, PoisonError};

use stwo::core::fields::m31::{BaseField, P};
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

/// The sum of the rows of a column, each with its weight.
pub fn dot(column: &[BaseField], weights: &[SecureField]) -> SecureField {
    const ORDER: u64 = P as u64;
    let mut sums = [0u64; 4];
    for (value, weight) in column.iter().zip(weights) {
        for (sum, own) in sums.iter_mut().zip(weight.to_m31_array()) {
            let product = u64::from(value.0) * u64::from(own.0);
            // `2^31` is 1. What is left is below `2^32`, so that `2^16` rows stay far below `P^2`, up to which `reduce` is exact.
            *sum += (product & ORDER) + (product >> 31);
        }
    }
    SecureField::from_m31_array(sums.map(BaseField::reduce))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the borders of the field, where four products add up to more than `P^2`, and of as many rows as a table has.
    #[test]
    fn sums_of_products_are_exact() {
        let largest = BaseField::from_u32_unchecked(P - 1);
        let weight = |word: u32| SecureField::from_u32_unchecked(word, P - 1, word / 2, 1);
        let cases: [&[u32]; 4] = [
            &[P - 1, P - 1, P - 1, 2],
            &[P - 1; 9],
            &[P - 1; 1 << 16],
            &[1, P - 1, P - 2, 3, P / 2],
        ];
        for words in cases {
            let weights: Vec<SecureField> = words.iter().map(|word| weight(*word)).collect();
            let column = vec![largest; weights.len()];
            let expected = weights.iter().map(|weight| *weight * largest).sum::<SecureField>();
            assert_eq!(dot(&column, &weights), expected, "{} rows", words.len());
        }
    }
}
