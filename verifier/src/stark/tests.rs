//! What the STARK takes for granted of its columns.

use super::*;

/// The relations of models whose scores are not capped.
const PLAIN: [Relation; 5] = [
    Relation::Range16,
    Relation::Bits,
    Relation::Bytes,
    Relation::Exp,
    Relation::Silu,
];

/// All columns have the length of the tables, so none is lifted: stwo would read a shorter one as repeated, and only columns with
/// two samples have one that says so.
#[test]
fn all_columns_are_as_long_as_the_tables() {
    let component = component(&Relations::dummy(&PLAIN), false, SecureField::zero());
    let components = components(&component);
    let sizes = components.column_log_sizes();
    let widths: Vec<usize> = sizes.iter().map(Vec::len).collect();
    assert_eq!(widths, [7, 5, 12]);
    assert!(sizes.iter().flatten().all(|log| *log == LOG_ROWS));
    assert_eq!(components.composition_log_degree_bound(), LOG_ROWS + 1);
}

/// The last four columns of the interaction are sampled a row before, too: the sum goes on from row to row.
#[test]
fn the_running_sum_is_sampled_in_two_rows() {
    let component = component(&Relations::dummy(&PLAIN), false, SecureField::zero());
    let oods = CirclePoint::<SecureField>::get_random_point(&mut SuiteChannel::default());
    let points = components(&component).mask_points(oods, LOG_ROWS, false);
    let samples: Vec<Vec<usize>> = points.iter().map(|tree| tree.iter().map(Vec::len).collect()).collect();
    assert_eq!(samples, [vec![1; 7], vec![1; 5], [vec![1; 8], vec![2; 4]].concat()]);
}
