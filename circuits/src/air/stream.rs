//! The residual stream: embedding and residual updates, and the RMSNorm of each state. One row per
//! (state n, token, feature); state 0 is the embedding, 2l+1 follows attention, 2l+2 the MLP of layer l.

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{Limbs, Narrow, Rounding, Wide};
use super::lookups::Lookup;
use super::Air;

/// Accumulator of the matmul that updates the state (embedding, o or down), in limbs.
pub const ACC_HI: usize = 0;
pub const ACC_LO: usize = 1;
/// The previous state (wired to `X` of state n-1; zero for n = 0).
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

/// The accumulator, joined.
const ACC: Wide = Wide {
    acc_hi: ACC_HI,
    acc_lo: ACC_LO,
    v: V1,
    u: U1,
};
const X: Limbs = Limbs { hi: X_HI, lo: X_LO };
const ROUNDING1: Rounding = Rounding::at(ROUND1);
/// State times reciprocal square root.
const NORMED: Narrow = Narrow { v: V2, u: U2 };
const Y: Limbs = Limbs { hi: Y_HI, lo: Y_LO };
const ROUNDING2: Rounding = Rounding::at(ROUND2);

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
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        let col = |i: usize| c[i].clone();
        let (t, x) = (ACC.value::<E>(c), X.value::<E>(c));
        ROUNDING1.constrain(e, c, t + col(SKIP) * col(PREV), col(POW1), x.clone());

        e.add_constraint(col(HH) - col(X_HI) * col(X_HI));
        e.add_constraint(col(HL) - col(X_HI) * col(X_LO));
        e.add_constraint(col(LL) - col(X_LO) * col(X_LO));

        let t = NORMED.value(e, c, [x.clone() * col(R_HI), x * col(R_LO)]);
        ROUNDING2.constrain(e, c, t, col(POW2), Y.value::<E>(c));
    }
    fn lookups(&self) -> Vec<Lookup> {
        let mut list = ACC.lookups().to_vec();
        list.extend(X.lookups());
        list.extend(ROUNDING1.lookups());
        list.extend(NORMED.lookups());
        list.extend(Y.lookups());
        list.extend(ROUNDING2.lookups());
        list
    }
}
