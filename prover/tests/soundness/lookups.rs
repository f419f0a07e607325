//! Attacks on the lookups: multiplicities that know the challenge, tables that answer for each other, tables that
//! are not whole, denominators that are zero.

use std::cell::{Cell, RefCell};

use num_traits::{One, Zero};
use stwo::core::channel::Channel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::pcs::TreeVec;
use stwo::core::utils::{bit_reverse_index, coset_index_to_circle_domain_index};
use stwo_constraint_framework::{assert_constraints_on_trace, AssertEvaluator, FrameworkEval, Relation};
use tessera_circuits::air::{base, requant, scores, tables, Bits, Bound, BINDING_COLUMNS};
use tessera_circuits::semantics::{exp_table, silu_table};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::stark::lookups::logup;
use tessera_prover::stark::trace::Columns;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::VerifyError;

use crate::cheat::{secure, Hooks, Interaction, HONEST};
use crate::values::{find, move_output, output, plain, row, REST};
use crate::{assert_constraints_violated, assert_rejected, Caught, Scene};

type K = SecureField;

/// Solves a regular system of four linear equations over the base field, given by columns.
fn solve(columns: [K; 4], value: K) -> [BaseField; 4] {
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

/// A limb out of range, which no table has, of a difference that stays the same.
fn outside(_: &Shape, all: &mut [Columns]) {
    all[Part::Att.index()][REST.d_hi()][0] += base(1 << 16);
    all[Part::Att.index()][REST.d_lo()][0] -= base(1 << 23);
}

/// Gains any lookup: a prover that knows the challenge of a table chooses multiplicities of four of its entries, any
/// field elements, negative and wrapped ones included, that pay for a value that the table does not have.
#[test]
fn multiplicities_are_not_chosen_after_the_challenge() {
    let scene = Scene::honest();
    let found = RefCell::new(None);
    let learn = |state: &Interaction<'_>, _: &mut [Columns], sums: &mut [K]| {
        let relations = state.relations;
        let entry = |v: i64| {
            let tuple: K = relations.range16.combine(&[base(v)]);
            -tuple.inverse()
        };
        let change = solve([0, 1, 2, 3].map(entry), state.missing(sums));
        // With this challenge the sums balance.
        let mut counts = state.trace.columns[Part::Tables.index()].clone();
        use_more(&mut counts, &change);
        let bound = Bound::new(state.trace.shape.air(Part::Tables), relations.clone(), None);
        let mut frozen = sums.to_vec();
        frozen[Part::Tables.index()] = logup(&bound, &counts, &state.trace.tables, &[]).1;
        assert!(!state.missing(sums).is_zero());
        assert!(state.missing(&frozen).is_zero());
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
    let redrawn = |state: &Interaction<'_>, _: &mut [Columns], _: &mut [K]| {
        let tuple: K = state.relations.range16.combine(&[base(0)]);
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
    counts[tables::RANGE16]
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
    let silu = silu_table(params.gate_bits, params.silu_bits)[difference];
    assert_ne!(u32::try_from(silu), Ok(exp_table(params.score_bits)[difference]));
    assert_eq!(silu, 0, "the rest of the row stays");
    // In a row of a padded layer, which no claim reads.
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::Scores.index()];
        let at = row(shape, Part::Scores, &[3, 0, 2, 1]);
        own[scores::MASK][at] = BaseField::one();
        own[scores::D][at] = base(difference as i64);
        own[scores::MAX][at] = own[scores::S][at] + own[scores::D][at];
        own[scores::EXP][at] = base(i64::from(silu));
    };
    let moved = |counts: &mut Columns| {
        counts[tables::EXP][difference] -= BaseField::one();
        counts[tables::SILU][difference] += BaseField::one();
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
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Unbalanced));
}

/// The columns in the order of the library's domains.
fn in_circle_order(columns: &[Vec<BaseField>], log_rows: u32) -> Columns {
    let at = |z: usize| bit_reverse_index(coset_index_to_circle_domain_index(z, log_rows), log_rows);
    let reordered = |column: &Vec<BaseField>| {
        let mut out = column.clone();
        column.iter().enumerate().for_each(|(z, v)| out[at(z)] = *v);
        out
    };
    columns.iter().map(reordered).collect()
}

/// The challenges `z` and `alpha` of a relation of pairs, whose denominators are `first + alpha second - z`.
fn challenges(relation: &impl Relation<BaseField, K>) -> [K; 2] {
    let at = |second: i64| -> K { relation.combine(&[base(0), base(second)]) };
    [-at(0), at(1) - at(0)]
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

/// Adds to the sums of a row, the last of which runs over all rows and ends in zero.
fn add(columns: &mut Columns, row: usize, more: K) {
    let rows = columns[0].len();
    let last = columns.len() - 4;
    let mut change = |column: usize, row: usize, by: K| {
        let by = by.to_m31_array();
        (0..4).for_each(|i| columns[column + i][row] += by[i]);
    };
    (0..last).step_by(4).for_each(|column| change(column, row, more));
    let share = more * base(rows as i64).inverse();
    for i in 0..rows {
        let own = if i >= row { more } else { K::zero() };
        change(last, i, own - share * base(i as i64 + 1));
    }
}

/// Gains any lookup, here an output that is not the rounded one: under a challenge for which both denominators of a
/// pair of lookups are zero, the constraint says `0 = 0` and the running sum may move by anything. Values are of the base
/// field, so that only `p^2` of the `p^4` challenges of a table of pairs have zeros at all, and the challenge is drawn after
/// the values.
#[test]
fn zero_denominators_are_not_reached() {
    let scene = Scene::quiet();
    // Lookups of a row are summed in pairs, the first one with the binding: these two are the second pair.
    let places = [requant::OUT_LO, REST.r_hi()];
    let (in_range, limbs) = (RefCell::new(Columns::new()), Cell::new([BaseField::zero(); 2]));
    let place = Cell::new(0);
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::Att.index()];
        let at = find(shape, own, |v| plain(v) && output(v) < 0);
        let mut values: Vec<BaseField> = own.iter().map(|c| c[at]).collect();
        // The next value, with a remainder below zero, and both limbs of it beyond their tables.
        move_output(&mut values, 1);
        values[requant::OUT_HI] -= base(1);
        values[requant::OUT_LO] += base(256);
        assert_eq!(values[REST.pow()], base(2));
        limbs.set(places.map(|c| values[c]));
        place.set(at);
        own.iter_mut().zip(values).for_each(|(c, v)| c[at] = v);
        places.iter().for_each(|c| own[*c][at] = BaseField::zero());
        in_range.replace(own.clone());
        places.iter().zip(limbs.get()).for_each(|(c, v)| own[*c][at] = v);
    };
    // The tables answer for limbs that are zero.
    let multiplicities = |counts: &mut Columns| {
        counts[tables::BITS][tables::bits_row(1 << 8, 0)] += base(1);
        counts[tables::BITS][tables::bits_row(2, 0)] += base(1);
        // The limb beyond its bound was counted where one of a larger bound is.
        counts[tables::BITS][tables::bits_row(1 << 8, limbs.get()[0].0)] -= base(1);
    };
    let known = |state: &Interaction<'_>, all: &mut [Columns], sums: &mut [K]| {
        let (drawn, mut relations) = (state.relations, state.relations.clone());
        let single: K = drawn.range16.combine(&[base(0)]);
        assert_ne!(single.to_m31_array()[1..], [BaseField::zero(); 3]);
        let pairs = [challenges(&drawn.bits), challenges(&drawn.exp), challenges(&drawn.silu)];
        assert!(!pairs.into_iter().any(has_zeros));
        // The line through the two pairs `(256, lo)` and `(2, r)`.
        let [low, rest] = limbs.get();
        let alpha = K::from(base(2 - 256) * (low - rest).inverse());
        let chosen = [alpha * low + base(256), alpha];
        assert!((alpha * rest + base(2) - chosen[0]).is_zero());
        relations.bits = Bits::draw(&mut Chosen(chosen));
        assert!(challenges(&relations.bits) == chosen && has_zeros(chosen));
        // The running sums are those of the limbs that the table has.
        for (i, part) in state.trace.shape.parts().iter().enumerate() {
            let air = state.trace.shape.air(*part);
            let bound = Bound::new(air, relations.clone(), state.bindings[i].clone());
            let (trace, other) = (&state.trace.columns[i], in_range.borrow());
            all[i].truncate(if bound.binding.is_some() { BINDING_COLUMNS } else { 0 });
            let source = if *part == Part::Att { &other } else { trace };
            let (mut columns, mut sum) = logup(&bound, source, &state.trace.tables, &all[i]);
            if *part == Part::Att {
                // Evaluations are claimed of the limbs, too: the binding is that of the altered trace.
                let weights = &state.bindings[i].as_ref().expect("a binding").weights;
                let limbs = places.iter().zip(limbs.get());
                let more = limbs.map(|(c, v)| weights[*c] * v).sum::<K>() * secure(&all[i], place.get());
                add(&mut columns, place.get(), more);
                sum += more;
            }
            all[i].extend(columns);
            sums[i] = sum;
            if *part == Part::Att {
                // If the challenge were this one, the altered trace would satisfy every constraint with them.
                let log_rows = state.trace.shape.log_rows(*part);
                let [trace, interaction] = [trace, &all[i]].map(|c| in_circle_order(c, log_rows));
                let trees = TreeVec::new(vec![vec![], trace.iter().collect(), interaction.iter().collect()]);
                let evaluate = |row: AssertEvaluator<'_>| drop(bound.evaluate(row));
                assert_constraints_on_trace(&trees, log_rows, evaluate, sum);
            }
        }
        assert!(state.missing(sums).is_zero());
    };
    let hooks = Hooks {
        columns: &columns,
        multiplicities: &multiplicities,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Unbalanced));
    assert_constraints_violated(scene.attempt(&Hooks {
        interaction: &known,
        ..hooks
    }));
}
