//! Requantised accumulators that are operands of a later matmul: the values v, in one column, and the attention output, in limbs. No
//! constraint: the claim on accumulators says everything.

use super::gadgets::{int16, Remainder};
use super::lookups::{Linear, Lookup};
use super::Air;
use crate::model::Limbs;

/// A value v, which has 15 bits.
pub const OUT: usize = 0;

/// The attention output, in limbs.
pub const OUT_HI: usize = 0;
/// Low byte of the attention output.
pub const OUT_LO: usize = 1;

/// The remainder of a value v.
pub const fn remainder(limbs: Limbs) -> Remainder {
    Remainder {
        at: 1,
        limbs,
        narrow: Remainder::NARROW,
    }
}

/// The remainder of the attention output, whose accumulators fit one limb by the bits of v.
pub const OUTPUT: Remainder = Remainder {
    at: 2,
    limbs: Limbs::One,
    narrow: None,
};

/// The columns of values v, whose accumulators are claimed in these limbs.
pub fn values(limbs: Limbs) -> Air {
    let out = Lookup::below(15, Linear::column(OUT) + Linear::constant(1 << 14));
    columns(1, out, remainder(limbs))
}

/// The columns of the attention output.
pub fn output() -> Air {
    columns(2, int16(OUT_HI, Limbs::Two), OUTPUT)
}

/// The columns of a requantisation and nothing else.
fn columns(outputs: usize, out: Lookup, remainder: Remainder) -> Air {
    let mut lookups = vec![out];
    lookups.extend(remainder.lookups());
    Air {
        columns: outputs + Remainder::columns(remainder.limbs),
        powers: vec![(remainder.pow(), 0)],
        lookups,
    }
}
