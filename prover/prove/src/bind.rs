//! Binding variables of columns to points: what turns committed tensors into the short tables
//! that a sumcheck runs on. Products of a base field element with a coordinate of a secure field element
//! are summed four at a time in 64 bits before they are reduced.

use std::simd::num::SimdUint;
use std::simd::u64x8;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use tessera_circuits::mle;
use tessera_circuits::scalar::Scalar;

use crate::column::Cells;
use crate::field::{self, even, odd, Factor, Packed, Sum, Words, SIMD_LANES};

/// Entries of a row that are summed together when rows are long.
const BLOCK: usize = 64;
/// Rows of so many entries, or of a part of them, are summed in vectors.
const SHORT: usize = 32;
/// Vectors of sums that are kept while tables are read one after the other.
const ROWS: usize = 16;
/// Entries of a table that are read at a time, if a slab has no more.
const BLOCK_ENTRIES: usize = 1 << 11;
/// Products that fit 64 bits: `4 (2^31 - 1)^2 < 2^64`.
const GROUP: usize = 4;
/// Base field entries worth a task of their own.
const GRAIN: usize = 1 << 15;

/// Coordinates of a secure field element.
type Coordinates = [u32; SECURE_EXTENSION_DEGREE];

/// `out[o][i] = sum_m weights[m] table[o][m][i]` for a table laid out as `[outer][weights.len()][inner]`;
/// the result is laid out as `[outer][inner]`.
///
/// # Panics
/// If the table does not have `outer * weights.len() * inner` entries.
pub fn bind_middle(table: Cells<'_>, outer: usize, weights: &[SecureField], inner: usize) -> Vec<SecureField> {
    bind_sum(&[(table, SecureField::one())], outer, weights, inner)
}

/// The sum of what [`bind_middle`] makes of several tables, each times a factor; sums are reduced once for all tables.
///
/// # Panics
/// As [`bind_middle`].
pub fn bind_sum(
    terms: &[(Cells<'_>, SecureField)],
    outer: usize,
    weights: &[SecureField],
    inner: usize,
) -> Vec<SecureField> {
    let slab = weights.len() * inner;
    for (table, _) in terms {
        assert_eq!(
            table.len(),
            outer * slab,
            "entries of a table [{outer}][{}][{inner}]",
            weights.len()
        );
    }
    let mut out = vec![SecureField::zero(); outer * inner];
    if slab == 0 || outer == 0 || terms.is_empty() {
        return out;
    }
    let scaled = |factor: SecureField| -> Vec<Coordinates> {
        let coordinates = |weights: &[SecureField]| weights.iter().map(|w| w.to_m31_array().map(|c| c.0)).collect();
        if factor.is_one() {
            return coordinates(weights);
        }
        let mut own = vec![SecureField::zero(); weights.len()];
        add_scaled(&mut own, weights, factor);
        coordinates(&own)
    };
    if let [weight] = weights {
        let (tables, factors): (Vec<Cells<'_>>, Vec<SecureField>) = terms.iter().copied().unzip();
        let factors: Vec<SecureField> = factors.into_iter().map(|factor| factor * *weight).collect();
        return combine(&tables, &factors, outer * inner);
    }
    let least = |rows: usize| GRAIN.div_ceil(slab * rows * terms.len());
    if SHORT.is_multiple_of(inner) {
        let spread = |(table, factor): &(_, _)| (*table, Spread::new(&scaled(*factor), inner));
        let terms: Vec<(Cells<'_>, Spread)> = terms.iter().map(spread).collect();
        let rows = (BLOCK_ENTRIES / slab).clamp(1, ROWS * SIMD_LANES / inner.max(SIMD_LANES));
        out.par_chunks_mut(rows * inner)
            .with_min_len(least(rows))
            .enumerate()
            .for_each(|(i, out)| bind_short_rows(&terms, i * rows * slab, inner, out));
    } else {
        let scale = |(table, factor): &(_, _)| (*table, scaled(*factor));
        let terms: Vec<(Cells<'_>, Vec<Coordinates>)> = terms.iter().map(scale).collect();
        out.par_chunks_mut(inner)
            .with_min_len(least(1))
            .enumerate()
            .for_each(|(i, out)| bind_long_rows(&terms, i * slab, out));
    }
    out
}

/// Binds the first `point.len()` variables of a table: `out[z] = sum_m eq(point, m) table[m][z]`.
///
/// # Panics
/// If the length of the table is not a multiple of `2^point.len()`.
pub fn bind_leading(table: Cells<'_>, point: &[SecureField]) -> Vec<SecureField> {
    bind_middle(table, 1, &eq_table(point), table.len() >> point.len())
}

/// Binds the last `point.len()` variables of tables, one after the other: `out[z] = sum_m table[z][m] eq(point, m)`.
///
/// # Panics
/// If the length of a table is not a multiple of `2^point.len()`.
pub fn bind_trailing(tables: &[Cells<'_>], point: &[SecureField]) -> Vec<SecureField> {
    let weights: Vec<Coordinates> = eq_table(point).iter().map(|w| w.to_m31_array().map(|c| c.0)).collect();
    let spread = Spread::new(&weights, 1);
    let row = |row: Cells<'_>| {
        assert_eq!(row.len(), weights.len(), "rows of a table");
        let mut sums = Sums::ZERO;
        sums.add_slab(row, &spread, 0, 1);
        sums.total(0, 1)
    };
    let rows = tables.par_iter().flat_map_iter(|table| table.chunks(weights.len()));
    rows.map(row).collect()
}

/// `sum of weight * column`, row by row, of columns of `rows` rows.
pub fn combine(columns: &[Cells<'_>], weights: &[SecureField], rows: usize) -> Vec<SecureField> {
    let weights: Vec<Coordinates> = weights.iter().map(|k| k.to_m31_array().map(|c| c.0)).collect();
    let mut out = vec![SecureField::zero(); rows];
    out.par_chunks_mut(BLOCK)
        .with_min_len(16)
        .enumerate()
        .for_each(|(block, out)| {
            let mut sums = [[0u64; BLOCK]; SECURE_EXTENSION_DEGREE];
            let start = block * BLOCK;
            let mut at = 0;
            if out.len() == BLOCK {
                for group in weights.as_chunks::<GROUP>().0 {
                    let mut rows = [[0; BLOCK]; GROUP];
                    let own = rows.iter_mut().zip(&columns[at..]);
                    own.for_each(|(row, column)| column.read(start, row));
                    for (c, sums) in sums.iter_mut().enumerate() {
                        add_group(sums, &rows, group.map(|w| u64::from(w[c])));
                    }
                    at += GROUP;
                }
            }
            for (m, weight) in weights.iter().enumerate().skip(at) {
                add_row(&mut sums, columns[m].range(start..start + out.len()), weight);
            }
            for (i, out) in out.iter_mut().enumerate() {
                *out = reduce(sums.each_ref().map(|s| s[i]));
            }
        });
    out
}

/// The MLE of a table at `point`, in parallel.
///
/// # Panics
/// If the table does not have `2^point.len()` entries.
pub fn eval_base(table: Cells<'_>, point: &[SecureField]) -> SecureField {
    let (leading, trailing) = point.split_at(point.len() / 2);
    let rows = bind_trailing(&[table], trailing);
    mle::eq_table(leading).iter().zip(&rows).map(|(&w, &v)| w * v).sum()
}

/// [`mle::eq_table`], in parallel: the product of the tables of the two halves of the point.
pub fn eq_table(point: &[SecureField]) -> Vec<SecureField> {
    let (leading, trailing) = point.split_at(point.len() / 2);
    let (rows, row) = (mle::eq_table(leading), mle::eq_table(trailing));
    let (packs, _) = row.as_chunks::<SIMD_LANES>();
    if packs.is_empty() {
        return mle::eq_table(point);
    }
    let packs: Vec<_> = packs.iter().map(Packed::from_array).collect();
    let mut out = vec![SecureField::zero(); rows.len() * row.len()];
    out.par_chunks_mut(row.len())
        .zip(&rows)
        .with_min_len((GRAIN / 4).div_ceil(row.len()))
        .for_each(|(out, &r)| {
            let factor = Factor::new(r);
            for (out, pack) in out.as_chunks_mut::<SIMD_LANES>().0.iter_mut().zip(&packs) {
                *out = (*pack * factor).to_array();
            }
        });
    out
}

/// `sum_i a_i b_i`, of tables of equal length.
pub fn dot(a: &[SecureField], b: &[SecureField]) -> SecureField {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<SIMD_LANES>(), b.as_chunks::<SIMD_LANES>());
    let mut sum = Sum::ZERO;
    for (a, b) in a.iter().zip(b) {
        sum.add(Packed::from_array(a), Packed::from_array(b));
    }
    sum.packed().total() + <SecureField as Scalar>::dot(a_rest, b_rest)
}

/// Adds `factor * values` to `sums`, entry by entry.
pub fn add_scaled(sums: &mut [SecureField], values: &[SecureField], factor: SecureField) {
    let (packs, rest) = sums.as_chunks_mut::<SIMD_LANES>();
    let (values, last) = values.as_chunks::<SIMD_LANES>();
    let scale = Factor::new(factor);
    for (sums, values) in packs.iter_mut().zip(values) {
        *sums = (Packed::from_array(sums) + Packed::from_array(values) * scale).to_array();
    }
    rest.iter_mut().zip(last).for_each(|(sum, v)| *sum += factor * *v);
}

/// Folds the high bits of a sum: congruent modulo `P`, below `2^34`.
const fn fold(v: u64) -> u64 {
    (v & P as u64) + (v >> 31)
}

/// A secure field element from sums of at most `2^28` folded values per coordinate.
fn reduce(sums: [u64; SECURE_EXTENSION_DEGREE]) -> SecureField {
    SecureField::from_m31_array(sums.map(|v| BaseField::reduce(fold(v))))
}

/// Adds `sum_g x_g w_g` per lane to `sums`, reduced once per group.
fn add_group<const N: usize>(sums: &mut [u64; N], rows: &[[u32; N]; GROUP], weights: [u64; GROUP]) {
    for (lane, sum) in sums.iter_mut().enumerate() {
        let products = (0..GROUP).map(|g| u64::from(rows[g][lane]) * weights[g]);
        *sum += fold(products.sum());
    }
}

/// Adds a row of up to [`BLOCK`] entries times a weight.
fn add_row(sums: &mut [[u64; BLOCK]; SECURE_EXTENSION_DEGREE], row: Cells<'_>, weight: &Coordinates) {
    for i in 0..row.len() {
        let x = u64::from(row.get(i).0);
        for (sums, w) in sums.iter_mut().zip(weight) {
            sums[i] += fold(x * u64::from(*w));
        }
    }
}

/// One slab `[weights.len()][out.len()]` of every table, from entry `from` on, with long rows, block by block.
fn bind_long_rows(terms: &[(Cells<'_>, Vec<Coordinates>)], from: usize, out: &mut [SecureField]) {
    let (inner, weights) = (out.len(), terms.first().map_or(0, |(_, weights)| weights.len()));
    // Long columns are cut, so that tall tables keep all threads busy.
    let piece = weights.div_ceil(rayon::current_num_threads()).max(GRAIN / BLOCK);
    out.par_chunks_mut(BLOCK)
        .with_min_len(GRAIN.div_ceil(BLOCK * weights * terms.len()))
        .enumerate()
        .for_each(|(block, out)| {
            let start = from + block * BLOCK;
            let sums = (0..weights).into_par_iter().step_by(piece).map(|first| {
                let mut sums = [[0u64; BLOCK]; SECURE_EXTENSION_DEGREE];
                for (table, weights) in terms {
                    let weights = &weights[first..weights.len().min(first + piece)];
                    add_column(&mut sums, (*table, start + first * inner), inner, weights, out.len());
                }
                std::array::from_fn(|lane| reduce(sums.each_ref().map(|s| s[lane])))
            });
            let zeros = || [SecureField::zero(); BLOCK];
            let sums: [SecureField; BLOCK] = sums.reduce(zeros, |a, b| std::array::from_fn(|lane| a[lane] + b[lane]));
            out.copy_from_slice(&sums[..out.len()]);
        });
}

/// Adds the weighted sum of `weights.len()` rows of `width` entries, `stride` apart, the first of which begins at `from`.
fn add_column(
    sums: &mut [[u64; BLOCK]; SECURE_EXTENSION_DEGREE],
    (column, from): (Cells<'_>, usize),
    stride: usize,
    weights: &[Coordinates],
    width: usize,
) {
    let mut first = 0;
    if width == BLOCK {
        let (groups, _) = weights.as_chunks::<GROUP>();
        for group in groups {
            let mut rows = [[0; BLOCK]; GROUP];
            let own = rows.iter_mut().enumerate();
            own.for_each(|(g, row)| column.read(from + (first + g) * stride, row));
            for (c, sums) in sums.iter_mut().enumerate() {
                add_group(sums, &rows, group.map(|w| u64::from(w[c])));
            }
            first += GROUP;
        }
    }
    for (m, weight) in weights.iter().enumerate().skip(first) {
        let start = from + m * stride;
        add_row(sums, column.range(start..start + width), weight);
    }
}

/// The weights of all entries of a slab by coordinate, sixteen to a vector; after the last entry they are zero.
struct Spread {
    coordinates: [Vec<Words>; SECURE_EXTENSION_DEGREE],
    entries: usize,
}

impl Spread {
    fn new(weights: &[Coordinates], inner: usize) -> Self {
        let entries = weights.len() * inner;
        let coordinate = |c: usize| {
            let mut words = vec![0; entries.next_multiple_of(SIMD_LANES)];
            for (words, weight) in words.chunks_exact_mut(inner).zip(weights) {
                words.fill(weight[c]);
            }
            words.as_chunks().0.iter().map(|w| Words::from_array(*w)).collect()
        };
        Self {
            coordinates: std::array::from_fn(coordinate),
            entries,
        }
    }
}

/// Sums of products in even and odd lanes, by coordinate.
#[derive(Clone, Copy)]
struct Sums([[u64x8; 2]; SECURE_EXTENSION_DEGREE]);

impl Sums {
    const ZERO: Self = Self([[u64x8::splat(0); 2]; SECURE_EXTENSION_DEGREE]);

    /// Adds the products of vectors, at most [`GROUP`], and the weights from vector `at` on, `step` apart.
    #[inline(always)]
    fn add<const N: usize>(&mut self, values: [Words; N], weights: &Spread, at: usize, step: usize) {
        for (sums, weights) in self.0.iter_mut().zip(&weights.coordinates) {
            let mut products = [u64x8::splat(0); 2];
            for (i, values) in values.into_iter().enumerate() {
                let weights: Words = weights[at + i * step];
                products[0] += even(values) * even(weights);
                products[1] += odd(values) * odd(weights);
            }
            sums[0] += field::fold(products[0]);
            sums[1] += field::fold(products[1]);
        }
    }

    /// Adds the vectors of a slab from `first` on, `step` apart, times their weights.
    fn add_slab(&mut self, slab: Cells<'_>, weights: &Spread, first: usize, step: usize) {
        let (vectors, rest) = (slab.len() / SIMD_LANES, slab.len() % SIMD_LANES);
        let mut at = first;
        while at + (GROUP - 1) * step < vectors {
            let own: [Words; GROUP] = std::array::from_fn(|i| slab.vector(at + i * step));
            self.add(own, weights, at, step);
            at += GROUP * step;
        }
        while at < vectors {
            self.add([slab.vector(at)], weights, at, step);
            at += step;
        }
        if at == vectors && rest > 0 {
            let word = |i: usize| if i < rest { slab.get(SIMD_LANES * at + i).0 } else { 0 };
            self.add([Words::from_array(std::array::from_fn(word))], weights, at, step);
        }
    }

    /// The sums of the lanes from `first` on, `step` apart, a power of two.
    #[inline(always)]
    fn total(&self, first: usize, step: usize) -> SecureField {
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

/// Slabs with rows of `inner` entries, a power of two up to [`SHORT`], of every table, from entry `from` on: vectors of a slab
/// are summed by their place in a row, then lanes are. What a table adds to a few slabs is summed before the next table is read.
fn bind_short_rows(terms: &[(Cells<'_>, Spread)], from: usize, inner: usize, out: &mut [SecureField]) {
    let step = inner.div_ceil(SIMD_LANES);
    let mut sums = [Sums::ZERO; ROWS];
    let slabs = out.len() / inner;
    for (table, weights) in terms {
        let slab = weights.entries;
        let own = table.range(from..from + slabs * slab).chunks(slab);
        for (slab, sums) in own.zip(sums.chunks_exact_mut(step)) {
            for (first, sums) in sums.iter_mut().enumerate() {
                sums.add_slab(slab, weights, first, step);
            }
        }
    }
    for (out, sums) in out.chunks_mut(inner).zip(sums.chunks_exact(step)) {
        for (out, sums) in out.chunks_mut(SIMD_LANES).zip(sums) {
            let entries = out.iter_mut().enumerate();
            entries.for_each(|(i, out)| *out = sums.total(i, inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;
    use proptest::prelude::*;

    fn words(seed: u64) -> impl Iterator<Item = BaseField> {
        let step = |state: &u64| {
            Some(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(0x1405_7b7e_f767_814f),
            )
        };
        // Every fourth value is the largest, so that sums come close to their bounds.
        let word = |(i, state): (usize, u64)| if i % 4 == 3 { P - 1 } else { (state >> 33) as u32 % P };
        std::iter::successors(Some(seed), step)
            .skip(1)
            .enumerate()
            .map(word)
            .map(BaseField::from_u32_unchecked)
    }

    fn base(seed: u64, n: usize) -> Vec<BaseField> {
        words(seed).take(n).collect()
    }

    fn secure(seed: u64, n: usize) -> Vec<SecureField> {
        let all = base(seed.wrapping_add(99), 4 * n);
        all.as_chunks::<4>()
            .0
            .iter()
            .map(|&c| SecureField::from_m31_array(c))
            .collect()
    }

    fn reference(table: &[BaseField], outer: usize, weights: &[SecureField], inner: usize) -> Vec<SecureField> {
        let entry = |o: usize, m: usize, i: usize| table[(o * weights.len() + m) * inner + i];
        let sum = |(o, i)| weights.iter().enumerate().map(|(m, &w)| w * entry(o, m, i)).sum();
        (0..outer)
            .flat_map(|o| (0..inner).map(move |i| (o, i)))
            .map(sum)
            .collect()
    }

    fn check(outer: usize, middle: usize, inner: usize, seed: u64) {
        let (table, weights) = (base(seed, outer * middle * inner), secure(seed, middle));
        let expected = reference(&table, outer, &weights, inner);
        assert!(
            bind_middle(table.as_slice().into(), outer, &weights, inner) == expected,
            "[{outer}][{middle}][{inner}]"
        );
    }

    #[test]
    fn bind_middle_agrees_with_the_definition() {
        for (outer, middle) in [(0, 3), (1, 0), (1, 1), (2, 3), (5, 4), (3, 8), (1, 37), (2, 129)] {
            for inner in [0, 1, 2, 3, 4, 8, 16, 31, 32, 33, 48, 63, 64, 65, 128, 200] {
                check(outer, middle, inner, 1);
            }
        }
        for (outer, middle, inner) in [
            (1, 1 << 13, 64),
            (1, 1 << 11, 96),
            (1 << 12, 16, 1),
            (1, 1 << 16, 1),
            (2, 5000, 8),
        ] {
            check(outer, middle, inner, 2);
        }
    }

    #[test]
    fn sums_of_tables_are_sums_of_what_each_makes() {
        for (outer, middle, inner) in [
            (37, 1, 1),
            (1, 1, 100),
            (5, 3, 8),
            (64, 40, 1),
            (7, 9, 32),
            (3, 5, 200),
            (1, 1 << 11, 96),
        ] {
            let tables: Vec<Vec<BaseField>> = (0..5).map(|i| base(i, outer * middle * inner)).collect();
            // Integers with a sign, and without one.
            let small = |v: &BaseField| BaseField::from((v.0 & 0xffff) as i32 - (1 << 15));
            let tables = tables.into_iter().enumerate().map(|(i, table)| match i {
                0 => table.iter().map(|v| BaseField::from(v.0 & 0xffff)).collect(),
                1 => table.iter().map(small).collect(),
                _ => table,
            });
            let tables: Vec<Vec<BaseField>> = tables.collect();
            let columns: Vec<Column> = tables.iter().cloned().map(Column::from).collect();
            let (weights, factors) = (secure(7, middle), secure(8, tables.len()));
            let terms: Vec<(&[BaseField], SecureField)> =
                tables.iter().map(Vec::as_slice).zip(factors.iter().copied()).collect();
            let cells: Vec<(Cells<'_>, SecureField)> =
                columns.iter().map(Column::cells).zip(factors.iter().copied()).collect();
            let mut expected = vec![SecureField::zero(); outer * inner];
            for (table, factor) in &terms {
                let own = reference(table, outer, &weights, inner);
                expected.iter_mut().zip(own).for_each(|(sum, v)| *sum += *factor * v);
            }
            assert!(
                bind_sum(&cells, outer, &weights, inner) == expected,
                "[{outer}][{middle}][{inner}]"
            );
        }
    }

    #[test]
    fn products_of_tables_are_those_of_their_entries() {
        for len in [0, 1, 15, 16, 17, 48, 100] {
            let (a, b, factor) = (secure(3, len), secure(4, len), secure(5, 1)[0]);
            let products: Vec<SecureField> = a.iter().zip(&b).map(|(a, b)| *a * *b).collect();
            assert_eq!(dot(&a, &b), products.iter().copied().sum(), "{len} entries");
            let mut sums = a.clone();
            add_scaled(&mut sums, &b, factor);
            let expected: Vec<SecureField> = a.iter().zip(&b).map(|(a, b)| *a + factor * *b).collect();
            assert_eq!(sums, expected, "{len} entries");
        }
    }

    #[test]
    fn combinations_agree_with_the_definition() {
        for (columns, rows) in [(1, 64), (5, 64), (8, 128), (11, 1024), (3, 1)] {
            let table: Vec<Vec<BaseField>> = (0..columns).map(|c| base(c as u64, rows)).collect();
            // A column may be there twice.
            let own: Vec<&[BaseField]> = (0..columns + 1).map(|c| table[c % columns].as_slice()).collect();
            let cells: Vec<Cells<'_>> = own.iter().map(|own| (*own).into()).collect();
            let weights = secure(9, columns + 1);
            let sum = |row: usize| own.iter().zip(&weights).map(|(c, k)| *k * c[row]).sum();
            let expected: Vec<SecureField> = (0..rows).map(sum).collect();
            assert_eq!(
                combine(&cells, &weights, rows),
                expected,
                "{columns} columns of {rows} rows"
            );
        }
        assert_eq!(combine(&[], &[], 0), []);
        assert_eq!(combine(&[], &[], 64), vec![SecureField::zero(); 64]);
    }

    #[test]
    fn sums_do_not_overflow_at_the_largest_values() {
        let largest = BaseField::from_u32_unchecked(P - 1);
        let middle = 1 << 14;
        let weights = vec![SecureField::from_m31_array([largest; 4]); middle];
        for inner in [1, 32, 64, 70] {
            let table = vec![largest; middle * inner];
            let out = bind_middle(table.as_slice().into(), 1, &weights, inner);
            assert_eq!(
                out,
                vec![SecureField::from_m31_array([BaseField::from(middle); 4]); inner]
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn bindings_agree_with_multilinear_evaluation(k in 0usize..12, cut in 0usize..12, seed in any::<u64>()) {
            let (table, point) = (base(seed, 1 << k), secure(seed, k));
            let expected = mle::eval_base(&table, &point).unwrap();
            let cells = Cells::from(table.as_slice());
            prop_assert_eq!(eval_base(cells, &point), expected);
            prop_assert_eq!(eq_table(&point), mle::eq_table(&point));
            let (leading, trailing) = point.split_at(cut.min(k));
            let rest = bind_leading(cells, leading);
            prop_assert_eq!(mle::eval_dense(&rest, trailing), Ok(expected));
            let rest = bind_trailing(&[cells], trailing);
            prop_assert_eq!(mle::eval_dense(&rest, leading), Ok(expected));
        }
    }
}
