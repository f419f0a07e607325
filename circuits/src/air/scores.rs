//! Attention scores and softmax. One row per (layer, head, query token, key token).

use super::gadgets::Remainder;
use super::lookups::{Linear, Lookup, Relation};
use super::Air;
use crate::model::Limbs;

/// The score.
pub const S: usize = 0;
/// The row's maximum less the score; of masked pairs, where the key is after the query, `MASKED`.
pub const D: usize = 1;
/// Its exponential, 0 where masked; the sums over keys are statistics bound by claim.
pub const EXP: usize = 2;
/// 1 where the difference is 0. At least one key of every row attains the maximum, by claim.
pub const ZERO: usize = 3;
/// The probability.
pub const P: usize = 4;
/// Its remainder, `2^8 P_HI + P_LO`, of 21 bits.
pub const P_HI: usize = 5;
/// Low byte of the remainder.
pub const P_LO: usize = 6;
/// The difference of its high limb, plus [`P_OFFSET`].
pub const P_DELTA: usize = 7;
/// Of the score.
pub const SCORE: Remainder = Remainder {
    at: 8,
    limbs: Limbs::Two,
};
/// The capped score, where scores are capped.
pub const CAPPED: usize = 13;
/// Number of columns where they are not.
const PLAIN: usize = 13;
/// `DELTA` of a probability is in -36736..=4095.
pub const P_OFFSET: i64 = 40960;

/// Scores, their exponentials and probabilities.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// Whether scores are capped before differences are taken.
    pub capped: bool,
}

impl Scores {
    /// The column of the scores whose maximum and differences softmax takes.
    pub const fn compared(self) -> usize {
        if self.capped {
            CAPPED
        } else {
            S
        }
    }

    /// The score in its range, or with what the table has for it.
    fn score(self) -> Lookup {
        let index = Linear::column(S) + Linear::constant(1 << 15);
        match self.capped {
            true => Lookup::new(Relation::Cap, [index, Linear::column(CAPPED)]),
            false => Lookup::int16(S),
        }
    }
}

impl Air for Scores {
    fn columns(&self) -> usize {
        PLAIN + usize::from(self.capped)
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        vec![(SCORE.pow(), 0)]
    }
    fn lookups(&self) -> Vec<Lookup> {
        let mut list = vec![
            self.score(),
            Lookup::new(Relation::Exp, [D, EXP, ZERO].map(Linear::column)),
            Lookup::range16(Linear::column(P)),
            Lookup::below(13, Linear::column(P_HI)),
            Lookup::below(8, Linear::column(P_LO)),
            Lookup::range16(Linear::column(P_DELTA)),
        ];
        list.extend(SCORE.lookups());
        list
    }
}
