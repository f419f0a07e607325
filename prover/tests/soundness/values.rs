//! Attacks on single values of a trace: limbs, accumulators, rounding, saturation, parameters, the arg max. Each
//! alters as much as it needs for only the targeted check to be violated, which `assert_caught` makes sure of.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::{base, logits, requant, stream};
use tessera_circuits::model::{MatmulKind, WeightFormat};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::stark::trace::Columns;
use tessera_prover::testing::{edit, odd_config, random_model};

use crate::cheat::{Hooks, HONEST};
use crate::{Caught, Scene};

const POS: usize = requant::ROUND + 2;
const BOUND: usize = requant::ROUND + 4;

/// Row of a part given its index along every axis.
pub fn row(shape: &Shape, part: Part, at: &[usize]) -> usize {
    let axes = shape.axes(part);
    assert_eq!(axes.len(), at.len(), "one index per axis");
    assert_eq!(shape.lanes(part), 1, "a small part has one lane");
    axes.iter().zip(at).fold(0, |row, (log, i)| (row << log) | i)
}

/// The first row of the last attention output of the quiet model with a property.
pub fn find(shape: &Shape, own: &Columns, holds: impl Fn(&[BaseField]) -> bool) -> usize {
    let start = row(shape, Part::Att, &[2, 0, 0, 0]);
    let rows = start..row(shape, Part::Att, &[3, 0, 0, 0]);
    let values = |r: usize| own.iter().map(|c| c[r]).collect::<Vec<_>>();
    rows.into_iter().find(|r| holds(&values(*r))).expect("such a row")
}

/// Alters one row of the last attention output of the quiet model, which reaches nothing.
fn alter_output(by: Caught, holds: impl Fn(&[BaseField]) -> bool, alter: impl Fn(&mut [BaseField])) {
    alter_output_of(&Scene::quiet(), by, holds, alter);
}

/// The same in a scene of another quiet model.
pub fn alter_output_of(
    scene: &Scene,
    by: Caught,
    holds: impl Fn(&[BaseField]) -> bool,
    alter: impl Fn(&mut [BaseField]),
) {
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::Att.index()];
        let at = find(shape, own, &holds);
        let mut values: Vec<BaseField> = own.iter().map(|c| c[at]).collect();
        alter(&mut values);
        own.iter_mut().zip(values).for_each(|(c, v)| c[at] = v);
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(by, &hooks);
}

pub fn plain(v: &[BaseField]) -> bool {
    v[BOUND] == v[requant::POW] && !v[requant::ACC_LO].is_zero() && v[requant::OUT_LO].0 < 255 && v[requant::V].0 < 255
}

fn saturated(v: &[BaseField]) -> bool {
    v[POS].is_one()
}

/// The value that is rounded, with half a step added.
fn rounded(v: &[BaseField]) -> BaseField {
    let quotient = (v[requant::ACC_LO] - v[requant::V]) / base(256);
    v[requant::ACC_HI] + quotient + v[requant::POW] / base(2)
}

fn set_output(v: &mut [BaseField], hi: i64, lo: i64) {
    (v[requant::OUT_HI], v[requant::OUT_LO]) = (base(hi), base(lo));
}

/// Remainder `w0` that makes the constraints of rounding hold, whatever its range.
pub fn set_remainder(v: &mut [BaseField]) {
    let out = v[requant::OUT_HI] * base(256) + v[requant::OUT_LO];
    v[requant::ROUND] = rounded(v) - v[requant::POW] * out - v[requant::ROUND + 1] * base(1 << 15);
}

#[test]
fn the_next_integer_is_not_the_rounded_one() {
    alter_output(Caught::Lookup, plain, |v| {
        v[requant::OUT_LO] += BaseField::one();
        set_remainder(v);
    });
}

#[test]
fn an_output_that_does_not_fit_its_remainder_is_rejected() {
    alter_output(Caught::Constraint, plain, |v| v[requant::OUT_LO] += BaseField::one());
}

/// The largest output, with a remainder that makes the constraints hold, whatever its range.
pub fn saturate(v: &mut [BaseField]) {
    set_output(v, 127, 255);
    v[POS] = BaseField::one();
    v[BOUND] = base(1 << 15);
    set_remainder(v);
}

#[test]
fn saturation_is_not_claimed_where_there_is_none() {
    alter_output(Caught::Lookup, plain, saturate);
    alter_output(Caught::Constraint, plain, |v| {
        v[POS] = BaseField::one();
        v[BOUND] = base(1 << 15);
    });
}

#[test]
fn saturation_downwards_is_not_claimed_where_there_is_none() {
    alter_output(Caught::Lookup, plain, |v| {
        set_output(v, -128, 0);
        v[requant::ROUND + 3] = BaseField::one();
        v[BOUND] = base(1 << 15);
        let mirrored = v[requant::POW] - base(1) - (rounded(v) + v[requant::POW] * base(1 << 15));
        v[requant::ROUND] = mirrored;
    });
}

/// The output of a saturated value is neither the value itself nor the value modulo 2^16.
#[test]
fn saturation_is_not_denied() {
    alter_output(Caught::Lookup, saturated, |v| {
        let out = rounded(v).0 / v[requant::POW].0;
        (v[POS], v[requant::ROUND + 1], v[BOUND]) = (base(0), base(0), v[requant::POW]);
        set_output(v, i64::from(out >> 8), i64::from(out & 0xff));
        set_remainder(v);
    });
    alter_output(Caught::Lookup, saturated, |v| {
        let out = i64::from(rounded(v).0 / v[requant::POW].0) - (1 << 16);
        (v[POS], v[requant::ROUND + 1], v[BOUND]) = (base(0), base(0), v[requant::POW]);
        set_output(v, (out >> 8).max(-128), out & 0xff);
        set_remainder(v);
    });
}

/// A flag that is no bit interpolates between the cases.
#[test]
fn saturation_is_a_bit() {
    let slightly = |v: &[BaseField]| saturated(v) && v[requant::ROUND].0 < 1 << 14 && v[requant::ROUND + 1].is_zero();
    alter_output(Caught::Constraint, slightly, |v| {
        let pow = v[requant::POW];
        v[BOUND] = base(1 << 14);
        v[POS] = (v[BOUND] - pow) / (base(1 << 15) - pow);
    });
}

/// The bound of the remainder is that of the shift; a larger one would give way for any output.
#[test]
fn the_remainder_has_the_bound_of_the_shift() {
    alter_output(Caught::Constraint, plain, |v| {
        v[requant::OUT_LO] -= BaseField::one();
        set_remainder(v);
        v[BOUND] = base(1 << 15);
    });
    // The high limb of the remainder is for saturated values only. The shift of the quiet model is 1.
    let positive = |v: &[BaseField]| plain(v) && v[requant::OUT_HI].0 < 128;
    alter_output(Caught::Constraint, positive, |v| {
        assert_eq!(v[requant::POW], base(2), "2^shift");
        v[requant::OUT_HI] -= base(64);
        v[requant::ROUND + 1] = base(1);
    });
}

/// The same output, with limbs out of range.
#[test]
fn limbs_are_in_range() {
    alter_output(Caught::Lookup, plain, |v| {
        v[requant::OUT_HI] += base(1);
        v[requant::OUT_LO] -= base(256);
    });
    alter_output(Caught::Lookup, plain, |v| {
        let out = v[requant::OUT_HI] * base(256) + v[requant::OUT_LO];
        v[requant::OUT_HI] = base(200);
        v[requant::OUT_LO] = out - base(200 * 256);
    });
}

/// Another low byte makes the quotient any field element, and with it the output: it must have no other alias.
#[test]
fn accumulators_have_one_quotient() {
    alter_output(Caught::Lookup, plain, |v| {
        v[requant::V] += base(1);
        v[requant::U] -= base(256).inverse();
        set_output(v, 77, 77);
        set_remainder(v);
    });
    alter_output(Caught::Lookup, plain, |v| {
        v[requant::V] += base(256);
        v[requant::U] -= base(1);
        set_remainder(v);
    });
    alter_output(Caught::Lookup, plain, |v| v[requant::U] -= base(1 << 16));
}

/// Accumulators that are not those of the matmuls.
#[test]
fn accumulators_are_those_of_the_matmuls() {
    alter_output(Caught::Claim("accumulators"), plain, |v| {
        v[requant::ACC_LO] += base(1);
        v[requant::V] += base(1);
    });
    // The same total, other limbs.
    alter_output(
        Caught::Claim("accumulators"),
        |v| plain(v) && v[requant::U].0 > 0,
        |v| {
            v[requant::ACC_LO] -= base(256);
            v[requant::ACC_HI] += base(1);
            v[requant::U] -= base(1);
        },
    );
}

/// Another shift, with everything computed from it.
#[test]
fn shifts_are_those_of_the_key() {
    let zero = |v: &[BaseField]| v[requant::ACC_LO].is_zero() && v[requant::ACC_HI].is_zero();
    alter_output(Caught::Claim("layer parameters"), zero, |v| {
        v[requant::POW] *= base(2);
        v[BOUND] = v[requant::POW];
        set_remainder(v);
    });
}

/// The limbs of a residual value out of range, which leaves the value, the sum of squares and all else as it is.
#[test]
fn limbs_of_the_residual_are_in_range() {
    let scene = Scene::honest();
    let at = row(&scene.shape(), Part::Stream, &[1, 2, 4]);
    let columns = |_: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::Stream.index()];
        own[stream::X_HI][at] += base(1);
        own[stream::X_LO][at] -= base(256);
        let (hi, lo) = (own[stream::X_HI][at], own[stream::X_LO][at]);
        own[stream::HH][at] = hi * hi;
        own[stream::HL][at] = hi * lo;
        own[stream::LL][at] = lo * lo;
    };
    let x = scene.witness.streams[1].x[2 * scene.model.key.config.hidden + 4];
    let (hi, lo) = (i32::from(x >> 8), i32::from(x & 0xff));
    let tokens = 1 << scene.shape().token;
    let hooks = Hooks {
        columns: &columns,
        statistics: &|s| {
            let [hh, hl, ll] = &mut s.norms[tokens + 2];
            *hh += (hi + 1) * (hi + 1) - hi * hi;
            *hl += (hi + 1) * (lo - 256) - hi * lo;
            *ll += (lo - 256) * (lo - 256) - lo * lo;
        },
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
}

/// Alters the cell of a token's logit in the row of a generated position.
fn logit<'a>(all: &'a mut [Columns], shape: &Shape, token: usize, id: usize, column: usize) -> &'a mut BaseField {
    let at = row(shape, Part::Logits, &[token, id]);
    &mut all[Part::Logits.index()][column][at]
}

/// The last row, the claimed token and the real one of a false output.
fn argmax(scene: &Scene) -> (usize, usize, usize) {
    let (at, claimed) = scene.statement.generated().last().expect("an output");
    let vocab = scene.model.key.config.vocab;
    let real = tessera_circuits::semantics::arg_max(&scene.witness.logits[at * vocab..(at + 1) * vocab]);
    (at, claimed as usize, real)
}

type Alter<'a> = &'a dyn Fn(&Shape, &mut [Columns]);

/// Another token than the best one: what its logit, its flags and the comparison would have to be.
#[test]
fn another_token_is_not_the_best() {
    let scene = Scene::false_output();
    let (at, claimed, real) = argmax(&scene);
    assert_ne!(claimed, real);
    let vocab = scene.model.key.config.vocab;
    let value = |id: usize| i64::from(scene.witness.logits[at * vocab + id]);
    let top = value(claimed);
    let better: Vec<usize> = (0..vocab)
        .filter(|id| value(*id) + i64::from(*id < claimed) > top)
        .collect();
    assert!(better.contains(&real));
    let above = base(value(real) + 1);
    let set = |shape: &Shape, all: &mut [Columns], ids: &[usize], column: usize, value: BaseField| {
        ids.iter().for_each(|id| *logit(all, shape, at, *id, column) = value);
    };
    let every: Vec<usize> = (0..1 << scene.shape().padded.vocab).collect();
    let attempts: [(Caught, Alter<'_>); 6] = [
        // Nothing: better logits are above the top.
        (Caught::Lookup, &|_, _| ()),
        // The top is above all logits, and not that of the claimed token.
        (Caught::Constraint, &|shape, all| {
            set(shape, all, &every, logits::TOP, above)
        }),
        // The top is only large where it is compared with better tokens.
        (Caught::Claim("top logit is constant"), &|shape, all| {
            set(shape, all, &better, logits::TOP, above)
        }),
        // The comparisons with better tokens are left out.
        (Caught::Claim("arg max"), &|shape, all| {
            set(shape, all, &better, logits::ACTIVE, base(0))
        }),
        // The best token is the chosen one in the trace.
        (Caught::Claim("arg max"), &|shape, all| {
            set(shape, all, &every, logits::TOP, base(value(real)));
            set(shape, all, &[claimed], logits::CHOSEN, base(0));
            set(shape, all, &[real], logits::CHOSEN, base(1));
            set(shape, all, &every, logits::BELOW, base(0));
            set(shape, all, &every[..real], logits::BELOW, base(1));
        }),
        // The better logits are lower than they are.
        (Caught::Constraint, &|shape, all| {
            set(shape, all, &better, logits::L, base(top - 1))
        }),
    ];
    for (by, columns) in attempts {
        scene.assert_caught(by, &Hooks { columns, ..HONEST });
    }
}

/// On a tie the lower token is the output: the higher one is not.
#[test]
fn a_tie_is_not_broken_the_other_way() {
    let mut model = random_model(odd_config(), WeightFormat::Int16, 7);
    let mut scene = Scene::of(model.clone());
    let (_, _, best) = argmax(&scene);
    let (inputs, vocab) = (model.config.hidden, model.config.vocab);
    // Another token gets the weights of the best one.
    let twin = (best + 100) % vocab;
    edit(&mut model, MatmulKind::Head, 0, |head| {
        head.copy_within(best * inputs..(best + 1) * inputs, twin * inputs);
    });
    scene = Scene::of(model);
    let last = scene.statement.output.last_mut().expect("an output");
    let lower = best.min(twin);
    assert_eq!(*last as usize, lower, "the tie decides");
    *last = best.max(twin) as u32;
    let (at, _, _) = argmax(&scene);
    scene.assert_caught(Caught::Lookup, &HONEST);
    let columns = |shape: &Shape, all: &mut [Columns]| *logit(all, shape, at, lower, logits::BELOW) = BaseField::zero();
    scene.assert_caught(
        Caught::Claim("arg max"),
        &Hooks {
            columns: &columns,
            ..HONEST
        },
    );
}
