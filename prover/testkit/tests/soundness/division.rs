//! Attacks on the division of softmax: sums and reciprocals of another row or of none, remainders that are none.

use stwo::core::fields::m31::P;
use tessera_circuits::air::base;
use tessera_circuits::ops::softmax;
use tessera_circuits::ops::softmax::{
    dividend, CARRY, COLUMNS, GAP_HI, HIGH, LEFT_HI, LEFT_LO, LIMB_BITS, RECIP_HI, RECIP_LO, SUM_HI, SUM_LO,
};
use tessera_circuits::semantics::{reciprocal, RECIPROCAL};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::ops::division;
use tessera_prover::trace::Columns;

use crate::cells::Cells;
use crate::cheat::{Hooks, HONEST};
use crate::semantics::{attention, in_every_head, one_token};
use crate::{assert_claims_violated, Caught, Scene};

const RADIX: i64 = 1 << LIMB_BITS;

impl Cells<'_> {
    fn sum(&self) -> i64 {
        RADIX * self.get(SUM_HI) + self.get(SUM_LO)
    }

    fn recip(&self) -> i64 {
        RADIX * self.get(RECIP_HI) + self.get(RECIP_LO)
    }

    /// Writes what the honest prover would for a sum and a reciprocal, whether they go together or not.
    fn write(&mut self, sum: i64, recip: i64) {
        for (column, value) in (SUM_HI..COLUMNS).zip(division(sum as u32, recip as u32)) {
            *self.at(column) = base(value.into());
        }
    }

    /// Writes what is left.
    fn leave(&mut self, left: i64) {
        let gap = self.sum() - 1 - left;
        *self.at(LEFT_HI) = base(left.div_euclid(RADIX));
        *self.at(LEFT_LO) = base(left.rem_euclid(RADIX));
        *self.at(GAP_HI) = base(gap.div_euclid(RADIX));
    }

    /// Writes the columns that the three equations ask for modulo p, the low limb of what is left being in its range.
    fn solve(&mut self) {
        let limbs = |hi, lo| [self.get(hi), self.get(lo)];
        let ([sum_hi, sum_lo], [hi, lo], [n_hi, n_lo]) = (limbs(SUM_HI, SUM_LO), limbs(RECIP_HI, RECIP_LO), dividend());
        let (high, left_lo) = (hi * sum_hi, (n_lo - lo * sum_lo).rem_euclid(RADIX));
        let carry = (lo * sum_lo + left_lo - n_lo) / RADIX;
        let left_hi = n_hi - RADIX * high - carry - hi * sum_lo - lo * sum_hi;
        for (column, value) in [(HIGH, high), (CARRY, carry), (LEFT_HI, left_hi), (LEFT_LO, left_lo)] {
            *self.at(column) = base(value);
        }
        let gap = self.sum() - 1 - RADIX * left_hi - left_lo;
        *self.at(GAP_HI) = base(gap.div_euclid(RADIX));
    }
}

/// Other cells in the attacked row of every head.
fn changed(change: impl Fn(&mut Cells<'_>)) -> impl Fn(&Shape, &mut [Columns]) {
    in_every_head(move |all, _, row| {
        let columns = &mut all[Part::SOFTMAX.index()];
        change(&mut Cells { columns, row });
    })
}

/// Attempts a scene with other cells in the attacked row of every head.
fn caught(scene: &Scene, by: Caught, change: impl Fn(&mut Cells<'_>)) {
    let columns = changed(change);
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(by, &hooks);
}

/// One less leaves the sum or more, one more leaves less than nothing. Each is refused with the columns that the equations
/// ask for, and with others that are in the tables.
#[test]
fn the_reciprocal_is_that_of_the_sum() {
    for by in [-1, 1, -3000] {
        let scene = attention(|row, _| row.recip = row.recip.wrapping_add_signed(by));
        // Too little or too much is left.
        caught(&scene, Caught::Lookup, |cells| cells.solve());
        // As much as is left in truth.
        caught(&scene, Caught::Claim("accumulators"), |cells| {
            cells.leave(RECIPROCAL as i64 % cells.sum());
        });
        // Probabilities of that reciprocal, next to the true one.
        caught(&scene, Caught::Claim("accumulators"), |cells| {
            let sum = cells.sum();
            cells.write(sum, reciprocal(sum as u32).into());
        });
    }
}

/// A reciprocal whose product with the sum is the dividend modulo p, and not over the integers.
#[test]
fn the_division_is_one_of_integers() {
    let wrapped = RECIPROCAL - u64::from(P);
    let scene = attention(|row, _| row.recip = (wrapped / u64::from(row.sum)) as u32);
    caught(&scene, Caught::Lookup, |cells| cells.solve());
    caught(&scene, Caught::Claim("accumulators"), |cells| {
        let left = wrapped as i64 - cells.recip() * cells.sum();
        assert!((0..cells.sum()).contains(&left));
        cells.leave(left);
    });
}

/// A sum that is smaller makes all probabilities larger.
#[test]
fn the_sum_is_not_one_that_is_chosen() {
    let scene = one_token();
    caught(&scene, Caught::Claims(&["accumulators", "softmax sums"]), |cells| {
        let sum = cells.sum() - 77;
        cells.write(sum, reciprocal(sum as u32).into());
    });
    // Limbs that are the sum modulo p, and are none of it.
    caught(&scene, Caught::Lookup, |cells| {
        *cells.at(SUM_HI) -= base(1);
        *cells.at(SUM_LO) += base(RADIX);
        cells.solve();
    });
    caught(&scene, Caught::Lookup, |cells| {
        // The inverse of the radix.
        *cells.at(SUM_HI) += base(1 << (31 - LIMB_BITS));
        *cells.at(SUM_LO) -= base(1);
        cells.solve();
    });
}

/// A carry that is one more is taken back by what is left: the sum of the limbs is the same.
#[test]
fn carries_are_those_of_limbs_in_range() {
    let scene = one_token();
    for by in [1, -1] {
        caught(&scene, Caught::Lookup, |cells| {
            *cells.at(CARRY) += base(by);
            *cells.at(LEFT_LO) += base(by * RADIX);
            *cells.at(LEFT_HI) -= base(by);
        });
    }
}

/// What is left is below the sum, however the gap is said to be.
#[test]
fn what_is_left_is_below_the_sum() {
    let scene = attention(|row, _| row.recip -= 1);
    caught(&scene, Caught::Lookup, |cells| {
        cells.solve();
        // In the tables but for the low limb, and the other way round, modulo p.
        *cells.at(GAP_HI) = base(0);
    });
    caught(&scene, Caught::Lookup, |cells| {
        cells.solve();
        let gap = cells.sum() - 1 - RADIX * cells.get(LEFT_HI) - cells.get(LEFT_LO);
        *cells.at(GAP_HI) = base(gap) * base(1 << (31 - LIMB_BITS));
    });
}

/// Cells alone, so many further each: by what it is a limb of, whether or not its lookup holds, or by a lookup alone.
fn hold(step: usize) {
    let scene = one_token();
    let sums = ["accumulators", "softmax sums"].as_slice();
    for column in (SUM_HI..GAP_HI).step_by(step) {
        let names = if column <= SUM_LO { sums } else { &sums[..1] };
        let columns = changed(|cells| *cells.at(column) += base(1));
        let hooks = Hooks {
            columns: &columns,
            broken_claims: &|broken| assert_eq!(broken(), names, "column {column}"),
            ..HONEST
        };
        assert_claims_violated(scene.attempt(&hooks));
    }
    caught(&scene, Caught::Lookup, |cells| *cells.at(GAP_HI) += base(1));
}

#[test]
fn cells_of_a_division_are_held() {
    hold(3);
}

#[test]
#[ignore = "takes minutes: all that the test above takes a third of; run by .ci/nightly"]
fn every_cell_of_a_division_is_held() {
    hold(1);
}

/// The reciprocal of the row before, with its sum and all of its columns, and the probabilities that follow.
#[test]
fn the_reciprocal_is_that_of_the_row() {
    let scene = one_token();
    let before = |cells: &mut Cells<'_>| {
        for column in SUM_HI..COLUMNS {
            *cells.at(column) = cells.columns[column][cells.row - 1];
        }
    };
    caught(&scene, Caught::Claims(&["accumulators", "softmax sums"]), before);
    // Without its sum it is none of the row's.
    caught(&scene, Caught::Claim("accumulators"), |cells| {
        let (sum, recip) = (cells.sum(), cells.recip());
        before(cells);
        let other = cells.recip();
        assert_ne!(other, recip);
        cells.write(sum, recip);
        *cells.at(RECIP_HI) = base(other / RADIX);
        *cells.at(RECIP_LO) = base(other % RADIX);
    });
}

/// A padded head may have any reciprocal, and no probabilities of it: its products have no weight.
#[test]
fn padded_heads_have_no_probabilities() {
    let scene = Scene::honest();
    let with = |probability: i64| {
        move |shape: &Shape, columns: &mut [Columns]| {
            let tokens = 1usize << shape.token;
            let line = ((1 << shape.axes(Part::SOFTMAX)[1]) - 1) * tokens;
            assert!(line >= shape.config.heads * tokens, "a padded head of the first layer");
            let own = &mut columns[Part::SOFTMAX.index()];
            let mut cells = Cells {
                columns: own,
                row: line,
            };
            cells.write(3 << 15, reciprocal(3 << 15).into());
            let pair = &mut columns[Part::SCORES.index()];
            pair[softmax::P][line * tokens] += base(probability);
        }
    };
    let free = Hooks {
        columns: &with(0),
        ..HONEST
    };
    scene.attempt(&free).expect("a true statement, as no product has it");
    let claimed = Hooks {
        columns: &with(1 << 14),
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("accumulators"), &claimed);
}
