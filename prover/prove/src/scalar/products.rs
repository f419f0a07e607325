//! Sums of products of tables.

use num_traits::Zero;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::mle::fold_msb_in_place;

use crate::device::{DeviceError, Products, Rounds, Table};

type K = SecureField;

/// The tables of a sum of products.
pub(super) struct Pairs(Vec<[Vec<K>; 2]>);

impl Pairs {
    pub fn new(pairs: Vec<(Table, Table)>) -> Self {
        let pairs = pairs.into_iter().map(|(a, b)| [a.into_entries(), b.into_entries()]);
        Self(pairs.collect())
    }
}

impl Rounds for Pairs {
    fn message(&self) -> Result<[K; 2], DeviceError> {
        let mut message = [K::zero(); 2];
        for [a, b] in &self.0 {
            let half = a.len() / 2;
            for z in 0..half {
                let at_2 = |table: &[K]| table[half + z] + table[half + z] - table[z];
                message[0] += a[z] * b[z];
                message[1] += at_2(a) * at_2(b);
            }
        }
        Ok(message)
    }

    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError> {
        let tables = self.0.iter_mut().flatten();
        tables.for_each(|table| fold_msb_in_place(table, challenge));
        self.message()
    }

    fn finish(&self) -> Result<Vec<K>, DeviceError> {
        Ok(self.0.iter().flatten().map(|table| table[0]).collect())
    }
}

impl Products for Pairs {
    fn value(&self) -> Result<K, DeviceError> {
        let products = self.0.iter().flat_map(|[a, b]| a.iter().zip(b));
        Ok(products.map(|(a, b)| *a * *b).sum())
    }
}
