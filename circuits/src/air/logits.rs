//! Logits and arg max. One row per (token, vocabulary entry).

use num_traits::One;
use stwo_constraint_framework::{EvalAtRow, RelationEntry};

use super::gadgets::{int16, join_wide, round, Rounding};
use super::{Air, Relations};

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
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F], rel: &Relations) {
        let col = |i: usize| c[i].clone();
        let t = join_wide(e, rel, [col(ACC_HI), col(ACC_LO), col(V), col(U)]);
        int16(e, rel, col(L));
        round(e, rel, t, col(POW), col(L), Rounding::read(c, ROUND), 1 << 15);
        let margin = col(TOP) - col(L) - col(BELOW);
        e.add_to_relation(RelationEntry::new(&rel.range16, E::EF::one() * col(ACTIVE), &[margin]));
        e.add_constraint(col(CHOSEN) * (col(TOP) - col(L)));
    }
}
