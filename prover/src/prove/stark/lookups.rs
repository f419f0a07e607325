//! Multiplicities of the tables, counted from the lists of lookups, and the running sums of components: of the entries of the
//! tables, and of the weighted columns that a binding is about.

use std::ops::Range;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use stwo::core::fields::FieldExpOps;
use stwo::prover::backend::simd::m31::{PackedBaseField, N_LANES};
use tessera_circuits::air::lookups::{Linear, Lookup, Relation, Uses};
use tessera_circuits::air::{tables, Air, Lanes, Relations};

use super::packed::Base;
use super::trace::Columns;
use crate::prove::bind::combine;

/// Rows that a thread takes at a time, at most.
const TASK: usize = 1 << 10;

/// Sixteen rows of a column.
fn load(column: &[BaseField], first_row: usize) -> Base {
    let rows = column[first_row..][..N_LANES].try_into();
    Base(PackedBaseField::from_array(rows.expect("sixteen rows")))
}

/// Rows of a lane.
struct Piece<'a> {
    lookups: &'a [Lookup],
    lane: &'a [Vec<BaseField>],
    rows: Range<usize>,
}

/// Multiplicity columns of the tables: how often each row is used by the given parts.
pub fn multiplicities<'a>(parts: impl Iterator<Item = (Lanes, &'a Columns)>) -> Columns {
    let size = 1usize << tables::LOG_ROWS;
    let empty = || vec![0u32; tables::COLUMNS * size];
    let parts: Vec<(Vec<Lookup>, Lanes, &Columns)> =
        parts.map(|(air, trace)| (air.air.lookups(), air, trace)).collect();
    let pieces = parts.iter().flat_map(|(lookups, air, trace)| {
        let rows = 1usize << air.log_rows();
        let lanes = trace.chunks(air.air.columns());
        lanes.flat_map(move |lane| {
            let starts = (0..rows).step_by(TASK);
            starts.map(move |start| Piece {
                lookups,
                lane,
                rows: start..rows.min(start + TASK),
            })
        })
    });
    let pieces: Vec<Piece<'_>> = pieces.collect();
    let counts = pieces
        .par_iter()
        .fold(empty, |mut counts, piece| {
            piece
                .lookups
                .iter()
                .for_each(|lookup| count(&mut counts, lookup, piece));
            counts
        })
        .reduce(empty, |a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect());
    counts
        .chunks(size)
        .map(|c| c.iter().copied().map(BaseField::from_u32_unchecked).collect())
        .collect()
}

/// Adds a lookup of some rows.
fn count(counts: &mut [u32], lookup: &Lookup, piece: &Piece<'_>) {
    let counts = &mut counts[lookup.relation.index() << tables::LOG_ROWS..][..1 << tables::LOG_ROWS];
    for first_row in piece.rows.clone().step_by(N_LANES) {
        let column = |at: usize| load(&piece.lane[at], first_row);
        let value = |value: Option<&Linear>| value.map_or(Base::zero(), |v| v.eval(column)).0.to_array();
        let (first, second) = (value(lookup.tuple.first()), value(lookup.tuple.get(1)));
        let uses = match lookup.uses {
            Uses::Once => [BaseField::one(); N_LANES],
            Uses::Column(at) => column(at).0.to_array(),
        };
        for ((first, second), uses) in first.into_iter().zip(second).zip(uses) {
            // A value outside its table has no row; the proof would not balance. Honest traces have none.
            let row = lookup.relation.row(first, second);
            if let Some(count) = row.and_then(|row| counts.get_mut(row)) {
                *count += uses.0;
            }
        }
    }
}

/// The running sum of a part that has a binding, and its claimed sum: over `eq(z) sum_c weights[c] column_c(z)`. `eq` are the
/// coordinates of that column, perhaps with others behind them.
pub fn binding_sums(weights: &[SecureField], trace: &Columns, eq: &[Vec<BaseField>]) -> (Columns, SecureField) {
    let terms = weights
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, weight)| !weight.is_zero());
    let mut values = combine(trace, &terms.collect::<Vec<_>>());
    values
        .par_iter_mut()
        .enumerate()
        .with_min_len(TASK)
        .for_each(|(row, value)| {
            *value *= SecureField::from_m31_array(std::array::from_fn(|i| eq[i][row]));
        });
    running_sum(Columns::new(), &values)
}

/// The LogUp columns of the tables and their claimed sum: the first has the sum of the first two entries of a row, the last one
/// sums on over rows.
pub fn entry_sums(relations: &Relations, counts: &Columns, tables: &[Vec<BaseField>]) -> (Columns, SecureField) {
    let [index, bound, value, exp, silu] = [0, 1, 2, 3, 4].map(|i| &tables[i]);
    let entries = [
        (Relation::Range16, index, None),
        (Relation::Bits, bound, Some(value)),
        (Relation::Exp, index, Some(exp)),
        (Relation::Silu, index, Some(silu)),
    ];
    let fractions = entries.map(|(relation, first, second)| {
        let [z, alpha] = relations.challenges(relation);
        let tuple = |row: usize| alpha * second.map_or(BaseField::zero(), |second| second[row]) + first[row] - z;
        let denominators: Vec<SecureField> = (0..first.len()).map(tuple).collect();
        let inverses = SecureField::batch_inverse(&denominators);
        let counts = counts[relation.index()].iter();
        counts
            .zip(inverses)
            .map(|(count, inverse)| inverse * -*count)
            .collect::<Vec<SecureField>>()
    });
    let [first, second, third, fourth] = &fractions;
    let pair =
        |a: &[SecureField], b: &[SecureField]| -> Vec<SecureField> { a.iter().zip(b).map(|(a, b)| *a + *b).collect() };
    let pairs = pair(first, second);
    running_sum(coordinates(&pairs), &pair(&pairs, &pair(third, fourth)))
}

/// Coordinates of a column.
pub(super) fn coordinates(values: &[SecureField]) -> Columns {
    (0..SECURE_EXTENSION_DEGREE)
        .map(|i| values.iter().map(|v| v.to_m31_array()[i]).collect())
        .collect()
}

/// Adds the sums of values over the rows so far, shifted to end in zero; also returns their total.
fn running_sum(mut columns: Columns, values: &[SecureField]) -> (Columns, SecureField) {
    let sums: Vec<(Vec<BaseField>, BaseField)> = (0..SECURE_EXTENSION_DEGREE)
        .into_par_iter()
        .map(|i| {
            let mut column: Vec<BaseField> = values.iter().map(|v| v.to_m31_array()[i]).collect();
            let total = column.iter().fold(BaseField::zero(), |sum, v| sum + *v);
            let shift = total * BaseField::from_u32_unchecked(values.len() as u32).inverse();
            let mut sum = BaseField::zero();
            for v in &mut column {
                sum += *v - shift;
                *v = sum;
            }
            (column, total)
        })
        .collect();
    let total = SecureField::from_m31_array(std::array::from_fn(|i| sums[i].1));
    columns.extend(sums.into_iter().map(|(column, _)| column));
    (columns, total)
}
