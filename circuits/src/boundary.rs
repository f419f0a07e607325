//! Commitments to boundaries between chunks (docs/protocol.md, section 15): how the values are cut in units, and what is claimed of them.

use crate::mle::eq_table;
use crate::model::{log_ceil, MIN_ROWS_LOG, TILE};
use crate::scalar::Scalar;

/// A boundary of so many values or more is committed to, one of fewer is in clear. Two openings of a commitment are shorter than that.
pub const COMMITTED_VALUES: usize = 1 << 17;

/// The units of a commitment to a boundary: the matrix of rows and features is cut in blocks, row by row, and a unit has the values of a
/// block, row by row. What a block has beyond the matrix is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundaryUnits {
    rows: usize,
    hidden: usize,
    /// log2 of the rows of a block.
    log_rows: u32,
}

impl BoundaryUnits {
    /// The units of a boundary of so many rows and features; `None` if it is in clear.
    pub fn of(rows: usize, hidden: usize) -> Option<Self> {
        (rows.saturating_mul(hidden) >= COMMITTED_VALUES).then(|| Self {
            rows,
            hidden,
            // As many as tiles have inputs, if there are so many.
            log_rows: log_ceil(rows.min(TILE), 0),
        })
    }

    /// log2 of the features of a block: no more than there are, as there are `2^17` values.
    const fn log_features(&self) -> u32 {
        MIN_ROWS_LOG - self.log_rows
    }

    /// Numbers of blocks of rows, and of features.
    fn blocks(&self) -> [usize; 2] {
        [
            self.rows.div_ceil(1 << self.log_rows),
            self.hidden.div_ceil(1 << self.log_features()),
        ]
    }

    /// How many units there are.
    pub fn count(&self) -> usize {
        let [rows, features] = self.blocks();
        rows * features
    }

    /// The values of all units of a boundary, one unit after the other. Values that the boundary lacks are zero.
    pub fn values(&self, boundary: &[i16]) -> Vec<i16> {
        let ([rows, features], row_length) = (self.blocks(), 1 << self.log_features());
        let mut values = Vec::with_capacity(self.count() << MIN_ROWS_LOG);
        for (block, feature) in (0..rows).flat_map(|row| (0..features).map(move |feature| (row, feature * row_length)))
        {
            for row in block << self.log_rows..(block + 1) << self.log_rows {
                let start = row * self.hidden;
                let own = boundary.get(start + feature..start + (feature + row_length).min(self.hidden));
                let own = own.filter(|_| row < self.rows).unwrap_or_default();
                values.extend_from_slice(own);
                values.resize(values.len() + row_length - own.len(), 0);
            }
        }
        values
    }

    /// The multilinear extension of the boundary at a point of tokens and one of features is the sum of the units at
    /// [`Self::local_point`], each times its coefficient.
    pub fn coefficients<K: Scalar>(&self, token: &[K], feature: &[K]) -> Vec<K> {
        let first = |point: &[K], log: u32| {
            let before = point.len().saturating_sub(log as usize);
            eq_table(point.get(..before).unwrap_or_default())
        };
        let ([rows, features], of_features) = (self.blocks(), first(feature, self.log_features()));
        let of_rows = first(token, self.log_rows).into_iter().take(rows);
        of_rows
            .flat_map(|row| of_features.iter().take(features).map(move |feature| row * *feature))
            .collect()
    }

    /// Where every unit is evaluated: the last coordinates of both points.
    pub fn local_point<K: Scalar>(&self, token: &[K], feature: &[K]) -> Vec<K> {
        let last = |point: &[K], log: u32| {
            let before = point.len().saturating_sub(log as usize);
            point.get(before..).unwrap_or_default().to_vec()
        };
        [last(token, self.log_rows), last(feature, self.log_features())].concat()
    }
}

// They unwrap what must not fail: a panic is a failed test. The lints that forbid it are for what hostile bytes reach.
#[cfg(test)]
mod tests {
    use num_traits::Zero;
    use stwo::core::fields::qm31::SecureField;

    use super::*;
    use crate::air::base;
    use crate::mle::eval_padded;

    type K = SecureField;

    fn point(length: u32, seed: u32) -> Vec<K> {
        let coordinate = |i: u32| K::from_u32_unchecked(77_777 * i + seed, i + 5, 3 * i * seed + 1, 1_000_003 * i);
        (0..length).map(coordinate).collect()
    }

    /// Rows and features that fill blocks and that do not, many of one and few of the other.
    #[test]
    fn units_add_up_to_the_extension_of_the_matrix() {
        for (rows, hidden, log_rows) in [
            (128, 1024, 6),
            (1024, 128, 6),
            (129, 1111, 6),
            (8, 1 << 14, 3),
            (9, (1 << 14) - 1, 4),
            (33, 4000, 6),
            (8192, 16, 6),
        ] {
            let units = BoundaryUnits::of(rows, hidden).expect("many values");
            assert_eq!(units.log_rows, log_rows);
            let value = |i: usize| (i * i * 31 + i * 7) as i16;
            let boundary: Vec<i16> = (0..rows * hidden).map(value).collect();
            let values = units.values(&boundary);
            assert_eq!(values.len(), units.count() << MIN_ROWS_LOG);
            let (token, feature) = (point(log_ceil(rows, 0), 3), point(log_ceil(hidden, 6), 8));
            let local = units.local_point(&token, &feature);
            let coefficients = units.coefficients(&token, &feature);
            assert_eq!(
                (local.len(), coefficients.len()),
                (MIN_ROWS_LOG as usize, units.count())
            );
            let of_unit = |unit: &[i16]| {
                let cells: Vec<K> = unit.iter().map(|v| base(i64::from(*v)).into()).collect();
                eval_padded(&cells, &local)
            };
            let terms = values.chunks(1 << MIN_ROWS_LOG).zip(coefficients);
            let got = terms.fold(K::zero(), |sum, (unit, k)| sum + k * of_unit(unit));
            let (tokens, features) = (eq_table(&token), eq_table(&feature));
            let rows = boundary.chunks(hidden).zip(tokens);
            let expected = rows.fold(K::zero(), |sum, (row, w)| {
                let row = row.iter().zip(&features);
                sum + w * row.fold(K::zero(), |sum, (v, w)| sum + *w * base(i64::from(*v)))
            });
            assert_eq!(got, expected, "{rows:?} rows of {hidden}", rows = units.rows);
        }
    }

    /// The rule is one by size alone.
    #[test]
    fn small_boundaries_are_in_clear() {
        for (rows, hidden) in [(127, 1024), (1, 1 << 14), (8191, 16), (0, 0)] {
            assert_eq!(BoundaryUnits::of(rows, hidden), None);
        }
        assert!(BoundaryUnits::of(usize::MAX, usize::MAX).is_some());
    }
}
