//! Sums of the entries of slabs of a table, each times a weight, sixteen at a time.

use std::simd::num::SimdUint;
use std::simd::{u16x16, u64x8};

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};

use super::folded::{reduce, Coordinates, GROUP, SHORT_PRODUCTS};
use crate::column::Cells;
use crate::field::{self, even, odd, Words, SIMD_LANES};

/// The weights of all entries of a slab, sixteen to a vector, by coordinate; after the last entry they are zero.
pub(super) struct Spread {
    vectors: Vec<[Words; SECURE_EXTENSION_DEGREE]>,
    pub entries: usize,
}

impl Spread {
    pub fn new(weights: &[Coordinates], inner: usize) -> Self {
        let entries = weights.len() * inner;
        let mut vectors = vec![[[0; SIMD_LANES]; SECURE_EXTENSION_DEGREE]; entries.div_ceil(SIMD_LANES)];
        for (m, weight) in weights.iter().enumerate() {
            for entry in m * inner..(m + 1) * inner {
                let own = &mut vectors[entry / SIMD_LANES];
                own.iter_mut()
                    .zip(weight)
                    .for_each(|(words, word)| words[entry % SIMD_LANES] = *word);
            }
        }
        Self {
            vectors: vectors.into_iter().map(|own| own.map(Words::from_array)).collect(),
            entries,
        }
    }
}

/// Sums of products in even and odd lanes, by coordinate.
#[derive(Clone, Copy)]
pub(super) struct Sums([[u64x8; 2]; SECURE_EXTENSION_DEGREE]);

impl Sums {
    pub const ZERO: Self = Self([[u64x8::splat(0); 2]; SECURE_EXTENSION_DEGREE]);

    /// Adds the products of a vector and the weights of its entries, without folding.
    #[inline(always)]
    fn add(&mut self, values: Words, weights: &[Words; SECURE_EXTENSION_DEGREE]) {
        for (sums, weights) in self.0.iter_mut().zip(weights) {
            sums[0] += even(values) * even(*weights);
            sums[1] += odd(values) * odd(*weights);
        }
    }

    /// Adds the folded sums of others.
    // Loops, as iterators here are not unrolled.
    #[inline(always)]
    fn add_folded(&mut self, others: Self) {
        for (sums, others) in self.0.iter_mut().zip(others.0) {
            sums[0] += field::fold(others[0]);
            sums[1] += field::fold(others[1]);
        }
    }

    /// Adds the vectors of a slab, whose cells have their offset, from `first` on, `step` apart, times their weights.
    pub fn add_slab(&mut self, slab: Cells<'_>, weights: &Spread, first: usize, step: usize) {
        match slab {
            Cells::Small { cells, sign } => {
                let vector = |cells| (u16x16::from_array(cells) ^ u16x16::splat(sign)).cast();
                self.add_vectors::<SHORT_PRODUCTS, _>(cells, vector, weights, first, step);
            }
            Cells::Elements(cells) => {
                let vector = |cells: [BaseField; SIMD_LANES]| Words::from_array(cells.map(|v| v.0));
                self.add_vectors::<GROUP, _>(cells, vector, weights, first, step);
            }
        }
    }

    /// Adds the cells of a slab as [`Self::add_slab`] does. `vector` makes a vector of sixteen of them, and `FEW` products with it fit 64 bits.
    #[inline(always)]
    fn add_vectors<const FEW: usize, T: Copy + Default>(
        &mut self,
        cells: &[T],
        vector: impl Fn([T; SIMD_LANES]) -> Words,
        weights: &Spread,
        first: usize,
        step: usize,
    ) {
        let (whole, rest) = cells.as_chunks::<SIMD_LANES>();
        let vectors = whole.len().min(weights.vectors.len());
        let mut at = first;
        while at < vectors {
            let (end, mut sums) = (vectors.min(at + FEW * step), Self::ZERO);
            while at < end {
                sums.add(vector(whole[at]), &weights.vectors[at]);
                at += step;
            }
            self.add_folded(sums);
        }
        if at == whole.len() && !rest.is_empty() {
            let (mut last, mut sums) = ([T::default(); SIMD_LANES], Self::ZERO);
            last[..rest.len()].copy_from_slice(rest);
            sums.add(vector(last), &weights.vectors[at]);
            self.add_folded(sums);
        }
    }

    /// The sums of the lanes from `first` on, `step` apart, a power of two.
    #[inline(always)]
    pub fn total(&self, first: usize, step: usize) -> SecureField {
        let lane = |[even, odd]: &[u64x8; 2], lane: usize| {
            if lane.is_multiple_of(2) {
                even[lane / 2]
            } else {
                odd[lane / 2]
            }
        };
        reduce(self.0.each_ref().map(|sums| match step {
            1 => (sums[0] + sums[1]).reduce_sum(),
            _ => (first..SIMD_LANES).step_by(step).map(|i| lane(sums, i)).sum(),
        }))
    }
}
