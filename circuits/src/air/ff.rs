//! The gated MLP between its matmuls: `h = silu(gate) * up`. One row per (layer, token, feature).

use num_traits::One;
use stwo_constraint_framework::{EvalAtRow, RelationEntry};

use super::gadgets::{join_narrow, join_wide, limbs, round, Rounding};
use super::{constant, Air, Relations};

pub const GATE_HI: usize = 0;
pub const GATE_LO: usize = 1;
pub const GATE_V: usize = 2;
pub const GATE_U: usize = 3;
/// The gate (range-checked by its lookup in the SiLU table).
pub const GATE: usize = 4;
pub const GATE_ROUND: usize = 5;
/// Public: `2^shift`.
pub const GATE_POW: usize = 10;
pub const SILU: usize = 11;
pub const UP_HI: usize = 12;
pub const UP_LO: usize = 13;
pub const UP_V: usize = 14;
pub const UP_U: usize = 15;
/// The up projection, in limbs.
pub const UP_OUT_HI: usize = 16;
pub const UP_OUT_LO: usize = 17;
pub const UP_ROUND: usize = 18;
/// Public: `2^shift`.
pub const UP_POW: usize = 23;
pub const V: usize = 24;
pub const U: usize = 25;
/// The product, in limbs.
pub const H_HI: usize = 26;
pub const H_LO: usize = 27;
pub const ROUND: usize = 28;
/// Public: `2^shift`.
pub const POW: usize = 33;
pub const COLUMNS: usize = 34;

#[derive(Clone, Debug)]
pub struct Ff {
    pub log_rows: u32,
}

impl Air for Ff {
    fn log_rows(&self) -> u32 {
        self.log_rows
    }
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F], rel: &Relations) {
        let col = |i: usize| c[i].clone();
        let t = join_wide(e, rel, [col(GATE_HI), col(GATE_LO), col(GATE_V), col(GATE_U)]);
        round(
            e,
            rel,
            t,
            col(GATE_POW),
            col(GATE),
            Rounding::read(c, GATE_ROUND),
            1 << 15,
        );
        let index = col(GATE) + constant::<E>(1 << 15);
        e.add_to_relation(RelationEntry::new(&rel.silu, E::EF::one(), &[index, col(SILU)]));

        let t = join_wide(e, rel, [col(UP_HI), col(UP_LO), col(UP_V), col(UP_U)]);
        let up = limbs(e, rel, col(UP_OUT_HI), col(UP_OUT_LO));
        round(e, rel, t, col(UP_POW), up, Rounding::read(c, UP_ROUND), 1 << 15);

        let t = join_narrow(
            e,
            rel,
            [col(SILU) * col(UP_OUT_HI), col(SILU) * col(UP_OUT_LO), col(V), col(U)],
        );
        let h = limbs(e, rel, col(H_HI), col(H_LO));
        round(e, rel, t, col(POW), h, Rounding::read(c, ROUND), 1 << 15);
    }
}
