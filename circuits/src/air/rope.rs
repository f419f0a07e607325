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
    /// Whether the heads are normed: then they are in limbs, and the normed values are what is rotated.
    pub normed: bool,
}

impl Rope {
    /// Columns of a half: the projected value with its remainder, the rotated value, in limbs or not, with its remainder, and
    /// where heads are normed the normed value with its remainder.
    const fn half_columns(&self) -> usize {
        self.normed_columns() + 2 + self.out.columns() + Remainder::columns(self.limbs)
    }

    /// What there is more where heads are normed: a limb, the normed value and its remainder.
    const fn normed_columns(&self) -> usize {
        match self.normed {
            true => 2 + Remainder::columns(Limbs::One),
            false => 0,
        }
    }

    /// How the projected values are committed: in limbs where they are squared.
    pub const fn projected(&self) -> Limbs {
        match self.normed {
            true => Limbs::Two,
            false => Limbs::One,
        }
    }

    /// The projected value of a half, or its high limb before its low one.
    pub const fn before(&self, half: usize) -> usize {
        half * self.half_columns()
    }

    /// What is rotated of a half: its normed value, or the projected one.
    pub const fn source(&self, half: usize) -> usize {
        match self.normed {
            true => self.before(half) + 2,
            false => self.before(half),
        }
    }

    /// Of the normed value of a half, where there is one.
    pub const fn norm(&self, half: usize) -> Remainder {
        Remainder {
            at: self.before(half) + 3,
            limbs: Limbs::One,
        }
    }

    /// The remainder of the rotated value of a half, below `2^ROPE_BITS`.
    pub const fn rest(&self, half: usize) -> usize {
        self.before(half) + self.normed_columns() + 1
    }

    /// The rotated value of a half, or its high limb before its low one.
    pub const fn after(&self, half: usize) -> usize {
        self.rest(half) + 1
    }

    /// Of the projected value of a half.
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
        let mut powers: Vec<_> = [0, 1].map(|half| (self.remainder(half).pow(), half as u8)).into();
        if self.normed {
            powers.extend([0, 1].map(|half| (self.norm(half).pow(), 4 + half as u8)));
            powers.sort_unstable();
        }
        powers
    }
    fn lookups(&self) -> Vec<Lookup> {
        let bound = Linear::constant(1 << ROPE_BITS);
        let half = |half: usize| {
            let mut list = int16(self.before(half), self.projected());
            if self.normed {
                list.extend(int16(self.source(half), Limbs::One));
                list.extend(self.norm(half).lookups());
            }
            list.push(Lookup::bits(bound.clone(), Linear::column(self.rest(half))));
            list.extend(int16(self.after(half), self.out));
            list.extend(self.remainder(half).lookups());
            list
        };
        [half(0), half(1)].concat()
    }
}
