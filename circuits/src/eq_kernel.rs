//! The `eq` column that binds multilinear evaluations to univariate columns (docs/protocol.md, section 9,
//! after ePrint 2023/1284, section 5.1): cyclically, `eq(z + 1) = eq(z) carry(z) + eq(0) last(z)`, where
//! `carry(z)` depends on the number of trailing ones of `z` alone and is 0 on the last row, and `last` is 1
//! there and 0 elsewhere. The recurrence has one solution. `carry` and `last` are public given the point:
//! the verifier evaluates them out of domain and compares.

use num_traits::{One, Zero};
use stwo::core::circle::{CirclePoint, CirclePointIndex, Coset};
use stwo::core::constraints::{coset_vanishing, coset_vanishing_derivative};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::poly::circle::CanonicCoset;

/// `carry` by number of trailing ones, `0..k`, for a point of `k` coordinates (MSB-first); `None` if a
/// coordinate is 0 or 1 (then `eq` has zeros and no such recurrence exists).
pub fn carries(point: &[SecureField]) -> Option<Vec<SecureField>> {
    let one = SecureField::one();
    let mut prefix = one;
    let mut list = Vec::with_capacity(point.len());
    for &r in point.iter().rev() {
        if r.is_zero() || r == one {
            return None;
        }
        list.push(prefix * r * (one - r).inverse());
        prefix *= (one - r) * r.inverse();
    }
    Some(list)
}

/// `eq(0)`: the product of `1 - coordinate`.
pub fn first(point: &[SecureField]) -> SecureField {
    point
        .iter()
        .fold(SecureField::one(), |product, r| product * (SecureField::one() - *r))
}

/// Value of the `last` polynomial of a column of `2^log_size` rows at `p`, a point at the column's own size.
pub fn eval_last(log_size: u32, p: CirclePoint<SecureField>) -> Option<SecureField> {
    lagrange(log_size, (1usize << log_size).checked_sub(1)?, p)
}

/// Value at `p` of the circle polynomial that is 1 at point `index` of the canonic coset of log size
/// `log_size` and 0 at the others; `None` at the (negligibly few) points where the formula degenerates.
fn lagrange(log_size: u32, index: usize, p: CirclePoint<SecureField>) -> Option<SecureField> {
    let coset = CanonicCoset::new(log_size);
    let at: CirclePoint<SecureField> = coset.at(index).into_ef();
    let derivative = coset_vanishing_derivative(Coset::new(CirclePointIndex::generator(), log_size), at);
    let h = p - at;
    let denominator = -(at.y + at.y) * derivative * h.y;
    if denominator.is_zero() {
        return None;
    }
    Some(coset_vanishing(coset.coset, p) * (SecureField::one() + h.x) * denominator.inverse())
}

/// Value of the `carry` polynomial of a column of `2^k` rows at `p`, a point at the column's own size.
pub fn eval_carry(carries: &[SecureField], p: CirclePoint<SecureField>) -> Option<SecureField> {
    let k = carries.len() as u32;
    // doublings[j] = 2^j p
    let mut doublings = vec![p];
    for _ in 1..k {
        let last = *doublings.last()?;
        doublings.push(last.double());
    }
    let mut sum = SecureField::zero();
    for (ones, &carry) in carries.iter().enumerate() {
        // Rows with exactly `ones` trailing ones: index 2^ones - 1 modulo 2^(ones + 1).
        let period = ones as u32 + 1;
        let index = (1usize << ones) - 1;
        sum += carry * lagrange(period, index, *doublings.get((k - period) as usize)?)?;
    }
    Some(sum)
}
