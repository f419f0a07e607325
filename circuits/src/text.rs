//! Where the text of a statement ends among token rows, and the multilinear extensions of what ends there (docs/protocol.md, section 4).

use crate::mle::{eq_table, index_eq, less_than_eval};
use crate::scalar::{eq_factor, Scalar, Word};

/// The end of a text among token rows, which lie in blocks of `2^block`. The block of the last row follows from the shape; where the
/// text ends within it is a number of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextEnd {
    /// The last row of the text.
    pub last: Word,
    /// log2 of the rows of a block.
    pub block: u32,
}

impl TextEnd {
    /// Returns the number of the block in which the text ends, counted within an aligned range of `2^log` rows that includes the block.
    const fn block_among(self, log: usize) -> usize {
        (self.last.value & ((1 << log) - 1)) >> self.block
    }

    /// Whether the text fills the aligned range of `2^log` rows in which it ends. For symbols the answer is always no, because a symbol
    /// stands for texts that fill the range and for texts that do not.
    pub const fn is_whole<K: Scalar>(self, log: usize) -> bool {
        !K::SYMBOLIC && (self.last.value + 1) & ((1 << log) - 1) == 0
    }

    /// Whether a row belongs to the text, counted within the aligned range of `2^log` rows in which the text ends.
    pub const fn has(self, row: usize, log: usize) -> bool {
        row <= self.last.value & ((1 << log) - 1)
    }

    /// Returns the number of the lane in which the text ends, if `2^log` rows are cut into lanes of `2^log_lane` rows.
    pub const fn lane_among(self, log: usize, log_lane: u32) -> usize {
        (self.last.value & ((1 << log) - 1)) >> log_lane
    }

    fn split<K>(self, point: &[K]) -> (&[K], &[K]) {
        point.split_at(point.len().saturating_sub(self.block as usize))
    }

    /// A table of token rows with zeros behind the text.
    pub fn cut<K: Scalar>(self, mut table: Vec<K>) -> Vec<K> {
        let log = table.len().checked_ilog2().unwrap_or(0) as usize;
        let start = self.block_among(log) << self.block;
        let end = table.len().min(start + (1 << self.block));
        if let Some(own) = table.get_mut(start..end) {
            own.copy_from_slice(&K::part_to(own, self.last));
        }
        table.iter_mut().skip(end).for_each(|v| *v = K::zero());
        table
    }

    /// The sum of `eq(point, i)` over the rows `i` of the text.
    pub fn sum<K: Scalar>(self, point: &[K]) -> K {
        let (blocks, within) = self.split(point);
        let block = self.block_among(point.len());
        less_than_eval(block, blocks) + index_eq(block, blocks) * K::sum_to(&eq_table(within), self.last)
    }

    /// The sum of `eq(a, i) eq(b, i)` over the rows `i` of the text: the extension of `eq(a, .)` without what is behind the text, at `b`.
    pub fn eval<K: Scalar>(self, a: &[K], b: &[K]) -> K {
        let block = self.block_among(a.len());
        let ((a, a_within), (b, b_within)) = (self.split(a), self.split(b));
        // Bit by bit from the first one: the blocks before the last block of the text, and this block itself.
        let (mut less, mut same) = (K::zero(), K::one());
        for (bit, (a, b)) in (0..a.len()).rev().zip(a.iter().zip(b)) {
            let one = *a * *b;
            let zero = eq_factor(*a, *b) - one;
            less *= zero + one;
            if (block >> bit) & 1 == 1 {
                less += same * zero;
                same *= one;
            } else {
                same *= zero;
            }
        }
        less * K::eq_eval(a_within, b_within) + same * K::sum_to(&products(a_within, b_within), self.last)
    }

    /// The sum of `eq(row, i) eq(key, j) eq(u, i) eq(v, j)` over `j <= i`, `i` up to where the text ends, in its last block.
    pub fn causal<K: Scalar>(self, [row, key]: [&[K]; 2], [u, v]: [&[K]; 2]) -> K {
        self.causal_sum(&products(row, u), &products(key, v))
    }

    /// The sum of `rows[i] keys[j]` over `j <= i`, `i` up to where the text ends, in its last block.
    pub fn causal_sum<K: Scalar>(self, rows: &[K], keys: &[K]) -> K {
        let mut open = K::zero();
        let of_row = |(row, key): (&K, &K)| {
            open += *key;
            *row * open
        };
        let rows: Vec<K> = rows.iter().zip(keys).map(of_row).collect();
        K::sum_to(&rows, self.last)
    }
}

/// `eq(a, .) eq(b, .)`, entry by entry.
pub(crate) fn products<K: Scalar>(a: &[K], b: &[K]) -> Vec<K> {
    let both = eq_table(a).into_iter().zip(eq_table(b));
    both.map(|(a, b)| a * b).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stwo::core::fields::qm31::SecureField as K;

    use super::*;
    use crate::scalar::Source;

    fn point(seed: u32, log: usize) -> Vec<K> {
        (0..log as u32)
            .map(|i| K::from_u32_unchecked(seed + 7 * i, 3 * i + 1, seed * i, 5))
            .collect()
    }

    proptest! {
        /// In blocks of 1 to 16 rows and lanes of any length that have whole blocks, wherever the text ends.
        #[test]
        fn what_ends_with_the_text_is_what_its_table_says(
            block in 0u32..5, more in 0usize..4, rest in any::<usize>(), seed in 1u32..1000,
        ) {
            let log = block as usize + more;
            let last = rest % (3 << log);
            let end = TextEnd { last: Word::new(last, Source::LastRow), block };
            let (a, b) = (point(seed, log), point(seed + 1, log));
            let within = last % (1 << log);
            let (of_a, of_b) = (eq_table(&a), eq_table(&b));
            let cut: Vec<K> = of_a.iter().enumerate().map(|(i, v)| if i <= within { *v } else { K::default() }).collect();
            prop_assert_eq!(&end.cut(of_a), &cut);
            prop_assert_eq!(end.sum(&a), K::sum_of(&cut));
            prop_assert_eq!(end.eval(&a, &b), K::dot(&cut, &of_b));
            prop_assert_eq!(end.is_whole::<K>(log), within + 1 == 1 << log);
            if more == 0 {
                let of = |(i, row): (usize, &K)| *row * K::sum_of(&of_b[..=i]);
                let open: K = cut.iter().enumerate().map(of).sum();
                prop_assert_eq!(end.causal_sum(&eq_table(&a), &of_b), open);
            }
        }
    }
}
