//! Queries or keys: requantisation of both halves of a head and their rotation. One row per
//! (layer, token, head, index in the half head).

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{Limbs, Rounding, Wide};
use super::lookups::Lookup;
use super::{constant, Air};
use crate::semantics::ROPE_BITS;

/// Columns of one half before the rotation.
pub const HALF_COLUMNS: usize = 11;
pub const ACC_HI: usize = 0;
pub const ACC_LO: usize = 1;
pub const V: usize = 2;
pub const U: usize = 3;
/// The value before rotation.
pub const A: usize = 4;
pub const ROUND: usize = 5;
/// Public: `2^shift`.
pub const POW: usize = 10;
/// Public: cosine and sine.
pub const COS: usize = 2 * HALF_COLUMNS;
pub const SIN: usize = COS + 1;
/// Columns of one half after the rotation: output limbs and rounding.
pub const OUT: usize = SIN + 1;
pub const OUT_COLUMNS: usize = 7;
pub const OUT_HI: usize = 0;
pub const OUT_LO: usize = 1;
pub const OUT_ROUND: usize = 2;
pub const COLUMNS: usize = OUT + 2 * OUT_COLUMNS;

/// Column `i` of the half `half` before the rotation.
pub const fn before(half: usize, i: usize) -> usize {
    half * HALF_COLUMNS + i
}

/// Column `i` of the half `half` after the rotation.
pub const fn after(half: usize, i: usize) -> usize {
    OUT + half * OUT_COLUMNS + i
}

/// The accumulator of a half, joined.
const fn acc(half: usize) -> Wide {
    Wide {
        acc_hi: before(half, ACC_HI),
        acc_lo: before(half, ACC_LO),
        v: before(half, V),
        u: before(half, U),
    }
}

/// The rounding of a half before the rotation.
const fn rounding(half: usize) -> Rounding {
    Rounding::at(before(half, ROUND))
}

/// The rotated half.
const fn out(half: usize) -> Limbs {
    Limbs {
        hi: after(half, OUT_HI),
        lo: after(half, OUT_LO),
    }
}

/// The rounding of a half after the rotation.
const fn out_rounding(half: usize) -> Rounding {
    Rounding {
        at: after(half, OUT_ROUND),
        excess: 1 << 14,
    }
}

#[derive(Clone, Debug)]
pub struct Rope {
    pub log_rows: u32,
}

impl Air for Rope {
    fn log_rows(&self) -> u32 {
        self.log_rows
    }
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        let col = |i: usize| c[i].clone();
        let [a, b] = [0, 1].map(|half| {
            let [pow, value] = [POW, A].map(|i| col(before(half, i)));
            rounding(half).constrain(e, c, acc(half).value::<E>(c), pow, value.clone());
            value
        });
        let rotated = [a.clone() * col(COS) - b.clone() * col(SIN), b * col(COS) + a * col(SIN)];
        for (half, t) in rotated.into_iter().enumerate() {
            let pow = constant::<E>(1 << ROPE_BITS);
            out_rounding(half).constrain(e, c, t, pow, out(half).value::<E>(c));
        }
    }
    fn lookups(&self) -> Vec<Lookup> {
        let mut list = Vec::new();
        for half in [0, 1] {
            list.extend(acc(half).lookups());
            list.push(Lookup::int16(before(half, A)));
            list.extend(rounding(half).lookups());
        }
        for half in [0, 1] {
            list.extend(out(half).lookups());
            list.extend(out_rounding(half).lookups());
        }
        list
    }
}
