//! The residual stream: embedding and residual updates, and the RMSNorm of each state. One row per
//! (state n, token, feature); state 0 is the embedding, 2l+1 follows attention, 2l+2 the MLP of layer l.

use super::gadgets::{int16, Remainder};
use super::lookups::Lookup;
use super::Air;
use crate::model::Limbs;

/// The state, in limbs.
pub const X_HI: usize = 0;
/// Low byte of the state.
pub const X_LO: usize = 1;
/// Of the state.
pub const UPDATE: Remainder = Remainder {
    at: 2,
    limbs: Limbs::Two,
};
/// Of the normed state.
pub const NORM: Remainder = Remainder {
    at: 7,
    limbs: Limbs::One,
};
/// The normed state, or its high limb before its low one.
pub const Y: usize = 9;

/// Residual states: the state, its norm and the normed state.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How the normed state enters its matmuls: in limbs if one of them wants them.
    pub normed: Limbs,
}

impl Air for Stream {
    fn columns(&self) -> usize {
        Y + self.normed.columns()
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        vec![(UPDATE.pow(), 0), (NORM.pow(), 1)]
    }
    fn lookups(&self) -> Vec<Lookup> {
        let mut list = int16(X_HI, Limbs::Two);
        list.extend(UPDATE.lookups());
        list.extend(NORM.lookups());
        list.extend(int16(Y, self.normed));
        list
    }
}
