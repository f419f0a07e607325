//! The gated MLP between its matmuls: `h = silu(gate) * up`. One row per (layer, token, feature). No constraint: the claim on
//! accumulators says everything, that on the products included.

use super::gadgets::{int16, Remainder};
use super::lookups::{Linear, Lookup, Relation};
use super::Air;
use crate::model::Limbs;

/// The gate (range-checked by its lookup in the SiLU table).
pub const GATE: usize = 0;
/// What the SiLU table has for the gate.
pub const SILU: usize = 1;
/// The up projection.
pub const UP: usize = 2;
/// The product, in limbs.
pub const H_HI: usize = 3;
/// Low byte of the product.
pub const H_LO: usize = 4;
/// Its remainder, in one limb: `2^(8 + s)` and the rest.
pub const PRODUCT: Remainder = Remainder {
    at: 5,
    limbs: Limbs::One,
};
const OTHERS: usize = 7;

/// The MLP: gate, activation, product.
#[derive(Clone, Copy, Debug)]
pub struct Ff {
    /// Of the accumulators of gate and up projection.
    pub gate: Limbs,
    /// Of the up projection.
    pub up: Limbs,
}

impl Ff {
    /// Of the gate.
    pub const fn gate_remainder(&self) -> Remainder {
        Remainder {
            at: OTHERS,
            limbs: self.gate,
        }
    }

    /// Of the up projection.
    pub const fn up_remainder(&self) -> Remainder {
        Remainder {
            at: OTHERS + Remainder::columns(self.gate),
            limbs: self.up,
        }
    }
}

impl Air for Ff {
    fn columns(&self) -> usize {
        OTHERS + Remainder::columns(self.gate) + Remainder::columns(self.up)
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        vec![
            (PRODUCT.pow(), 2),
            (self.gate_remainder().pow(), 0),
            (self.up_remainder().pow(), 1),
        ]
    }
    fn lookups(&self) -> Vec<Lookup> {
        let index = Linear::column(GATE) + Linear::constant(1 << 15);
        let mut list = vec![Lookup::new(Relation::Silu, [index, Linear::column(SILU)])];
        list.extend(int16(UP, Limbs::One));
        list.extend(int16(H_HI, Limbs::Two));
        list.extend(PRODUCT.lookups());
        list.extend(self.gate_remainder().lookups());
        list.extend(self.up_remainder().lookups());
        list
    }
}
