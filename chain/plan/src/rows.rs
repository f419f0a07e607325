//! Sums of the entries of tables of `eq`, times numbers: rows of entries that all layers share.

use std::collections::BTreeMap;

use num_traits::{One, Zero};
use stwo::core::fields::m31::P;
use tessera_circuits::scalar::{Scalar, Source};

use crate::symbol::{
    layers, push, push_table, select, Curve, CurveRow, Node, Row, Symbol, Table, CURVE, CURVE_LOG, PLANES,
};

/// The products, entry by entry, of the tables of some points.
fn product_of(points: &[&[Symbol]]) -> Vec<Symbol> {
    let tables = points.iter().map(|point| Symbol::eq_table(point));
    let both = tables.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| *a * *b).collect());
    both.unwrap_or_default()
}

/// Gas, about, of an entry of a product of tables, which all layers share, and of a row of them, which each has of its own.
const ENTRY: u64 = 1_700;
const ROW: u64 = 1_800;
/// log2 of the longest row.
const ROW_LOG: usize = 8;

/// How many of the coordinates of points rows are made of, with so many entries of each layer.
fn row_log(variables: usize, entries: usize) -> usize {
    let layers = layers();
    let cost = |low: &usize| (ENTRY << low) + layers * ROW * (entries.div_ceil(1 << low) as u64);
    (3..=variables.min(ROW_LOG))
        .min_by_key(cost)
        .unwrap_or(variables.min(ROW_LOG))
}

/// The values of a row by their steps; `None` if they differ too much.
fn curve_row(values: &[u32]) -> Option<CurveRow> {
    let centred = |own: u32| i64::from(own) - if own > P / 2 { i64::from(P) } else { 0 };
    let steps: Vec<i64> = (values.iter().zip(values.iter().skip(1)))
        .map(|(before, own)| centred(*before) - centred(*own))
        .collect();
    let slope = steps.iter().copied().min()?;
    let more: Vec<u64> = steps.iter().map(|own| own.abs_diff(slope)).collect();
    let bits = more
        .iter()
        .map(|own| own.checked_ilog2().map_or(0, |log| log as usize + 1))
        .max()?;
    let plane = |bit: usize| {
        let mut plane = [0; CURVE / 8];
        // Nothing stands before the first value, so that it has no step.
        for (place, own) in (1..CURVE).zip(&more) {
            let byte = plane.get_mut(place / 8).into_iter();
            byte.for_each(|byte| *byte |= (((own >> bit) & 1) as u8) << (7 - place % 8));
        }
        plane
    };
    (bits <= PLANES).then_some(CurveRow {
        last: *values.last()?,
        slope: slope.rem_euclid(i64::from(P)) as u32,
        planes: (0..bits).rev().map(plane).collect(),
    })
}

/// The extension of a function at a point, by its steps; `None` if they are too large, or if there are too few values for a row. Values that are
/// missing at the end are 0.
pub fn curve(point: &[Symbol], values: &[u32]) -> Option<Symbol> {
    let (high, low) = point.split_at(point.len().checked_sub(CURVE_LOG)?);
    let row = |own: &[u32]| {
        // Nothing of the last row may be missing.
        let mut own = own.to_vec();
        own.resize(CURVE, 0);
        curve_row(&own)
    };
    let real = values.iter().rposition(|own| *own != 0).map_or(0, |last| last + 1);
    let rows: Vec<CurveRow> = values.get(..real)?.chunks(CURVE).map(row).collect::<Option<_>>()?;
    if rows.is_empty() {
        return None;
    }
    let entries = push_table(Table::Eq(low.to_vec()));
    let entries = (0..CURVE as u32)
        .map(|place| push(Node::Entry(entries, place)))
        .collect();
    Some(push(Node::Curve(Curve {
        high: push_table(Table::Eq(high.to_vec())),
        low: push_table(Table::Prefix(entries)),
        rows,
    })))
}

/// The sum of the products of the entries of tables of as many variables, times numbers.
pub fn factored(points: &[Vec<Symbol>], factors: &[u32]) -> Symbol {
    let variables = points.first().map_or(0, Vec::len);
    let real = factors.iter().rposition(|own| *own != 0).map_or(0, |last| last + 1);
    let Some(factors) = factors.get(..real).filter(|own| !own.is_empty()) else {
        return Symbol::zero();
    };
    let low = row_log(variables, real);
    let halves: Vec<(&[Symbol], &[Symbol])> = points
        .iter()
        .map(|point| point.split_at(point.len().saturating_sub(low)))
        .collect();
    let [high, low] = [true, false].map(|first| {
        let own = halves.iter().map(|(high, low)| if first { *high } else { *low });
        own.collect::<Vec<_>>()
    });
    let tables = low.iter().map(|point| push_table(Table::Eq(point.to_vec())));
    let table = tables
        .reduce(|a, b| push_table(Table::Product(a, b)))
        .unwrap_or_default();
    let length = 1 << low.first().map_or(0, |point| point.len());
    let rows = factors.chunks(length).zip(product_of(&high));
    rows.map(|(own, high)| high * row(table, own)).sum()
}

/// How many entries have to have the same factor, so that the sum of all is looked at.
const COMMON: usize = 16;

/// The sum of the first entries of a table, times numbers: most of them have the same.
fn row(table: u32, factors: &[u32]) -> Symbol {
    let real = factors.iter().rposition(|own| *own != 0).map_or(0, |last| last + 1);
    let factors = factors.get(..real).unwrap_or_default();
    let mut counts = BTreeMap::new();
    factors.iter().for_each(|own| *counts.entry(*own).or_insert(0) += 1);
    let common = counts.iter().filter(|(own, count)| **own != 0 && **count >= COMMON);
    let common = common.max_by_key(|(_, count)| **count).map_or(0, |(own, _)| *own);
    // Ones alone are the sum itself.
    let common = if counts.len() == 1 { 0 } else { common };
    let total = match common {
        0 => Symbol::zero(),
        _ => row(table, &vec![1; real]),
    };
    let mut groups: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for (place, own) in factors.iter().enumerate() {
        let more = ((u64::from(*own) + u64::from(P - common)) % u64::from(P)) as u32;
        if more != 0 {
            groups.entry(more).or_default().push(place as u8);
        }
    }
    let groups = groups
        .into_iter()
        .flat_map(|(more, places)| places.chunks(255).map(|own| (more, own.to_vec())).collect::<Vec<_>>());
    let groups: Vec<(u32, Vec<u8>)> = groups.collect();
    match groups.is_empty() && common == 0 {
        true => Symbol::zero(),
        false => push(Node::Row(Row {
            table,
            total: (total, common),
            groups,
        })),
    }
}

/// Whether every row of so many numbers has powers of two that differ by less than 2^16.
fn are_rows(factors: &[u32], length: usize) -> bool {
    factors.chunks(length.max(1)).all(|own| {
        let exponents = || own.iter().map(|factor| factor.trailing_zeros());
        let (least, most) = (exponents().min().unwrap_or(0), exponents().max().unwrap_or(0));
        own.iter().all(|factor| factor.is_power_of_two()) && most - least < 16
    })
}

/// The sum of the entries of a table before a number, times numbers: of whole rows before it, and in its row.
pub fn sum_below(factors: &[u32], point: &[Symbol], source: Source) -> Symbol {
    let [high, low] = {
        let (high, low) = point.split_at(point.len() - point.len().div_ceil(2).min(ROW_LOG));
        [high, low].map(Symbol::eq_table)
    };
    let low_bits = low.len().max(1).ilog2() as u8;
    if are_rows(factors, low.len()) && low_bits > 0 {
        return sum_of_rows_below(factors, point, low_bits, source);
    }
    let (mut rows, mut within) = (Vec::new(), Vec::new());
    for (own, high) in factors.chunks(low.len().max(1)).zip(&high) {
        let multiples: Vec<Symbol> = own.iter().zip(&low).map(|(factor, low)| low.scale(*factor)).collect();
        rows.push(*high * multiples.iter().copied().sum::<Symbol>());
        within.extend(multiples);
    }
    let high_bits = point.len() as u8 - low_bits;
    let before = select(push_table(Table::Prefix(rows)), source, [low_bits, high_bits], 0);
    let row = select(
        push_table(Table::Eq(point.iter().take(high_bits.into()).copied().collect())),
        source,
        [low_bits, high_bits],
        0,
    );
    // From all before it those before its row.
    let all = push_table(Table::Prefix(within));
    let up_to = select(all, source, [0, 16], 0);
    // Of rows that have none of the numbers nothing is asked, and the table ends before them.
    let begins = (0..high.len())
        .map(|i| i * low.len())
        .take_while(|begin| *begin <= factors.len());
    let starts: Vec<Symbol> = begins.map(|begin| push(Node::Entry(all, begin as u32))).collect();
    let start = select(push_table(Table::List(starts)), source, [low_bits, high_bits], 0);
    before + row * (up_to - start)
}

/// The same where all numbers are powers of two: the rows before it, and the first entries of its own.
fn sum_of_rows_below(factors: &[u32], point: &[Symbol], low_bits: u8, source: Source) -> Symbol {
    let (high, low) = point.split_at(point.len().saturating_sub(low_bits.into()));
    let low = push_table(Table::Eq(low.to_vec()));
    let chunks = factors.chunks(1 << low_bits);
    // A row longer than that is one of several.
    let sum = |own: &[u32]| row(low, own);
    let rows = Symbol::eq_table(high)
        .into_iter()
        .zip(chunks)
        .map(|(high, own)| high * sum(own));
    let high_bits = high.len() as u8;
    let before = select(
        push_table(Table::Prefix(rows.collect())),
        source,
        [low_bits, high_bits],
        0,
    );
    let own = match high {
        [] => Symbol::one(),
        high => select(push_table(Table::Eq(high.to_vec())), source, [low_bits, high_bits], 0),
    };
    let within = push_table(Table::Rows(low, low_bits, factors.to_vec()));
    before + own * push(Node::Below(within, source))
}
