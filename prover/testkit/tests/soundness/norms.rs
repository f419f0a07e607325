//! Attacks on norms: reciprocal roots of another sum or of none, quotients and remainders that are none.

use stwo::core::fields::m31::P;
use tessera_circuits::air::base;
use tessera_circuits::ops::norms::{
    CARRIES, CARRY_BITS, COLUMNS, GAP, LEFT, LIMBS, LIMB_BITS, QUOTIENT, REST, ROOM_HI, ROOT, ROOT_CARRIES, SUM,
};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::ops::NormRow;
use tessera_prover::trace::Columns;

use crate::cells::Cells;
use crate::cheat::{Hooks, HONEST};
use crate::forward::Deviation;
use crate::semantics::{deviating, one_token, QUERY};
use crate::values::row;
use crate::{assert_claims_violated, Caught, Scene};

const RADIX: i64 = 1 << LIMB_BITS;
/// The attacked state: the last one, which the head reads.
const STATE: usize = 4;

impl Cells<'_> {
    /// The number in so many limbs.
    pub fn value(&self, at: usize, count: usize) -> i128 {
        (at..at + count)
            .rev()
            .fold(0, |sum, column| sum * i128::from(RADIX) + i128::from(self.get(column)))
    }

    pub fn set(&mut self, at: usize, count: usize, value: i128) {
        for k in 0..count {
            *self.at(at + k) = base((value >> (12 * k) & 0xfff) as i64);
        }
    }

    /// The bound of the norm, as the honest row has it.
    pub fn bound(&self) -> i128 {
        self.value(QUOTIENT, LIMBS) * self.value(SUM, LIMBS) + self.value(LEFT, LIMBS)
    }

    /// Writes a number whose last limb is what is left of it, which may be negative.
    pub fn spread(&mut self, at: usize, count: usize, value: i128) {
        self.set(at, count - 1, value);
        *self.at(at + count - 1) = base((value >> (12 * (count - 1))) as i64);
    }

    /// Writes another quotient, and what it leaves, carries and gap as the equations ask for; the root stays, and leaves more or
    /// less.
    pub fn divide(&mut self, bound: i128, quotient: i128) {
        let sum = self.value(SUM, LIMBS);
        let left = bound - quotient * sum;
        self.set(QUOTIENT, LIMBS, quotient);
        self.spread(LEFT, LIMBS, left);
        self.spread(GAP, LIMBS - 1, (sum - 1 - left) >> 12);
        let mut carried = 0;
        for k in 0..LIMBS {
            let product: i64 = (0..=k).map(|i| self.get(QUOTIENT + i) * self.get(SUM + k - i)).sum();
            let own = (bound >> (12 * k) & 0xfff) as i64;
            let left = if k + 1 < LIMBS {
                left >> (12 * k) & 0xfff
            } else {
                left >> (12 * k)
            } as i64;
            carried = (product + left + carried - own).div_euclid(RADIX);
            *self.at(CARRIES + k) = base(carried);
        }
        let root = self.value(ROOT, 2);
        self.extract(root);
    }

    /// Writes another root and what it leaves of the quotient.
    pub fn extract(&mut self, root: i128) {
        let rest = self.value(QUOTIENT, LIMBS) - root * root;
        self.set(ROOT, 2, root);
        *self.at(REST) = base(rest.rem_euclid(RADIX.into()) as i64);
        *self.at(REST + 1) = base(rest.div_euclid(RADIX.into()) as i64);
        let [lo, hi] = [self.get(ROOT), self.get(ROOT + 1)];
        let rest_lo = rest.rem_euclid(RADIX.into()) as i64;
        let first = (lo * lo + rest_lo - self.get(QUOTIENT)).div_euclid(RADIX);
        let rest_hi = rest.div_euclid(RADIX.into()) as i64;
        let second = (2 * lo * hi + rest_hi + first - self.get(QUOTIENT + 1)).div_euclid(RADIX);
        *self.at(ROOT_CARRIES) = base(first);
        *self.at(ROOT_CARRIES + 1) = base(second);
        *self.at(ROOM_HI) = base(((2 * root - rest) as i64).div_euclid(RADIX));
    }
}

/// A row of a state is scaled by another root, with everything downstream.
struct OtherRoot(i32);

impl Deviation for OtherRoot {
    fn rsqrt(&self, token: usize, rsqrt: &mut u32) {
        if token == QUERY {
            *rsqrt = rsqrt.wrapping_add_signed(self.0);
        }
    }
}

/// Other cells in the rows of the attacked token, of all states or of the last.
fn changed(all: bool, change: impl Fn(&mut Cells<'_>)) -> impl Fn(&Shape, &mut [Columns]) {
    move |shape, columns| {
        for state in if all { 0 } else { STATE }..=STATE {
            assert!(STATE + 1 == shape.states());
            let row = row(shape, Part::NORMS, &[state, QUERY]);
            change(&mut Cells {
                columns: &mut columns[Part::NORMS.index()],
                row,
            });
        }
    }
}

fn caught(scene: &Scene, by: Caught, all: bool, change: impl Fn(&mut Cells<'_>)) {
    let columns = changed(all, change);
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(by, &hooks);
}

/// The honest columns beside a root that is not theirs: the product says which root the states were multiplied with.
#[test]
fn the_root_is_the_one_that_scales() {
    for by in [-1, 1, 1000] {
        let scene = deviating(one_token(), &OtherRoot(by));
        // The columns of the true root.
        caught(&scene, Caught::Claim("accumulators"), true, |cells| {
            let root = cells.value(QUOTIENT, LIMBS).unsigned_abs().isqrt() as i128;
            cells.extract(root);
        });
    }
}

/// One more: its square exceeds the quotient, so the rest is negative.
#[test]
fn a_root_one_too_large() {
    let scene = deviating(one_token(), &OtherRoot(1));
    caught(&scene, Caught::Lookup, true, |cells| {
        let root = cells.value(ROOT, 2);
        cells.extract(root);
    });
}

/// One less: the rest is more than twice the root.
#[test]
fn a_root_one_too_small() {
    let scene = deviating(one_token(), &OtherRoot(-1));
    caught(&scene, Caught::Lookup, true, |cells| {
        let root = cells.value(ROOT, 2);
        cells.extract(root);
    });
}

/// The rest in range, and more than twice the root, however the room is said to be.
#[test]
fn rest_beyond_twice_the_root() {
    let scene = deviating(one_token(), &OtherRoot(-1));
    for room in [0, 1, (1 << 13) - 1] {
        caught(&scene, Caught::Lookup, true, |cells| {
            let root = cells.value(ROOT, 2);
            cells.extract(root);
            *cells.at(ROOM_HI) = base(room);
        });
    }
    // By the inverse of the radix, modulo p.
    caught(&scene, Caught::Lookup, true, |cells| {
        let root = cells.value(ROOT, 2);
        cells.extract(root);
        let room = 2 * root as i64 - (RADIX * cells.get(REST + 1) + cells.get(REST));
        *cells.at(ROOM_HI) = base(room) * base(1 << (31 - LIMB_BITS));
    });
}

/// A quotient that is less leaves the sum or more, one that is more leaves less than nothing.
#[test]
fn a_quotient_that_is_not_one() {
    for by in [-1i128, 1, -3] {
        caught(&one_token(), Caught::Lookup, false, |cells| {
            let (bound, quotient) = (cells.bound(), cells.value(QUOTIENT, LIMBS) + by);
            cells.divide(bound, quotient);
        });
    }
}

/// The quotient of the bound less p: limbs are compared with those of the bound itself.
#[test]
fn a_division_modulo_p() {
    caught(&one_token(), Caught::Claim("accumulators"), false, |cells| {
        let bound = cells.bound() - i128::from(P);
        let quotient = bound / cells.value(SUM, LIMBS);
        cells.divide(bound, quotient);
    });
}

/// What is left is below the sum, however the gap is said to be.
#[test]
fn what_is_left_is_not_below_the_sum() {
    for gap in [0i128, 1, 1 << 24, (1 << 36) - 1] {
        caught(&one_token(), Caught::Lookup, false, |cells| {
            let (bound, quotient) = (cells.bound(), cells.value(QUOTIENT, LIMBS) - 1);
            cells.divide(bound, quotient);
            cells.set(GAP, LIMBS - 1, gap);
        });
    }
}

/// Another sum of squares, with quotient and root of it: the limbs of the squares are those of the states.
#[test]
fn a_sum_that_is_chosen() {
    for by in [1i128, -1, 1 << 12, 1 << 24, 1 << 36] {
        caught(&one_token(), Caught::Claim("accumulators"), false, |cells| {
            let (bound, sum) = (cells.bound(), cells.value(SUM, LIMBS) + by);
            cells.set(SUM, LIMBS, sum);
            cells.divide(bound, bound / sum);
            cells.extract((bound / sum).unsigned_abs().isqrt() as i128);
        });
    }
}

/// A sum of which one part is another one by p, and everything downstream of it: the claims hold, and the column that would hold
/// it is out of its range.
#[test]
fn a_sum_with_an_alias() {
    struct Alias(usize, i64);
    impl Deviation for Alias {
        fn norm(&self, token: usize, sums: &mut [i64; 3]) {
            if token == QUERY {
                sums[self.0] += self.1 * i64::from(P);
            }
        }
    }
    for (part, by) in [(0, 1), (1, 1), (2, 1), (1, 2)] {
        deviating(one_token(), &Alias(part, by)).assert_caught(Caught::Lookup, &HONEST);
    }
}

/// Carries that are one more are taken back by the limb above.
#[test]
fn carries_are_those_of_limbs_in_range() {
    let scene = one_token();
    for k in 0..LIMBS - 1 {
        for by in [1, -1] {
            caught(&scene, Caught::Lookup, false, |cells| {
                *cells.at(CARRIES + k) += base(by);
                *cells.at(LEFT + k) += base(by * RADIX);
                *cells.at(LEFT + k + 1) -= base(by);
            });
        }
    }
    for by in [1, -1] {
        caught(&scene, Caught::Lookup, false, |cells| {
            *cells.at(ROOT_CARRIES) += base(by);
            *cells.at(REST) += base(by * RADIX);
            *cells.at(REST + 1) -= base(by);
        });
    }
    assert_eq!(CARRY_BITS, [15, 13, 14]);
}

/// Each cell alone: by what it is a limb of, whether or not its lookup holds, or by a lookup alone.
#[test]
fn every_cell_of_a_norm_is_held() {
    let scene = one_token();
    for column in 0..COLUMNS {
        let names: &[&str] = match column {
            GAP..ROOT | ROOM_HI => &[],
            _ => &["accumulators"],
        };
        let columns = changed(false, |cells| *cells.at(column) += base(1));
        if names.is_empty() {
            caught(&scene, Caught::Lookup, false, |cells| *cells.at(column) += base(1));
            continue;
        }
        let hooks = Hooks {
            columns: &columns,
            broken_claims: &|broken| assert_eq!(broken(), names, "column {column}"),
            ..HONEST
        };
        assert_claims_violated(scene.attempt(&hooks));
    }
}

/// The root of the row before, with its sum and all of its columns.
#[test]
fn the_root_is_that_of_the_row() {
    let scene = one_token();
    let columns = changed(false, |cells| {
        for column in 0..COLUMNS {
            *cells.at(column) = cells.columns[column][cells.row - 1];
        }
    });
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&hooks));
}

/// A state that the model does not have may have any root: its products have no weight.
#[test]
fn padded_states_have_no_root() {
    let scene = Scene::honest();
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let at = row(shape, Part::NORMS, &[shape.states(), 0]);
        let own = &mut all[Part::NORMS.index()];
        let other = NormRow {
            sums: [0, 0, 8],
            eps: 1,
            bound: [3 * 9 * 9 * 9, 0, 0, 0, 0],
            root: 15,
        };
        for (column, value) in own.iter_mut().zip(other.columns()) {
            column[at] = base(value);
        }
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.attempt(&hooks).expect("a true statement, as no product has it");
}
