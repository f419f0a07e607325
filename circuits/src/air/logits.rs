//! Logits and arg max. One row per (token, vocabulary entry).

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{Rounding, Wide};
use super::lookups::{Linear, Lookup};
use super::Air;

pub const ACC_HI: usize = 0;
pub const ACC_LO: usize = 1;
pub const V: usize = 2;
pub const U: usize = 3;
/// The logit.
pub const L: usize = 4;
pub const ROUND: usize = 5;
/// Public: `2^shift`.
pub const POW: usize = 10;
/// The logit of the row's output token, constant over the vocabulary (by claim).
pub const TOP: usize = 11;
/// Public: 1 where the entry is below the output token, which must then be strictly larger.
pub const BELOW: usize = 12;
/// Public: 1 at the output token.
pub const CHOSEN: usize = 13;
/// Public: 1 at every real vocabulary entry of a generated position.
pub const ACTIVE: usize = 14;
pub const COLUMNS: usize = 15;

/// The accumulator, joined.
const ACC: Wide = Wide {
    acc_hi: ACC_HI,
    acc_lo: ACC_LO,
    v: V,
    u: U,
};
const ROUNDING: Rounding = Rounding::at(ROUND);

#[derive(Clone, Debug)]
pub struct Logits {
    pub log_rows: u32,
}

impl Air for Logits {
    fn log_rows(&self) -> u32 {
        self.log_rows
    }
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        let col = |i: usize| c[i].clone();
        ROUNDING.constrain(e, c, ACC.value::<E>(c), col(POW), col(L));
        e.add_constraint(col(CHOSEN) * (col(TOP) - col(L)));
    }
    fn lookups(&self) -> Vec<Lookup> {
        let [top, l, below] = [TOP, L, BELOW].map(Linear::column);
        let mut list = ACC.lookups().to_vec();
        list.push(Lookup::int16(L));
        list.extend(ROUNDING.lookups());
        list.push(Lookup::range16(top - l - below).used(ACTIVE));
        list
    }
}
