//! Sums of rows of tables, each times a weight, entry by entry.

use std::simd::num::SimdUint;
use std::simd::{u16x8, u32x8, u64x8};

use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};

use super::folded::{reduce, Coordinates, BLOCK, GROUP, SHORT_PRODUCTS};
use crate::column::Cells;
use crate::field;

/// Sums of rows of up to [`BLOCK`] entries, each times a weight: by coordinate and entry, eight to a vector.
#[derive(Clone)]
struct RowSums {
    sums: [[u64x8; BLOCK / 8]; SECURE_EXTENSION_DEGREE],
    /// Products of short cells since the sums were folded.
    short: usize,
}

impl RowSums {
    const ZERO: Self = Self {
        sums: [[u64x8::splat(0); BLOCK / 8]; SECURE_EXTENSION_DEGREE],
        short: 0,
    };

    /// Adds rows of `width` entries from entry `from` of each table on, times their weights; cells have their offset.
    fn add(&mut self, tables: [Cells<'_>; GROUP], from: [usize; GROUP], weights: &[Coordinates; GROUP], width: usize) {
        let short = tables.map(|table| table.short());
        if let ([Some(a), Some(b), Some(c), Some(d)], BLOCK) = (short, width) {
            return self.add_short([a, b, c, d], from, weights);
        }
        for ((table, from), weight) in tables.into_iter().zip(from).zip(weights) {
            self.add_row(table, from, weight, width);
        }
    }

    /// Adds whole rows of cells of sixteen bits, as [`Self::add`] does, but folds later: many of their products fit 64 bits.
    #[inline(always)]
    fn add_short(&mut self, tables: [(&[u16], u16); GROUP], from: [usize; GROUP], weights: &[Coordinates; GROUP]) {
        if self.short > SHORT_PRODUCTS - GROUP {
            let sums = self.sums.as_flattened_mut().iter_mut();
            sums.for_each(|sum| *sum = field::fold(*sum));
            self.short = 0;
        }
        self.short += GROUP;
        let by_coordinate = |c: usize| weights.map(|own| u64x8::splat(u64::from(own[c])));
        let weights: [[u64x8; GROUP]; SECURE_EXTENSION_DEGREE] = std::array::from_fn(by_coordinate);
        let rows: [&[[u16; 8]]; GROUP] = std::array::from_fn(|g| tables[g].0[from[g]..][..BLOCK].as_chunks().0);
        let signs = tables.map(|(_, sign)| u16x8::splat(sign));
        (0..BLOCK / 8).for_each(|v| {
            let words: [u64x8; GROUP] = std::array::from_fn(|g| (u16x8::from_array(rows[g][v]) ^ signs[g]).cast());
            for (sums, weights) in self.sums.iter_mut().zip(&weights) {
                sums[v] += words
                    .iter()
                    .zip(weights)
                    .map(|(word, weight)| word * weight)
                    .sum::<u64x8>();
            }
        });
    }

    /// Adds a row of any cells, whose products are folded.
    fn add_row(&mut self, table: Cells<'_>, from: usize, weight: &Coordinates, width: usize) {
        let mut words = [0; BLOCK];
        table.read_with_offset(from, &mut words[..width]);
        for (sums, w) in self.sums.iter_mut().zip(weight) {
            let w = u64x8::splat(u64::from(*w));
            for (sum, words) in sums.iter_mut().zip(words.as_chunks().0) {
                let words: u64x8 = u32x8::from_array(*words).cast();
                *sum += field::fold(words * w);
            }
        }
    }

    pub fn total(&self, lane: usize) -> SecureField {
        reduce(self.sums.each_ref().map(|sums| sums[lane / 8][lane % 8]))
    }
}

/// Sums of rows of several blocks: few tables are read at a time, and of each some lines one after the other.
pub(super) struct WideSums(Vec<RowSums>);

impl WideSums {
    pub fn new(width: usize) -> Self {
        Self(vec![RowSums::ZERO; width.div_ceil(BLOCK)])
    }

    /// Adds rows of `width` entries, each from an entry of a table on, times their weights; cells have their offset.
    pub fn add<'a>(&mut self, rows: impl Fn(usize) -> (Cells<'a>, usize), weights: &[Coordinates], width: usize) {
        let (groups, rest) = weights.as_chunks::<GROUP>();
        let part = |block: usize| (block * BLOCK, BLOCK.min(width - block * BLOCK));
        for (i, group) in groups.iter().enumerate() {
            let own: [(Cells<'a>, usize); GROUP] = std::array::from_fn(|g| rows(GROUP * i + g));
            let (tables, from) = (own.map(|(table, _)| table), own.map(|(_, from)| from));
            for (block, sums) in self.0.iter_mut().enumerate() {
                let (at, width) = part(block);
                sums.add(tables, from.map(|from| from + at), group, width);
            }
        }
        for (i, weight) in rest.iter().enumerate() {
            let (table, from) = rows(weights.len() - rest.len() + i);
            for (block, sums) in self.0.iter_mut().enumerate() {
                let (at, width) = part(block);
                sums.add_row(table, from + at, weight, width);
            }
        }
    }

    /// The sums of `width` entries.
    pub fn totals(&self, width: usize) -> Vec<SecureField> {
        (0..width).map(|i| self.0[i / BLOCK].total(i % BLOCK)).collect()
    }
}
