//! The rows of softmax: the largest score of every query, the sum of its exponentials, and the reciprocal of the sum
//! (docs/protocol.md, section 16.5). One row per (layer, head, query token).

use super::lookups::{Linear, Lookup};
use super::{base, Air};
use crate::semantics::RECIPROCAL;

/// The largest score of the keys that are not masked.
pub const MAX: usize = 0;
/// How many keys have it, less one.
pub const TIES: usize = 1;
/// The sum of the exponentials, in limbs.
pub const SUM_HI: usize = 2;
/// Its low limb.
pub const SUM_LO: usize = 3;
/// Its reciprocal, in limbs.
pub const RECIP_HI: usize = 4;
/// Its low limb.
pub const RECIP_LO: usize = 5;
/// The product of both high limbs.
pub const HIGH: usize = 6;
/// The high limb of the product of both low limbs.
pub const CARRY: usize = 7;
/// What the division leaves, in limbs.
pub const LEFT_HI: usize = 8;
/// Its low limb.
pub const LEFT_LO: usize = 9;
/// The high limb of the sum less one, less what is left; the low limb is looked up without a column.
pub const GAP_HI: usize = 10;
/// Number of columns.
pub const COLUMNS: usize = 11;

/// Bits of a low limb.
pub const LIMB_BITS: u32 = 13;
/// Bits of the high limb of a reciprocal.
pub const RECIP_HI_BITS: u32 = 8;
/// Bits of the product of the high limbs: `2^(2 LIMB_BITS)` times it is at most [`RECIPROCAL`].
pub const HIGH_BITS: u32 = 10;

/// The limbs of what is divided.
pub const fn dividend() -> [i64; 2] {
    let radix = 1 << LIMB_BITS;
    [(RECIPROCAL / radix) as i64, (RECIPROCAL % radix) as i64]
}

/// Maxima, sums and reciprocals.
#[derive(Clone, Copy, Debug)]
pub struct Softmax;

impl Air for Softmax {
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        Vec::new()
    }
    fn lookups(&self) -> Vec<Lookup> {
        let column = Linear::column;
        let wide = |at: usize| Lookup::range16(column(at));
        let gap_hi = column(SUM_HI) - column(LEFT_HI) - column(GAP_HI);
        let gap_lo = column(SUM_LO) - column(LEFT_LO) - Linear::constant(1);
        vec![
            wide(TIES),
            wide(SUM_HI),
            Lookup::below(LIMB_BITS, column(SUM_LO)),
            Lookup::below(RECIP_HI_BITS, column(RECIP_HI)),
            Lookup::below(LIMB_BITS, column(RECIP_LO)),
            Lookup::below(HIGH_BITS, column(HIGH)),
            Lookup::below(LIMB_BITS, column(CARRY)),
            wide(LEFT_HI),
            Lookup::below(LIMB_BITS, column(LEFT_LO)),
            wide(GAP_HI),
            Lookup::below(LIMB_BITS, gap_hi * base(1 << LIMB_BITS) + gap_lo),
        ]
    }
}
