//! What the terms of claims are made of.

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;

use crate::air::base;
use crate::claims::Weight;

pub(super) type K = SecureField;

pub(super) fn power(x: K, n: usize) -> K {
    (0..n).fold(K::one(), |acc, _| acc * x)
}

pub(super) fn felt(v: i64) -> K {
    base(v).into()
}

/// A vector along an axis of `2^log` entries, zero beyond `values`.
pub(super) fn padded(mut values: Vec<K>, log: u32) -> Weight {
    values.resize(1 << log, K::zero());
    Weight::dense(values)
}

pub(super) fn eq(point: &[K]) -> Weight {
    Weight::Eq(point.to_vec())
}
