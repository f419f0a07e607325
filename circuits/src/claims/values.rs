//! Vectors of weights that many tensors share.

use std::ops::{Deref, Range};
use std::sync::Arc;

use stwo::core::fields::qm31::SecureField;

/// A vector of weights, or a range of it, shared by all that have it: vectors are long, and tensors and lanes many.
#[derive(Clone, Debug)]
pub struct Values<K = SecureField> {
    all: Arc<Vec<K>>,
    range: Range<usize>,
}

impl<K> Values<K> {
    /// Where its entries are in memory. As long as both live, two vectors of one place and length are the same.
    pub(super) fn place(&self) -> usize {
        self.as_ptr() as usize
    }

    /// The parts of so many entries, in order.
    pub(super) fn chunks_of(&self, len: usize) -> impl Iterator<Item = Self> + '_ {
        let starts = self.range.clone().step_by(len.max(1));
        starts.map(move |start| Self {
            all: Arc::clone(&self.all),
            range: start..start.saturating_add(len).min(self.range.end),
        })
    }
}

impl<K> From<Vec<K>> for Values<K> {
    fn from(all: Vec<K>) -> Self {
        let range = 0..all.len();
        let all = Arc::new(all);
        Self { all, range }
    }
}

impl<K> Deref for Values<K> {
    type Target = [K];

    fn deref(&self) -> &[K] {
        self.all.get(self.range.clone()).unwrap_or_default()
    }
}

impl<K: PartialEq> PartialEq for Values<K> {
    fn eq(&self, other: &Self) -> bool {
        (Arc::ptr_eq(&self.all, &other.all) && self.range == other.range) || **self == **other
    }
}
