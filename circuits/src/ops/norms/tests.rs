use super::*;
use crate::model::{ByClass, ChannelShift};

fn norm(scale: u8, eps: ByClass<u64>) -> NormParams {
    let shift = ChannelShift::one(1);
    NormParams { scale, eps, shift }
}

/// Worked out by hand: `floor(sqrt(hidden 2^(2 scale) / squares))`, where the squares are those of the row and epsilon.
#[test]
fn reciprocal_roots_are_those_of_the_document() {
    let of = |sums, hidden, scale, eps| {
        let eps = ByClass {
            body: eps,
            lead: 1 << 50,
        };
        norm_rsqrt(sums, hidden, &norm(scale, eps), RowClass::Body)
    };
    assert_eq!(of([0, 0, 3], 1, 10, 1), 1 << 9);
    assert_eq!(of([0, 0, 3], 4, 10, 1), 1 << 10);
    assert_eq!(of([0, 0, 7], 1, 10, 1), 362);
    // 2^16 + 2^9 + 1 + 255 = 66304.
    assert_eq!(
        of([1, 1, 1], 128, 20, 255),
        ((128u64 << 40) as f64 / 66304.0).sqrt() as u32
    );
    // Scales beyond the largest one count as that.
    assert_eq!(of([0; 3], 2, 48, 1), u32::MAX);
    assert_eq!(of([1 << 24, 0, 0], 1, 60, 1), of([1 << 24, 0, 0], 1, 48, 1));
    assert_eq!(of([0, 0, 0], 1, 21, 1), 1 << 21);
    // A bracket that is not positive counts as 1.
    assert_eq!(of([0, -1, 0], 1, 20, 1), 1 << 20);
}

/// Sums of squares of limbs are those of the values, in the units of their channels.
#[test]
fn norm_sums_are_sums_of_squares() {
    let row = [i16::MIN, -1, 0, 1, 255, 256, 12_345, i16::MAX];
    let whole = |[hh, hl, ll]: [i64; 3]| (hh << 16) + (hl << 9) + ll;
    let squares: i64 = row.iter().map(|v| i64::from(*v).pow(2)).sum();
    assert_eq!(whole(norm_sums(&row, &[])), squares);
    let exponents = [3, 0, 1, 0, 2, 7, 0, 1];
    let values = row.iter().zip(exponents).map(|(v, k)| i64::from(*v) << k);
    assert_eq!(whole(norm_sums(&row, &exponents)), values.map(|v| v * v).sum::<i64>());
}

/// Rows of each class have an epsilon in their own unit.
#[test]
fn leading_rows_have_their_own_epsilon() {
    let eps = ByClass { body: 1, lead: 13 };
    let norm = norm(10, eps);
    assert_eq!(norm_rsqrt([0, 0, 3], 1, &norm, RowClass::Body), 1 << 9);
    assert_eq!(norm_rsqrt([0, 0, 3], 1, &norm, RowClass::Lead), 1 << 8);
}

/// Of a row of zeros the sum of squares is epsilon: all limbs of it are in the claim on squares, of which the upper ones are
/// those of large models only.
#[test]
fn the_sum_of_squares_of_zeros_is_epsilon() {
    let [limb, weight] = [[3, 1, 4, 1], [5, 9, 2, 6]].map(|n| SecureField::from_m31_array(n.map(base)));
    for eps in [1, 1700, 1 << 24, (1 << 24) + 1, (77 << 24) + 1700, 1 << 44] {
        let mut row = [0; COLUMNS];
        for k in 0..LIMBS {
            row[SUM + k] = (eps >> (k as u32 * LIMB_BITS)) as i64 & ((1 << LIMB_BITS) - 1);
        }
        // What the lower half has beyond its two limbs.
        row[CARRY] = i64::from(epsilon(eps)[1] == 1 << (2 * LIMB_BITS));
        let columns = square_columns(limb, weight).into_iter();
        let sum: SecureField = columns.map(|(at, own)| own * base(row[at])).sum();
        assert_eq!(sum, epsilon_value(eps, limb, weight));
    }
}
