//! Queries or keys: requantisation of both halves of a head and their rotation. One row per
//! (layer, token, head, index in the half head).

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{int16, join_wide, limbs, round, Rounding};
use super::{constant, Air, Relations};
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
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F], rel: &Relations) {
        let col = |i: usize| c[i].clone();
        let [a, b] = [0, 1].map(|half| {
            let at = |i: usize| c[before(half, i)].clone();
            let t = join_wide(e, rel, [at(ACC_HI), at(ACC_LO), at(V), at(U)]);
            int16(e, rel, at(A));
            round(
                e,
                rel,
                t,
                at(POW),
                at(A),
                Rounding::read(c, before(half, ROUND)),
                1 << 15,
            );
            at(A)
        });
        let rotated = [a.clone() * col(COS) - b.clone() * col(SIN), b * col(COS) + a * col(SIN)];
        for (half, t) in rotated.into_iter().enumerate() {
            let out = limbs(e, rel, col(after(half, OUT_HI)), col(after(half, OUT_LO)));
            let pow = constant::<E>(1 << ROPE_BITS);
            round(e, rel, t, pow, out, Rounding::read(c, after(half, OUT_ROUND)), 1 << 14);
        }
    }
}
