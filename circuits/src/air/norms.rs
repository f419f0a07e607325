//! The rows of norms: the sum of the squares of a state's row, and its reciprocal root (docs/protocol.md, section 16.2). One row
//! per (state, token).
//!
//! The reciprocal root is that of an integer division: the *quotient* is the bound divided by the sum of squares, epsilon
//! included, rounded down, and the *root* is the square root of the quotient, rounded down.

use super::lookups::{Linear, Lookup};
use super::{base, Air};
use crate::semantics::norm_bound;

/// Bits of a limb: numbers are four limbs, least significant first, a root is two.
pub const LIMB_BITS: u32 = 12;
/// Limbs of the sum of squares and of all that is compared with it.
pub const LIMBS: usize = 4;
/// Bits of the last limb of a sum of squares, which is below `2^45`.
pub const LAST_BITS: u32 = 9;

/// The sum of squares with epsilon, in limbs.
pub const SUM: usize = 0;
/// The sum of products of both limbs of the states, less its low 15 bits, divided by `2^15`.
pub const CROSS_HI: usize = 4;
/// Its low 15 bits.
pub const CROSS_LO: usize = 5;
/// The low byte of the sum of the squares of high limbs.
pub const HIGH_LO: usize = 6;
/// What is carried from the low 24 bits of the sum of squares.
pub const CARRY: usize = 7;
/// The quotient, in limbs.
pub const QUOTIENT: usize = 8;
/// What the division leaves, in limbs.
pub const LEFT: usize = 12;
/// What is carried from limb to limb of the product of quotient and sum.
pub const CARRIES: usize = 16;
/// The sum less one, less what is left: its limbs from the second on. The first is looked up without a column.
pub const GAP: usize = 20;
/// The reciprocal root, in limbs.
pub const ROOT: usize = 23;
/// The quotient less the square of the root, in limbs; the high one has a bit more.
pub const REST: usize = 25;
/// What is carried from limb to limb of the square of the root.
pub const ROOT_CARRIES: usize = 27;
/// The high limb of twice the root, less the rest; the low one is looked up without a column.
pub const ROOM_HI: usize = 29;
/// Number of columns.
pub const COLUMNS: usize = 30;

/// Bits of [`CROSS_LO`], [`HIGH_LO`] and [`CARRY`].
pub const SUM_BITS: [u32; 3] = [15, 8, 7];
/// Bits of [`CARRIES`], and of both [`ROOT_CARRIES`].
pub const CARRY_BITS: [u32; 3] = [15, 13, 14];
/// Bits of the high limb of [`REST`] and of [`ROOM_HI`].
pub const WIDE_BITS: u32 = LIMB_BITS + 1;

/// The high part of an epsilon, and its low part, which is in `1..=2^24`.
pub const fn epsilon(eps: u64) -> [i64; 2] {
    let half = 2 * LIMB_BITS;
    let below = eps.saturating_sub(1);
    [(below >> half) as i64, (below & ((1 << half) - 1)) as i64 + 1]
}

/// The limbs of the bound `hidden 2^(2 scale)` of a norm; one more than a sum of squares has, none of them beyond 12 bits if
/// the key is valid.
pub fn bound_limbs(hidden: usize, scale: u8) -> [i64; LIMBS + 1] {
    let bound = norm_bound(hidden, scale);
    std::array::from_fn(|k| {
        let rest = bound >> (LIMB_BITS as usize * k);
        (if k == LIMBS {
            rest
        } else {
            rest & ((1 << LIMB_BITS) - 1)
        }) as i64
    })
}

/// Sums of squares and reciprocal roots.
#[derive(Clone, Copy, Debug)]
pub struct Norms;

impl Air for Norms {
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        Vec::new()
    }
    fn lookups(&self) -> Vec<Lookup> {
        let column = Linear::column;
        let limbs = |at: usize, count: usize| (at..at + count).map(move |at| Lookup::below(LIMB_BITS, column(at)));
        let radix = base(1 << LIMB_BITS);
        let pair = |at: usize| column(at + 1) * radix + column(at);
        // 2^24 (SUM - LEFT) in their high halves, less what GAP has of them: 0 or 1.
        let borrow = pair(SUM + 2) - pair(LEFT + 2) - pair(GAP + 1);
        let low = pair(SUM) - pair(LEFT) - Linear::constant(1) - column(GAP) * radix;
        let room = column(ROOT + 1) * base(2) - column(REST + 1) - column(ROOM_HI);
        let mut list: Vec<Lookup> = limbs(SUM, LIMBS - 1).collect();
        list.push(Lookup::below(LAST_BITS, column(SUM + LIMBS - 1)));
        list.push(Lookup::int16(CROSS_HI));
        let crosses = (CROSS_LO..).zip(SUM_BITS);
        list.extend(crosses.map(|(at, own)| Lookup::below(own, column(at))));
        list.extend(limbs(QUOTIENT, LIMBS));
        list.extend(limbs(LEFT, LIMBS));
        list.extend((CARRIES..GAP).map(|at| Lookup::below(CARRY_BITS[0], column(at))));
        list.extend(limbs(GAP, LIMBS - 1));
        list.push(Lookup::below(1, borrow.clone()));
        list.push(Lookup::below(LIMB_BITS, borrow * (radix * radix) + low));
        list.extend(limbs(ROOT, 2));
        list.push(Lookup::below(LIMB_BITS, column(REST)));
        list.push(Lookup::below(WIDE_BITS, column(REST + 1)));
        list.push(Lookup::below(CARRY_BITS[1], column(ROOT_CARRIES)));
        list.push(Lookup::below(CARRY_BITS[2], column(ROOT_CARRIES + 1)));
        list.push(Lookup::below(WIDE_BITS, column(ROOM_HI)));
        let room = room * radix + column(ROOT) * base(2) - column(REST);
        list.push(Lookup::below(LIMB_BITS, room));
        list
    }
}
