//! Multilinear extensions and degree-2 sumcheck rounds of the weight opening. Points are MSB-first:
//! the first coordinate belongs to the most significant bit of the index.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::scalar::Scalar;

/// One sumcheck round of degree 2: `[s(0), s(2)]`; `s(1)` is implied by the claim `s(0) + s(1)`.
pub type Round = [SecureField; 2];

/// All `eq(point, z)` for `z` in `0..2^point.len()`.
pub fn eq_table(point: &[SecureField]) -> Vec<SecureField> {
    let mut table = Vec::with_capacity(1 << point.len());
    table.push(SecureField::one());
    for &r in point {
        table = table
            .iter()
            .flat_map(|&e| {
                let one = e * r;
                [e - one, one]
            })
            .collect();
    }
    table
}

/// `eq(a, b)` of two points of equal length.
pub fn eq_eval<'a>(a: impl Iterator<Item = &'a SecureField>, b: impl Iterator<Item = &'a SecureField>) -> SecureField {
    a.zip(b).fold(SecureField::one(), |product, (&a, &b)| {
        let both = a * b;
        product * (SecureField::one() - a - b + both + both)
    })
}

/// Multilinear extension of `table` (zero-padded to `2^point.len()` entries) at `point`.
pub fn evaluate(table: &[SecureField], point: &[SecureField]) -> SecureField {
    // The table of all weights is the product of these two, and would be as long as the other.
    let (leading, trailing) = point.split_at(point.len() / 2);
    let (rows, row) = (eq_table(leading), eq_table(trailing));
    let own = table.chunks(row.len()).zip(rows);
    own.fold(SecureField::zero(), |sum, (values, weight)| {
        sum + weight * SecureField::dot(values, &row)
    })
}

/// Binds the most significant variable of `table` to `r`.
pub fn bind_most_significant(table: &mut Vec<SecureField>, r: SecureField) {
    let half = table.len() / 2;
    let (low, high) = table.split_at_mut(half);
    for (a, &b) in low.iter_mut().zip(high.iter()) {
        *a += r * (b - *a);
    }
    table.truncate(half);
}

/// The claim after a round: `s(r)` of the degree-2 polynomial with `s(0) + s(1) = claim`.
pub fn next_claim(claim: SecureField, [s0, s2]: Round, r: SecureField) -> SecureField {
    let s1 = claim - s0;
    // Newton form on the nodes 0, 1, 2: s0 + r (s1 - s0) + r (r - 1) / 2 (s2 - 2 s1 + s0).
    let half = BaseField::from_u32_unchecked(1 << 30);
    let second = (s2 - s1 - s1 + s0) * half;
    s0 + r * (s1 - s0 + (r - SecureField::one()) * second)
}
