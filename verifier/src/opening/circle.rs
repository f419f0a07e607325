//! The circle code of the weight commitment: fibres of the folding maps, folding, and evaluation of a
//! message. Oracles are stored in bit-reversed order, so the points that fold together are neighbours.
//!
//! Oracle 0 lives on the canonic circle domain of log size `m + 1`; fibre `j` is the pair `(x, y)`,
//! `(x, -y)`. Folding it gives a function of `x` on the line domain of log size `m`, where `x` and `-x`
//! are neighbours and fold to `pi(x) = 2 x^2 - 1` on the line domain of log size `m - 1`, and so on.

use stwo::core::circle::{CirclePoint, Coset};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::utils::bit_reverse_index;

/// Point of the half coset of log size `log_line` behind index `index` of the line domain.
fn half_coset_point(log_line: u32, index: usize) -> CirclePoint<BaseField> {
    Coset::half_odds(log_line).at(bit_reverse_index(index, log_line))
}

/// The `y` of fibre `fibre` of the circle domain of log size `log_line + 1`, `log_line <= 29`. Never zero.
pub fn circle_fibre(log_line: u32, fibre: usize) -> BaseField {
    half_coset_point(log_line, fibre).y
}

/// The `x` of index `index` of the line domain of log size `log_line`. Never zero for `1 <= log_line <= 29`.
pub fn line_coordinate(log_line: u32, index: usize) -> BaseField {
    half_coset_point(log_line, index).x
}

/// The `x` of the first point of every pair in leaf `leaf` of `2^log_leaf` neighbours of the line domain.
pub fn line_fibre(log_line: u32, leaf: usize, log_leaf: u32) -> Vec<BaseField> {
    let first = leaf << log_leaf;
    (0..1 << log_leaf)
        .step_by(2)
        .map(|i| line_coordinate(log_line, first + i))
        .collect()
}

/// Folds one pair: `(1 - l) f0 + l f1` where `f = f0 + t f1` takes the values `a` at `t`, `b` at `-t`; `t` is not zero.
pub fn fold_pair(a: SecureField, b: SecureField, t: BaseField, l: SecureField) -> SecureField {
    let half = BaseField::from_u32_unchecked(1 << 30);
    let f0 = (a + b) * half;
    let f1 = (a - b) * (half * t.inverse());
    f0 + l * (f1 - f0)
}

/// Folds a leaf of `2^challenges.len()` neighbours to one value. `coordinates` is one per pair, as given
/// by [`line_fibre`].
pub fn fold_leaf(leaf: &[SecureField], coordinates: &[BaseField], challenges: &[SecureField]) -> Option<SecureField> {
    let mut values = leaf.to_vec();
    let mut coordinates = coordinates.to_vec();
    for &l in challenges {
        values = values
            .chunks_exact(2)
            .zip(&coordinates)
            .filter_map(|(pair, &t)| match *pair {
                [a, b] => Some(fold_pair(a, b, t, l)),
                _ => None,
            })
            .collect();
        coordinates = coordinates.into_iter().step_by(2).map(CirclePoint::double_x).collect();
    }
    match *values.as_slice() {
        [value] => Some(value),
        _ => None,
    }
}

/// Value at `x` of the message with `2^k` coefficients: bit 0 of the index goes with `x`, bit 1 with
/// `pi(x)`, and so on.
pub fn evaluate_line(message: &[SecureField], mut x: BaseField) -> Option<SecureField> {
    let mut values = message.to_vec();
    while values.len() > 1 {
        values = values
            .chunks_exact(2)
            .filter_map(|pair| match *pair {
                [a, b] => Some(a + b * x),
                _ => None,
            })
            .collect();
        x = CirclePoint::double_x(x);
    }
    values.first().copied()
}
