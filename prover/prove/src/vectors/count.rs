//! How often the lookups use every row of the tables.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::lookups::Lookup;
use tessera_circuits::air::tables;
use tessera_circuits::shape::Shape;

use super::leaves::Form;
use crate::column::Column;
use crate::field::SIMD_LANES;

/// Vectors of rows that a thread takes at a time, at most.
const TASK: usize = 1 << 8;

/// Multiplicity columns of the tables: how often each row is used by the columns of all parts.
pub(super) fn multiplicities(shape: &Shape, columns: &[Vec<Column>]) -> Vec<Vec<BaseField>> {
    let size = 1usize << tables::LOG_ROWS;
    let relations = shape.config.relations();
    let empty = || vec![0u32; relations.len() * size];
    let pieces = shape.parts().iter().flat_map(|part| {
        let own = &columns[part.index()];
        let vectors = 1usize << shape.log_rows(*part) >> SIMD_LANES.ilog2();
        let lookups = shape.air(*part).lookups.into_iter();
        lookups.flat_map(move |lookup| {
            let starts = (0..vectors).step_by(TASK);
            let piece = move |start: usize| (start..vectors.min(start + TASK), lookup.clone(), own);
            starts.map(piece).collect::<Vec<_>>()
        })
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
