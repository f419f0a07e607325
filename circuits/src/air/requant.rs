//! Requantised accumulators that are operands of a later matmul: the values v and the attention output.

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{join_wide, limbs, round, Rounding};
use super::{Air, Relations};

pub const ACC_HI: usize = 0;
pub const ACC_LO: usize = 1;
pub const V: usize = 2;
pub const U: usize = 3;
/// The output, in limbs.
pub const OUT_HI: usize = 4;
pub const OUT_LO: usize = 5;
pub const ROUND: usize = 6;
/// Public: `2^shift`.
pub const POW: usize = 11;
pub const COLUMNS: usize = 12;

#[derive(Clone, Debug)]
pub struct Requant {
    pub log_rows: u32,
}

impl Air for Requant {
    fn log_rows(&self) -> u32 {
        self.log_rows
    }
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F], rel: &Relations) {
        let col = |i: usize| c[i].clone();
        let t = join_wide(e, rel, [col(ACC_HI), col(ACC_LO), col(V), col(U)]);
        let out = limbs(e, rel, col(OUT_HI), col(OUT_LO));
        round(e, rel, t, col(POW), out, Rounding::read(c, ROUND), 1 << 15);
    }
}
