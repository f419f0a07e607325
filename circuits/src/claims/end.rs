//! The point where the sumcheck of the linear claims ends, and the multilinear extensions of weights there.

use std::collections::BTreeMap;

use super::lazy::Products;
use super::weight::{Tensor, Weight};
use crate::band::Band;
use crate::mle::{eq_eval, eq_table, index_eq};
use crate::scalar::Scalar;
use crate::text::products;

/// `sum_(j <= i) eq(a, i) eq(u, i) eq(b, j) eq(v, j)`, bit by bit from the first: with the bits of `i` and `j` equal so far, or `j`
/// below `i`.
fn causal<K: Scalar>(a: &[K], b: &[K], u: &[K], v: &[K]) -> K {
    let one = K::one();
    let (mut equal, mut below) = (one, K::zero());
    for ((a, u), (b, v)) in a.iter().zip(u).zip(b.iter().zip(v)) {
        let [i0, i1] = [(one - *a) * (one - *u), *a * *u];
        let [j0, j1] = [(one - *b) * (one - *v), *b * *v];
        below = below * (i0 + i1) * (j0 + j1) + equal * i1 * j0;
        equal *= i0 * j0 + i1 * j1;
    }
    equal + below
}

/// Whether so many entries of a table of `2^length` take fewer products one by one than all of them do.
const fn is_few(entries: usize, length: usize) -> bool {
    entries * length < 1 << length
}

/// A point at which many weights are evaluated: the tables of `eq` of its ranges are made once.
pub(super) struct End<'a, K> {
    point: &'a [K],
    tables: BTreeMap<(usize, usize), Vec<K>>,
    products: Products<K>,
}

impl<'a, K: Scalar> End<'a, K> {
    pub(super) const fn new(point: &'a [K]) -> Self {
        Self {
            point,
            tables: BTreeMap::new(),
            products: Products::new(),
        }
    }

    /// Multilinear extension of a weight at the coordinates from `start` on; zero where there are too few, which does not
    /// happen, as weights have the lengths of axes.
    fn eval(&mut self, weight: &Weight<K>, start: usize) -> K {
        let length = weight.log_len() as usize;
        let Some(own) = self.point.get(start..start + length) else {
            return K::zero();
        };
        let zero = K::zero();
        match weight {
            Weight::Eq(point) => eq_eval(point, own).unwrap_or_default(),
            Weight::Text(point, end) => end.eval(point, own),
            // Few entries are cheaper one by one than in a table of all.
            Weight::Dense(values) if is_few(values.iter().filter(|value| !value.is_zero()).count(), length) => {
                let set = values.iter().enumerate().filter(|(_, value)| !value.is_zero());
                set.map(|(i, value)| *value * index_eq(i, own)).sum()
            }
            Weight::Dense(values) => K::dot(values, self.table(start, own)),
            Weight::Lazy(lazy) => {
                let table = self.tables.entry((start, own.len()));
                let table = table.or_insert_with(|| eq_table(own));
                lazy.dot(table, start, &mut self.products)
            }
            Weight::Ones(_) => K::one(),
            Weight::Sparse(_, entries) if is_few(entries.len(), length) => {
                entries.iter().map(|(i, value)| *value * index_eq(*i, own)).sum()
            }
            Weight::Sparse(_, entries) => {
                let table = self.table(start, own);
                let terms = entries.iter().filter_map(|(i, value)| Some(*value * *table.get(*i)?));
                terms.fold(zero, |sum, term| sum + term)
            }
            Weight::Open(row, key, band, end) => {
                let (u, v) = own.split_at(row.len().min(own.len()));
                match (*band, end) {
                    (Band::CAUSAL, Some(end)) => end.causal([row, key], [u, v]),
                    (Band::CAUSAL, None) => causal(row, key, u, v),
                    _ => band.sum(&products(row, u), &products(key, v), *end),
                }
            }
        }
    }

    /// `eq(own, .)`, of the coordinates from `start` on.
    fn table(&mut self, start: usize, own: &[K]) -> &[K] {
        let table = self.tables.entry((start, own.len()));
        table.or_insert_with(|| eq_table(own))
    }

    /// `W~` of a sum of tensor products.
    pub(super) fn eval_sum(&mut self, tensors: &[Tensor<K>]) -> K {
        let mut sum = K::zero();
        for tensor in tensors {
            let mut start = 0;
            let factors = tensor.iter().map(|weight| {
                let own = self.eval(weight, start);
                start += weight.log_len() as usize;
                own
            });
            sum += K::product(&factors.collect::<Vec<_>>());
        }
        sum
    }
}
