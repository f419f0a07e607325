//! What the terms of claims are made of.

use crate::air::base;
use crate::claims::{Group, LinearClaim, Weight};
use crate::scalar::Scalar;
use crate::shape::Part;

pub(crate) fn power<K: Scalar>(x: K, n: usize) -> K {
    (0..n).fold(K::one(), |acc, _| acc * x)
}

pub(crate) fn felt<K: Scalar>(v: i64) -> K {
    base(v).into()
}

/// A vector along an axis of `2^log` entries, zero beyond `values`.
pub(crate) fn padded<K: Scalar>(mut values: Vec<K>, log: u32) -> Weight<K> {
    values.resize(1 << log, K::zero());
    Weight::dense(values)
}

pub(crate) fn eq<K: Scalar>(point: &[K]) -> Weight<K> {
    Weight::Eq(point.to_vec())
}

/// A claim on one group of columns, of value zero.
pub(crate) fn claim<K: Scalar>(
    name: &'static str,
    part: Part,
    weights: Vec<Weight<K>>,
    columns: Vec<(usize, K)>,
) -> LinearClaim<K> {
    LinearClaim::of(name, vec![Group::new(part, weights, columns)])
}

/// The products of entries.
pub(crate) fn times<K: Scalar>(a: &[K], b: &[K]) -> Vec<K> {
    a.iter().zip(b).map(|(a, b)| *a * *b).collect()
}
