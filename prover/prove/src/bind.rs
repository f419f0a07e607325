//! Binding variables of columns to points: what turns committed tensors into the short tables
//! that a sumcheck runs on. Products of a base field element with a coordinate of a secure field element
//! are summed four at a time in 64 bits before they are folded. Those with cells of sixteen bits are folded once for many: cells are read
//! without the offset that makes them positive, and what it adds to all sums is taken off at the end.

mod folded;
mod rows;
mod slabs;

use num_traits::One;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::mle;
use tessera_circuits::scalar::Scalar;

use crate::column::Cells;
use crate::field::{self, Factor, Packed, Sum, SIMD_LANES};
use folded::{Coordinates, BLOCK};
use rows::WideSums;
use slabs::{Spread, Sums};

/// Entries whose sums are kept together.
const WIDE: usize = 8 * BLOCK;
/// Rows of so many entries, or of a part of them, are summed in vectors.
const SHORT: usize = 32;
/// Vectors of sums that are kept while tables are read one after the other.
const ROWS: usize = 16;
/// Entries of a table that are read at a time, if a slab has no more.
const BLOCK_ENTRIES: usize = 1 << 11;
/// Base field entries worth a task of their own.
const GRAIN: usize = 1 << 15;

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
    let mut out = field::zeros(outer * inner);
    if slab == 0 || outer == 0 || terms.is_empty() {
        return out;
    }
    let scaled = |factor: SecureField| -> Vec<Coordinates> {
        let coordinates = |weights: &[SecureField]| weights.iter().map(|w| w.to_m31_array().map(|c| c.0)).collect();
        if factor.is_one() {
            return coordinates(weights);
        }
        let mut own = field::zeros(weights.len());
        add_scaled(&mut own, weights, factor);
        coordinates(&own)
    };
    if let [weight] = weights {
        let (tables, factors): (Vec<Cells<'_>>, Vec<SecureField>) = terms.iter().copied().unzip();
        let factors: Vec<SecureField> = factors.into_iter().map(|factor| factor * *weight).collect();
        return combine(&tables, &factors, outer * inner);
    }
    let least = |rows: usize| GRAIN.div_ceil(slab * rows * terms.len());
    let offset = offset(terms.iter().copied()) * weights.iter().copied().sum::<SecureField>();
    if SHORT.is_multiple_of(inner) {
        let spread = |(table, factor): &(_, _)| (*table, Spread::new(&scaled(*factor), inner));
        let terms: Vec<(Cells<'_>, Spread)> = terms.iter().map(spread).collect();
        let rows = (BLOCK_ENTRIES / slab).clamp(1, ROWS * SIMD_LANES / inner.max(SIMD_LANES));
        out.par_chunks_mut(rows * inner)
            .with_min_len(least(rows))
            .enumerate()
            .for_each(|(i, out)| bind_short_rows(&terms, i * rows * slab, inner, offset, out));
    } else {
        let scale = |(table, factor): &(_, _)| (*table, scaled(*factor));
        let terms: Vec<(Cells<'_>, Vec<Coordinates>)> = terms.iter().map(scale).collect();
        out.par_chunks_mut(inner)
            .with_min_len(least(1))
            .enumerate()
            .for_each(|(i, out)| bind_long_rows(&terms, i * slab, offset, out));
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
        // The weights add up to one.
        sums.total(0, 1) - offset([(row, SecureField::one())])
    };
    let rows = tables.par_iter().flat_map_iter(|table| table.chunks(weights.len()));
    rows.map(row).collect()
}

/// Computes how much the offsets of cells add to a sum that takes one cell of every table, times the table's factor.
fn offset<'a>(terms: impl IntoIterator<Item = (Cells<'a>, SecureField)>) -> SecureField {
    let own = |(table, factor): (Cells<'_>, _)| factor * BaseField::from_u32_unchecked(table.offset());
    terms.into_iter().map(own).sum()
}

/// `sum of weight * column`, row by row, of columns of `rows` rows.
pub fn combine(columns: &[Cells<'_>], weights: &[SecureField], rows: usize) -> Vec<SecureField> {
    let offset = offset(columns.iter().copied().zip(weights.iter().copied()));
    let weights: Vec<Coordinates> = weights.iter().map(|k| k.to_m31_array().map(|c| c.0)).collect();
    let mut out = field::zeros(rows);
    out.par_chunks_mut(WIDE).enumerate().for_each(|(block, out)| {
        let mut sums = WideSums::new(out.len());
        sums.add(|column| (columns[column], block * WIDE), &weights, out.len());
        let totals = sums.totals(out.len()).into_iter();
        out.iter_mut().zip(totals).for_each(|(out, sum)| *out = sum - offset);
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
    if 1 << trailing.len() < SIMD_LANES {
        return mle::eq_table(point);
    }
    let (rows, row) = (mle::eq_table(leading), mle::eq_table(trailing));
    let (packs, _) = row.as_chunks::<SIMD_LANES>();
    let packs: Vec<_> = packs.iter().map(Packed::from_array).collect();
    let mut out = field::zeros(rows.len() * row.len());
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

/// Computes [`dot`] of entries that are sixteen to a vector.
pub fn dot_packed(a: &[Packed], b: &[Packed]) -> SecureField {
    let mut sum = Sum::ZERO;
    a.iter().zip(b).for_each(|(a, b)| sum.add(*a, *b));
    sum.packed().total()
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

/// One slab `[weights.len()][out.len()]` of every table, from entry `from` on, with long rows, block by block; takes `offset` off all sums.
fn bind_long_rows(terms: &[(Cells<'_>, Vec<Coordinates>)], from: usize, offset: SecureField, out: &mut [SecureField]) {
    let (inner, weights) = (out.len(), terms.first().map_or(0, |(_, weights)| weights.len()));
    // Long columns are cut, so that tall tables keep all threads busy.
    let piece = weights.div_ceil(rayon::current_num_threads()).max(GRAIN / BLOCK);
    out.par_chunks_mut(WIDE)
        .with_min_len(GRAIN.div_ceil(WIDE * weights * terms.len()))
        .enumerate()
        .for_each(|(block, out)| {
            let (start, width) = (from + block * WIDE, out.len());
            let sums = (0..weights).into_par_iter().step_by(piece).map(|first| {
                let mut sums = WideSums::new(width);
                for (table, weights) in terms {
                    let own = first..weights.len().min(first + piece);
                    let row = |m: usize| (*table, start + (first + m) * inner);
                    sums.add(row, &weights[own], width);
                }
                sums.totals(width)
            });
            let add = |mut a: Vec<SecureField>, b: Vec<SecureField>| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            };
            let sums = sums.reduce_with(add).expect("a table has rows");
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum - offset);
        });
}

/// Slabs with rows of `inner` entries, a power of two up to [`SHORT`], of every table, from entry `from` on: vectors of a slab
/// are summed by their place in a row, then lanes are. What a table adds to a few slabs is summed before the next table is read. Takes
/// `offset` off all sums.
fn bind_short_rows(
    terms: &[(Cells<'_>, Spread)],
    from: usize,
    inner: usize,
    offset: SecureField,
    out: &mut [SecureField],
) {
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
            entries.for_each(|(i, out)| *out = sums.total(i, inner) - offset);
        }
    }
}

#[cfg(test)]
mod tests;
