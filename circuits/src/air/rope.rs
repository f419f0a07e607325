//! Queries or keys: both halves of a head before and after their rotation. One row per (layer, token, head, index in the half
//! head). No constraint: the claim on accumulators and that on rotations say everything.

use super::gadgets::{int16, Remainder};
use super::lookups::{Linear, Lookup};
use super::Air;
use crate::model::Limbs;
use crate::semantics::ROPE_BITS;

/// Queries or keys: requantised and rotated.
#[derive(Clone, Copy, Debug)]
pub struct Rope {
    /// Of the accumulators.
    pub limbs: Limbs,
    /// How the rotated values enter the scores.
    pub out: Limbs,
}

impl Rope {
    /// Columns of a half: the value before the rotation with its remainder, the rotated value, in limbs or not, with its
    /// remainder.
    const fn half_columns(&self) -> usize {
        2 + self.out.columns() + Remainder::columns(self.limbs)
    }

    /// The value of a half before the rotation.
    pub const fn before(&self, half: usize) -> usize {
        half * self.half_columns()
    }

    /// The remainder of the rotated value of a half, below `2^ROPE_BITS`.
    pub const fn rest(&self, half: usize) -> usize {
        self.before(half) + 1
    }

    /// The rotated value of a half, or its high limb before its low one.
    pub const fn after(&self, half: usize) -> usize {
        self.before(half) + 2
    }

    /// Of the value of a half before the rotation.
    pub const fn remainder(&self, half: usize) -> Remainder {
        Remainder {
            at: self.after(half) + self.out.columns(),
            limbs: self.limbs,
        }
    }
}

impl Air for Rope {
    fn columns(&self) -> usize {
        2 * self.half_columns()
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        [0, 1].map(|half| (self.remainder(half).pow(), half as u8)).into()
    }
    fn lookups(&self) -> Vec<Lookup> {
        let bound = Linear::constant(1 << ROPE_BITS);
        let half = |half: usize| {
            let mut list = int16(self.before(half), Limbs::One);
            list.push(Lookup::bits(bound.clone(), Linear::column(self.rest(half))));
            list.extend(int16(self.after(half), self.out));
            list.extend(self.remainder(half).lookups());
            list
        };
        [half(0), half(1)].concat()
    }
}
