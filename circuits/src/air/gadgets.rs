//! Columns and lookups of a requantisation, the one gadget behind every non-linear step (docs/protocol.md, section 8.1): of the
//! output, and of what the claim on accumulators needs beside it.

use super::lookups::{Linear, Lookup};
use crate::model::Limbs;

/// What the claim on accumulators needs beside the values that they are rounded to (docs/protocol.md, section 8.1):
/// consecutive columns, `2^s` first. No constraint ties them together; the claim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// Its first column.
    pub at: usize,
    /// How the accumulators are claimed.
    pub limbs: Limbs,
    /// The least shift whose differences are narrow; none where the limbs of the accumulators are bounded whatever the weights are.
    pub narrow: Option<u8>,
}

impl Remainder {
    /// The difference of the high limb is `128 d_hi + d_lo` minus this.
    pub const OFFSET: i64 = 1 << 22;
    /// No difference is larger in absolute value: `128 (2^16 - 1) + 2^8 - 1` less [`Self::OFFSET`].
    pub const LARGEST: i64 = (1 << 22) + (1 << 7) - 1;
    /// A narrow difference is `127 d_hi + d_lo` minus [`Self::OFFSET`] plus this.
    pub const NARROWING: i64 = 1 << 15;
    /// [`Self::narrow`] of values that are int16 unless they are listed as clipped.
    pub const NARROW: Option<u8> = Some(7);

    /// Whether the difference of a value is narrow: where wide ones would let another value of the same proof explain the same limbs
    /// modulo `p` (docs/protocol.md, section 8.1). `listed` is the value if it is listed as clipped.
    pub const fn is_narrow(self, shift: u32, listed: Option<i64>) -> bool {
        let far =
            matches!(listed, Some(value) if value.unsigned_abs() >= 1 << (22 - if shift < 22 { shift } else { 22 }));
        matches!(self.narrow, Some(least) if shift >= least as u32 || far)
    }

    /// The columns of a difference that is in range.
    pub const fn difference(difference: i64, narrow: bool) -> [i64; 2] {
        let (radix, offset) = match narrow {
            true => (127, Self::OFFSET - Self::NARROWING),
            false => (128, Self::OFFSET),
        };
        let sum = difference + offset;
        // The largest narrow one has all of the seven bits.
        let most = (1 << 16) - 1;
        let high = sum.div_euclid(radix);
        let high = if high > most { most } else { high };
        [high, sum - radix * high]
    }

    /// Number of columns.
    pub const fn columns(limbs: Limbs) -> usize {
        match limbs {
            Limbs::One => 2,
            Limbs::Two => 5,
        }
    }

    /// What `2^s` is multiplied with in the claim: outputs count `2^(8 + s)` in one limb.
    pub const fn scale(self) -> i64 {
        match self.limbs {
            Limbs::One => 1 << 8,
            Limbs::Two => 1,
        }
    }

    /// Public: `2^s`; in one limb `2^(8 + s)`, the bound of the remainder.
    pub const fn pow(self) -> usize {
        self.at
    }
    /// In one limb: the remainder, below `2^(8 + s)`.
    pub const fn rest(self) -> usize {
        self.at + 1
    }
    /// In two limbs: the remainder, `256 r_hi + r_lo`.
    pub const fn r_hi(self) -> usize {
        self.at + 1
    }
    /// Column of the low byte of the remainder.
    pub const fn r_lo(self) -> usize {
        self.at + 2
    }
    /// In two limbs: the difference, in limbs of 16 and 8 bits; an honest prover needs 7 bits of the low one.
    pub const fn d_hi(self) -> usize {
        self.at + 3
    }
    /// Column of the low limb of the difference.
    pub const fn d_lo(self) -> usize {
        self.at + 4
    }

    /// The lookups that bound its columns.
    pub fn lookups(self) -> Vec<Lookup> {
        let column = |i: usize| Linear::column(i);
        match self.limbs {
            Limbs::One => vec![Lookup::bits(column(self.pow()), column(self.rest()))],
            Limbs::Two => vec![
                Lookup::bits(column(self.pow()), column(self.r_hi())),
                Lookup::range16(column(self.d_hi())),
                Lookup::bytes(column(self.r_lo()), column(self.d_lo())),
            ],
        }
    }
}

/// The lookup of an int16 in one column, or in limbs, `256 hi + lo`: `hi + 2^7` and `lo` are bytes.
pub fn int16(at: usize, limbs: Limbs) -> Lookup {
    match limbs {
        Limbs::One => Lookup::int16(at),
        Limbs::Two => Lookup::bytes(Linear::column(at) + Linear::constant(1 << 7), Linear::column(at + 1)),
    }
}

#[cfg(test)]
mod tests;
