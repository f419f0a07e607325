//! Values under pads.

use std::ops::{Add, Mul, Sub};

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use crate::listen::Received;

type K = SecureField;

/// A value that the verifier does not know: `shown - <form, tape>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Padded {
    /// The element that the verifier has: the value with its pads.
    pub shown: K,
    /// The weights of entries of the tape that are not zero, by ascending entry.
    pub form: Vec<(usize, K)>,
}

impl Padded {
    /// A message under the pad of this entry.
    pub fn under(shown: K, entry: usize) -> Self {
        let form = vec![(entry, K::from(BaseField::from_u32_unchecked(1)))];
        Self { shown, form }
    }

    /// The entry whose pad alone it is under, if it is a message as it was received.
    pub fn pad(&self) -> Option<usize> {
        match *self.form {
            [(entry, weight)] if weight == K::from(BaseField::from_u32_unchecked(1)) => Some(entry),
            _ => None,
        }
    }

    /// The sum of both forms, with a sign for the second one.
    fn merge(self, other: Self, sign: impl Fn(K) -> K) -> Vec<(usize, K)> {
        if other.form.is_empty() {
            return self.form;
        }
        let mut merged = Vec::with_capacity(self.form.len() + other.form.len());
        let mut own = self.form.into_iter().peekable();
        for (entry, weight) in other.form {
            while let Some(before) = own.next_if(|(at, _)| *at < entry) {
                merged.push(before);
            }
            let same = own.next_if(|(at, _)| *at == entry);
            merged.push((entry, same.map_or_else(K::default, |(_, weight)| weight) + sign(weight)));
        }
        merged.extend(own);
        merged
    }
}

impl Received for Padded {}

impl From<K> for Padded {
    fn from(shown: K) -> Self {
        let form = Vec::new();
        Self { shown, form }
    }
}

impl Add for Padded {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let shown = self.shown + other.shown;
        let form = self.merge(other, |weight| weight);
        Self { shown, form }
    }
}

impl Sub for Padded {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let shown = self.shown - other.shown;
        let form = self.merge(other, |weight| -weight);
        Self { shown, form }
    }
}

impl Mul<K> for Padded {
    type Output = Self;
    fn mul(mut self, by: K) -> Self {
        self.shown *= by;
        self.form.iter_mut().for_each(|(_, weight)| *weight *= by);
        self
    }
}

impl Mul<BaseField> for Padded {
    type Output = Self;
    fn mul(self, by: BaseField) -> Self {
        self * K::from(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sumcheck::tests::secure;
    use proptest::prelude::*;

    /// The value behind the pads.
    fn open(value: &Padded, tape: &[K]) -> K {
        let pads = value.form.iter().map(|(entry, weight)| *weight * tape[*entry]);
        value.shown - pads.sum::<K>()
    }

    fn padded() -> impl Strategy<Value = Padded> {
        let form = prop::collection::btree_map(0usize..8, secure(), 0..6);
        (secure(), form).prop_map(|(shown, form)| Padded {
            shown,
            form: form.into_iter().collect(),
        })
    }

    proptest! {
        /// Adding, subtracting and scaling padded values does the same to the values behind the pads, and forms stay in order.
        #[test]
        fn values_under_pads_are_a_space(a in padded(), b in padded(), by in secure(), tape in prop::collection::vec(secure(), 8)) {
            let (v, w) = (open(&a, &tape), open(&b, &tape));
            let results = [(a.clone() + b.clone(), v + w), (a.clone() - b, v - w), (a * by, v * by)];
            for (result, expected) in results {
                prop_assert_eq!(open(&result, &tape), expected);
                prop_assert!(result.form.is_sorted_by(|a, b| a.0 < b.0));
            }
        }
    }

    /// A message is under its own pad alone; a sum of two is not.
    #[test]
    fn only_a_message_as_received_has_one_pad() {
        let [a, b] = [2, 5].map(|entry| Padded::under(K::default(), entry));
        assert_eq!(a.pad(), Some(2));
        assert_eq!((a.clone() + b).pad(), None);
        assert_eq!((a.clone() + a).pad(), None);
        assert_eq!(Padded::from(K::default()).pad(), None);
    }
}
