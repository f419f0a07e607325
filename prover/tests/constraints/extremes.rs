//! The largest values that the bounds of a key allow, in every requantisation: rows with them, made here from the
//! integer semantics alone, satisfy the constraints.

use std::collections::BTreeSet;

use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::{base, ff, requant, rope, scores, stream, tables, Lanes};
use tessera_circuits::bounds::AccumulatorBound;
use tessera_circuits::model::WeightFormat;
use tessera_circuits::semantics::{
    probability, reciprocal, requantise, requantise_residual, rope_pair, PROB_SHIFT, ROPE_BITS, RSQRT_BITS,
};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::stark::check::{check_row, Violations};
use tessera_prover::stark::trace::Columns;
use tessera_prover::testing::random_model;

use crate::setup::three_layers;

/// One row under construction.
struct Row {
    air: Lanes,
    cells: Vec<i64>,
}

impl Row {
    fn new(part: Part) -> Self {
        let air = Shape::new(&three_layers(), 8).air(part);
        Self {
            cells: vec![0; tessera_circuits::air::Air::columns(&air)],
            air,
        }
    }

    fn set<const N: usize>(&mut self, columns: [usize; N], values: [i64; N]) {
        columns.into_iter().zip(values).for_each(|(c, v)| self.cells[c] = v);
    }

    /// The five columns of a rounding of `t` to `out`.
    fn rounding(&mut self, at: usize, t: i64, out: i16, shift: u32) {
        let (pow, out) = (1i64 << shift, i64::from(out));
        let exact = (t + pow / 2).div_euclid(pow);
        let (pos, neg) = (exact > out, exact < out);
        let above = t + pow / 2 - pow * out;
        let rest = if neg { pow - 1 - above } else { above };
        let bound = if pos || neg { 1 << 15 } else { pow };
        self.set(
            [0, 1, 2, 3, 4].map(|i| at + i),
            [
                rest % (1 << 15),
                rest / (1 << 15),
                i64::from(pos),
                i64::from(neg),
                bound,
            ],
        );
        assert!(pos || neg || rest < pow);
    }

    /// Accumulator, limbs and rounding of a matmul's result; `previous` is scaled already.
    fn wide(&mut self, at: [usize; 4], rounding: usize, acc: [i64; 2], previous: i64, shift: u8, out: i16) {
        let [hi, lo] = acc;
        let floor = lo.div_euclid(256);
        self.set(
            at,
            [hi, lo, lo.rem_euclid(256), (floor + (1 << 22)).rem_euclid(1 << 16)],
        );
        self.rounding(rounding, hi + floor + previous, out, shift.into());
    }

    /// Limbs and rounding of `a (256 hi + lo)`.
    fn narrow(&mut self, at: [usize; 2], rounding: usize, a: i64, [hi, lo]: [i64; 2], shift: u8, out: i16) {
        let floor = (a * lo).div_euclid(256);
        self.set(at, [(a * lo).rem_euclid(256), floor + (1 << 15)]);
        self.rounding(rounding, a * hi + floor, out, shift.into());
    }

    fn limbs(&mut self, at: [usize; 2], out: i16) {
        self.set(at, [i64::from(out >> 8), i64::from(out & 0xff)]);
    }

    fn check(&self, tables: &Columns) -> Violations {
        let columns: Columns = self.cells.iter().map(|v| vec![base(*v)]).collect();
        check_row(&self.air, &columns, tables, 0)
    }
}

fn tables() -> Vec<Vec<BaseField>> {
    tables::preprocessed(&random_model(three_layers(), WeightFormat::Int16, 3).params)
}

/// Accumulators of the largest and smallest values, with high and low limbs of either sign.
fn corners(hi: i64, lo: i64) -> Vec<[i64; 2]> {
    let mut list = vec![[0, 0], [0, -1], [-1, 0], [1, 255]];
    for sign in [1, -1] {
        list.extend([[sign * hi, lo], [sign * hi, -lo], [sign * hi, 0], [0, sign * lo]]);
    }
    list
}

/// Both ends of int16, and something between them.
fn saturates_both_ways(outs: &BTreeSet<i16>) -> bool {
    outs.contains(&i16::MIN) && outs.contains(&i16::MAX) && outs.len() > 2
}

/// The largest sum of magnitudes of weights that the bounds accept.
const PRODUCT: i64 = ((1 << 30) - 1) / 255;

#[test]
fn the_largest_matmul_is_provable() {
    let bound = AccumulatorBound::matmul(PRODUCT as usize, 1).expect("just fits");
    assert_eq!(AccumulatorBound::matmul(PRODUCT as usize + 1, 1), None);
    assert_eq!(AccumulatorBound::matmul(usize::MAX, 2047), None);
    let tables = tables();
    let mut outs = BTreeSet::new();
    for shift in 1..=13u8 {
        assert!(bound.fits(shift, None));
        for acc in corners(128 * PRODUCT, 255 * PRODUCT) {
            let mut row = Row::new(Part::V);
            let out = requantise(256 * acc[0] + acc[1], shift);
            use requant::*;
            row.wide([ACC_HI, ACC_LO, V, U], ROUND, acc, 0, shift, out);
            row.limbs([OUT_HI, OUT_LO], out);
            row.set([POW], [1 << shift]);
            assert_eq!(row.check(&tables), Violations::default(), "{acc:?}, shift {shift}");
            outs.insert(out);
        }
    }
    assert!(saturates_both_ways(&outs));
}

/// A residual update and the norm of its result, with the largest reciprocal square root.
#[test]
fn the_largest_residual_and_norm_are_provable() {
    let bound = AccumulatorBound::matmul(PRODUCT as usize, 1).expect("just fits");
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
            let mut row = Row::new(Part::Stream);
            let x = requantise_residual(256 * acc[0] + acc[1], previous, skip, shift);
            let scaled = i64::from(previous) << skip;
            row.wide([ACC_HI, ACC_LO, V1, U1], ROUND1, acc, scaled, shift, x);
            row.limbs([X_HI, X_LO], x);
            row.set([PREV, SKIP, POW1], [i64::from(previous), 1 << skip, 1 << shift]);
            let (hi, lo) = (i64::from(x >> 8), i64::from(x & 0xff));
            row.set([HH, HL, LL], [hi * hi, hi * lo, lo * lo]);
            let r = (1i64 << RSQRT_BITS) - 1;
            let norm_shift = 14 - shift;
            let y = requantise(i64::from(x) * r, norm_shift);
            row.narrow([V2, U2], ROUND2, i64::from(x), [r >> 8, r & 0xff], norm_shift, y);
            row.limbs([Y_HI, Y_LO], y);
            row.set([R_HI, R_LO, POW2], [r >> 8, r & 0xff, 1 << norm_shift]);
            let found = row.check(&tables);
            assert_eq!(
                found,
                Violations::default(),
                "{acc:?}, {previous}, shift {shift}, skip {skip}"
            );
            xs.insert(x);
            ys.insert(y);
        }
    }
    assert!(saturates_both_ways(&xs) && saturates_both_ways(&ys));
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
                let columns = [rope::ACC_HI, rope::ACC_LO, rope::V, rope::U].map(|c| rope::before(side, c));
                let acc = [2 * i64::from(value), 0];
                row.wide(columns, rope::before(side, rope::ROUND), acc, 0, 1, value);
                row.set([rope::A, rope::POW].map(|c| rope::before(side, c)), [value.into(), 2]);
            }
            row.set([rope::COS, rope::SIN], [cos.into(), sin.into()]);
            let (first, second) = rope_pair(a, b, cos, sin);
            let [a, b, cos, sin] = [i64::from(a), i64::from(b), i64::from(cos), i64::from(sin)];
            let turned = [(first, a * cos - b * sin), (second, b * cos + a * sin)];
            for (side, (out, t)) in turned.into_iter().enumerate() {
                row.rounding(rope::after(side, rope::OUT_ROUND), t, out, ROPE_BITS);
                row.limbs([rope::OUT_HI, rope::OUT_LO].map(|c| rope::after(side, c)), out);
                outs.insert(out);
            }
            assert_eq!(row.check(&tables), Violations::default(), "{a} {b} {cos} {sin}");
        }
    }
    assert!(saturates_both_ways(&outs));
}

/// Scores of the widest heads, and the probability of a key that is alone or one of many.
#[test]
fn the_largest_scores_and_probabilities_are_provable() {
    let tables = tables();
    let mut outs = BTreeSet::new();
    for (shift, sum) in (1..=13u8).zip([1u32 << 15, (1 << 15) + 1, 3 << 15, 1 << 28].into_iter().cycle()) {
        for acc in corners(128 << 22, (128 * 255) << 15) {
            use scores::*;
            let mut row = Row::new(Part::Scores);
            let s = requantise(256 * acc[0] + acc[1], shift);
            row.wide([ACC_HI, ACC_LO, V, U], ROUND, acc, 0, shift, s);
            let (e, r) = (1u32 << 15, reciprocal(sum));
            row.set(
                [S, POW, MAX, MASK, D, EXP, SELECT],
                [s.into(), 1 << shift, s.into(), 1, 0, e.into(), 1],
            );
            let r_limbs = [i64::from(r >> 8), i64::from(r & 0xff)];
            row.set([R_HI, R_LO], r_limbs);
            let p = probability(e, r);
            row.narrow([V2, U2], ROUND2, e.into(), r_limbs, PROB_SHIFT, p);
            row.set([P], [p.into()]);
            assert_eq!(
                row.check(&tables),
                Violations::default(),
                "{acc:?}, shift {shift}, sum {sum}"
            );
            outs.extend([s, p]);
        }
    }
    assert!(saturates_both_ways(&outs));
}

/// `silu(gate) up` over the ends of the table of this model and of int16.
#[test]
fn the_largest_mlp_products_are_provable() {
    let tables = tables();
    let mut outs = BTreeSet::new();
    for (shift, gate) in (1..=13u8).flat_map(|shift| [i16::MIN, -1, 0, 1, i16::MAX].map(|g| (shift, g))) {
        for up in [i16::MIN, -1, 0, i16::MAX] {
            use ff::*;
            let mut row = Row::new(Part::Ff);
            let acc = [2 * i64::from(gate), 0];
            row.wide([GATE_HI, GATE_LO, GATE_V, GATE_U], GATE_ROUND, acc, 0, 1, gate);
            row.set([GATE, GATE_POW], [gate.into(), 2]);
            let acc = [2 * i64::from(up), 0];
            row.wide([UP_HI, UP_LO, UP_V, UP_U], UP_ROUND, acc, 0, 1, up);
            row.limbs([UP_OUT_HI, UP_OUT_LO], up);
            row.set([UP_POW, POW], [2, 1 << shift]);
            let silu = tables[tables::PREPROCESSED.len() - 1][(i32::from(gate) + (1 << 15)) as usize];
            let silu = if silu.0 < 1 << 16 {
                i64::from(silu.0)
            } else {
                -i64::from((-silu).0)
            };
            row.set([SILU], [silu]);
            let limbs = [i64::from(up >> 8), i64::from(up & 0xff)];
            let h = requantise(silu * i64::from(up), shift);
            row.narrow([V, U], ROUND, silu, limbs, shift, h);
            row.limbs([H_HI, H_LO], h);
            assert_eq!(row.check(&tables), Violations::default(), "{gate} {up}, shift {shift}");
            outs.insert(h);
        }
    }
    assert!(saturates_both_ways(&outs));
}

/// A result that is off by one, or a saturation that is none, has no witness with the same columns.
#[test]
fn a_wrong_result_of_the_largest_matmul_is_not_provable() {
    let tables = tables();
    for shift in 1..=13u8 {
        for acc in corners(128 * PRODUCT, 255 * PRODUCT) {
            let right = requantise(256 * acc[0] + acc[1], shift);
            let t = acc[0] + acc[1].div_euclid(256);
            for wrong in [right.wrapping_add(1), right.wrapping_sub(1), i16::MIN, i16::MAX] {
                if wrong == right {
                    continue;
                }
                for (pos, neg) in [(0, 0), (1, 0), (0, 1)] {
                    use requant::*;
                    let mut row = Row::new(Part::V);
                    row.wide([ACC_HI, ACC_LO, V, U], ROUND, acc, 0, shift, right);
                    row.limbs([OUT_HI, OUT_LO], wrong);
                    let pow = 1i64 << shift;
                    row.set([POW], [pow]);
                    // The remainder that the constraint then demands, in the field.
                    let above = t + pow / 2 - pow * i64::from(wrong);
                    let down = pow - 1 - (t + pow / 2 + pow * (1 << 15));
                    let rest = if neg == 1 { down } else { above };
                    let rest = i64::from(base(rest).0);
                    let bound = if pos + neg == 1 { 1 << 15 } else { pow };
                    row.set(
                        [0, 1, 2, 3, 4].map(|i| ROUND + i),
                        [rest % (1 << 15), rest / (1 << 15), pos, neg, bound],
                    );
                    assert!(
                        !row.check(&tables).is_empty(),
                        "{acc:?}, shift {shift}: {wrong} for {right}"
                    );
                }
            }
        }
    }
}
