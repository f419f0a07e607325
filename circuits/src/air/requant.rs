//! Requantised accumulators that are operands of a later matmul: the values v and the attention output.

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{Limbs, Rounding, Wide};
use super::lookups::Lookup;
use super::Air;

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

/// The accumulator, joined.
const ACC: Wide = Wide {
    acc_hi: ACC_HI,
    acc_lo: ACC_LO,
    v: V,
    u: U,
};
const OUT: Limbs = Limbs { hi: OUT_HI, lo: OUT_LO };
const ROUNDING: Rounding = Rounding::at(ROUND);

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
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        ROUNDING.constrain(e, c, ACC.value::<E>(c), c[POW].clone(), OUT.value::<E>(c));
    }
    fn lookups(&self) -> Vec<Lookup> {
        let mut list = ACC.lookups().to_vec();
        list.extend(OUT.lookups());
        list.extend(ROUNDING.lookups());
        list
    }
}
