//! Attacks on norms: reciprocal roots of another sum or of none, quotients and remainders that are none.

use stwo::core::fields::m31::{BaseField, P};
use tessera_circuits::air::base;
use tessera_circuits::air::norms::{
    CARRIES, CARRY, CARRY_BITS, COLUMNS, CROSS_HI, CROSS_LO, GAP, HIGH_LO, LEFT, LIMBS, LIMB_BITS, QUOTIENT, REST,
    ROOM_HI, ROOT, ROOT_CARRIES, SUM,
};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::prove::trace::{Columns, NormRow};

use crate::cheat::{Hooks, HONEST};
use crate::forward::Deviation;
use crate::semantics::{deviating, one_token, QUERY};
use crate::values::row;
use crate::{assert_claims_violated, Caught, Scene};

const RADIX: i64 = 1 << LIMB_BITS;
/// The attacked state: the last one, which the head reads.
const STATE: usize = 4;

/// The cells of the attacked row of part Norms.
struct Line<'a> {
    columns: &'a mut Columns,
    row: usize,
}

impl Line<'_> {
    fn at(&mut self, column: usize) -> &mut BaseField {
        &mut self.columns[column][self.row]
    }

    fn get(&self, column: usize) -> i64 {
        self.columns[column][self.row].0.into()
    }

    /// The number in so many limbs.
    fn value(&self, at: usize, count: usize) -> i128 {
        (at..at + count)
            .rev()
            .fold(0, |sum, column| sum * i128::from(RADIX) + i128::from(self.get(column)))
    }

    fn set(&mut self, at: usize, count: usize, value: i128) {
        for k in 0..count {
            *self.at(at + k) = base((value >> (12 * k) & 0xfff) as i64);
        }
    }

    /// The bound of the norm, as the honest row has it.
    fn bound(&self) -> i128 {
        self.value(QUOTIENT, LIMBS) * self.value(SUM, LIMBS) + self.value(LEFT, LIMBS)
    }

    /// Writes another quotient and what it leaves, carries and gap as integers ask for; the root stays.
    fn divide(&mut self, bound: i128, quotient: i128) {
        let sum = self.value(SUM, LIMBS);
        let left = bound - quotient * sum;
        self.set(QUOTIENT, LIMBS, quotient);
        self.set(LEFT, LIMBS, left.max(0));
        let gap = (sum - 1 - left).max(0);
        self.set(GAP, LIMBS - 1, gap >> 12);
        let mut carried = 0;
        for k in 0..LIMBS {
            let product: i64 = (0..=k).map(|i| self.get(QUOTIENT + i) * self.get(SUM + k - i)).sum();
            let own = (bound >> (12 * k) & 0xfff) as i64;
            carried = (product + self.get(LEFT + k) + carried - own).div_euclid(RADIX);
            *self.at(CARRIES + k) = base(carried);
        }
    }

    /// Writes another root and what it leaves of the quotient.
    fn extract(&mut self, root: i128) {
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
fn changed(all: bool, change: impl Fn(&mut Line<'_>)) -> impl Fn(&Shape, &mut [Columns]) {
    move |shape, columns| {
        for state in if all { 0 } else { STATE }..=STATE {
            assert!(STATE + 1 == shape.states());
            let row = row(shape, Part::Norms, &[state, QUERY]);
            change(&mut Line {
                columns: &mut columns[Part::Norms.index()],
                row,
            });
        }
    }
}

fn caught(scene: &Scene, by: Caught, all: bool, change: impl Fn(&mut Line<'_>)) {
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
        caught(&scene, Caught::Claim("accumulators"), true, |line| {
            let root = line.value(QUOTIENT, LIMBS).unsigned_abs().isqrt() as i128;
            line.extract(root);
        });
    }
}

/// One more: its square exceeds the quotient, so the rest is negative.
#[test]
fn a_root_one_too_large() {
    let scene = deviating(one_token(), &OtherRoot(1));
    caught(&scene, Caught::Lookup, true, |line| {
        let root = line.value(ROOT, 2);
        line.extract(root);
    });
}

/// One less: the rest is more than twice the root.
#[test]
fn a_root_one_too_small() {
    let scene = deviating(one_token(), &OtherRoot(-1));
    caught(&scene, Caught::Lookup, true, |line| {
        let root = line.value(ROOT, 2);
        line.extract(root);
    });
}

/// The rest in range, and more than twice the root, however the room is said to be.
#[test]
fn rest_beyond_twice_the_root() {
    let scene = deviating(one_token(), &OtherRoot(-1));
    for room in [0, 1, (1 << 13) - 1] {
        caught(&scene, Caught::Lookup, true, |line| {
            let root = line.value(ROOT, 2);
            line.extract(root);
            *line.at(ROOM_HI) = base(room);
        });
    }
    // By the inverse of the radix, modulo p.
    caught(&scene, Caught::Lookup, true, |line| {
        let root = line.value(ROOT, 2);
        line.extract(root);
        let room = 2 * root as i64 - (RADIX * line.get(REST + 1) + line.get(REST));
        *line.at(ROOM_HI) = base(room) * base(1 << (31 - LIMB_BITS));
    });
}

/// A quotient that is one less leaves the sum or more, one that is more leaves less than nothing; with the root of it.
#[test]
fn a_quotient_that_is_not_one() {
    for by in [-1i128, 1, -5000] {
        let scene = one_token();
        caught(&scene, Caught::Lookup, false, |line| {
            let (bound, quotient) = (line.bound(), line.value(QUOTIENT, LIMBS) + by);
            line.divide(bound, quotient);
            line.extract(quotient.unsigned_abs().isqrt() as i128);
        });
    }
}

/// The quotient of the bound less p: the limbs add up to it, but for one that is out of its range.
#[test]
fn a_division_modulo_p() {
    let scene = one_token();
    caught(&scene, Caught::Claim("accumulators"), false, |line| {
        let bound = line.bound() - i128::from(P);
        let quotient = bound / line.value(SUM, LIMBS);
        line.divide(bound, quotient);
        line.extract(quotient.unsigned_abs().isqrt() as i128);
    });
}

/// What is left is below the sum, however the gap is said to be.
#[test]
fn what_is_left_is_not_below_the_sum() {
    let scene = one_token();
    for gap in [0i128, 1, 1 << 24, (1 << 36) - 1] {
        caught(&scene, Caught::Lookup, false, |line| {
            let (bound, quotient) = (line.bound(), line.value(QUOTIENT, LIMBS) - 1);
            line.divide(bound, quotient);
            line.set(GAP, LIMBS - 1, gap);
        });
    }
}

/// Another sum of squares, with quotient and root of it: the limbs of the squares are those of the states.
#[test]
fn a_sum_that_is_chosen() {
    for by in [1i128, -1, 1 << 12, 1 << 24, 1 << 36] {
        let scene = one_token();
        caught(
            &scene,
            Caught::Claims(&["accumulators", "states, sums of squares and roots", "reciprocal roots"]),
            false,
            |line| {
                let (bound, sum) = (line.bound(), line.value(SUM, LIMBS) + by);
                line.set(SUM, LIMBS, sum);
                line.divide(bound, bound / sum);
                line.extract((bound / sum).unsigned_abs().isqrt() as i128);
            },
        );
    }
}

/// A sum that is another one by a multiple of p in one of its three parts: the limb that would hold it is out of its range.
#[test]
fn a_sum_with_an_alias() {
    let scene = one_token();
    let p = i64::from(P);
    // The high part: 256 times more in the limbs of the sum.
    caught(&scene, Caught::Lookup, false, |line| {
        *line.at(SUM + 3) += base(p / 256 / RADIX + 1);
        *line.at(HIGH_LO) -= base(256) * base(RADIX) * base(p / 256 / RADIX + 1);
    });
    // The middle part: the low limb takes back what the high one has more.
    caught(&scene, Caught::Lookup, false, |line| {
        *line.at(CROSS_HI) += base(1);
        *line.at(CROSS_LO) -= base(1 << 15);
    });
    caught(&scene, Caught::Lookup, false, |line| {
        *line.at(CROSS_HI) += base(1 << 16);
        *line.at(CROSS_LO) -= base(1);
    });
    // The low part: 2^31 is one modulo p, so 128 carries are one unit of the sum.
    caught(&scene, Caught::Lookup, false, |line| {
        *line.at(CARRY) += base(128);
        *line.at(SUM) -= base(1);
        let high = line.get(SUM + 2) + 128;
        *line.at(SUM + 2) = base(high);
    });
}

/// Carries that are one more are taken back by the limb above.
#[test]
fn carries_are_those_of_limbs_in_range() {
    let scene = one_token();
    for k in 0..LIMBS - 1 {
        for by in [1, -1] {
            caught(&scene, Caught::Lookup, false, |line| {
                *line.at(CARRIES + k) += base(by);
                *line.at(LEFT + k) += base(by * RADIX);
                *line.at(LEFT + k + 1) -= base(by);
            });
        }
    }
    for by in [1, -1] {
        caught(&scene, Caught::Lookup, false, |line| {
            *line.at(ROOT_CARRIES) += base(by);
            *line.at(REST) += base(by * RADIX);
            *line.at(REST + 1) -= base(by);
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
            SUM..CROSS_HI => &["accumulators", "states, sums of squares and roots"],
            QUOTIENT..LEFT => &["accumulators", "reciprocal roots"],
            ROOT..REST => &["reciprocal roots", "states, sums of squares and roots"],
            GAP..ROOT | ROOM_HI => &[],
            _ => &["accumulators"],
        };
        let columns = changed(false, |line| *line.at(column) += base(1));
        if names.is_empty() {
            caught(&scene, Caught::Lookup, false, |line| *line.at(column) += base(1));
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
    let columns = changed(false, |line| {
        for column in 0..COLUMNS {
            *line.at(column) = line.columns[column][line.row - 1];
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
        let at = row(shape, Part::Norms, &[shape.states(), 0]);
        let own = &mut all[Part::Norms.index()];
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
