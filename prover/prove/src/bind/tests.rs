//! Sums of products against their definitions, on any cells and on the largest.

use num_traits::Zero;
use stwo::core::fields::m31::P;

use super::folded::SHORT_PRODUCTS;
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
        let whole = len / SIMD_LANES * SIMD_LANES;
        let (a_packs, b_packs) = (field::pack(&a[..whole]), field::pack(&b[..whole]));
        assert_eq!(dot_packed(&a_packs, &b_packs), products[..whole].iter().copied().sum());
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

/// More cells than there can be products that are not folded, with the largest integers of sixteen bits, and the smallest ones.
#[test]
fn sums_of_short_cells_do_not_overflow() {
    let middle = 2 * SHORT_PRODUCTS + 5;
    let weights = secure(3, middle);
    let total: SecureField = weights.iter().copied().sum();
    for cell in [0xffff, -0x8000] {
        let cell = BaseField::from(cell);
        for inner in [1, 4, 64] {
            let column = Column::from(vec![cell; middle * inner]);
            assert!(column.cells().short().is_some());
            let out = bind_middle(column.cells(), 1, &weights, inner);
            assert_eq!(out, vec![total * cell; inner], "{cell}, {inner}");
        }
        let column = Column::from(vec![cell; BLOCK]);
        let columns = vec![column.cells(); middle];
        assert_eq!(combine(&columns, &weights, BLOCK), vec![total * cell; BLOCK]);
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
