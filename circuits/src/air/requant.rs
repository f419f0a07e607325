//! Requantised accumulators that are operands of a later matmul, in limbs: the values v and the attention output. No constraint:
//! the claim on accumulators says everything.

use super::gadgets::{int16, Remainder};
use super::lookups::Lookup;
use super::Air;
use crate::model::Limbs;

/// The output, in limbs.
pub const OUT_HI: usize = 0;
/// Low byte of the result.
pub const OUT_LO: usize = 1;

/// A requantisation and nothing else.
#[derive(Clone, Debug)]
pub struct Requant {
    /// How accumulators are claimed.
    pub limbs: Limbs,
}

/// Of the output.
pub const fn remainder(limbs: Limbs) -> Remainder {
    Remainder { at: 2, limbs }
}

impl Air for Requant {
    fn columns(&self) -> usize {
        2 + Remainder::columns(self.limbs)
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        vec![(remainder(self.limbs).pow(), 0)]
    }
    fn lookups(&self) -> Vec<Lookup> {
        let mut list = int16(OUT_HI, Limbs::Two);
        list.extend(remainder(self.limbs).lookups());
        list
    }
}
