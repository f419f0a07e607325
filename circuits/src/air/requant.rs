//! Requantised accumulators that are operands of a later matmul, in limbs: the values v and the attention output. No constraint:
//! the claim on accumulators says everything.

use super::gadgets::{int16, Remainder};
use super::Air;
use crate::model::Limbs;

/// The output, in limbs.
pub const OUT_HI: usize = 0;
/// Low byte of the result.
pub const OUT_LO: usize = 1;

/// The remainder of the output, where weights make the limbs of the accumulators.
pub const fn remainder(limbs: Limbs) -> Remainder {
    Remainder {
        at: 2,
        limbs,
        narrow: Remainder::NARROW,
    }
}

/// The remainder of the output, where the limbs of the accumulators are bounded whatever the weights are.
pub const BOUNDED: Remainder = Remainder {
    at: 2,
    limbs: Limbs::Two,
    narrow: None,
};

/// The columns of a requantisation and nothing else, of accumulators that are claimed in these limbs.
pub fn columns(limbs: Limbs) -> Air {
    let remainder = remainder(limbs);
    let mut lookups = vec![int16(OUT_HI, Limbs::Two)];
    lookups.extend(remainder.lookups());
    Air {
        columns: 2 + Remainder::columns(limbs),
        powers: vec![(remainder.pow(), 0)],
        lookups,
    }
}
