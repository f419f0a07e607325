//! The MLP between its matmuls: `h = act(gate) * up` where it is gated, `h = act(up)` where it is not. One row per (layer, token,
//! feature). The claim on accumulators says everything, that on the products included.

use super::gadgets::{int16, Remainder};
use super::lookups::{Linear, Lookup, Relation};
use super::{base, Air};
use crate::model::Limbs;

/// The gate (range-checked by its lookup in the table).
pub const GATE: usize = 0;
/// What the table has for the gate.
pub const SILU: usize = 1;
/// The up projection of a gated MLP.
pub const UP: usize = 2;
/// The product of a gated MLP, in limbs.
pub const H_HI: usize = 3;
/// Low byte of the product.
pub const H_LO: usize = 4;
/// Its remainder, in one limb: `2^(8 + s)` and the rest.
pub const PRODUCT: Remainder = Remainder {
    at: 5,
    limbs: Limbs::One,
};
const OTHERS: usize = 7;
/// Without gates: the up projection (range-checked by its lookup in the table), and what the table has for it, in limbs.
const PLAIN: [usize; 3] = [0, 1, 2];

/// The MLP: gate, activation, product.
#[derive(Clone, Copy, Debug)]
pub struct Ff {
    /// Whether there are gates.
    pub gated: bool,
    /// Of the accumulators of gate and up projection.
    pub gate: Limbs,
    /// Of the up projection.
    pub up: Limbs,
}

impl Ff {
    /// The up projection.
    pub const fn up(&self) -> usize {
        match self.gated {
            true => UP,
            false => PLAIN[0],
        }
    }

    /// The limbs of what Down reads.
    pub const fn product(&self) -> [usize; 2] {
        match self.gated {
            true => [H_HI, H_LO],
            false => [PLAIN[1], PLAIN[2]],
        }
    }

    /// Of the gate, if there are gates.
    pub const fn gate_remainder(&self) -> Remainder {
        Remainder {
            at: OTHERS,
            limbs: self.gate,
        }
    }

    /// Of the up projection.
    pub const fn up_remainder(&self) -> Remainder {
        Remainder {
            at: match self.gated {
                true => OTHERS + Remainder::columns(self.gate),
                false => PLAIN.len(),
            },
            limbs: self.up,
        }
    }
}

impl Air for Ff {
    fn columns(&self) -> usize {
        self.up_remainder().at + Remainder::columns(self.up)
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        let up = (self.up_remainder().pow(), 1);
        match self.gated {
            true => vec![(PRODUCT.pow(), 2), (self.gate_remainder().pow(), 0), up],
            false => vec![up],
        }
    }
    fn lookups(&self) -> Vec<Lookup> {
        let entry = |input: usize, output: Linear| {
            let index = Linear::column(input) + Linear::constant(1 << 15);
            Lookup::new(Relation::Silu, [index, output])
        };
        let [high, low] = self.product();
        let mut list = match self.gated {
            true => vec![entry(GATE, Linear::column(SILU))],
            false => vec![entry(self.up(), Linear::column(high) * base(256) + Linear::column(low))],
        };
        if self.gated {
            list.extend(int16(UP, Limbs::One));
        }
        list.extend(int16(high, Limbs::Two));
        if self.gated {
            list.extend(PRODUCT.lookups());
            list.extend(self.gate_remainder().lookups());
        }
        list.extend(self.up_remainder().lookups());
        list
    }
}
