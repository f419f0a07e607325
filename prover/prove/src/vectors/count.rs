//! How often the lookups use every row of the tables.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::lookups::{Lookup, Relation};
use tessera_circuits::air::tables;
use tessera_circuits::trees::LookupTree;

use super::leaves::Form;
use crate::column::Column;
use crate::field::SIMD_LANES;

/// Vectors of rows that a thread takes at a time, at most.
const TASK: usize = 1 << 8;

/// How often each row of the tables is used by the lookups of these trees.
pub(super) fn multiplicities(
    relations: &[Relation],
    trees: &[LookupTree],
    columns: &[Vec<Column>],
) -> Vec<Vec<BaseField>> {
    let size = 1usize << tables::LOG_ROWS;
    let empty = || vec![0u32; relations.len() * size];
    let pieces = trees.iter().flat_map(|tree| &tree.planes).flat_map(|plane| {
        let own = &columns[plane.part.index()];
        let vectors = 1usize << plane.log_rows >> SIMD_LANES.ilog2();
        let starts = (0..vectors).step_by(TASK);
        starts.map(move |start| (start..vectors.min(start + TASK), &plane.lookup, own))
    });
    let pieces: Vec<_> = pieces.collect();
    let counts = pieces
        .par_iter()
        .with_min_len(16)
        .fold(empty, |mut counts, (rows, lookup, own)| {
            if let Some(at) = relations.iter().position(|own| *own == lookup.relation) {
                count(&mut counts[at * size..][..size], lookup, own, rows.clone());
            }
            counts
        })
        .reduce(empty, |a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect());
    counts
        .chunks(size)
        .map(|c| c.iter().copied().map(BaseField::from_u32_unchecked).collect())
        .collect()
}

/// Adds a lookup in some vectors of rows to the multiplicities of its relation.
fn count(counts: &mut [u32], lookup: &Lookup, columns: &[Column], rows: std::ops::Range<usize>) {
    let relation = lookup.relation;
    let form = |i: usize| lookup.tuple.get(i).map(|value| Form::new(value, columns));
    let element = BaseField::from_u32_unchecked;
    // A value outside its table has no row; the proof would not balance. Honest traces have none.
    let mut add = |row: Option<usize>| {
        if let Some(count) = row.and_then(|row| counts.get_mut(row)) {
            *count += 1;
        }
    };
    match (form(0), form(1)) {
        (Some(first), Some(second)) if relation.has_row_by_both() => {
            for at in rows {
                let values = first.at(at).to_array().into_iter().zip(second.at(at).to_array());
                values.for_each(|(first, second)| add(relation.row(element(first), element(second))));
            }
        }
        (Some(first), _) => {
            for at in rows {
                let values = first.at(at).to_array().into_iter();
                values.for_each(|first| add(relation.row(element(first), BaseField::zero())));
            }
        }
        (None, _) => {}
    }
}
