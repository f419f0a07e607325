//! Pairs of a query and a key in a pair of blocks of tokens, by how far apart they stand in their blocks, and the multilinear extensions of
//! such masks (docs/protocol.md, section 16.15).

use std::ops::Range;

use crate::scalar::Scalar;
use crate::text::TextEnd;

/// The pairs of the query `i` and the key `j` in their blocks for which `from <= i - j < to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The least difference.
    pub from: i32,
    /// The first difference that is too large.
    pub to: i32,
}

impl Band {
    /// Keys up to the query.
    pub const CAUSAL: Self = Self { from: 0, to: i32::MAX };

    /// Whether a query and a key of it are a pair.
    pub const fn has(self, query: usize, key: usize) -> bool {
        let difference = query as i64 - key as i64;
        self.from as i64 <= difference && difference < self.to as i64
    }

    /// The keys that a query sees, of blocks of so many tokens.
    fn keys(self, query: usize, tokens: usize) -> Range<usize> {
        let least = |difference: i32| (query as i64 - i64::from(difference) + 1).clamp(0, tokens as i64) as usize;
        least(self.to)..least(self.from)
    }

    /// The sum of `rows[i] keys[j]` over the pairs. With the end of the text, queries behind it are left out.
    pub fn sum<K: Scalar>(self, rows: &[K], keys: &[K], end: Option<TextEnd>) -> K {
        let mut sums = vec![K::zero()];
        for key in keys {
            sums.push(*key + sums.last().copied().unwrap_or_default());
        }
        let at = |key: usize| sums.get(key).copied().unwrap_or_default();
        let of_row = |(query, row): (usize, &K)| {
            let own = self.keys(query, keys.len());
            match own.is_empty() {
                true => K::zero(),
                false => *row * (at(own.end) - at(own.start)),
            }
        };
        let rows: Vec<K> = rows.iter().enumerate().map(of_row).collect();
        match end {
            Some(end) => K::sum_to(&rows, end.last),
            None => K::sum_of(&rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use stwo::core::fields::qm31::SecureField as K;

    use super::*;
    use crate::scalar::{Source, Word};

    /// A test of every band in blocks of 1 to 16 tokens, wherever the text ends.
    #[test]
    fn sums_are_those_of_the_pairs() {
        for block in 0..5u32 {
            let tokens = 1usize << block;
            let value = |i: usize| K::from_u32_unchecked(3 * i as u32 + 1, 7, i as u32, 5);
            let (rows, keys): (Vec<K>, Vec<K>) = (0..tokens).map(|i| (value(i), value(2 * i + 40))).unzip();
            let all = tokens as i32;
            for (from, to) in (-all..=all).flat_map(|from| (-all..=all + 1).map(move |to| (from, to))) {
                let band = Band { from, to };
                for last in (0..tokens).map(Some).chain([None]) {
                    let own = |i: &usize| last.is_none_or(|last| *i <= last);
                    let pairs = (0..tokens).filter(own).flat_map(|i| (0..tokens).map(move |j| (i, j)));
                    let pairs = pairs.filter(|(i, j)| (from..to).contains(&(*i as i32 - *j as i32)));
                    let expected: K = pairs.map(|(i, j)| rows[i] * keys[j]).sum();
                    let end = last.map(|last| TextEnd {
                        last: Word::new(last, Source::LastRow),
                        block,
                    });
                    assert_eq!(
                        band.sum(&rows, &keys, end),
                        expected,
                        "{band:?}, {tokens} tokens, {last:?}"
                    );
                }
            }
        }
    }
}
