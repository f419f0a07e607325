//! The residual stream: embedding and residual updates, and the RMSNorm of each state. One row per
//! (state n, token, feature); state 0 is the embedding, 2l+1 follows attention, 2l+2 the MLP of layer l.

use stwo_constraint_framework::EvalAtRow;

use super::gadgets::{int16, Remainder};
use super::lookups::Lookup;
use super::Air;
use crate::model::Limbs;

/// The state, in limbs.
pub const X_HI: usize = 0;
/// Low byte of the state.
pub const X_LO: usize = 1;
/// Squares of the limbs, summed by claims into the norm statistics.
pub const HH: usize = 2;
/// Sum of the products of high and low limbs.
pub const HL: usize = 3;
/// Sum of the squares of low limbs.
pub const LL: usize = 4;
/// Of the state.
pub const UPDATE: Remainder = Remainder {
    at: 5,
    limbs: Limbs::Two,
};
/// Of the normed state.
pub const NORM: Remainder = Remainder {
    at: 10,
    limbs: Limbs::One,
};
/// The normed state, or its high limb before its low one.
pub const Y: usize = 12;

/// Residual states: the state, its norm and the normed state.
#[derive(Clone, Debug)]
pub struct Stream {
    /// log2 of the rows.
    pub log_rows: u32,
    /// How the normed state enters its matmuls: in limbs if one of them wants them.
    pub normed: Limbs,
}

impl Air for Stream {
    fn log_rows(&self) -> u32 {
        self.log_rows
    }
    fn columns(&self) -> usize {
        Y + self.normed.columns()
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        let col = |i: usize| c[i].clone();
        e.add_constraint(col(HH) - col(X_HI) * col(X_HI));
        e.add_constraint(col(HL) - col(X_HI) * col(X_LO));
        e.add_constraint(col(LL) - col(X_LO) * col(X_LO));
    }
    fn lookups(&self) -> Vec<Lookup> {
        let mut list = int16(X_HI, Limbs::Two);
        list.extend(UPDATE.lookups());
        list.extend(NORM.lookups());
        list.extend(int16(Y, self.normed));
        list
    }
}
