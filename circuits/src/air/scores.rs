//! Attention scores and softmax. One row per (layer, head, query token, key token).

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{Narrow, Rounding, Wide};
use super::lookups::{Linear, Lookup, Relation};
use super::{constant, Air};
use crate::semantics::PROB_SHIFT;

pub const ACC_HI: usize = 0;
pub const ACC_LO: usize = 1;
pub const V: usize = 2;
pub const U: usize = 3;
/// The score.
pub const S: usize = 4;
pub const ROUND: usize = 5;
/// Public: `2^shift`.
pub const POW: usize = 10;
/// The row's maximum, constant over the key axis (by claim).
pub const MAX: usize = 11;
/// Public: 1 where key <= query.
pub const MASK: usize = 12;
/// `max - score` where unmasked.
pub const D: usize = 13;
/// Its exponential, 0 where masked; the sums over keys are statistics bound by claim.
pub const EXP: usize = 14;
/// One selected key per row attains the maximum (the sum over keys is 1 by claim).
pub const SELECT: usize = 15;
/// Public given the statistics: the reciprocal of the row's sum, `256 R_HI + R_LO`.
pub const R_HI: usize = 16;
pub const R_LO: usize = 17;
pub const V2: usize = 18;
pub const U2: usize = 19;
/// The probability.
pub const P: usize = 20;
pub const ROUND2: usize = 21;
pub const COLUMNS: usize = 26;

/// The accumulator, joined.
const ACC: Wide = Wide {
    acc_hi: ACC_HI,
    acc_lo: ACC_LO,
    v: V,
    u: U,
};
const ROUNDING: Rounding = Rounding::at(ROUND);
/// Exponential times reciprocal of the sum.
const SHARE: Narrow = Narrow { v: V2, u: U2 };
const ROUNDING2: Rounding = Rounding::at(ROUND2);

#[derive(Clone, Debug)]
pub struct Scores {
    pub log_rows: u32,
}

impl Air for Scores {
    fn log_rows(&self) -> u32 {
        self.log_rows
    }
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        let col = |i: usize| c[i].clone();
        ROUNDING.constrain(e, c, ACC.value::<E>(c), col(POW), col(S));

        // Boolean on every row, those of padded layers included: it is the numerator of a lookup, and any other
        // value could give pairs to the table instead of using them.
        e.add_constraint(col(MASK) * (col(MASK) - constant::<E>(1)));
        let masked = constant::<E>(1) - col(MASK);
        e.add_constraint(col(MASK) * (col(MAX) - col(S) - col(D)));
        e.add_constraint(masked.clone() * col(EXP));
        e.add_constraint(col(SELECT) * (col(SELECT) - constant::<E>(1)));
        e.add_constraint(col(SELECT) * masked);
        e.add_constraint(col(SELECT) * col(D));

        let t = SHARE.value(e, c, [col(EXP) * col(R_HI), col(EXP) * col(R_LO)]);
        ROUNDING2.constrain(e, c, t, constant::<E>(1 << PROB_SHIFT), col(P));
    }
    fn lookups(&self) -> Vec<Lookup> {
        let exponential = Lookup::once(Relation::Exp, [D, EXP].map(Linear::column));
        let mut list = ACC.lookups().to_vec();
        list.push(Lookup::int16(S));
        list.extend(ROUNDING.lookups());
        list.push(exponential.used(MASK));
        list.extend(SHARE.lookups());
        list.push(Lookup::int16(P));
        list.extend(ROUNDING2.lookups());
        list
    }
}
