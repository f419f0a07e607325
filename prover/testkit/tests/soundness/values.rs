//! Attacks on single values of a trace: limbs, accumulators, rounding, parameters, the arg max. Each alters as much as it
//! needs for only the targeted check to be violated, which `assert_caught` makes sure of.

use num_traits::Zero;
use stwo::core::fields::m31::{BaseField, P};
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::air::{base, requant};
use tessera_circuits::bounds::MAX_ATT_SHIFT;
use tessera_circuits::model::{ChannelShift, MatmulKind, MatrixId, ModelConfig, WeightFormat};
use tessera_circuits::ops::norms::bound_limbs;
use tessera_circuits::ops::{ff, logits, softmax, stream};
use tessera_circuits::rounding::Rounded;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::norm_of;
use tessera_model::QuantisedModel;
use tessera_prover::ops::NormRow;
use tessera_prover::trace::{tops, Columns};
use tessera_testkit::{edit, odd_config, random_model};

use crate::cheat::{Hooks, HONEST};
use crate::semantics::one_token_of;
use crate::{assert_claims_violated, Caught, Scene};

/// Roundings of the last layer of the quiet model, which reach nothing: what they are rounded to may be changed without a new forward
/// pass.
#[derive(Clone, Copy, Debug)]
pub enum Quiet {
    /// The attention output, whose accumulators are in one limb, and which is in limbs itself.
    Outputs,
    /// Scores of masked pairs, whose accumulators are in two limbs.
    Scores,
}

pub use Quiet::{Outputs, Scores};

/// A model of three layers.
pub fn three_layers(seed: u64) -> QuantisedModel {
    let config = ModelConfig {
        layers: 3,
        ..odd_config()
    };
    random_model(config, WeightFormat::Int16, seed)
}

/// Row of a part given its index along every axis.
pub fn row(shape: &Shape, part: Part, at: &[usize]) -> usize {
    let axes = shape.axes(part);
    assert_eq!(axes.len(), at.len(), "one index per axis");
    assert_eq!(shape.lanes(part), 1, "a small part has one lane");
    axes.iter().zip(at).fold(0, |row, (log, i)| (row << log) | i)
}

/// Where a column of an entry of a part of many lanes is: among all columns, and in which row.
pub fn cell(shape: &Shape, part: Part, at: &[usize], column: usize) -> [usize; 2] {
    let (mut lane, mut row) = (0, 0);
    for (axis, (log, i)) in shape.axes(part).iter().zip(at).enumerate() {
        if let Some(cut) = shape.cuts(part).iter().find(|cut| cut.axis == axis) {
            lane = lane * cut.lanes + (i >> log);
        }
        row = (row << log) | (i & ((1 << log) - 1));
    }
    [lane * shape.lane_columns(part) + column, row]
}

/// Row of a pair of tokens in a part of one lane.
pub fn score(shape: &Shape, [layer, head]: [usize; 2], [query, key]: [usize; 2]) -> usize {
    let [pair, query, key] = shape.pairs(None).place(query, key).expect("a committed pair");
    row(shape, Part::SCORES, &[layer, head, pair, query, key])
}

/// Index of the entry of a row among all of its part, as lists of clipped values have it.
pub fn entry(shape: &Shape, part: Part, row: usize) -> u64 {
    let (axes, full) = (shape.axes(part), shape.full_axes(part));
    let (mut rest, mut shift) = (row, 0);
    let own = axes.iter().zip(&full).rev().fold(0, |at, (axis, whole)| {
        let at = at | (rest & ((1 << axis) - 1)) << shift;
        rest >>= axis;
        shift += whole;
        at
    });
    own as u64
}

impl Quiet {
    pub const fn part(self) -> Part {
        match self {
            Outputs => Part::ATT,
            Scores => Part::SCORES,
        }
    }

    /// The remainder of this rounding.
    pub const fn rest(self) -> Remainder {
        match self {
            Outputs => requant::OUTPUT,
            Scores => softmax::SCORE,
        }
    }

    /// The rows.
    fn rows(self, shape: &Shape) -> Vec<usize> {
        match self {
            Outputs => (row(shape, Part::ATT, &[2, 0, 0, 0])..row(shape, Part::ATT, &[3, 0, 0, 0])).collect(),
            Scores => {
                let (heads, text) = (0..shape.config.heads, shape.rows);
                let pairs = (0..text).flat_map(|query| (query + 1..text).map(move |key| [query, key]));
                let masked: Vec<[usize; 2]> = pairs
                    .filter(|[query, key]| shape.pairs(None).place(*query, *key).is_some())
                    .collect();
                heads
                    .flat_map(|head| masked.iter().map(move |pair| score(shape, [2, head], *pair)))
                    .collect()
            }
        }
    }

    /// The first row with a property.
    pub fn find(self, shape: &Shape, own: &Columns, holds: impl Fn(&[BaseField]) -> bool) -> usize {
        self.found(shape, own, holds).expect("such a row")
    }

    pub fn found(self, shape: &Shape, own: &Columns, holds: impl Fn(&[BaseField]) -> bool) -> Option<usize> {
        let values = |r: usize| own.iter().map(|c| c[r]).collect::<Vec<_>>();
        self.rows(shape).into_iter().find(|r| holds(&values(*r)))
    }

    /// A quiet model that has such a row.
    pub fn scene_with(self, holds: impl Fn(&[BaseField]) -> bool) -> Scene {
        let has = |scene: &Scene| {
            let own = &scene.trace().0[self.part().index()];
            self.found(&scene.shape(), own, &holds).is_some()
        };
        (7..60)
            .map(Scene::quiet_seeded)
            .find(has)
            .expect("a model with such a row")
    }

    /// Alters one row of a quiet model.
    fn alter(self, by: Caught, holds: impl Fn(&[BaseField]) -> bool, alter: impl Fn(&mut [BaseField])) {
        self.alter_in(&Scene::quiet(), by, holds, alter);
    }

    /// Alters one row of another quiet model.
    pub fn alter_in(
        self,
        scene: &Scene,
        by: Caught,
        holds: impl Fn(&[BaseField]) -> bool,
        alter: impl Fn(&mut [BaseField]),
    ) {
        let columns = |shape: &Shape, all: &mut [Columns]| {
            let own = &mut all[self.part().index()];
            let at = self.find(shape, own, &holds);
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

    /// The rounded value of a row.
    pub fn output(self, v: &[BaseField]) -> i64 {
        integer(match self {
            Outputs => v[requant::OUT_HI] * base(256) + v[requant::OUT_LO],
            Scores => v[softmax::S],
        })
    }

    pub fn set_output(self, v: &mut [BaseField], out: i64) {
        match self {
            Outputs => (v[requant::OUT_HI], v[requant::OUT_LO]) = (base(out >> 8), base(out & 0xff)),
            Scores => v[softmax::S] = base(out),
        }
    }

    /// A row that is not clipped, of accumulators that are not zero.
    pub fn plain(self, v: &[BaseField]) -> bool {
        let (out, rest) = (self.output(v), self.rest());
        let room = match self {
            Outputs => v[requant::OUT_LO].0 < 255 && v[rest.rest()].0 + 1 < v[rest.pow()].0,
            Scores => v[rest.r_lo()].0 < 255,
        };
        (-30_000..30_000).contains(&out) && out != 0 && room
    }

    /// Whether nothing remains.
    pub fn rests_at_zero(self, v: &[BaseField]) -> bool {
        let rest = self.rest();
        match self {
            Outputs => v[rest.rest()].is_zero(),
            Scores => v[rest.r_hi()].is_zero() && v[rest.r_lo()].is_zero(),
        }
    }

    /// Changes the remainder and, in two limbs, the difference of the high limb, so that the accumulator of the row stays if the rounded value
    /// grows by this much. Either may leave its range. `wraps` says how often the low limb goes around p.
    pub fn explain(self, v: &mut [BaseField], more: i64, wraps: i64) {
        let rest = self.rest();
        let pow = integer(v[rest.pow()]);
        match self {
            // Modulo p, which is all that a claim in one limb says.
            Outputs => v[rest.rest()] -= base(pow) * base(more),
            Scores => {
                let low = integer(v[rest.r_hi()] * base(256) + v[rest.r_lo()]) - 256 * delta(v);
                set_delta(v, delta(v) - pow * more);
                let left = low + 256 * delta(v) + wraps * i64::from(P);
                (v[rest.r_hi()], v[rest.r_lo()]) = (base(left >> 8), base(left & 0xff));
            }
        }
    }

    /// Another value than the rounded one, with everything that makes the claim on it hold.
    pub fn move_output(self, v: &mut [BaseField], more: i64) {
        let out = self.output(v);
        self.explain(v, more, 0);
        self.set_output(v, out + more);
    }
}

/// A field element as the integer next to zero.
pub fn integer(v: BaseField) -> i64 {
    let (v, p) = (i64::from(v.0), i64::from(P));
    if v > p / 2 {
        v - p
    } else {
        v
    }
}

/// The difference of the high limb of a score.
fn delta(v: &[BaseField]) -> i64 {
    integer(v[softmax::SCORE.d_hi()] * base(128) + v[softmax::SCORE.d_lo()]) - Remainder::OFFSET
}

/// Writes a difference of the high limb, in range if it is.
fn set_delta(v: &mut [BaseField], delta: i64) {
    let delta = delta + Remainder::OFFSET;
    (v[softmax::SCORE.d_hi()], v[softmax::SCORE.d_lo()]) = (base(delta >> 7), base(delta & 127));
}

/// The integer above and the one below have a remainder of their own, below zero and above its bound.
#[test]
fn the_next_integer_is_not_the_rounded_one() {
    for quiet in [Outputs, Scores] {
        for more in [1, -1] {
            let plain = |v: &[BaseField]| quiet.plain(v);
            quiet.alter(Caught::Lookup, plain, |v| quiet.move_output(v, more));
        }
    }
}

#[test]
fn an_output_that_does_not_fit_its_remainder_is_rejected() {
    for quiet in [Outputs, Scores] {
        quiet.alter(
            Caught::Claim("accumulators"),
            |v| quiet.plain(v),
            |v| {
                let out = quiet.output(v);
                quiet.set_output(v, out + 1);
            },
        );
    }
}

/// Modulo p the low limb is explained by another output, too: with a shift of `2^s` by the one that is `2^(23 - s)` away, as
/// 256 times `2^23` is 1. Its remainder is in range. Its difference of the high limb is not.
#[test]
fn outputs_that_wrap_modulo_p_are_rejected() {
    let shift = 10;
    let mut model = three_layers(7);
    model.params.layers[2].attention.score = shift;
    let scene = Scene::quiet_of(model);
    let rest = Scores.rest();
    let aliased = |v: &[BaseField]| v[rest.r_hi()].0 > 2 && v[rest.r_hi()].0 < 1000;
    for sign in [1, -1] {
        Scores.alter_in(&scene, Caught::Lookup, aliased, |v| {
            let more = sign << (23 - shift);
            let (before, out) = (integer(v[rest.r_lo()]), Scores.output(v));
            Scores.explain(v, more, sign);
            Scores.set_output(v, out + more);
            assert!(Scores.output(v).abs() < 1 << 15);
            let left = 256 * v[rest.r_hi()].0 + v[rest.r_lo()].0;
            assert!(left < 256 << shift, "the remainder is in range");
            assert_ne!(v[rest.r_lo()], base(before), "the remainder is another one");
            assert!(v[rest.d_hi()].0 >= 1 << 16, "the difference is not");
        });
    }
}

/// In one limb a second value explains a sum of probabilities times values modulo p, because `2^31` is 1: it is `2^(31 - T)` away, and its
/// remainder is one off and in range. Here one row goes around p upwards and one downwards, so that their sum stays. Neither value is an
/// int16 under any shift, so its high limb is no byte; if the attack puts a byte there, the row has another value, and the claim fails.
#[test]
fn sums_of_probabilities_times_values_do_not_wrap() {
    for shift in [1, MAX_ATT_SHIFT] {
        let total = 8 + i64::from(shift);
        let rest = Outputs.rest().rest();
        let inner = |v: &[BaseField]| Outputs.plain(v) && v[rest].0 > 0;
        let two = |shape: &Shape, own: &Columns| {
            let values = |r: usize| own.iter().map(|c| c[r]).collect::<Vec<_>>();
            let mut rows = Outputs.rows(shape).into_iter().filter(|r| inner(&values(*r)));
            Some([rows.next()?, rows.next()?])
        };
        // With the smallest shift nearly all outputs saturate.
        let scene = (7..60)
            .map(|seed| Scene::quiet_with(three_layers(seed), shift))
            .find(|scene| two(&scene.shape(), &scene.trace().0[Part::ATT.index()]).is_some())
            .expect("a model with two such rows");
        for bytes in [false, true] {
            let columns = |shape: &Shape, all: &mut [Columns]| {
                let own = &mut all[Part::ATT.index()];
                let rows = two(shape, own).expect("two such rows");
                for (at, sign) in rows.into_iter().zip([1, -1]) {
                    let mut values: Vec<BaseField> = own.iter().map(|c| c[at]).collect();
                    let out = Outputs.output(&values);
                    Outputs.move_output(&mut values, sign << (31 - total));
                    assert!(values[rest].0 < 1 << total, "the remainder is in range");
                    assert!(!(i64::from(i16::MIN)..=i64::from(i16::MAX)).contains(&(out + (sign << (31 - total)))));
                    if bytes {
                        values[requant::OUT_HI] = base(out >> 8);
                    }
                    own.iter_mut().zip(values).for_each(|(c, v)| c[at] = v);
                }
            };
            let hooks = Hooks {
                columns: &columns,
                ..HONEST
            };
            scene.assert_caught(
                if bytes {
                    Caught::Claim("accumulators")
                } else {
                    Caught::Lookup
                },
                &hooks,
            );
        }
    }
}

/// Products of the MLP are claimed in one limb: the next value needs a remainder that is none, and the one that explains it
/// modulo p is no int16. The last MLP of this model reaches nothing.
#[test]
fn products_have_one_rounding() {
    let mut model = random_model(odd_config(), WeightFormat::Int16, 7);
    edit(&mut model, MatmulKind::Down.at(1), |down| down.fill(0));
    let scene = Scene::of(model);
    let at = row(&scene.shape(), Part::FF, &[1, 2, 3]);
    let total = 8 + i64::from(scene.model.key.params.layers[1].mlp.act.body);
    let attempts: [(Caught, i64, i64); 5] = [
        (Caught::Lookup, 1, 0),
        (Caught::Lookup, -1, 0),
        (Caught::Lookup, 1 << (31 - total), 1),
        (Caught::Lookup, -1 << (31 - total), -1),
        (Caught::Claim("accumulators"), 1, 1),
    ];
    for (by, more, wraps) in attempts {
        let columns = |_: &Shape, all: &mut [Columns]| {
            let own = &mut all[Part::FF.index()];
            let h = integer(own[ff::H_HI][at] * base(256) + own[ff::H_LO][at]) + more;
            let rest = integer(own[ff::PRODUCT.rest()][at]);
            let p = i64::from(stwo::core::fields::m31::P);
            let rest = match by {
                Caught::Lookup => rest - (more << total) + wraps * p,
                // Nothing makes up for it.
                _ => rest,
            };
            assert!(
                wraps == 0 || (0..1 << total).contains(&rest),
                "the remainder is in range"
            );
            (own[ff::H_HI][at], own[ff::H_LO][at]) = (base(h >> 8), base(h & 0xff));
            own[ff::PRODUCT.rest()][at] = base(rest);
        };
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(by, &hooks);
    }
}

/// The bound of the remainder is that of the shift, which is public; a larger one would give way for another output. It is not
/// that of the prover, whose sums of lookups have a larger one.
#[test]
fn the_remainder_has_the_bound_of_the_shift() {
    for quiet in [Outputs, Scores] {
        let small = |v: &[BaseField]| quiet.plain(v) && (v[requant::OUT_LO].0 > 0 || matches!(quiet, Scores));
        quiet.alter(Caught::Lookup, small, |v| quiet.move_output(v, -1));
        quiet.alter(Caught::Claim("lookups"), small, |v| {
            quiet.move_output(v, -1);
            v[quiet.rest().pow()] *= base(2);
        });
    }
    // In limbs that are none: the low one beyond a byte, the high one below zero.
    let rest = Scores.rest();
    Scores.alter(
        Caught::Lookup,
        |v| Scores.plain(v),
        |v| {
            v[rest.r_hi()] -= base(1);
            v[rest.r_lo()] += base(256);
        },
    );
}

/// The same output, with limbs out of range.
#[test]
fn limbs_are_in_range() {
    let plain = |v: &[BaseField]| Outputs.plain(v);
    Outputs.alter(Caught::Lookup, plain, |v| {
        v[requant::OUT_HI] += base(1);
        v[requant::OUT_LO] -= base(256);
    });
    Outputs.alter(Caught::Lookup, plain, |v| {
        let out = Outputs.output(v);
        (v[requant::OUT_HI], v[requant::OUT_LO]) = (base(200), base(out - 200 * 256));
    });
}

/// The difference of the high limb has limbs, too. Out of range it would explain any accumulator. The low limb has a bit more than it
/// needs, so the same difference can be written in two ways.
#[test]
fn differences_are_in_range() {
    let rest = Scores.rest();
    for by in [2, -1, 1 << 9] {
        Scores.alter(
            Caught::Lookup,
            |v| Scores.plain(v),
            |v| {
                v[rest.d_hi()] -= base(by);
                v[rest.d_lo()] += base(by << 7);
            },
        );
    }
}

/// Remainders and differences that are in range and not those of the matmuls.
#[test]
fn accumulators_are_those_of_the_matmuls() {
    let by = Caught::Claim("accumulators");
    let rest = Outputs.rest().rest();
    Outputs.alter(by, |v| Outputs.plain(v), |v| v[rest] += base(1));
    // With a shift of which a remainder often has a low part alone.
    let mut model = three_layers(7);
    model.params.layers[2].attention.score = 3;
    let (scene, rest) = (Scene::quiet_of(model), Scores.rest());
    Scores.alter_in(&scene, by, |v| Scores.plain(v), |v| v[rest.r_lo()] += base(1));
    // The same total, other limbs.
    let less = |v: &[BaseField]| Scores.plain(v) && v[rest.d_lo()].0 < 127;
    Scores.alter_in(&scene, by, less, |v| v[rest.d_lo()] += base(1));
    // The same low limb.
    let next = |v: &[BaseField]| less(v) && v[rest.r_hi()].is_zero();
    Scores.alter_in(&scene, by, next, |v| {
        v[rest.r_hi()] += base(1);
        v[rest.d_lo()] += base(1);
    });
}

/// Another shift, whose bound the remainder is below, too.
#[test]
fn shifts_are_those_of_the_key() {
    for quiet in [Outputs, Scores] {
        quiet.alter(
            Caught::Claim("lookups"),
            |v| quiet.plain(v),
            |v| v[quiet.rest().pow()] *= base(2),
        );
    }
}

/// The same in every part that has such a column, for each of its roundings.
#[test]
fn every_public_column_is_the_verifiers() {
    let scene = Scene::honest();
    let shape = scene.shape();
    let mut columns = 0;
    for (part, column) in shape.parts().iter().flat_map(|part| {
        let powers = shape.air(*part).powers.into_iter();
        powers.map(move |(column, _)| (*part, column))
    }) {
        // In a row with a larger power in the table.
        let alter = |_: &Shape, all: &mut [Columns]| {
            let own = &mut all[part.index()][column];
            let power = own.iter_mut().find(|power| power.0 < 1 << 15);
            *power.expect("a smaller power than the largest") *= base(2);
        };
        let hooks = Hooks {
            columns: &alter,
            ..HONEST
        };
        scene.assert_caught(Caught::Claim("lookups"), &hooks);
        columns += 1;
    }
    assert!(columns >= 12, "{columns}");
}

/// The limbs of a residual value out of range, which leaves the value, the sum of squares and all else as it is.
#[test]
fn limbs_of_the_residual_are_in_range() {
    let scene = Scene::honest();
    let at = row(&scene.shape(), Part::STREAM, &[1, 2, 4]);
    let (stream, params) = (&scene.witness.streams[1], &scene.model.key.params);
    let x = stream.x[2 * scene.model.key.config.hidden + 4];
    let (hi, lo) = (i64::from(x >> 8), i64::from(x & 0xff));
    // The sums of squares follow, and add up to what they did.
    let [hh, hl, ll] = stream.sums[2];
    let sums = [
        hh + (hi + 1) * (hi + 1) - hi * hi,
        hl + (hi + 1) * (lo - 256) - hi * lo,
        ll + (lo - 256) * (lo - 256) - lo * lo,
    ];
    let norm = norm_of(params, 1);
    let line = NormRow {
        sums,
        eps: norm.eps.body,
        bound: bound_limbs(scene.model.key.config.hidden, norm.scale),
        root: stream.rsqrt[2],
    };
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::STREAM.index()];
        own[stream::X_HI][at] += base(1);
        own[stream::X_LO][at] -= base(256);
        let at = row(shape, Part::NORMS, &[1, 2]);
        let own = all[Part::NORMS.index()].iter_mut();
        own.zip(line.columns()).for_each(|(column, v)| column[at] = base(v));
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
}

/// The cell of a token in the row of a generated position.
fn margin<'a>(all: &'a mut [Columns], shape: &Shape, output: usize, id: usize) -> &'a mut BaseField {
    let at = row(shape, Part::LOGITS, &[output, id]);
    &mut all[Part::LOGITS.index()][logits::MARGIN][at]
}

/// The cell of the logit of an output token.
fn logit<'a>(all: &'a mut [Columns], shape: &Shape, output: usize) -> &'a mut BaseField {
    &mut all[Part::TOPS.index()][logits::TOP][row(shape, Part::TOPS, &[output])]
}

/// The last generated position among the outputs and the rows, the claimed token and the real one of a false output.
fn argmax(scene: &Scene) -> (usize, usize, usize, usize) {
    let (at, claimed) = scene.statement.generated().last().expect("an output");
    let vocab = scene.model.key.config.vocab;
    let real = tessera_circuits::semantics::arg_max(&scene.witness.logits[at * vocab..(at + 1) * vocab]);
    (scene.statement.output.len() - 1, at, claimed as usize, real)
}

/// Another token than the best one: what its logit, the margins and their zero would have to be.
#[test]
fn another_token_is_not_the_best() {
    let scene = Scene::false_output();
    let (output, at, claimed, real) = argmax(&scene);
    assert_ne!(claimed, real);
    let vocab = scene.model.key.config.vocab;
    let value = |id: usize| scene.witness.logits[at * vocab + id];
    let top = i64::from(value(claimed));
    let better: Vec<usize> = (0..vocab)
        .filter(|id| i64::from(value(*id)) + i64::from(*id < claimed) > top)
        .collect();
    assert!(better.contains(&real));
    // Nothing: better logits are above the top.
    scene.assert_caught(Caught::Lookup, &HONEST);
    // The better logits are lower than they are: as large as that of the claimed token.
    let columns = |shape: &Shape, all: &mut [Columns]| {
        better.iter().for_each(|id| *margin(all, shape, output, *id) = base(0));
    };
    let lower = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("accumulators"), &lower);
    // The top is above all logits, and not that of the claimed token.
    let raised = i64::from(value(real)) + 1 - top;
    for raise in [raised, raised + 5000] {
        let above = Hooks {
            made: &|tops| tops[output] += raise,
            ..HONEST
        };
        scene.assert_caught(Caught::Claim("chosen logits"), &above);
        // And the margin of the claimed token is none.
        let columns = |shape: &Shape, all: &mut [Columns]| {
            assert_eq!(*margin(all, shape, output, claimed), base(raise));
            *margin(all, shape, output, claimed) = BaseField::zero();
        };
        let none = Hooks {
            columns: &columns,
            ..above
        };
        scene.assert_caught(Caught::Claim("accumulators"), &none);
    }
    // The better logits are not lower, but the top is larger than the one that they are measured from.
    let columns = |shape: &Shape, all: &mut [Columns]| {
        columns(shape, all);
        *logit(all, shape, output) += base(raised);
    };
    let told = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("accumulators"), &told);
}

/// The best logit of one position is not that of another.
#[test]
fn tops_are_those_of_their_position() {
    let scene = Scene::honest();
    let tops = tops(&scene.shape(), &scene.statement, &scene.witness);
    let (low, high) = (0..tops.len())
        .flat_map(|a| (0..tops.len()).map(move |b| (a, b)))
        .find(|(a, b)| tops[*a] < tops[*b])
        .expect("two tops");
    let raised = tops[high];
    let hooks = Hooks {
        made: &|tops| tops[low] = raised,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("chosen logits"), &hooks);
    // Exchanged, the lower one is below a logit of its row, too.
    let exchanged = Hooks {
        made: &|tops| tops.swap(low, high),
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&exchanged));
}

/// The shift of logits whose weights are chosen.
const LOGIT_SHIFT: u8 = 2;

/// The weights of the head with which an entry of the vocabulary has a logit at the last row of a prompt: the largest coordinates first.
fn weights(scene: &Scene, logit: i64) -> Vec<i16> {
    let (hidden, params) = (scene.model.key.config.hidden, &scene.model.key.params);
    let last = scene.witness.streams.last().expect("a state");
    let row_of = scene.statement.prompt.len() - 1;
    let state = &last.y[row_of * hidden..][..hidden];
    let most = i64::from(params.max_weight(MatmulKind::Head));
    let mut order: Vec<usize> = (0..hidden).filter(|i| state[*i] != 0).collect();
    order.sort_by_key(|i| -i64::from(state[*i]).abs());
    let (mut rest, mut row) = (logit << (8 + LOGIT_SHIFT), vec![0i16; hidden]);
    for i in order {
        let value = i64::from(state[i]);
        let weight = (rest / value).clamp(-most, most);
        rest -= weight * value;
        row[i] = weight as i16;
    }
    assert!(rest.abs() < 1 << (7 + LOGIT_SHIFT), "{rest} is left of {logit}");
    row
}

/// The logit of an output token is an int16: two tokens whose logits are 32,767 and 32,768 tie, as the second
/// one is clipped. The first one is the output. Where 32,768 could be written, the second one would be: both margins would be 0.
#[test]
fn no_output_token_has_a_logit_beyond_int16() {
    let mut plain = random_model(odd_config(), WeightFormat::Int16, 7);
    plain.params.biases.clear();
    let scene = one_token_of(plain);
    let (hidden, first, second) = (scene.model.key.config.hidden, 100, 200);
    let mut model = scene.model.quantised.clone();
    edit(&mut model, MatrixId::HEAD, |head| {
        head.fill(0);
        for (id, logit) in [(first, 32_767), (second, 32_768)] {
            head[id * hidden..][..hidden].copy_from_slice(&weights(&scene, logit));
        }
    });
    model.params.head = ChannelShift(vec![LOGIT_SHIFT]);
    let mut scene = one_token_of(model);
    assert_eq!(scene.statement.output, [first as u32]);
    scene.attempt(&HONEST).expect("the first one wins");
    let (_, statistics) = scene.trace();
    let listed: Vec<_> = statistics
        .clips(Rounded::LOGIT)
        .map(|clip| (clip.at % 512, clip.excess))
        .collect();
    assert_eq!(listed, [(second as u64, 1)]);

    scene.statement.output = vec![second as u32];
    // With its clipped logit the margin of the first one is -1.
    scene.assert_caught(Caught::Lookup, &HONEST);
    let hooks = Hooks {
        made: &|tops| tops[0] = 32_768,
        columns: &|shape: &Shape, all: &mut [Columns]| {
            for id in [first, second] {
                assert_eq!(*margin(all, shape, 0, id), BaseField::zero());
            }
        },
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
}

/// Nor is it the smallest int16: where no logit is larger, all are clipped to it, and the first token is the output. Where it could be written, any token
/// would be: those before it would be below it by margins that are not clipped.
#[test]
fn no_output_token_has_the_smallest_logit() {
    let mut plain = random_model(odd_config(), WeightFormat::Int16, 7);
    plain.params.biases.clear();
    let scene = one_token_of(plain);
    let (hidden, claimed) = (scene.model.key.config.hidden, 200);
    let mut model = scene.model.quantised.clone();
    edit(&mut model, MatrixId::HEAD, |head| {
        let below = weights(&scene, -33_000);
        head.chunks_mut(hidden).for_each(|row| row.copy_from_slice(&below));
        head[claimed * hidden..][..hidden].copy_from_slice(&weights(&scene, -32_768));
    });
    model.params.head = ChannelShift(vec![LOGIT_SHIFT]);
    let mut scene = one_token_of(model);
    assert_eq!(scene.statement.output, [0]);
    scene.statement.output = vec![claimed as u32];
    scene.assert_caught(Caught::Lookup, &HONEST);
}

/// On a tie the lower token is the output: the higher one is not.
#[test]
fn a_tie_is_not_broken_the_other_way() {
    let mut model = random_model(odd_config(), WeightFormat::Int16, 7);
    model.params.biases.clear();
    let mut scene = Scene::of(model.clone());
    let (.., best) = argmax(&scene);
    let (inputs, vocab) = (model.config.hidden, model.config.vocab);
    // Another token gets the weights of the best one.
    let twin = (best + 100) % vocab;
    edit(&mut model, MatrixId::HEAD, |head| {
        head.copy_within(best * inputs..(best + 1) * inputs, twin * inputs);
    });
    scene = Scene::of(model);
    let last = scene.statement.output.last_mut().expect("an output");
    let lower = best.min(twin);
    assert_eq!(*last as usize, lower, "the tie decides");
    *last = best.max(twin) as u32;
    let (output, ..) = argmax(&scene);
    // The margin of the lower one is -1.
    scene.assert_caught(Caught::Lookup, &HONEST);
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = margin(all, shape, output, lower);
        assert_eq!(*own, base(-1));
        *own = BaseField::zero();
    };
    scene.assert_caught(
        Caught::Claim("accumulators"),
        &Hooks {
            columns: &columns,
            ..HONEST
        },
    );
}
