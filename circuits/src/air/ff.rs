//! The gated MLP between its matmuls: `h = silu(gate) * up`. One row per (layer, token, feature).

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{Limbs, Narrow, Rounding, Wide};
use super::lookups::{Linear, Lookup, Relation};
use super::Air;

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

/// The accumulators of gate and up projection, joined.
const GATE_ACC: Wide = Wide {
    acc_hi: GATE_HI,
    acc_lo: GATE_LO,
    v: GATE_V,
    u: GATE_U,
};
const UP_ACC: Wide = Wide {
    acc_hi: UP_HI,
    acc_lo: UP_LO,
    v: UP_V,
    u: UP_U,
};
const UP_OUT: Limbs = Limbs {
    hi: UP_OUT_HI,
    lo: UP_OUT_LO,
};
const PRODUCT: Narrow = Narrow { v: V, u: U };
const H: Limbs = Limbs { hi: H_HI, lo: H_LO };
const GATE_ROUNDING: Rounding = Rounding::at(GATE_ROUND);
const UP_ROUNDING: Rounding = Rounding::at(UP_ROUND);
const ROUNDING: Rounding = Rounding::at(ROUND);

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
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        let col = |i: usize| c[i].clone();
        GATE_ROUNDING.constrain(e, c, GATE_ACC.value::<E>(c), col(GATE_POW), col(GATE));
        UP_ROUNDING.constrain(e, c, UP_ACC.value::<E>(c), col(UP_POW), UP_OUT.value::<E>(c));
        let t = PRODUCT.value(e, c, [col(SILU) * col(UP_OUT_HI), col(SILU) * col(UP_OUT_LO)]);
        ROUNDING.constrain(e, c, t, col(POW), H.value::<E>(c));
    }
    fn lookups(&self) -> Vec<Lookup> {
        let index = Linear::column(GATE) + Linear::constant(1 << 15);
        let mut list = GATE_ACC.lookups().to_vec();
        list.extend(GATE_ROUNDING.lookups());
        list.push(Lookup::once(Relation::Silu, [index, Linear::column(SILU)]));
        list.extend(UP_ACC.lookups());
        list.extend(UP_OUT.lookups());
        list.extend(UP_ROUNDING.lookups());
        list.extend(PRODUCT.lookups());
        list.extend(H.lookups());
        list.extend(ROUNDING.lookups());
        list
    }
}
