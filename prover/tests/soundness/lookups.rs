//! Attacks on the lookups: multiplicities that know the challenge, tables that answer for each other, tables that
//! are not whole.

use std::cell::RefCell;

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo_constraint_framework::Relation;
use tessera_circuits::air::{base, requant, scores, tables, Bound};
use tessera_circuits::semantics::{exp_table, silu_table};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::stark::lookups::logup;
use tessera_prover::stark::trace::Columns;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::VerifyError;

use crate::cheat::{Hooks, Interaction, HONEST};
use crate::values::row;
use crate::{assert_rejected, Caught, Scene};

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

/// A quotient out of range, which no table has.
fn outside(_: &Shape, all: &mut [Columns]) {
    all[Part::Att.index()][requant::U][0] -= base(1 << 16);
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
        add(&mut counts, &change);
        let bound = Bound {
            air: state.trace.shape.air(Part::Tables),
            relations: relations.clone(),
            binding: None,
        };
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
        multiplicities: &|counts| add(counts, &change),
        interaction: &redrawn,
        ..HONEST
    };
    scene.assert_caught(Caught::Lookup, &hooks);
}

/// Adds to the multiplicities of the first values of Range16.
fn add(counts: &mut Columns, change: &[BaseField]) {
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
