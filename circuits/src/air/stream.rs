//! The residual stream: embedding and residual updates, and the RMSNorm of each state. One row per
//! (state n, token, feature); state 0 is the embedding, 2l+1 follows attention, 2l+2 the MLP of layer l.

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{join_narrow, join_wide, limbs, round, Rounding};
use super::{Air, Relations};

/// Accumulator of the matmul that updates the state (embedding, o or down), in limbs.
pub const ACC_HI: usize = 0;
pub const ACC_LO: usize = 1;
/// The previous state (wired to `X` of state n-1; for n = 0, what enters the chunk, which is zero in the first one).
pub const PREV: usize = 2;
pub const V1: usize = 3;
pub const U1: usize = 4;
/// The state, in limbs.
pub const X_HI: usize = 5;
pub const X_LO: usize = 6;
pub const ROUND1: usize = 7;
/// Public: `2^shift`.
pub const POW1: usize = 12;
/// Public: `2^skip`.
pub const SKIP: usize = 13;
/// Squares of the limbs, summed by claims into the norm statistics.
pub const HH: usize = 14;
pub const HL: usize = 15;
pub const LL: usize = 16;
/// Public given the norm statistics: the reciprocal square root, `256 R_HI + R_LO`.
pub const R_HI: usize = 17;
pub const R_LO: usize = 18;
pub const V2: usize = 19;
pub const U2: usize = 20;
/// The normed state, in limbs.
pub const Y_HI: usize = 21;
pub const Y_LO: usize = 22;
pub const ROUND2: usize = 23;
/// Public: `2^shift` of the norm.
pub const POW2: usize = 28;
pub const COLUMNS: usize = 29;

#[derive(Clone, Debug)]
pub struct Stream {
    pub log_rows: u32,
}

impl Air for Stream {
    fn log_rows(&self) -> u32 {
        self.log_rows
    }
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F], rel: &Relations) {
        let col = |i: usize| c[i].clone();
        let t = join_wide(e, rel, [col(ACC_HI), col(ACC_LO), col(V1), col(U1)]);
        let x = limbs(e, rel, col(X_HI), col(X_LO));
        round(
            e,
            rel,
            t + col(SKIP) * col(PREV),
            col(POW1),
            x.clone(),
            Rounding::read(c, ROUND1),
            1 << 15,
        );

        e.add_constraint(col(HH) - col(X_HI) * col(X_HI));
        e.add_constraint(col(HL) - col(X_HI) * col(X_LO));
        e.add_constraint(col(LL) - col(X_LO) * col(X_LO));

        let t = join_narrow(e, rel, [x.clone() * col(R_HI), x * col(R_LO), col(V2), col(U2)]);
        let y = limbs(e, rel, col(Y_HI), col(Y_LO));
        round(e, rel, t, col(POW2), y, Rounding::read(c, ROUND2), 1 << 15);
    }
}
