//! The largest values that the bounds of a key allow, in every rounding: rows with them, made here from the integer semantics
//! alone, are in the tables, no other output is, and what is clipped is in the range of the list.

use std::collections::BTreeSet;

use stwo::core::fields::m31::P as ORDER;
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::air::{base, requant, Air};
use tessera_circuits::bounds::{AccumulatorBound, LOW_LIMIT, MAX_ACT_SHIFT, MAX_ATT_SHIFT, MAX_OUTPUT};
use tessera_circuits::model::{LimbSet, Limbs, WeightFormat};
use tessera_circuits::ops::{ff, softmax, stream};
use tessera_circuits::semantics::{
    probability, reciprocal, requantise, requantise_value, rope_pair, round_shift, INT15, INT16, PROB_SHIFT, ROPE_BITS,
};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::check::{check_row, Missing};
use tessera_prover::ops::division;
use tessera_prover::trace::Columns;
use tessera_testkit::random_model;

use crate::setup::three_layers;

const MODULUS: i64 = ORDER as i64;

/// One row under construction.
struct Row {
    air: Air,
    cells: Vec<i64>,
}

impl Row {
    fn new(part: Part) -> Self {
        Self::with_limbs(part, Limbs::Two)
    }

    fn with_limbs(part: Part, limbs: Limbs) -> Self {
        let whole = tessera_circuits::chunk::Chunk::whole(3);
        let shape = Shape::with_limbs(&three_layers(), LimbSet::all(limbs), &whole, 8);
        let air = shape.air(part);
        Self {
            cells: vec![0; air.columns],
            air,
        }
    }

    fn set<const N: usize>(&mut self, columns: [usize; N], values: [i64; N]) {
        columns.into_iter().zip(values).for_each(|(c, v)| self.cells[c] = v);
    }

    fn limbs(&mut self, at: usize, out: i64) {
        self.set([at, at + 1], [out >> 8, out & 0xff]);
    }

    /// The remainder of a value before it is clipped, of an accumulator in limbs (the residual is in the high one). Returns
    /// what it is clipped to.
    fn round(&mut self, at: Remainder, acc: [i64; 2], shift: u8) -> i64 {
        self.round_within(INT16, at, acc, shift)
    }

    /// Rounds an accumulator and clips the result to these ends, in limbs `[hi, lo]`, into the columns of a remainder.
    fn round_within(&mut self, [least, most]: [i64; 2], at: Remainder, [hi, lo]: [i64; 2], shift: u8) -> i64 {
        let total = 8 + u32::from(shift);
        let acc = 256 * hi + lo + (1 << (total - 1));
        let value = acc >> total;
        let rest = acc - (value << total);
        match at.limbs {
            Limbs::One => self.set([at.pow(), at.rest()], [1 << total, rest]),
            Limbs::Two => {
                let clipped = !(least..=most).contains(&value);
                let narrow = at.is_narrow(shift.into(), clipped.then_some(value));
                self.set([at.pow(), at.r_hi(), at.r_lo()], [1 << shift, rest >> 8, rest & 0xff]);
                self.set(
                    [at.d_hi(), at.d_lo()],
                    Remainder::difference(hi - (value << shift), narrow),
                );
                assert_eq!(two_limbs([hi, lo], shift, value), Some(rest));
            }
        }
        // The list of clipped values has room for it (`Statistics::check`).
        let bits = if at.limbs == Limbs::One { total } else { shift.into() };
        assert!(value.abs() < 1 << (30 - bits), "{value} with a total shift of {total}");
        value.clamp(least, most)
    }

    fn check(&self, tables: &LookupTables) -> Missing {
        let columns: Columns = self.cells.iter().map(|v| vec![base(*v)]).collect();
        check_row(&self.air, &columns, tables, 0)
    }
}

/// The remainder of an accumulator in two limbs that is said to be rounded to `value`, if it has one: both limbs are claimed
/// modulo p.
fn two_limbs([hi, lo]: [i64; 2], shift: u8, value: i64) -> Option<i64> {
    let offset = Remainder::OFFSET;
    let delta = (hi - (value << shift) + offset).rem_euclid(MODULUS);
    let rest = (lo + (1 << (7 + shift)) + 256 * (delta - offset)).rem_euclid(MODULUS);
    (delta <= offset + Remainder::LARGEST && rest < 256 << shift).then_some(rest)
}

/// The remainder of a value in one limb that is said to be rounded to `value`, if it has one.
fn one_limb(acc: i64, total: u32, value: i64) -> Option<i64> {
    let rest = (acc + (1 << (total - 1)) - (value << total)).rem_euclid(MODULUS);
    (rest < 1 << total).then_some(rest)
}

fn tables() -> LookupTables {
    LookupTables::new(
        &random_model(three_layers(), WeightFormat::Int16, 3).params,
        &three_layers(),
    )
}

/// Accumulators of the largest and smallest values, with high and low limbs of either sign.
fn corners(hi: i64, lo: i64) -> Vec<[i64; 2]> {
    let mut list = vec![[0, 0], [0, -1], [-1, 0], [1, 255]];
    for sign in [1, -1] {
        list.extend([[sign * hi, lo], [sign * hi, -lo], [sign * hi, 0], [0, sign * lo]]);
    }
    list
}

/// Accumulators in one limb: the largest, the smallest, and some between them.
fn either_sign(most: i64) -> [i64; 7] {
    [most, -most, 0, -1, 1, 1 << 20, -(1 << 20)]
}

/// Whether the outputs have both ends, and something between them.
fn saturates_at(ends: [i64; 2], outs: &BTreeSet<i64>) -> bool {
    ends.iter().all(|end| outs.contains(end)) && outs.len() > 2
}

/// The largest sum of magnitudes of weights that the bounds accept.
const MOST: i64 = (LOW_LIMIT as i64 - 1) / 255;
/// The largest one with which every narrow difference is in range: 0.7 % less.
const PRODUCT: i64 = ((1 << 30) - (1 << 23) - (1 << 20)) / 255;

#[test]
fn the_largest_matmul_is_provable() {
    let bound = AccumulatorBound::matmul(MOST as usize, 1).expect("just fits");
    assert_eq!(AccumulatorBound::matmul(MOST as usize + 1, 1), None);
    assert_eq!(AccumulatorBound::matmul(usize::MAX, 2047), None);
    let tables = tables();
    let mut outs = BTreeSet::new();
    for shift in 1..=13u8 {
        assert!(bound.fits(shift, None));
        for acc in corners(128 * PRODUCT, 255 * PRODUCT) {
            let mut row = Row::new(Part::V);
            let out = row.round_within(INT15, requant::remainder(Limbs::Two), acc, shift);
            assert_eq!(out, i64::from(requantise_value(256 * acc[0] + acc[1], shift)));
            row.set([requant::OUT], [out]);
            assert_eq!(row.check(&tables), Missing::new(), "{acc:?}, shift {shift}");
            outs.insert(out);
        }
    }
    assert!(saturates_at(INT15, &outs));
}

/// The largest accumulators of one limb: with the residual, the half and the output clipped they stay below `p / 2`.
#[test]
fn the_largest_matmul_of_one_limb_is_provable() {
    let tables = tables();
    let mut outs = BTreeSet::new();
    for total in 9..=14u32 {
        let shift = (total - 8) as u8;
        let most = (1 << 30) - (1 << total) - (1 << (total - 1)) - 1;
        for acc in either_sign(most) {
            let mut row = Row::with_limbs(Part::V, Limbs::One);
            let out = row.round_within(INT15, requant::remainder(Limbs::One), [0, acc], shift);
            assert_eq!(out, i64::from(requantise_value(acc, shift)));
            row.set([requant::OUT], [out]);
            assert_eq!(row.check(&tables), Missing::new(), "{acc}, total {total}");
            outs.insert(out);
        }
    }
    assert!(saturates_at(INT15, &outs));
}

/// The largest sums of probabilities times values. With the largest shift that a key may have none is clipped, and with all of them the
/// rounded value is the only one, clipped or not, that has a remainder.
#[test]
fn the_largest_attention_output_is_provable() {
    let tables = tables();
    let most = MAX_OUTPUT as i64;
    let mut outs = BTreeSet::new();
    for shift in 1..=MAX_ATT_SHIFT {
        let total = 8 + u32::from(shift);
        for acc in either_sign(most) {
            let mut row = Row::new(Part::ATT);
            let out = row.round(requant::OUTPUT, [0, acc], shift);
            assert_eq!(out, i64::from(requantise(acc, shift)));
            row.limbs(requant::OUT_HI, out);
            assert_eq!(row.check(&tables), Missing::new(), "{acc}, shift {shift}");
            let value = round_shift(acc, total);
            assert!(shift < MAX_ATT_SHIFT || out == value);
            // The order is `2^31 - 1`, so other values with a remainder are about so many away.
            let step = 1i64 << (31 - total);
            let near = [-2 * step, -step, step, 2 * step].map(|around| value + around);
            let others = near
                .into_iter()
                .flat_map(|at| at - 2..=at + 2)
                .chain([value - 1, value + 1]);
            let listed = 1i64 << (30 - total);
            for other in others.filter(|v| (INT16[0]..=INT16[1]).contains(v) || v.abs() < listed) {
                assert_eq!(one_limb(acc, total, other), None, "{acc} as {other}");
            }
            outs.insert(out);
        }
    }
    assert!(saturates_at(INT16, &outs));
}

/// A residual update, and the norm of its result, whose products are below `2^29` whatever the row.
#[test]
fn the_largest_residual_and_norm_are_provable() {
    let bound = AccumulatorBound::matmul(MOST as usize, 1).expect("just fits");
    let tables = tables();
    let (mut xs, mut ys, mut refused) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (shift, skip) in (1..=13u8).flat_map(|shift| (0..=13u8).map(move |skip| (shift, skip))) {
        if !bound.fits(shift, Some(skip)) {
            refused += 1;
            continue;
        }
        for (acc, previous) in corners(128 * PRODUCT, 255 * PRODUCT)
            .into_iter()
            .flat_map(|acc| [i16::MIN, -1, 0, i16::MAX].map(|p| (acc, p)))
        {
            use stream::*;
            let mut row = Row::new(Part::STREAM);
            let with_residual = [acc[0] + (i64::from(previous) << skip), acc[1]];
            let x = row.round(UPDATE, with_residual, shift);
            assert_eq!(
                x,
                i64::from(requantise_residual(256 * acc[0] + acc[1], previous, skip, shift))
            );
            row.limbs(X_HI, x);
            let norm_shift = 1 + shift % 7;
            let product = if x == 0 { 0 } else { x * ((1 << 29) / x.abs()) };
            let y = row.round(NORM, [0, product], norm_shift);
            assert_eq!(y, i64::from(requantise(product, norm_shift)));
            row.limbs(Y, y);
            let found = row.check(&tables);
            assert_eq!(found, Missing::new(), "{acc:?}, {previous}, shift {shift}, skip {skip}");
            xs.insert(x);
            ys.insert(y);
        }
    }
    assert!(saturates_at(INT16, &xs) && saturates_at(INT16, &ys));
    // The bounds are not vacuous: with the largest shift and skip together, the sums could reach p.
    assert!(refused > 0 && !bound.fits(13, Some(13)));
}

#[test]
fn the_largest_rotations_are_provable() {
    let tables = tables();
    let one = 1i32 << ROPE_BITS;
    let half = 11585;
    let mut outs = BTreeSet::new();
    let ends = [i16::MIN, -1, 0, i16::MAX];
    let rope = Shape::new(&three_layers(), 8).rope(Part::Q);
    for (a, b) in ends.into_iter().flat_map(|a| ends.map(|b| (a, b))) {
        for (cos, sin) in [
            (one, 0),
            (0, -one),
            (half, half),
            (half, -half),
            (-half, half),
            (-half, -half),
        ] {
            let mut row = Row::new(Part::Q);
            for (side, value) in [a, b].into_iter().enumerate() {
                let before = row.round(rope.remainder(side), [2 * i64::from(value), 0], 1);
                assert_eq!(before, i64::from(value));
                row.set([rope.before(side)], [before]);
            }
            let (first, second) = rope_pair(a, b, cos, sin);
            let [a, b, cos, sin] = [i64::from(a), i64::from(b), i64::from(cos), i64::from(sin)];
            let turned = [(first, a * cos - b * sin), (second, b * cos + a * sin)];
            for (side, (out, t)) in turned.into_iter().enumerate() {
                let value = (t + (1 << (ROPE_BITS - 1))) >> ROPE_BITS;
                let rest = t + (1 << (ROPE_BITS - 1)) - (value << ROPE_BITS);
                assert!(value.abs() <= 1 << (30 - ROPE_BITS));
                row.set([rope.after(side), rope.rest(side)], [out.into(), rest]);
                let out = i64::from(out);
                assert_eq!(out, value.clamp(i16::MIN.into(), i16::MAX.into()));
                assert_eq!(only(|v| one_limb(t, ROPE_BITS, v), value), 1);
                outs.insert(out);
            }
            assert_eq!(row.check(&tables), Missing::new(), "{a} {b} {cos} {sin}");
        }
    }
    assert!(saturates_at(INT16, &outs));
}

/// How many values, clipped ones included, have a remainder; one of them is `value`.
fn only(rest: impl Fn(i64) -> Option<i64>, value: i64) -> usize {
    assert!(rest(value).is_some(), "{value}");
    let int16 = i64::from(i16::MIN)..=i64::from(i16::MAX);
    let clipped = (!int16.contains(&value)).then_some(value);
    int16.chain(clipped).filter(|v| rest(*v).is_some()).count()
}

/// Scores of the widest heads, and the probability of a key that is alone or one of many.
#[test]
fn the_largest_scores_and_probabilities_are_provable() {
    let tables = tables();
    let (mut outs, mut shares) = (BTreeSet::new(), BTreeSet::new());
    for (shift, sum) in (1..=13u8).zip([1u32 << 15, (1 << 15) + 1, 3 << 15, 1 << 28].into_iter().cycle()) {
        for acc in corners(128 << 22, (128 * 255) << 15) {
            use softmax::*;
            let mut row = Row::new(Part::SCORES);
            let s = row.round(SCORE, acc, shift);
            assert_eq!(s, i64::from(requantise(256 * acc[0] + acc[1], shift)));
            let (e, r) = (1i64 << 15, i64::from(reciprocal(sum)));
            row.set([S, D, EXP, ZERO], [s, 0, e, 1]);
            let p = i64::from(probability(e as u32, r as u32));
            let total = 8 + u32::from(PROB_SHIFT);
            let share = e * r + (1 << (total - 1));
            assert_eq!(share >> total, p, "nothing is clipped");
            let rest = share - (p << total);
            let delta = e * (r >> softmax::LIMB_BITS) - (p << (total - softmax::LIMB_BITS)) + P_OFFSET;
            row.set([P, P_HI, P_LO, P_DELTA], [p, rest >> 8, rest & 0xff, delta]);
            assert_eq!(row.check(&tables), Missing::new(), "{acc:?}, shift {shift}, sum {sum}");
            outs.insert(s);
            shares.insert(p);
        }
    }
    assert!(saturates_at(INT16, &outs));
    assert_eq!(shares.last(), Some(&i64::from(i16::MAX)));
}

/// A probability has one remainder, whatever exponential and sum: of all values that Range16 has, the rounded one.
#[test]
fn probabilities_have_one_value() {
    let total = 8 + u32::from(PROB_SHIFT);
    for sum in [1u32 << 15, (1 << 15) + 1, 99_999, 3 << 15, 1 << 22, 1 << 28] {
        let r = i64::from(reciprocal(sum));
        for e in [0, 1, 2, 77, 1 << 10, (1 << 15) - 1, 1 << 15] {
            let rest = |p: i64| {
                let [hi, lo] = [r >> softmax::LIMB_BITS, r & ((1 << softmax::LIMB_BITS) - 1)];
                let delta = (e * hi - (p << (total - softmax::LIMB_BITS)) + softmax::P_OFFSET).rem_euclid(MODULUS);
                let carried = (delta - softmax::P_OFFSET) << softmax::LIMB_BITS;
                let low = (e * lo + (1 << (total - 1)) + carried).rem_euclid(MODULUS);
                (delta < 1 << 16 && low < 1 << total).then_some(low)
            };
            let fitting: Vec<i64> = (0..1 << 16).filter(|p| rest(*p).is_some()).collect();
            assert_eq!(fitting, [i64::from(probability(e as u32, r as u32))], "{e} of {sum}");
        }
    }
}

/// What the equations of a reciprocal modulo p ask of its other columns: product of the high limbs, carry, what is left. The
/// carry is that of what is left in the low limb.
fn divided(sum: i64, recip: i64, left_lo: i64) -> [i64; 3] {
    let limbs = |v: i64| [v >> softmax::LIMB_BITS, v & ((1 << softmax::LIMB_BITS) - 1)];
    let ([z_hi, z_lo], [r_hi, r_lo], [hi, lo]) = (limbs(sum), limbs(recip), softmax::dividend());
    let radix = 1 << softmax::LIMB_BITS;
    // The inverse of a power of two is one.
    let inverse = 1 << (31 - softmax::LIMB_BITS);
    let carry = ((r_lo * z_lo + left_lo - lo).rem_euclid(MODULUS) * inverse).rem_euclid(MODULUS);
    let high = r_hi * z_hi;
    [
        high,
        carry,
        (hi - high * radix - carry - r_hi * z_lo - r_lo * z_hi).rem_euclid(MODULUS),
    ]
}

/// Of all reciprocals one has a row in the tables, that of the semantics, for the smallest sum and the largest: it is the
/// quotient, and there is one for every sum.
#[test]
fn a_sum_has_one_reciprocal() {
    use softmax::*;
    let tables = tables();
    let sums = [
        1i64 << 15,
        (1 << 15) + 1,
        99_999,
        3 << 15,
        (1 << 22) - 1,
        1 << 22,
        (1 << 28) - 1,
        1 << 28,
    ];
    let radix = 1i64 << LIMB_BITS;
    for sum in sums {
        let honest = i64::from(reciprocal(sum as u32));
        let near = (honest - 3..=honest + 3).chain([0, 1, honest / 2, honest ^ radix, (1 << 21) - 1]);
        let wrapped = (1..4).map(|j| (RECIPROCAL as i64 + j * MODULUS) / sum);
        for recip in near.chain(wrapped).filter(|r| (0..1 << 21).contains(r)) {
            // What is left in the low limb is what the carry is an integer of.
            let left_lo = (softmax::dividend()[1] - (recip % radix) * (sum % radix)).rem_euclid(radix);
            let [high, carry, left_hi] = divided(sum, recip, left_lo);
            let left = (left_hi * radix + left_lo).rem_euclid(MODULUS);
            let gap = sum - 1 - left;
            let mut row = Row::new(Part::SOFTMAX);
            row.set(
                [SUM_HI, SUM_LO, RECIP_HI, RECIP_LO],
                [sum / radix, sum % radix, recip / radix, recip % radix],
            );
            row.set([HIGH, CARRY, LEFT_HI, LEFT_LO], [high, carry, left_hi, left_lo]);
            row.set([GAP_HI], [gap.div_euclid(radix)]);
            let fits = row.check(&tables) == Missing::new();
            assert_eq!(fits, recip == honest, "{recip} of {sum}, the reciprocal is {honest}");
            // The columns that the trace has.
            if fits {
                let own = division(sum as u32, recip as u32).map(i64::from);
                assert_eq!(row.cells[SUM_HI..COLUMNS], own);
            }
        }
    }
}

/// What is left in the low limb has one value with a carry, and each is refused next to its range: whatever the carry is, modulo
/// p, that the equation of the low limbs asks for.
#[test]
fn a_reciprocal_has_one_carry() {
    use softmax::*;
    let tables = tables();
    for sum in [1i64 << 15, 99_999, (1 << 22) - 1, 1 << 28] {
        let recip = i64::from(reciprocal(sum as u32));
        let honest = division(sum as u32, recip as u32).map(i64::from);
        let fitting = (-20_000..20_000).filter(|left_lo| {
            let [high, carry, left_hi] = divided(sum, recip, *left_lo);
            let mut row = Row::new(Part::SOFTMAX);
            row.cells[SUM_HI..COLUMNS].copy_from_slice(&honest);
            row.set([HIGH, CARRY, LEFT_HI, LEFT_LO], [high, carry, left_hi, *left_lo]);
            // Once for every gap in the high limb that might do.
            (-1..=1).any(|more| {
                row.cells[GAP_HI] = honest[GAP_HI - SUM_HI] + more;
                row.check(&tables) == Missing::new()
            })
        });
        assert_eq!(fitting.collect::<Vec<_>>(), [honest[LEFT_LO - SUM_HI]], "{sum}");
    }
}

/// `silu(gate) up` over the ends of the table of this model and of int16.
#[test]
fn the_largest_mlp_products_are_provable() {
    let tables = tables();
    let mut outs = BTreeSet::new();
    let shifts = 1..=MAX_ACT_SHIFT;
    for (shift, gate) in shifts.flat_map(|shift| [i16::MIN, -1, 0, 1, i16::MAX].map(|g| (shift, g))) {
        for up in [i16::MIN, -1, 0, i16::MAX] {
            use ff::*;
            let mut row = Row::new(Part::FF);
            let air = Shape::new(&three_layers(), 8).ff();
            for (column, value, remainder) in [(GATE, gate, air.gate_remainder()), (UP, up, air.up_remainder())] {
                let out = row.round(remainder, [2 * i64::from(value), 0], 1);
                assert_eq!(out, i64::from(value));
                row.set([column], [out]);
            }
            let silu = tables.of(Relation::Silu)[1][(i32::from(gate) + (1 << 15)) as usize];
            let silu = if silu.0 < 1 << 16 {
                i64::from(silu.0)
            } else {
                -i64::from((-silu).0)
            };
            row.set([SILU], [silu]);
            let product = silu * i64::from(up);
            let h = row.round(PRODUCT, [0, product], shift);
            assert_eq!(h, i64::from(requantise(product, shift)));
            row.limbs(H_HI, h);
            assert_eq!(row.check(&tables), Missing::new(), "{gate} {up}, shift {shift}");
            outs.insert(h);
        }
    }
    assert!(saturates_at(INT16, &outs));
}

/// Of all outputs, and the one that was clipped, one has a remainder and a difference that are in range.
#[test]
fn a_wrong_result_of_the_largest_matmul_is_not_provable() {
    for shift in 1..=13u8 {
        for acc in corners(128 * PRODUCT, 255 * PRODUCT) {
            let total = 256 * acc[0] + acc[1] + (1 << (7 + shift));
            let right = total >> (8 + shift);
            assert_eq!(only(|v| two_limbs(acc, shift, v), right), 1, "{acc:?}, shift {shift}");
        }
    }
    for total in 9..=15u32 {
        let most = (1 << 30) - (1 << total) - (1 << (total - 1)) - 1;
        for acc in either_sign(most) {
            let right = (acc + (1 << (total - 1))) >> total;
            assert_eq!(only(|v| one_limb(acc, total, v), right), 1, "{acc}, total {total}");
        }
    }
}

/// The limits of the list of clipped values are needed: one unit beyond them there is a second value for an accumulator.
#[test]
fn clipped_values_beyond_their_range_would_wrap() {
    // The value of an accumulator of one limb, and the one that is p further.
    for total in [9u32, 12, 15] {
        let mut aliases = 0;
        for acc in [-(1 << 30) + (1 << 16), -1 << 29, -77 << total] {
            let right = (acc + (1 << (total - 1))) >> total;
            let alias = right + (1 << (31 - total));
            for value in [alias - 1, alias, alias + 1] {
                if one_limb(acc, total, value).is_some() {
                    aliases += 1;
                    assert!(value > 1 << (30 - total), "{value} is refused");
                }
            }
        }
        assert!(aliases > 0, "there are aliases");
    }
}
