//! That the lookup tables are those of the key's parameters (docs/protocol.md, section 9): a verifier makes them, and compares what
//! their polynomials are at the out-of-domain point. So a key whose root commits to other tables proves nothing.

use std::sync::OnceLock;

use num_traits::One;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::poly::circle::CanonicCoset;
use tessera_circuits::air::tables::LOG_ROWS;
use tessera_circuits::model::{ModelConfig, ModelParams};

use super::{Stark, StarkError};
use crate::known_tables::{dot, tables};

/// Compares the samples of the first tree at `point` with the tables of a model. Their columns have a degree below `2^16` by the proof
/// of proximity, and the point was drawn after their root was absorbed.
pub fn check_tables(
    (params, config): (&ModelParams, &ModelConfig),
    proof: &Stark,
    point: CirclePoint<SecureField>,
) -> Result<(), StarkError> {
    let samples = proof.sampled_values.first().map_or(&[][..], Vec::as_slice);
    let values = at_point(tables(params, config).columns(), point);
    let same = samples.len() == values.len()
        && samples
            .iter()
            .zip(&values)
            .all(|(samples, value)| samples.as_slice() == [*value]);
    match same {
        true => Ok(()),
        false => Err(StarkError::OtherTables),
    }
}

/// The polynomials of columns, whose row `i` is the value at point `i` of the canonic coset, at a point: sums of the rows, each with a
/// weight that all columns share.
fn at_point(columns: &[Vec<BaseField>], point: CirclePoint<SecureField>) -> Vec<SecureField> {
    let weights = weights(point);
    columns.iter().map(|column| dot(column, &weights)).collect()
}

/// The weights of rows at a point. Rows `i` and `n - 1 - i` are at points that differ in the sign of a coordinate `t`, and so they fold to
/// `(v + v') / 2 + at (v - v') / 2 t`, where `at` is the coordinate of the point. Fold after fold one row is left, whose weight is 1; the
/// weights of two rows follow from the weight of the row that they fold to.
fn weights(point: CirclePoint<SecureField>) -> Vec<SecureField> {
    let half = BaseField::from_u32_unchecked(1 << 30);
    let doubled = std::iter::successors(Some(point.x), |x| Some(CirclePoint::double_x(*x)));
    let coordinates: Vec<SecureField> = std::iter::once(point.y)
        .chain(doubled)
        .take(LOG_ROWS as usize)
        .collect();
    let mut weights = vec![SecureField::one()];
    for (at, inverses) in coordinates.into_iter().zip(inverses()).rev() {
        let pairs = weights.iter().zip(inverses).map(|(weight, inverse)| {
            let (even, odd) = (*weight * half, *weight * at * *inverse);
            [even + odd, even - odd]
        });
        let pairs: Vec<[SecureField; 2]> = pairs.collect();
        let first = pairs.iter().map(|[own, _]| *own);
        weights = first.chain(pairs.iter().rev().map(|[_, other]| *other)).collect();
    }
    weights
}

/// By fold, `1 / 2 t` of the coordinates `t` of the first half of the rows: `y` of the coset, then `x` and its doubles.
fn inverses() -> &'static [Vec<BaseField>] {
    static INVERSES: OnceLock<Vec<Vec<BaseField>>> = OnceLock::new();
    INVERSES.get_or_init(|| {
        let coset = CanonicCoset::new(LOG_ROWS).coset();
        let half: Vec<_> = coset.iter().take(1 << (LOG_ROWS - 1)).collect();
        let twice = |coordinates: &[BaseField]| {
            let twice: Vec<BaseField> = coordinates.iter().map(|own| *own + *own).collect();
            BaseField::batch_inverse(&twice)
        };
        let ys: Vec<BaseField> = half.iter().map(|point| point.y).collect();
        let mut xs: Vec<BaseField> = half.iter().map(|point| point.x).collect();
        let mut folds = vec![twice(&ys)];
        while xs.len() > 1 {
            xs.truncate(xs.len() / 2);
            folds.push(twice(&xs));
            xs.iter_mut().for_each(|own| *own = CirclePoint::double_x(*own));
        }
        folds
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stwo::core::circle::SECURE_FIELD_CIRCLE_GEN;

    /// Columns that are a polynomial of low degree in the coordinates of their points have its value at any other point.
    #[test]
    fn columns_have_the_values_of_their_polynomials() {
        let polynomial = |at: CirclePoint<SecureField>, [a, b, c, d, e]: [u32; 5]| {
            let [a, b, c, d, e] = [a, b, c, d, e].map(|own| SecureField::from(BaseField::from(own)));
            a + b * at.x + c * at.y + d * at.x * at.y + e * CirclePoint::double_x(CirclePoint::double_x(at.x))
        };
        let all = [
            [1, 0, 0, 0, 0],
            [0, 1, 0, 0, 0],
            [0, 0, 1, 0, 0],
            [0, 0, 0, 1, 0],
            [0, 0, 0, 0, 1],
            [2_147_483_646, 7, 2_147_483_640, 1 << 30, 3],
        ];
        let points: Vec<_> = CanonicCoset::new(LOG_ROWS)
            .coset()
            .iter()
            .map(|p| p.into_ef())
            .collect();
        let column = |own| -> Vec<BaseField> {
            let value = |at: &CirclePoint<SecureField>| polynomial(*at, own).to_m31_array()[0];
            points.iter().map(value).collect()
        };
        let columns = all.map(column);
        for power in [1, 2, 12_345] {
            let point = SECURE_FIELD_CIRCLE_GEN.mul(power);
            assert_eq!(at_point(&columns, point), all.map(|own| polynomial(point, own)));
        }
    }
}
