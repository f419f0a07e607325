//! Requantisation, the one gadget behind every non-linear step (docs/protocol.md, section 8.1):
//! `out = clamp(floor((2^8 acc_hi + acc_lo + 2^(7+s) + previous) / 2^(8+s)))`. A gadget is where its columns are: it adds its
//! constraints to a row, and lists its lookups.

use stwo::core::fields::m31::BaseField;
use stwo_constraint_framework::EvalAtRow;

use super::constant;
use super::lookups::{Linear, Lookup};
use crate::model::Limbs;

/// Range of the high part of a wide low accumulator: `|acc_lo| < 2^30`, so `floor(acc_lo / 2^8) + 2^22`
/// has a 16-bit and a 7-bit limb.
const WIDE_OFFSET: i64 = 1 << 22;

/// `2^-BITS`, `1 <= BITS <= 31`: the order of the field is `2^31 - 1`, so `2^31 = 1`.
const fn inverse_power<const BITS: u32>() -> BaseField {
    const { assert!(BITS >= 1 && BITS <= 31, "a power of two that is canonical") };
    BaseField::from_u32_unchecked(1 << (31 - BITS))
}

/// `acc_hi + floor(acc_lo / 2^8)` for `|acc_lo| < 2^30`. `v` is the low byte of `acc_lo`, `u` the low 16 bits
/// of `floor(acc_lo / 2^8) + 2^22`.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    pub acc_hi: usize,
    pub acc_lo: usize,
    pub v: usize,
    pub u: usize,
}

impl Wide {
    /// The joined accumulator; adds no constraint.
    pub fn value<E: EvalAtRow>(&self, c: &[E::F]) -> E::F {
        c[self.acc_hi].clone() + (c[self.acc_lo].clone() - c[self.v].clone()) * E::F::from(inverse_power::<8>())
    }

    pub fn lookups(&self) -> [Lookup; 3] {
        let [acc_lo, v, u] = [self.acc_lo, self.v, self.u].map(Linear::column);
        let quotient = (acc_lo - v.clone()) * inverse_power::<8>();
        let high = (quotient + Linear::constant(WIDE_OFFSET) - u.clone()) * inverse_power::<16>();
        [
            Lookup::bits(Linear::constant(1 << 8), v),
            Lookup::range16(u),
            Lookup::bits(Linear::constant(1 << 7), high),
        ]
    }
}

/// As [`Wide`] for products with `-2^23 <= acc_lo < 2^23`; `u` is `floor(acc_lo / 2^8) + 2^15`, a column of its own because a
/// looked-up value must be linear in the columns.
#[derive(Clone, Copy, Debug)]
pub struct Narrow {
    pub v: usize,
    pub u: usize,
}

impl Narrow {
    /// The joined product of the given limbs.
    pub fn value<E: EvalAtRow>(&self, e: &mut E, c: &[E::F], [acc_hi, acc_lo]: [E::F; 2]) -> E::F {
        let quotient = c[self.u].clone() - constant::<E>(1 << 15);
        e.add_constraint(acc_lo - quotient.clone() * constant::<E>(1 << 8) - c[self.v].clone());
        acc_hi + quotient
    }

    pub fn lookups(&self) -> [Lookup; 2] {
        let [v, u] = [self.v, self.u].map(Linear::column);
        [Lookup::bits(Linear::constant(1 << 8), v), Lookup::range16(u)]
    }
}

/// `out = clamp(floor((t + previous + pow/2) / pow))`, `pow = 2^s`, by five consecutive columns: remainder limbs `W0`, `W1`,
/// saturation flags `POS`, `NEG`, and `BOUND`, the bound of the low limb.
///
/// `out` must be range-checked to int16 by the caller; `excess` is the bound (a power of two) of the high remainder limb, `pow *
/// 32768 + |t| + |previous| + 2^15 excess` must stay below p (checked on the key, [`crate::bounds`]).
#[derive(Clone, Copy, Debug)]
pub struct Rounding {
    pub at: usize,
    pub excess: i64,
}

impl Rounding {
    /// A rounding of accumulators, whose excess is that of the bounds of a key.
    pub const fn at(at: usize) -> Self {
        Self { at, excess: 1 << 15 }
    }

    /// Adds the constraints on `t`, `pow` and `out`.
    pub fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F], t: E::F, pow: E::F, out: E::F) {
        let one = || constant::<E>(1);
        let [w0, w1, pos, neg, bound] = [0, 1, 2, 3, 4].map(|i| c[self.at + i].clone());
        let base = t + pow.clone() * E::F::from(inverse_power::<1>());
        let plain = base.clone() - pow.clone() * out.clone();
        // In the negative saturated case the remainder is measured downwards: pow - 1 - (base + 32768 pow).
        let mirrored = pow.clone() - one() - (base + pow.clone() * constant::<E>(1 << 15)) * constant::<E>(2);
        let remainder = w0 + w1.clone() * constant::<E>(1 << 15);
        e.add_constraint(remainder - plain - neg.clone() * mirrored);
        e.add_constraint(pos.clone() * (pos.clone() - one()));
        e.add_constraint(neg.clone() * (neg.clone() - one()));
        e.add_constraint(pos.clone() * (out.clone() - constant::<E>(i64::from(i16::MAX))));
        e.add_constraint(neg.clone() * (out - constant::<E>(i64::from(i16::MIN))));
        let saturated = pos + neg;
        e.add_constraint(w1 * (one() - saturated.clone()));
        e.add_constraint(bound - pow.clone() - saturated * (constant::<E>(1 << 15) - pow));
    }

    pub fn lookups(&self) -> [Lookup; 2] {
        let [w0, w1, bound] = [0, 1, 4].map(|i| Linear::column(self.at + i));
        [Lookup::bits(bound, w0), Lookup::bits(Linear::constant(self.excess), w1)]
    }
}

/// What the claim on accumulators needs beside the values that they are rounded to (docs/protocol.md, section 8.1):
/// consecutive columns, `2^s` first. No constraint ties them together; the claim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    pub at: usize,
    /// How the accumulators are claimed.
    pub limbs: Limbs,
}

impl Remainder {
    /// The difference of the high limb is `128 d_hi + d_lo` minus this.
    pub const OFFSET: i64 = 1 << 22;

    /// Number of columns.
    pub const fn columns(limbs: Limbs) -> usize {
        match limbs {
            Limbs::One => 2,
            Limbs::Two => 5,
        }
    }

    /// Public: `2^s`; in one limb `2^(8 + s)`, the bound of the remainder.
    pub const fn pow(self) -> usize {
        self.at
    }
    /// In one limb: the remainder, below `2^(8 + s)`.
    pub const fn rest(self) -> usize {
        self.at + 1
    }
    /// In two limbs: the remainder, `256 r_hi + r_lo`.
    pub const fn r_hi(self) -> usize {
        self.at + 1
    }
    pub const fn r_lo(self) -> usize {
        self.at + 2
    }
    /// In two limbs: the difference, in limbs of 16 and 7 bits.
    pub const fn d_hi(self) -> usize {
        self.at + 3
    }
    pub const fn d_lo(self) -> usize {
        self.at + 4
    }

    pub fn lookups(self) -> Vec<Lookup> {
        let column = |i: usize| Linear::column(i);
        match self.limbs {
            Limbs::One => vec![Lookup::bits(column(self.pow()), column(self.rest()))],
            Limbs::Two => vec![
                Lookup::bits(column(self.pow()), column(self.r_hi())),
                Lookup::bits(Linear::constant(1 << 8), column(self.r_lo())),
                Lookup::range16(column(self.d_hi())),
                Lookup::bits(Linear::constant(1 << 7), column(self.d_lo())),
            ],
        }
    }
}

/// Lookups of an int16 in one column, or in limbs.
pub fn int16(at: usize, limbs: Limbs) -> Vec<Lookup> {
    match limbs {
        Limbs::One => vec![Lookup::int16(at)],
        Limbs::Two => Int16Limbs { hi: at, lo: at + 1 }.lookups().to_vec(),
    }
}

/// An int16 in limbs: `256 hi + lo`.
#[derive(Clone, Copy, Debug)]
pub struct Int16Limbs {
    pub hi: usize,
    pub lo: usize,
}

impl Int16Limbs {
    /// The value; adds no constraint.
    pub fn value<E: EvalAtRow>(&self, c: &[E::F]) -> E::F {
        c[self.hi].clone() * constant::<E>(1 << 8) + c[self.lo].clone()
    }

    pub fn lookups(&self) -> [Lookup; 2] {
        let bound = || Linear::constant(1 << 8);
        let [hi, lo] = [self.hi, self.lo].map(Linear::column);
        [
            Lookup::bits(bound(), hi + Linear::constant(1 << 7)),
            Lookup::bits(bound(), lo),
        ]
    }
}
