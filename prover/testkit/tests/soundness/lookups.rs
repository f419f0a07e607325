//! Attacks on the lookups: multiplicities that know the challenge, tables that answer for each other, tables that
//! are not whole, denominators that are zero.

use std::cell::{Cell, RefCell};

use num_traits::{One, Zero};
use stwo::core::channel::Channel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::{base, Drawn, Relations};
use tessera_circuits::ops::softmax;
use tessera_circuits::rounding::Powers;
use tessera_circuits::semantics::{exp_table, mlp_table};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::trees::{lookup_trees, LeafClaim};
use tessera_prover::stark::entry_sums;
use tessera_prover::trace::Columns;
use tessera_testkit::column_of;
use tessera_verifier::gkr::GkrError;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::VerifyError;

use crate::cheat::{Hooks, Interaction, HONEST};
use crate::values::{score, Scores};
use crate::{assert_claims_violated, assert_constraints_violated, assert_rejected, Caught, Scene};

type K = SecureField;

/// Solves a regular system of four linear equations over the base field, given by columns.
pub fn solve(columns: [K; 4], value: K) -> [BaseField; 4] {
    let rows = [columns[0], columns[1], columns[2], columns[3], value].map(|c| c.to_m31_array());
    let mut system: [[BaseField; 5]; 4] = std::array::from_fn(|i| rows.map(|c| c[i]));
    for pivot in 0..4 {
        let found = (pivot..4)
            .find(|r| !system[*r][pivot].is_zero())
            .expect("a regular system");
        system.swap(pivot, found);
        let inverse = system[pivot][pivot].inverse();
        system[pivot].iter_mut().for_each(|v| *v *= inverse);
        let own = system[pivot];
        for (_, other) in system.iter_mut().enumerate().filter(|(r, _)| *r != pivot) {
            let factor = other[pivot];
            other.iter_mut().zip(own).for_each(|(v, o)| *v -= factor * o);
        }
    }
    system.map(|r| r[4])
}

/// The limbs of a score that [`outside`] changes, and the one that is looked up with one of them.
const LIMBS: [usize; 3] = [softmax::SCORE.d_hi(), softmax::SCORE.r_lo(), softmax::SCORE.d_lo()];

/// A limb out of range, which no table has, of a difference that stays the same.
pub fn outside(_: &Shape, all: &mut [Columns]) {
    all[Part::SCORES.index()][softmax::SCORE.d_hi()][0] += base(1 << 16);
    all[Part::SCORES.index()][softmax::SCORE.d_lo()][0] -= base(1 << 23);
}

/// Gains any lookup: a prover that knows the challenge of a table chooses multiplicities of four of its entries, any
/// field elements, negative and wrapped ones included, that pay for a value that the table does not have.
#[test]
fn multiplicities_are_not_chosen_after_the_challenge() {
    let scene = Scene::honest();
    let found = RefCell::new(None);
    let learn = |state: &Interaction<'_>, _: &mut Columns, sum: &mut K| {
        let relations = state.relations;
        let entry = |v: i64| {
            let tuple: K = relations
                .get(Relation::Range16)
                .expect("it is drawn")
                .combine(&[base(v)]);
            -tuple.inverse()
        };
        let change = solve([0, 1, 2, 3].map(entry), state.missing_entries(*sum));
        // With this challenge the sums balance.
        let mut counts = state.counts.clone();
        use_more(&mut counts, &change);
        let (_, frozen) = entry_sums(relations, &counts, state.tables);
        assert!(!state.missing_entries(*sum).is_zero());
        assert!(state.missing_entries(frozen).is_zero());
        found.replace(Some((change, entry(0))));
    };
    let hooks = Hooks {
        columns: &outside,
        interaction: &learn,
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
    let (change, before) = found.take().expect("the challenge");
    // Committed, they are part of what the challenge is drawn from.
    let redrawn = |state: &Interaction<'_>, _: &mut Columns, _: &mut K| {
        let tuple: K = state
            .relations
            .get(Relation::Range16)
            .expect("it is drawn")
            .combine(&[base(0)]);
        assert_ne!(-tuple.inverse(), before, "the challenge moves");
    };
    let hooks = Hooks {
        columns: &outside,
        multiplicities: &|counts| use_more(counts, &change),
        interaction: &redrawn,
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
}

/// Adds to the multiplicities of the first values of Range16.
fn use_more(counts: &mut Columns, change: &[BaseField]) {
    counts[column_of(Relation::Range16)]
        .iter_mut()
        .zip(change)
        .for_each(|(count, by)| *count += *by);
}

/// Gains exponentials of zero wherever the prover wants them: a pair that is in the table of SiLU, and paid for
/// there, is looked up as an exponential.
#[test]
fn a_table_does_not_answer_for_another() {
    let scene = Scene::quiet();
    let params = &scene.model.key.params;
    let difference = 5;
    let silu = mlp_table(params)[difference];
    assert_ne!(u32::try_from(silu), Ok(exp_table(params.score_bits)[difference]));
    assert_eq!(silu, 0, "the rest of the row stays");
    // In a row of a padded layer, which no claim reads.
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::SCORES.index()];
        let at = score(shape, [3, 0], [2, 1]);
        own[softmax::D][at] = base(difference as i64);
        own[softmax::EXP][at] = base(i64::from(silu));
        own[softmax::ZERO][at] = base(0);
    };
    let moved = |counts: &mut Columns| {
        counts[column_of(Relation::Exp)][difference] -= BaseField::one();
        counts[column_of(Relation::Silu)][difference] += BaseField::one();
    };
    let hooks = Hooks {
        columns: &columns,
        multiplicities: &moved,
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
}

/// Gains wider ranges and other functions: the second half of the tables is missing, and repeats the first entry.
#[test]
fn truncated_tables_are_rejected() {
    let scene = Scene::honest();
    let halve = |tables: &mut Columns| {
        for column in tables {
            let first = column[0];
            column[1 << 15..].fill(first);
        }
    };
    let mut hooks = Hooks {
        tables: &halve,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Tables));
    // Under the root of the key, too, nothing answers for what is missing.
    hooks.hide_tables = true;
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
}

/// Whether a denominator can be zero at all: the equation has a solution in the base field.
fn has_zeros([z, alpha]: [K; 2]) -> bool {
    let [z, alpha] = [z, alpha].map(|v| v.to_m31_array());
    let pivot = (1..4).find(|i| !alpha[*i].is_zero());
    let second = pivot.map_or(BaseField::zero(), |i| z[i] * alpha[i].inverse());
    (1..4).all(|i| z[i] == alpha[i] * second)
}

/// A channel that draws what was chosen.
#[derive(Clone, Debug, Default)]
struct Chosen([K; 2]);

impl Channel for Chosen {
    const BYTES_PER_HASH: usize = 32;

    fn verify_pow_nonce(&self, _: u32, _: u64) -> bool {
        false
    }
    fn mix_u32s(&mut self, _: &[u32]) {}
    fn mix_felts(&mut self, _: &[K]) {}
    fn mix_u64(&mut self, _: u64) {}
    fn draw_secure_felt(&mut self) -> K {
        self.0[0]
    }
    fn draw_secure_felts(&mut self, _: usize) -> Vec<K> {
        self.0.to_vec()
    }
    fn draw_u32s(&mut self) -> Vec<u32> {
        Vec::new()
    }
}

/// Gains any lookup, here an output that is not the rounded one: a denominator zero makes all sums above it fractions with the
/// denominator zero, which fit any claim. Values are of the base field, so that only `p^2` of the `p^4` challenges of a table of
/// pairs have zeros at all, and the challenge is drawn after the values. A sum with the denominator zero is refused.
#[test]
fn zero_denominators_are_not_reached() {
    let (scene, rest) = (Scene::quiet(), Scores.rest());
    let tuples = Cell::new([[BaseField::zero(); 2]; 2]);
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::SCORES.index()];
        // In two rows the next value, with a remainder below zero, in a low byte that is none. With one low part of the difference the line
        // through both tuples would have entries of the table.
        let mut other = None;
        tuples.set([(); 2].map(|()| {
            let at = Scores.find(shape, own, |v| Scores.plain(v) && Some(v[rest.d_lo()]) != other);
            other = Some(own[rest.d_lo()][at]);
            let mut values: Vec<BaseField> = own.iter().map(|c| c[at]).collect();
            Scores.move_output(&mut values, 1);
            let high = std::mem::take(&mut values[rest.r_hi()]);
            values[rest.r_lo()] += high * base(256);
            let [high, low] = [rest.r_lo(), rest.d_lo()].map(|column| values[column]);
            own.iter_mut().zip(values).for_each(|(c, v)| c[at] = v);
            [high * base(256) + low, high]
        }));
    };
    let known = |relations: &mut Relations| {
        let single: K = relations
            .get(Relation::Range16)
            .expect("it is drawn")
            .combine(&[base(0)]);
        assert_ne!(single.to_m31_array()[1..], [BaseField::zero(); 3]);
        let pairs = [Relation::Bits, Relation::Bytes, Relation::Exp, Relation::Silu].map(|r| relations.challenges(r));
        assert!(!pairs.into_iter().any(has_zeros));
        // The line through both pairs.
        let [value, rest] = tuples.get();
        let alpha = K::from((rest[0] - value[0]) * (value[1] - rest[1]).inverse());
        let chosen = [alpha * value[1] + value[0], alpha];
        assert!((alpha * rest[1] + rest[0] - chosen[0]).is_zero());
        let bytes = relations.drawn.iter_mut().find(|own| own.relation == Relation::Bytes);
        *bytes.expect("it is drawn") = Drawn::draw(&mut Chosen(chosen), Relation::Bytes);
        assert!(relations.challenges(Relation::Bytes) == chosen && has_zeros(chosen));
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
    // If the challenge were this one, the sum of a tree would be anything.
    let hooks = Hooks {
        relations: &known,
        ..hooks
    };
    assert_rejected!(
        scene.attempt(&hooks),
        VerifyError::Gkr(GkrError::ZeroDenominator { .. })
    );
}

/// Gains any lookup: the sums are those of other columns than the committed ones, here of limbs that are in range. They are
/// proved honestly, down to claims on the leaves that do not hold of the trace.
#[test]
fn lookups_are_those_of_the_trace() {
    let scene = Scene::honest();
    let limbs = Cell::new([0; 3]);
    let hooks = Hooks {
        columns: &|shape, all| {
            limbs.set(LIMBS.map(|c| all[Part::SCORES.index()][c][0].0));
            outside(shape, all);
        },
        multiplicities: &|counts| {
            let [high, rest, low] = limbs.get();
            counts[column_of(Relation::Range16)][high as usize] += BaseField::one();
            counts[column_of(Relation::Range16)][high as usize - (1 << 10)] -= BaseField::one();
            counts[column_of(Relation::Bytes)][(256 * rest + low) as usize] += BaseField::one();
        },
        looked_up: &|_, all| {
            let limbs = limbs.get().map(|v| base(i64::from(v)));
            LIMBS
                .into_iter()
                .zip(limbs)
                .for_each(|(c, v)| all[Part::SCORES.index()][c][0] = v);
        },
        broken_claims: &|broken| assert_eq!(broken(), ["lookups"]),
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&hooks));
}

/// Gains an exponential for a difference that is not its own, or a zero where there is none: two of three values are in a row
/// of the table, and the sums are those of the row.
#[test]
fn triples_are_looked_up_whole() {
    let scene = Scene::quiet();
    let exps = exp_table(scene.model.key.params.score_bits);
    let cell = |shape: &Shape| score(shape, [3, 0], [2, 1]);
    let triples = [
        [0, i64::from(exps[0]), 0],
        [5, i64::from(exps[5]), 1],
        [5, i64::from(exps[6]), 0],
        [0, 0, 1],
        [i64::from(u16::MAX), 0, 1],
        [i64::from(u16::MAX), 1, 0],
        [-1, i64::from(exps[0]), 0],
        [1 << 16, 0, 0],
    ];
    for triple in triples {
        // In a row of a padded layer, which no claim reads.
        let columns = |shape: &Shape, all: &mut [Columns]| {
            let own = &mut all[Part::SCORES.index()];
            let places = [softmax::D, softmax::EXP, softmax::ZERO].into_iter().zip(triple);
            places.for_each(|(column, value)| own[column][cell(shape)] = base(value));
        };
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(Caught::Lookup, &hooks);
        // The sums are those of a triple of the table, which is counted.
        let honest = Cell::new(0);
        let learned = |shape: &Shape, all: &mut [Columns]| {
            honest.set(all[Part::SCORES.index()][softmax::D][cell(shape)].0);
            columns(shape, all);
        };
        let hooks = Hooks {
            columns: &learned,
            looked_up: &|shape, all| {
                let own = &mut all[Part::SCORES.index()];
                let values = [honest.get(), exps[honest.get() as usize], u32::from(honest.get() == 0)];
                let places = [softmax::D, softmax::EXP, softmax::ZERO].into_iter().zip(values);
                places.for_each(|(column, value)| own[column][cell(shape)] = base(i64::from(value)));
            },
            multiplicities: &|counts| {
                let counts = &mut counts[column_of(Relation::Exp)];
                counts[honest.get() as usize] += BaseField::one();
                // The row that was counted, if any was.
                if let Some(count) = usize::try_from(triple[0]).ok().and_then(|row| counts.get_mut(row)) {
                    *count -= BaseField::one();
                }
            },
            broken_claims: &|broken| assert_eq!(broken(), ["lookups"]),
            ..HONEST
        };
        assert_claims_violated(scene.attempt(&hooks));
    }
}

/// Gains a byte of any value: of two that are looked up together only what they add up to is in the table, and the sums are those of
/// the entry that has this sum.
#[test]
fn bytes_are_looked_up_whole() {
    let scene = Scene::quiet();
    let places = [softmax::SCORE.r_lo(), softmax::SCORE.d_lo()];
    let cell = |shape: &Shape| score(shape, [3, 0], [2, 1]);
    for [high, low] in [
        [7, 256 + 9],
        [8, -247],
        [-1, 256 + 5],
        [256, 0],
        [255, 256],
        [0, 1 << 15],
        [1 << 8, -(1 << 16)],
    ] {
        // In a row of a padded layer, which no claim reads.
        let columns = |shape: &Shape, all: &mut [Columns]| {
            let own = &mut all[Part::SCORES.index()];
            let bytes = places.into_iter().zip([high, low]);
            bytes.for_each(|(column, value)| own[column][cell(shape)] = base(value));
        };
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(Caught::Lookup, &hooks);
        // The sums are those of a pair of the table, which is counted.
        let hooks = Hooks {
            columns: &columns,
            looked_up: &|shape, all| {
                let own = &mut all[Part::SCORES.index()];
                places.iter().for_each(|column| own[*column][cell(shape)] = base(0));
            },
            multiplicities: &|counts| {
                let counts = &mut counts[column_of(Relation::Bytes)];
                counts[0] += BaseField::one();
                // The row that was counted, if any was.
                let sum = usize::try_from(256 * high + low).ok();
                if let Some(count) = sum.and_then(|row| counts.get_mut(row)) {
                    *count -= BaseField::one();
                }
            },
            broken_claims: &|broken| assert_eq!(broken(), ["lookups"]),
            ..HONEST
        };
        assert_claims_violated(scene.attempt(&hooks));
    }
}

/// What the tables lack is added to their claimed sum, or to the sum of a tree.
#[test]
fn sums_of_lookups_are_not_moved() {
    let scene = Scene::honest();
    // To the tables: then it is not their sum.
    let hooks = Hooks {
        columns: &outside,
        interaction: &|state, _, sum| *sum += state.missing_entries(*sum),
        ..HONEST
    };
    assert_constraints_violated(scene.attempt(&hooks));
    // To the root of a tree: then it is not the sum of its children.
    let hooks = Hooks {
        lookups: &|groups| {
            groups[0].roots[0][0] += K::one();
        },
        interaction: &|_, _, sum| *sum -= K::one(),
        ..HONEST
    };
    assert_rejected!(
        scene.attempt(&hooks),
        VerifyError::Gkr(GkrError::Layer { group: 0, layer: 0 })
    );
}

/// Padding is counted as the ones that it is: a use less of a value, for which it would pay, is missing.
#[test]
fn padding_is_counted_as_it_is() {
    let scene = Scene::honest();
    let trees = lookup_trees(&scene.shape());
    assert!(trees.iter().any(|tree| tree.padding() > 0), "a tree with padding");
    let hooks = Hooks {
        multiplicities: &|counts| counts[column_of(Relation::Range16)][9] -= BaseField::one(),
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
}

/// Gains any lookup: a tree whose numerators are not one at its end, as that of a prover who uses a lookup a number of times of
/// its own choice would be.
#[test]
fn numerators_are_one() {
    let scene = Scene::honest();
    let shape = scene.shape();
    let trees = lookup_trees(&shape);
    let params = &scene.model.key.params;
    let powers = Powers {
        shape: &shape,
        params,
        leading: 1,
    };
    for tree in &trees {
        let leaf = |numerator| LeafClaim {
            point: vec![K::from(7); tree.log_leaves() as usize],
            numerator,
            denominator: K::from(3),
        };
        let claim = |numerator| {
            tree.claim(
                &powers,
                &Relations::dummy(&scene.model.key.config.relations()),
                0,
                &leaf(numerator),
            )
        };
        assert!(claim(K::one()).is_some());
        assert!([K::zero(), -K::one(), K::from(2)]
            .into_iter()
            .all(|n| claim(n).is_none()));
    }
}
