//! Attention scores and softmax. One row per (layer, head, query token, key token).

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::Remainder;
use super::lookups::{Linear, Lookup, Relation};
use super::{constant, Air};
use crate::model::Limbs;

/// The score.
pub const S: usize = 0;
/// The row's maximum, constant over the key axis (by claim).
pub const MAX: usize = 1;
/// Public: 1 where key <= query.
pub const MASK: usize = 2;
/// `max - score` where unmasked.
pub const D: usize = 3;
/// Its exponential, 0 where masked; the sums over keys are statistics bound by claim.
pub const EXP: usize = 4;
/// One selected key per row attains the maximum (the sum over keys is 1 by claim).
pub const SELECT: usize = 5;
/// The probability, at most `2^15`.
pub const P: usize = 6;
/// Its remainder, `2^8 P_HI + P_LO`, of 21 bits.
pub const P_HI: usize = 7;
/// Low byte of the remainder.
pub const P_LO: usize = 8;
/// The difference of its high limb, plus [`P_OFFSET`].
pub const P_DELTA: usize = 9;
/// Of the score.
pub const SCORE: Remainder = Remainder {
    at: 10,
    limbs: Limbs::Two,
};
/// Number of trace columns.
pub const COLUMNS: usize = 15;
/// `DELTA` of a probability is in -36736..=4095.
pub const P_OFFSET: i64 = 40960;

/// Scores, their exponentials and probabilities.
#[derive(Clone, Debug)]
pub struct Scores {
    /// log2 of the rows.
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
        // Boolean on every row, those of padded layers included: it is the numerator of a lookup, and any other
        // value could give pairs to the table instead of using them.
        e.add_constraint(col(MASK) * (col(MASK) - constant::<E>(1)));
        let masked = constant::<E>(1) - col(MASK);
        e.add_constraint(col(MASK) * (col(MAX) - col(S) - col(D)));
        e.add_constraint(masked.clone() * col(EXP));
        e.add_constraint(col(SELECT) * (col(SELECT) - constant::<E>(1)));
        e.add_constraint(col(SELECT) * masked);
        e.add_constraint(col(SELECT) * col(D));
    }
    fn lookups(&self) -> Vec<Lookup> {
        let exponential = Lookup::once(Relation::Exp, [D, EXP].map(Linear::column));
        let mut list = vec![Lookup::int16(S), exponential.used(MASK)];
        let bits = |b: u32, at: usize| Lookup::bits(Linear::constant(1 << b), Linear::column(at));
        list.push(Lookup::range16(Linear::column(P)));
        list.extend([bits(13, P_HI), bits(8, P_LO)]);
        list.push(Lookup::range16(Linear::column(P_DELTA)));
        list.extend(SCORE.lookups());
        list
    }
}
