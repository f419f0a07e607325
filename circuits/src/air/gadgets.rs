//! Requantisation, the one gadget behind every non-linear step (docs/protocol.md, section 8.1):
//! `out = clamp(floor((2^8 acc_hi + acc_lo + 2^(7+s) + previous) / 2^(8+s)))`.

use stwo::core::fields::m31::BaseField;
use stwo_constraint_framework::EvalAtRow;

use super::{constant, use_bits, use_range16, Relations};

/// Range of the high part of a wide low accumulator: `|acc_lo| < 2^30`, so `floor(acc_lo / 2^8) + 2^22`
/// has a 16-bit and a 7-bit limb.
const WIDE_OFFSET: i64 = 1 << 22;

/// `2^-BITS`, `1 <= BITS <= 31`: the order of the field is `2^31 - 1`, so `2^31 = 1`.
fn inverse_power<E: EvalAtRow, const BITS: u32>() -> E::F {
    const { assert!(BITS >= 1 && BITS <= 31, "a power of two that is canonical") };
    E::F::from(BaseField::from_u32_unchecked(1 << (31 - BITS)))
}

/// `acc_hi + floor(acc_lo / 2^8)` for `|acc_lo| < 2^30`. `v` is the low byte of `acc_lo`, `u` the low 16 bits
/// of `floor(acc_lo / 2^8) + 2^22`.
pub fn join_wide<E: EvalAtRow>(e: &mut E, rel: &Relations, [acc_hi, acc_lo, v, u]: [E::F; 4]) -> E::F {
    let quotient = (acc_lo - v.clone()) * inverse_power::<E, 8>();
    let high = (quotient.clone() + constant::<E>(WIDE_OFFSET) - u.clone()) * inverse_power::<E, 16>();
    use_bits(e, rel, constant::<E>(1 << 8), v);
    use_range16(e, rel, u);
    use_bits(e, rel, constant::<E>(1 << 7), high);
    acc_hi + quotient
}

/// As [`join_wide`] for products with `-2^23 <= acc_lo < 2^23`; `u` is `floor(acc_lo / 2^8) + 2^15`, a
/// column of its own because a looked-up value must be linear in the columns.
pub fn join_narrow<E: EvalAtRow>(e: &mut E, rel: &Relations, [acc_hi, acc_lo, v, u]: [E::F; 4]) -> E::F {
    let quotient = u.clone() - constant::<E>(1 << 15);
    e.add_constraint(acc_lo - quotient.clone() * constant::<E>(1 << 8) - v.clone());
    use_bits(e, rel, constant::<E>(1 << 8), v);
    use_range16(e, rel, u);
    acc_hi + quotient
}

/// Witness columns of one rounding: remainder limbs, saturation flags, bound of the low limb.
pub struct Rounding<F> {
    pub w0: F,
    pub w1: F,
    pub pos: F,
    pub neg: F,
    pub bound: F,
}

impl<F: Clone> Rounding<F> {
    /// Number of columns.
    pub const COLUMNS: usize = 5;

    /// Reads five consecutive columns.
    pub fn read(c: &[F], at: usize) -> Self {
        let col = |i: usize| c[at + i].clone();
        Self {
            w0: col(0),
            w1: col(1),
            pos: col(2),
            neg: col(3),
            bound: col(4),
        }
    }
}

/// `out = clamp(floor((t + previous + pow/2) / pow))`, `pow = 2^s`. `out` must be range-checked to int16
/// by the caller; `excess` is the bound (a power of two) of the high remainder limb, `pow * 32768 + |t| +
/// |previous| + 2^15 excess` must stay below p (checked on the key, [`crate::bounds`]).
pub fn round<E: EvalAtRow>(e: &mut E, rel: &Relations, t: E::F, pow: E::F, out: E::F, r: Rounding<E::F>, excess: i64) {
    let one = || constant::<E>(1);
    let base = t + pow.clone() * inverse_power::<E, 1>();
    let plain = base.clone() - pow.clone() * out.clone();
    // In the negative saturated case the remainder is measured downwards: pow - 1 - (base + 32768 pow).
    let mirrored = pow.clone() - one() - (base + pow.clone() * constant::<E>(1 << 15)) * constant::<E>(2);
    let remainder = r.w0.clone() + r.w1.clone() * constant::<E>(1 << 15);
    e.add_constraint(remainder - plain - r.neg.clone() * mirrored);
    e.add_constraint(r.pos.clone() * (r.pos.clone() - one()));
    e.add_constraint(r.neg.clone() * (r.neg.clone() - one()));
    e.add_constraint(r.pos.clone() * (out.clone() - constant::<E>(i64::from(i16::MAX))));
    e.add_constraint(r.neg.clone() * (out - constant::<E>(i64::from(i16::MIN))));
    let saturated = r.pos + r.neg;
    e.add_constraint(r.w1.clone() * (one() - saturated.clone()));
    e.add_constraint(r.bound.clone() - pow.clone() - saturated * (constant::<E>(1 << 15) - pow));
    use_bits(e, rel, r.bound, r.w0);
    use_bits(e, rel, constant::<E>(excess), r.w1);
}

/// Checks `out` to be int16 given as limbs and returns it: `256 hi + lo`.
pub fn limbs<E: EvalAtRow>(e: &mut E, rel: &Relations, hi: E::F, lo: E::F) -> E::F {
    use_bits(e, rel, constant::<E>(1 << 8), hi.clone() + constant::<E>(1 << 7));
    use_bits(e, rel, constant::<E>(1 << 8), lo.clone());
    hi * constant::<E>(1 << 8) + lo
}

/// Checks `out` to be int16.
pub fn int16<E: EvalAtRow>(e: &mut E, rel: &Relations, out: E::F) {
    use_range16(e, rel, out + constant::<E>(1 << 15));
}
